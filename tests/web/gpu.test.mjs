// WebGPU on the software adapter that every machine has, so each prompt is as short as can be.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { launch, open } from './lib/browser.mjs';
import { EMPTY, decode, engine, nativeIds } from './lib/engine.mjs';
import { live } from './lib/page.mjs';
import { DIST } from './lib/paths.mjs';
import { serve } from './lib/server.mjs';

const TEXT = 'a';

let browser;
let server;
before(async () => {
  [browser, server] = await Promise.all([launch(), serve({ faults: EMPTY })]);
});
after(async () => {
  await browser?.close();
  await server?.close();
});

test('every tap is within its limit of the reference, and the tokens are those of the native program', async () => {
  const { page, problems, info } = await engine(browser, server, 'gpu');
  assert.equal(info.backend, 'gpu', info.reason.en);
  const { steps } = await decode(page, TEXT, 2);
  assert.deepEqual(steps.map(({ id }) => id), nativeIds(TEXT, 2));
  const { rows } = await page.evaluate(() => window.engine.parity());
  assert.ok(rows.length > 300, `${rows.length} rows`);
  assert.deepEqual(rows.filter(({ passed }) => !passed), []);
  assert.deepEqual(problems, []);
  await page.context().close();
});

test('a device that is destroyed in the middle of a run comes back, and the run ends', async () => {
  const hook = `const request = GPUAdapter.prototype.requestDevice;
    GPUAdapter.prototype.requestDevice = async function (...of) { return (self.device = await request.apply(this, of)); };\n`;
  const body = hook + readFileSync(join(DIST, 'worker.js'), 'utf8');
  const hooked = await serve({ faults: { 'worker.js': { body } } });
  const { page, problems } = await open(browser, `${hooked.url}?backend=gpu`, { locale: 'en-GB' });
  await page.locator('#picture select').waitFor();
  await page.locator('#text').fill(TEXT);
  const [worker] = page.workers().length ? page.workers() : [await page.waitForEvent('worker')];
  await page.locator('#adapter[data-ready="true"]').waitFor({ timeout: 120_000 });
  await page.waitForFunction(() => /on the GPU/.test(document.getElementById('now')?.textContent ?? ''), null, { timeout: 120_000 });
  await worker.evaluate(() => self.device.destroy());
  await page.waitForFunction(() => /lost|back/.test(document.getElementById('now')?.textContent ?? ''), null, { timeout: 120_000 });
  await live(page, 240_000);
  assert.match(await page.locator('#seen').innerText(), /GPU/);
  assert.equal(await page.locator('#banners .bad').count(), 0);
  await page.locator('[data-step="step"]').click();
  await page.locator('#strip [data-made]').first().waitFor({ timeout: 120_000 });
  assert.deepEqual(problems, []);
  await page.context().close();
  await hooked.close();
});
