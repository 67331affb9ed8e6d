// Checkpoints by their address: read by ranges, judged before they are fetched, the same tokens as from disk.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { launch, open, screenshot } from './lib/browser.mjs';
import { EMPTY, decode, engine, nativeIds } from './lib/engine.mjs';
import { folderFiles, made, model } from './lib/models.mjs';
import { live, ready } from './lib/page.mjs';
import { serve } from './lib/server.mjs';

const TEXT = 'Tám trăm chín mươi byte';
let browser;
let server;
let tiny;
const models = {};
before(async () => {
  tiny = made('--shards', '4');
  models['tiny/'] = model(folderFiles(tiny.folder));
  [browser, server] = await Promise.all([launch(), serve({ faults: EMPTY, models })]);
});
after(async () => {
  await browser?.close();
  await server?.close();
  tiny?.remove();
});

test('a checkpoint at an address gives the tokens that it gives from disk', async () => {
  const { page, problems, info } = await engine(browser, server, 'cpu', { model: './tiny/', keep: false });
  assert.equal(info.backend, 'cpu');
  const { steps } = await decode(page, TEXT, 6);
  assert.deepEqual(steps.map(({ id }) => id), nativeIds(TEXT, 6, '--model', tiny.folder));
  const { plan, progress } = await page.evaluate(() => ({ plan: window.engine.plan, progress: window.progress }));
  const bytes = [...models['tiny/'].files.lengths].filter(([name]) => name.endsWith('.safetensors')).reduce((sum, [, length]) => sum + length, 0);
  assert.ok(plan.bytes < bytes && plan.bytes > 0.95 * bytes, `${plan.bytes} of ${bytes}`);
  assert.deepEqual([plan.fits, plan.slots, plan.ask, plan.kept], [true, null, false, null]);
  assert.equal(plan.fetch, plan.loaded);
  const counted = progress.filter(({ stage }) => stage === 'bytes');
  assert.ok(counted.length > 0 && counted.every(({ done, total }) => done <= total && total === plan.resident));
  assert.ok(counted.at(-1).done > 0.99 * plan.resident, JSON.stringify(counted.at(-1)));
  assert.deepEqual(problems, []);
  await page.context().close();
});

test('with fewer places than experts the tokens are the same', async () => {
  const { page } = await engine(browser, server, 'cpu', { model: './tiny/', keep: false, memory: 12_400_000 });
  const { steps } = await decode(page, TEXT, 6);
  assert.deepEqual(steps.map(({ id }) => id), nativeIds(TEXT, 6, '--model', tiny.folder));
  const { plan, slots } = await page.evaluate(async () => ({ plan: window.engine.plan, slots: await window.engine.slots() }));
  assert.ok(plan.slots < plan.experts && plan.resident <= 12_400_000, JSON.stringify(plan));
  assert.ok(slots.hits > 0 && slots.misses > plan.slots && slots.bytes > 0, JSON.stringify(slots));
  await page.context().close();
});

test('the page opens an address that is in its own, and another one from the form', async () => {
  const { page, problems } = await open(browser, `${server.url}?model=tiny/&backend=cpu`, { locale: 'en-GB' });
  await live(page);
  assert.equal(await page.locator('#address').inputValue(), 'tiny/');
  assert.match(await page.locator('#kept').innerText(), /Kept in this browser: [\d.]+ MB/);
  await screenshot(page, 'model-by-address');
  await page.locator('[data-action="clear-store"]').click();
  await page.locator('#kept').waitFor({ state: 'hidden' });
  assert.deepEqual(problems, []);

  // What is wrong is said, with a next step, and the built-in model is one choice away.
  await page.locator('#address').fill('nothing/');
  await page.locator('#source button[type="submit"]').click();
  await page.locator('#banners .bad').waitFor();
  assert.match(await page.locator('#banners .bad').innerText(), /no checkpoint at this address[\s\S]*nothing\/config\.json/);
  assert.match(page.url(), /model=nothing/);
  await page.locator('#model').selectOption('built-in');
  await live(page);
  assert.doesNotMatch(page.url(), /model=/);
  await page.context().close();
});

test('what a server does wrong is named in both languages', async () => {
  const shard = 'model-00002-of-00004.safetensors';
  const config = models['tiny/'].files.read('config.json', 0, models['tiny/'].files.lengths.get('config.json'));
  const wrong = config.toString().replace(/"moe_intermediate_size": \d+/, '"moe_intermediate_size": 64');
  const other = folderFiles(tiny.folder);
  models['wrong/'] = model({
    lengths: new Map([...other.lengths, ['config.json', Buffer.byteLength(wrong)]]),
    read: (name, start, end) => (name === 'config.json' ? Buffer.from(wrong).subarray(start, end) : other.read(name, start, end)),
  });
  models['faulty/'] = model(other);
  const cases = [
    ['faulty/', { [shard]: { whole: true } }, /does not answer ranges/, /không trả lời Range/],
    ['faulty/', { 'config.json': { page: true } }, /web page came/, /trang web thay vì tệp/],
    ['faulty/', { 'config.json': { status: 403 } }, /server refused[\s\S]*status 403/, /từ chối[\s\S]*status 403/],
    ['faulty/', { [shard]: { status: 404 } }, /no checkpoint in the released layout[\s\S]*model-00002/, /không phải checkpoint theo[\s\S]*model-00002/],
    ['wrong/', {}, /not those that config\.json asks for[\s\S]*tensor layers/, /không đúng như config\.json/],
  ];
  const { page } = await open(browser, `${server.url}?model=nothing/&backend=cpu`, { locale: 'en-GB' });
  await ready(page);
  for (const [path, faults, en, vi] of cases) {
    models['faulty/'].faults = faults;
    await page.locator('#lang').selectOption('en');
    await page.locator('#address').fill(path);
    await page.locator('#source button[type="submit"]').click();
    const said = (expected) => page.waitForFunction((text) => new RegExp(text).test(document.querySelector('#banners .bad')?.textContent), expected.source);
    await said(en);
    await page.locator('#lang').selectOption('vi');
    await said(vi);
  }
  await page.context().close();
});

test('what does not fit is refused before anything is fetched', async () => {
  models['tiny/'].seen.length = 0;
  const { page } = await open(browser, `${server.url}empty.html`);
  const error = await page.evaluate(async () => {
    const { Engine } = await import(new URL('engine.js', location.href).href);
    return Engine.open({ backend: 'cpu', model: 'tiny/', memory: 1e6, keep: false }).then(() => null, ({ kind, reason, message }) => ({ kind, reason, message }));
  });
  assert.deepEqual([error.kind, error.reason], ['does-not-fit', 'too-large'], error.message);
  // Headers that are longer than the first request of a file.
  assert.ok(models['tiny/'].fetched() < 500_000, `${models['tiny/'].fetched()}`);
  await page.context().close();
});
