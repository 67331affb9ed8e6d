// What breaks in a browser: no WebGPU, a dead worker, a missing core, a second tab. The page says so and goes on.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { launch, open, screenshot } from './lib/browser.mjs';
import { chapter, live, ready, showing } from './lib/page.mjs';
import { DIST } from './lib/paths.mjs';
import { serve } from './lib/server.mjs';

let browser;
let server;
before(async () => {
  [browser, server] = await Promise.all([launch(), serve()]);
});
after(async () => {
  await browser?.close();
  await server?.close();
});

test('without WebGPU the processor computes, and the page says why', async () => {
  const without = await launch({ webgpu: false });
  try {
    const { page, problems } = await open(without, server.url, { locale: 'en-GB' });
    await live(page);
    assert.match(await page.locator('#adapter').innerText(), /^CPU reference/);
    const notice = await page.locator('#banners .banner').innerText();
    assert.match(notice, /No GPU in use/);
    assert.match(notice, /WebGPU|adapter|GPU/);
    assert.ok(notice.length > 'No GPU in use'.length + 10, notice);
    await screenshot(page, 'no-webgpu');
    assert.deepEqual(problems, []);
  } finally {
    await without.close();
  }
});

test('an adapter that computes something else, and a browser that gives none, are refused with the reason', async () => {
  const worker = readFileSync(join(DIST, 'worker.js'), 'utf8');
  // A software adapter would be measured first, and left alone if the processor is quicker.
  const wrong = `Object.defineProperty(GPUAdapterInfo.prototype, 'isFallbackAdapter', { get: () => false });
    const make = GPUDevice.prototype.createShaderModule;
    GPUDevice.prototype.createShaderModule = function (shader) {
      return make.call(this, { ...shader, code: shader.code.replace(/\\bexp\\(/g, 'exp2(') });
    };`;
  const none = 'GPU.prototype.requestAdapter = async () => null;';
  for (const [change, reason] of [[wrong, /is refused: .*wrong numbers: NMSE \d/], [none, /no GPU is used: .*adapter/]]) {
    const odd = await serve({ faults: { 'worker.js': { body: `${worker}\n${change}` } } });
    const { page } = await open(browser, odd.url, { locale: 'en-GB' });
    await live(page);
    assert.match(await page.locator('#adapter').innerText(), /^CPU reference/);
    assert.match(await page.locator('#banners .banner').innerText(), new RegExp(reason, 'i'));
    await page.context().close();
    await odd.close();
  }
});

test('without a core the recorded run stays to be read, and marked as such', async () => {
  const missing = await serve({ faults: { 'flash890_bg.wasm': { status: 404, body: '' } } });
  const { page } = await open(browser, `${missing.url}#2a/l14`, { locale: 'en-GB' });
  const { state, text } = await ready(page);
  assert.equal(state, 'failed');
  assert.match(text, /HTTP 404/);
  for (const code of ['2A', '6A']) {
    await chapter(page, code);
    assert.ok((await page.locator('#chapter .ch-tables td').count()) > 4);
    assert.match(await page.locator('#chapter figcaption').innerText(), /recorded/i);
  }
  assert.match(await page.locator('#seen').innerText(), /^Recorded run/);
  assert.equal(await page.locator('#run').isDisabled(), true);
  await screenshot(page, 'recorded');
  await page.locator('[data-action="run-all-checks"]').click();
  await page.locator('#report[data-checks="done"][data-failed="0"]').waitFor();

  // The server has it again: the button of the notice is enough.
  await page.keyboard.press('Escape');
  delete missing.faults['flash890_bg.wasm'];
  await page.locator('#banners button').click();
  await live(page);
  await page.context().close();
  await missing.close();
});

test('a worker that dies is said to have, and replaced', async () => {
  const { page } = await open(browser, `${server.url}?backend=cpu`, { locale: 'en-GB' });
  await live(page);
  await page.locator('[data-step="step"]').click();
  await page.locator('#strip [data-made]').waitFor();
  await page.workers()[0].evaluate(() => {
    setTimeout(() => {
      throw new Error('killed by the test');
    });
  });
  await page.locator('#banners .bad').waitFor();
  assert.match(await page.locator('#banners .bad').innerText(), /The worker stopped[\s\S]*killed by the test/);
  assert.equal(await page.locator('#strip [data-made]').count(), 0, 'what was decoded went with it');
  await page.locator('#ruler [data-layer="3"]').click();
  await showing(page, { token: 22, layer: 3 });
  assert.equal(await page.locator('#banners .bad').count(), 0);
  // One that ends without a word, in the middle of a call.
  await page.locator('[data-step="step"]').click();
  await page.workers().at(-1).evaluate(() => self.close());
  await page.locator('#banners .bad').waitFor();
  await page.locator('#banners .bad button').click();
  await page.locator('#banners .bad').waitFor({ state: 'detached' });
  await page.locator('[data-step="step"]').click();
  await page.locator('#strip [data-made]').first().waitFor();
  await page.context().close();
});

test('a second tab works beside the first', async () => {
  const { page, problems } = await open(browser, `${server.url}?backend=cpu`, { locale: 'en-GB' });
  const second = await page.context().newPage();
  await second.goto(`${server.url}?backend=cpu#6b`);
  await Promise.all([live(page), live(second)]);
  await Promise.all([page, second].map((one) => one.locator('#ruler [data-layer="5"]').click()));
  await Promise.all([page, second].map((one) => showing(one, { token: 22, layer: 5 })));
  assert.deepEqual(problems, []);
  await page.context().close();
});
