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

/** The cells of the table of the chapter that is shown whose title begins so, row by row. */
const rowsOf = (title) =>
  page.locator('#chapter .ch-tables').evaluate((tables, title) => {
    const grid = [...tables.querySelectorAll('table')].find((one) => document.getElementById(one.getAttribute('aria-labelledby'))?.textContent?.startsWith(title));
    return [...(grid?.querySelectorAll('tbody tr') ?? [])].map((row) => [...row.children].map(({ textContent }) => textContent));
  }, title);

test('6B says what became of every draft token, and what was taken back of the state', async () => {
  await chapter(page, '6B');
  const fates = (await rowsOf('Bản nháp sau')).map((row) => /chấp nhận|bác bỏ|bỏ theo/.exec(row.join(' '))?.[0]);
  const accepted = fates.indexOf('bác bỏ');
  assert.deepEqual(fates, fates.map((_, i) => (i < accepted ? 'chấp nhận' : i === accepted ? 'bác bỏ' : 'bỏ theo')));
  const parts = await rowsOf(`Rollback: lượt kiểm chạy ${fates.length + 1} token, ${accepted + 1} được giữ`);
  assert.equal(parts.length, 7, JSON.stringify(parts));
  const numbers = ([, ...held]) => held.map(Number);
  const [before, judged, kept] = numbers(parts[6]);
  assert.deepEqual([judged, kept], [before + fates.length + 1, before + accepted + 1]);
  for (const ring of [parts[0], parts[5]]) assert.deepEqual(ring.slice(1).map((range) => Number(range.split('–')[1]) + 1), [before, judged, kept]);
  for (const [at, n] of [before, judged, kept].entries()) {
    const [entries, open] = [parts[1][at + 1].split(' + ').map(Number), Number(parts[3][at + 1])];
    assert.deepEqual(entries, [n >> 1, n >> 1, n >> 1, n]);
    assert.equal(open, (n % 2) * 3);
  }
  assert.deepEqual(parts[2].slice(1), parts[1].slice(1));
});

test('3A says which layers ran for which positions', async () => {
  await chapter(page, '3A');
  const ran = await rowsOf('Lớp nào đã chạy');
  assert.deepEqual(ran.map(([pass, layers]) => [pass, layers]), [
    ['prefill đủ, tới token đang theo', '0–39'],
    ['prefill có đuôi', '0–19'],
    ['prefill có đuôi', '20–39'],
    ['decode một token', '0–39'],
    ['kiểm bản nháp', '0–39'],
  ]);
  const n = Number(ran[3][2]);
  assert.deepEqual([ran[0][2], ran[1][2], ran[4][2]], [`0–${n - 1}`, `0–${n - 1}`, `${n}–${n + 5}`]);
  assert.deepEqual([Number(ran[2][2].split('–')[0]), ran[2][2].split('–')[1]], [n - Number(ran[2][3]), `${n - 1}`]);
});

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
