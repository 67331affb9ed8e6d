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
let ids;
const models = {};
before(async () => {
  tiny = made('--shards', '4');
  models['tiny/'] = model(folderFiles(tiny.folder));
  [browser, server] = await Promise.all([launch(), serve({ faults: EMPTY, models })]);
  ids = nativeIds(TEXT, 4, '--model', tiny.folder);
});
after(async () => {
  await browser?.close();
  await server?.close();
  tiny?.remove();
});

/** Bytes of all shards. */
const bytes = () => [...models['tiny/'].files.lengths].filter(([name]) => name.endsWith('.safetensors')).reduce((sum, [, length]) => sum + length, 0);

/** Begins to open the checkpoint in a worker of its own, and goes on without waiting. */
const begin = (page) => page.evaluate(async () => {
  window.notices = [];
  const { Engine } = await import(new URL('engine.js', location.href).href);
  window.opening = Engine.open({ backend: 'cpu', model: 'tiny/', onnotice: ({ what }) => window.notices.push(what) }).then((engine) => {
    window.engine = engine;
  });
  window.opening.catch(() => {});
});

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

test('a reload at any moment leaves what the next one continues from, and a damaged chunk alone is fetched again', async () => {
  const tinyModel = models['tiny/'];
  const { page, problems } = await open(browser, `${server.url}empty.html`);
  page.setDefaultTimeout(180_000);
  // Slow enough that the page is gone in the middle, at another moment each time.
  tinyModel.drip = 6;
  let before = 0;
  const kept = [];
  for (const pause of [150, 400, 700, 300, 1000, 550]) {
    await begin(page);
    await page.waitForTimeout(pause);
    await page.reload();
    await released(page);
    const stored = await page.evaluate(async () => {
      const { Engine } = await import(new URL('engine.js', location.href).href);
      const engine = await Engine.open({ backend: 'cpu' });
      const stored = await engine.stored();
      engine.close();
      return stored;
    });
    assert.ok(stored >= before && stored <= bytes(), `${stored} after ${before}`);
    before = stored;
    kept.push(stored);
  }
  assert.ok(before > 0, JSON.stringify(kept));

  tinyModel.drip = 0;
  tinyModel.seen.length = 0;
  await begin(page);
  const { plan, stored } = await finish(page);
  assert.equal(plan.kept.bytes, before);
  assert.equal(plan.fetch, plan.loaded - before);
  assert.ok(stored > 0.9 * plan.loaded, `${stored} of ${plan.loaded}`);
  // Whole chunks, and what had been on its way when the page was left.
  assert.ok(tinyModel.fetched() <= bytes() - before + 4 * 65536, `${tinyModel.fetched()} fetched, ${before} of ${bytes()} were kept`);

  // From the file system alone: no weight is asked for.
  await page.reload();
  await released(page);
  tinyModel.seen.length = 0;
  await begin(page);
  await finish(page);
  assert.equal(tinyModel.fetched(), 0, JSON.stringify(tinyModel.seen));

  // One bit.
  await page.reload();
  await released(page);
  const shard = 'model-00002-of-00004.safetensors';
  assert.ok(await damage(page, shard, MIB + 77));
  tinyModel.seen.length = 0;
  await begin(page);
  await finish(page);
  const again = tinyModel.seen.filter(({ start }) => start > 0);
  assert.deepEqual(again, [{ name: shard, start: MIB, end: 2 * MIB }]);
  assert.deepEqual(problems.filter((problem) => !/ERR_ABORTED/.test(problem)), []);
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
  assert.ok(full.stored <= 3 * MIB && full.plan.kept.room <= 3 * MIB, JSON.stringify(full));
  await page.context().close();

  const without = await open(browser, `${server.url}empty.html`);
  without.page.setDefaultTimeout(180_000);
  await without.page.route('**/worker.js', async (route) => {
    const response = await route.fetch();
    const body = `StorageManager.prototype.getDirectory = () => Promise.reject(new DOMException('not here', 'SecurityError'));\n${await response.text()}`;
    await route.fulfill({ response, body });
  });
  await begin(without.page);
  const none = await finish(without.page);
  assert.deepEqual([none.notices, none.stored, none.plan.kept], [['broken'], 0, null]);
  await without.page.context().close();
});
