// Every chapter shows the numbers of the page's own run, without an error on the console. The pictures are kept to be looked at.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { launch, open, screenshot } from './lib/browser.mjs';
import { CODES, chapter, live, showing } from './lib/page.mjs';
import { DIST } from './lib/paths.mjs';
import { serve } from './lib/server.mjs';

const TEXT = 'Mỗi token để lại bao nhiêu byte?';

let browser;
let server;
let page;
let problems;
before(async () => {
  [browser, server] = await Promise.all([launch(), serve()]);
  ({ page, problems } = await open(browser, `${server.url}?backend=cpu`, { locale: 'vi-VN', colorScheme: 'light', viewport: { width: 1280, height: 2600 } }));
  await live(page);
  await page.locator('#text').fill(TEXT);
  await page.locator('#picture select').selectOption('disc');
  await page.locator('#run').click();
  await page.waitForFunction(() => document.querySelectorAll('#strip [data-fold]').length === 1, null, { timeout: 120_000 });
});
after(async () => {
  await browser?.close();
  await server?.close();
});

const recorded = JSON.parse(readFileSync(join(DIST, 'recorded.json'), 'utf8'));

/** The cells of the tables of the chapter that is shown. */
const cells = () => page.locator('#chapter .ch-tables td').allTextContents();

/** What the page would show of the recorded run. */
const first = recorded.labs[0].lab.chapters;

for (const code of CODES) {
  test(`chapter ${code} shows the run`, async () => {
    await chapter(page, code);
    const values = await cells();
    assert.ok(values.length > 4 && values.some((value) => /\d/.test(value)), `${values.length} cells`);
    assert.doesNotMatch(values.join(' '), /NaN|undefined|null|\[object/);
    assert.ok((await page.locator('#chapter figure figcaption').innerText()).length > 20, 'a finding');
    assert.ok((await page.locator('#chapter math').count()) > 0, 'a formula');
    assert.ok((await page.locator('#chapter .ch-checks > li').count()) > 0, 'a check');
    assert.equal(await page.locator('#chapter .ch-checks > .ch-fail').count(), 0);
    assert.ok(first.find((one) => one.code === code), 'the recording has the block');
    assert.match(await page.locator('#seen').innerText(), /^CPU, bản tham chiếu/);
    assert.doesNotMatch(await page.locator('#chapter').innerText(), /bản ghi/i, 'no number is marked as recorded');
    await screenshot(page, `chapter-${code}-light`);
    assert.deepEqual(problems, []);
  });
}

test('two chapters in the dark', async () => {
  await page.locator('#theme').selectOption('dark');
  for (const code of ['2A', '3C']) {
    await chapter(page, code);
    await screenshot(page, `chapter-${code}-dark`);
  }
  await page.locator('#theme').selectOption('light');
  assert.deepEqual(problems, []);
});

test('an opened tensor is a heat map with a scale and a value under the pointer', async () => {
  await chapter(page, '4A');
  await page.locator('#chapter .ch-flow button[data-tap="4a.query"], #chapter .ch-flow button[data-tap]').first().click();
  const panel = page.locator('#chapter .ch-heat .ch-panel');
  await panel.locator('svg, canvas').first().waitFor();
  await screenshot(page, 'heat-map');
  assert.match(await panel.innerText(), /\d/);
  await panel.getByRole('button').last().focus();
  await page.locator('[data-key="heat-close"]').click();
  await panel.waitFor({ state: 'detached' });
  assert.deepEqual(problems, []);
});

test('the numbers follow the layer and the token', async () => {
  const tables = () => page.locator('#chapter .ch-tables').textContent();
  /** Does something, and waits until the tables are others than before it. */
  const changes = async (act) => {
    const old = await tables();
    await act();
    await page.waitForFunction((text) => document.querySelector('#chapter .ch-tables')?.textContent !== text, old);
  };
  await chapter(page, '2A');
  const before = await cells();
  await changes(() => page.locator('#ruler [data-layer="5"]').click());
  const layer = await cells();
  assert.notDeepEqual(layer, before);
  await changes(() => page.locator('#strip [data-token]').last().press('ArrowLeft'));
  assert.notDeepEqual(await cells(), layer);
  const current = Number(await page.locator('#strip [aria-current="true"]').getAttribute('data-token'));
  await showing(page, { token: current, layer: 5 });
  assert.deepEqual(problems, []);
});
