// What the browser keeps of a checkpoint: continued after a reload at any moment, healed where it is damaged, one tab at a time, never in the way.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { launch, open } from './lib/browser.mjs';
import { EMPTY, decode, engine, nativeIds } from './lib/engine.mjs';
import { folderFiles, made, model } from './lib/models.mjs';
import { serve } from './lib/server.mjs';

const TEXT = 'Bộ nhớ';
const MIB = 1 << 20;
let browser;
let server;
let tiny;
let many;
let ids;
const models = {};
before(async () => {
  tiny = made('--shards', '4');
  models['tiny/'] = model(folderFiles(tiny.folder));
  // The same tensors in many small files.
  many = made('--shards', '24');
  models['parts/'] = model(folderFiles(many.folder));
  [browser, server] = await Promise.all([launch(), serve({ faults: EMPTY, models })]);
  ids = nativeIds(TEXT, 4, '--model', tiny.folder);
});
after(async () => {
  await browser?.close();
  await server?.close();
  tiny?.remove();
  many?.remove();
});

/** Bytes of all shards. */
const bytes = (of) => [...of.files.lengths].filter(([name]) => name.endsWith('.safetensors')).reduce((sum, [, length]) => sum + length, 0);

/** Begins to open the checkpoint in a worker of its own, and goes on without waiting. */
const begin = (page, model = 'tiny/') => page.evaluate(async (model) => {
  window.notices = [];
  const { Engine } = await import(new URL('engine.js', location.href).href);
  window.opening = Engine.open({ backend: 'cpu', model, onnotice: ({ what }) => window.notices.push(what) }).then((engine) => {
    window.engine = engine;
  });
  window.opening.catch(() => {});
}, model);

/** Waits for the engine, and decodes. */
async function finish(page) {
  await page.evaluate(() => window.opening);
  const { steps } = await decode(page, TEXT, 4);
  assert.deepEqual(steps.map(({ id }) => id), ids);
  return page.evaluate(async () => ({ plan: window.engine.plan, stored: await window.engine.stored(), notices: window.notices }));
}

/** Changes a byte of the page's file system that the store has there. */
const damage = (page, file, at) => page.evaluate(async ({ file, at }) => {
  const root = await navigator.storage.getDirectory();
  const models = await (await root.getDirectoryHandle('flash890')).getDirectoryHandle('models');
  for await (const model of models.values()) {
    for await (const kept of model.values()) {
      const read = async (name) => (await kept.getFileHandle(name)).getFile();
      if (JSON.parse(await (await read('about.json')).text()).file !== file) continue;
      const byte = new Uint8Array(await (await read('data')).slice(at, at + 1).arrayBuffer());
      const writer = await (await kept.getFileHandle('data')).createWritable({ keepExistingData: true });
      await writer.write({ type: 'write', position: at, data: Uint8Array.of(byte[0] ^ 4) });
      await writer.close();
      return true;
    }
  }
  return false;
}, { file, at });

/** Waits until a worker that was ended has let go of its files. */
const released = (page) => page.waitForTimeout(300);

/** What the browser keeps, as a fresh worker counts it. */
const keptBytes = (page) => page.evaluate(async () => {
  const { Engine } = await import(new URL('engine.js', location.href).href);
  const engine = await Engine.open({ backend: 'cpu' });
  const stored = await engine.stored();
  engine.close();
  return stored;
});

test('a reload at any moment leaves what the next one continues from', async () => {
  const parts = models['parts/'];
  const total = bytes(parts);
  const { page, problems } = await open(browser, `${server.url}empty.html`);
  page.setDefaultTimeout(300_000);
  // Slow enough that the page is gone in the middle, some parts further each time.
  parts.drip = 30;
  let before = 0;
  for (const moment of [0, 90, 250]) {
    parts.sent = 0;
    await begin(page, 'parts/');
    while (parts.sent === 0) await page.waitForTimeout(10);
    await page.waitForTimeout(moment);
    await page.reload();
    await released(page);
    const stored = await keptBytes(page);
    assert.ok(stored >= before && stored <= total, `${stored} after ${before}`);
    before = stored;
  }
  assert.ok(before > 0 && before < total, `${before} of ${total}`);

  parts.drip = 0;
  parts.seen.length = 0;
  await begin(page, 'parts/');
  const { plan, stored } = await finish(page);
  assert.equal(plan.kept.bytes, before);
  assert.equal(plan.fetch, Math.max(0, plan.resident - before));
  assert.ok(stored > 0.9 * plan.loaded, `${stored} of ${plan.loaded}`);
  // What was on its way when the page was left comes again, and nothing that was kept.
  assert.ok(parts.fetched() <= total - before + 262_144, `${parts.fetched()} fetched, ${before} of ${total} were kept`);

  // From the file system alone: no weight is asked for.
  await page.reload();
  await released(page);
  parts.seen.length = 0;
  await begin(page, 'parts/');
  await finish(page);
  assert.equal(parts.fetched(), 0, JSON.stringify(parts.seen));
  assert.deepEqual(problems.filter((problem) => !/ERR_ABORTED/.test(problem)), []);
  await page.context().close();
});

test('a damaged chunk alone is fetched again', async () => {
  const tinyModel = models['tiny/'];
  const { page } = await engine(browser, server, 'cpu', { model: 'tiny/' });
  await page.reload();
  await released(page);
  const shard = 'model-00002-of-00004.safetensors';
  assert.ok(await damage(page, shard, MIB + 77));
  tinyModel.seen.length = 0;
  await begin(page);
  await finish(page);
  assert.deepEqual(tinyModel.seen.filter(({ start }) => start > 0), [{ name: shard, start: MIB, end: 2 * MIB }]);
  await page.context().close();
});

test('a second tab goes on uncached and says so; what is kept can be removed', async () => {
  const { page } = await engine(browser, server, 'cpu', { model: 'tiny/' });
  const second = await page.context().newPage();
  second.setDefaultTimeout(180_000);
  await second.goto(`${server.url}empty.html`);
  await begin(second);
  const { notices } = await finish(second);
  assert.deepEqual(notices, ['in-use']);
  await second.close();
  const [stored, left, after] = await page.evaluate(async () => {
    const stored = await window.engine.stored();
    return [stored, await window.engine.clearStored(), await window.engine.stored()];
  });
  assert.ok(stored > 0 && left === 0 && after === 0, `${stored} ${left} ${after}`);
  // The engine goes on with what it has.
  assert.deepEqual((await decode(page, TEXT, 4)).steps.map(({ id }) => id), ids);
  await page.context().close();
});

test('a changed checkpoint never meets the chunks of the old one', async () => {
  const tinyModel = models['tiny/'];
  const { page } = await engine(browser, server, 'cpu', { model: 'tiny/' });
  const stored = await page.evaluate(() => window.engine.stored());
  await page.reload();
  await released(page);
  const shard = 'model-00003-of-00004.safetensors';
  tinyModel.faults[shard] = { tag: 'second' };
  tinyModel.seen.length = 0;
  await begin(page);
  const now = await finish(page);
  const length = tinyModel.files.lengths.get(shard);
  const refetched = tinyModel.seen.filter(({ name, start }) => name === shard && start !== undefined);
  assert.ok(refetched.reduce((sum, { start, end }) => sum + end - start, 0) >= length - MIB, JSON.stringify(refetched));
  assert.ok(now.stored <= stored, 'the old revision is gone');
  assert.ok(tinyModel.seen.every(({ name, start }) => name === shard || !(start > 0)), JSON.stringify(tinyModel.seen));
  delete tinyModel.faults[shard];
  await page.context().close();
});

test('without room, and without a file system, the run goes on uncached', async () => {
  const { page } = await open(browser, `${server.url}empty.html`);
  page.setDefaultTimeout(180_000);
  const client = await page.context().newCDPSession(page);
  await client.send('Storage.overrideQuotaForOrigin', { origin: new URL(server.url).origin, quotaSize: 3 * MIB });
  await begin(page);
  const full = await finish(page);
  assert.deepEqual(full.notices, ['full']);
  assert.ok(full.stored <= 3 * MIB, JSON.stringify(full));
  await page.context().close();

  const little = await changed('StorageManager.prototype.estimate = () => Promise.resolve({ quota: 3 * 1024 * 1024, usage: 1024 * 1024 });');
  assert.deepEqual(little.notices, ['full']);
  assert.ok(little.stored <= 2 * MIB && little.plan.kept.room <= 2 * MIB, JSON.stringify(little));

  const none = await changed("StorageManager.prototype.getDirectory = () => Promise.reject(new DOMException('not here', 'SecurityError'));");
  assert.deepEqual([none.notices, none.stored, none.plan.kept], [['broken'], 0, null]);
});

/** Opens the checkpoint in a worker that runs a line of script first. */
async function changed(line) {
  const { page } = await open(browser, `${server.url}empty.html`);
  page.setDefaultTimeout(300_000);
  await page.context().route('**/worker.js', async (route) => {
    const response = await route.fetch();
    await route.fulfill({ response, body: `${line}\n${await response.text()}` });
  });
  await begin(page);
  const seen = await finish(page);
  await page.context().close();
  return seen;
}
