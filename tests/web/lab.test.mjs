// The page under a reader's hands: diagram, addresses, language, theme, keyboard, decoding, pictures, checks. All on one page, one after the other.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, test } from 'node:test';
import { launch, open, screenshot } from './lib/browser.mjs';
import { CODES, chapter, live, runAllChecks, showing } from './lib/page.mjs';
import { png } from './lib/png.mjs';
import { serve } from './lib/server.mjs';

let browser;
let server;
let page;
let problems;
before(async () => {
  [browser, server] = await Promise.all([launch(), serve()]);
  ({ page, problems } = await open(browser, `${server.url}?backend=cpu#3b/t5/l8`, { locale: 'vi-VN', acceptDownloads: true }));
  page.setDefaultTimeout(60_000);
  await live(page);
});
after(async () => {
  await browser?.close();
  await server?.close();
});

const box = (code) => page.locator(`#map .box[data-code="${code}"]`);
const popover = () => page.locator('#popover');
const current = (row) => page.locator(`#${row} [aria-current="true"]`);
/** Waits for a condition in the page. */
const until = (condition, argument) => page.waitForFunction(condition, argument);

test('an address opens block, token and layer; the way back goes block by block', async () => {
  await showing(page, { token: 5, layer: 8 });
  assert.equal(await page.locator('#chapter .ch-code').innerText(), '3B');
  await box('4A').click();
  await page.waitForURL(/#4a\/t5\/l8$/);
  await box('6B').click();
  await page.waitForURL(/#6b\/t5\/l8$/);
  await page.goBack();
  await page.locator('#chapter .ch-code', { hasText: '4A' }).waitFor();
  await page.goBack();
  await page.locator('#chapter .ch-code', { hasText: '3B' }).waitFor();
  await page.evaluate(() => {
    location.hash = '#5a/t3/l2';
  });
  await showing(page, { token: 3, layer: 2 });
  assert.equal(await box('5A').getAttribute('aria-current'), 'true');
});

test('a pop-over opens on hover and on focus, and closes with Escape', async () => {
  await box('2A').hover();
  // The pop-over of the box that was clicked last may still be there.
  await popover().locator('h3', { hasText: '2A · ' }).waitFor();
  const text = await popover().innerText();
  assert.match(text, /^2A · /);
  assert.match(text, /2a\.streams[\s\S]*\[\d+, 4, 64\]/);
  await screenshot(page, 'popover');
  await page.keyboard.press('Escape');
  await popover().waitFor({ state: 'hidden' });
  await page.mouse.move(2, 2);
  await page.locator('#map-tools button').last().focus();
  await page.keyboard.press('Tab');
  await popover().waitFor({ state: 'visible' });
  const focused = await page.evaluate(() => document.activeElement?.getAttribute('data-code'));
  assert.ok(CODES.includes(focused), `focus on ${focused}`);
  await page.keyboard.press('ArrowRight');
  await until((old) => document.activeElement?.getAttribute('data-code') !== old, focused);
  await page.keyboard.press('Escape');
  await popover().waitFor({ state: 'hidden' });
  const next = await page.evaluate(() => document.activeElement?.getAttribute('data-code'));
  await page.keyboard.press('Enter');
  await page.locator('#chapter .ch-code', { hasText: next }).waitFor();
});

test('focus buttons light the blocks of their group, and one at a time', async () => {
  const map = await page.evaluate(async () => (await (await fetch('recorded.json')).json()).info.model.map);
  for (const name of ['prefill', 'decode', 'kv', 'moe']) {
    await page.locator(`[data-focus="${name}"]`).click();
    const lit = await page.locator('#map .box.lit').evaluateAll((boxes) => boxes.map((one) => one.dataset.code));
    const expected = map.filter(({ focus }) => focus.includes(name)).map(({ code }) => code);
    assert.ok(expected.length > 0 && expected.length < 11, `${name}: ${expected}`);
    assert.deepEqual(lit.sort(), expected.sort());
    assert.equal(await page.locator('[data-focus][aria-pressed="true"]').count(), 1);
  }
  await page.locator('[data-focus="moe"]').click();
  assert.equal(await page.locator('#map .box.lit').count(), 0);
});

test('zoom in, out and fit; overlay off and on', async () => {
  const width = async () => (await page.locator('#map').boundingBox()).width;
  const [zoomOut, zoomIn, fit, overlay] = await page.locator('#map-scale button').all();
  const start = await width();
  await zoomIn.click();
  await zoomIn.click();
  assert.ok(Math.abs((await width()) / start - 1.5) < 0.02);
  assert.match(await page.locator('#map-scale output').innerText(), /150/);
  await zoomOut.click();
  assert.ok(Math.abs((await width()) / start - 1.25) < 0.02);
  await fit.click();
  assert.ok(Math.abs((await width()) - start) < 2);
  const says = await overlay.innerText();
  await overlay.click();
  await until(() => document.getElementById('map')?.classList.contains('plain'));
  assert.notEqual(await overlay.innerText(), says);
  await box('3A').hover();
  await page.waitForTimeout(400);
  assert.equal(await popover().isVisible(), false, 'no pop-over without overlay');
  await overlay.click();
  await page.mouse.move(2, 2);
  await box('3A').hover();
  await popover().waitFor({ state: 'visible' });
  await page.keyboard.press('Escape');
});

test('arrows walk along tokens and layers, a click follows a token', async () => {
  await page.locator('#strip [data-token="4"]').click();
  await showing(page, { token: 4, layer: 2 });
  await page.keyboard.press('ArrowRight');
  await showing(page, { token: 5, layer: 2 });
  await page.keyboard.press('Home');
  assert.equal(await current('strip').getAttribute('data-token'), '0');
  await current('ruler').focus();
  await page.keyboard.press('ArrowLeft');
  await showing(page, { token: 0, layer: 1 });
  await page.keyboard.press('End');
  await showing(page, { token: 0, layer: 39 });
  await page.locator('#ruler [data-layer="14"]').click();
  await showing(page, { token: 0, layer: 14 });
  assert.equal(await page.evaluate(() => location.hash.split('/').slice(1).join('/')), 't0/l14');
});

test('one step, play and reset decode behind the prompt', async () => {
  const made = page.locator('#strip [data-made]');
  await page.locator('[data-step="step"]').click();
  await made.nth(0).waitFor();
  const first = await made.nth(0).innerText();
  await page.locator('#count').fill('3');
  await page.locator('[data-step="play"]').click();
  await made.nth(2).waitFor();
  await page.locator('[data-step="play"]').waitFor();
  assert.equal(await made.count(), 3);
  await made.nth(1).click();
  await until(() => /Token đã sinh|Token sinh ra|Generated/.test(document.getElementById('seen')?.textContent ?? ''));
  await page.locator('[data-step="reset"]').click();
  await until(() => document.querySelectorAll('#strip [data-made]').length === 0);
  await page.locator('[data-step="step"]').click();
  await made.nth(0).waitFor();
  assert.equal(await made.nth(0).innerText(), first, 'greedy decoding repeats itself');
});

test('the status line has the time of a token and what was read in it', async () => {
  const figure = (name) => page.locator(`#figures [data-figure="${name}"]`);
  const number = (text) => Number(text.replace(/[^\d.]/g, ''));
  const ms = number(await figure('step').locator('b').innerText());
  const rate = await figure('rate').locator('b').innerText();
  assert.match(rate, /^\d+(\.\d+)? GB\/s$/);
  const megabytes = number((await figure('rate').getAttribute('title')).match(/[\d.]+ MB/)[0]);
  assert.ok(Math.abs((number(rate) * ms) / megabytes - 1) < 0.03, `${rate}, ${ms} ms, ${megabytes} MB`);
  assert.match(await figure('kv').innerText(), /= 890 × \d+/);
});

test('each symbol that is underlined in a formula opens its tensor, and the symbols are explained', async () => {
  for (const code of CODES) {
    await chapter(page, code);
    assert.ok((await page.locator('#chapter .ch-symbols b').count()) > 3, code);
    const symbol = page.locator('#chapter .ch-symbol').first();
    const tap = await symbol.getAttribute('data-tap');
    assert.ok((await page.locator('#chapter math [data-open]').count()) > 0, code);
    await symbol.click();
    await page.locator('#chapter .ch-heat .ch-panel code', { hasText: tap }).waitFor();
    await page.locator('[data-key="heat-close"]').click();
  }
});

test('each language has the whole page', async () => {
  await page.locator('#text').fill('890 bytes per token');
  await page.locator('#run').click();
  await until(() => [...document.querySelectorAll('#strip [data-token]')].some((one) => one.textContent?.includes('token')));
  for (const [lang, other] of [['en', 'vi'], ['vi', 'en']]) {
    await page.locator('#lang').selectOption(lang);
    assert.equal(await page.locator('html').getAttribute('lang'), lang);
    await page.locator(`#chapter[lang="${lang}"]`).waitFor();
    for (const code of CODES) {
      await chapter(page, code);
      const lines = (await page.locator('body').innerText()).split('\n').map((line) => line.replace(/[“"][^”"]*[”"]/g, '')).filter((line) => line.trim().length > 3);
      const foreign = lines.filter((line) => !/Tiếng Việt|Chào/.test(line) && speaks(line, other));
      assert.deepEqual(foreign, [], `${lang}, ${code}`);
    }
  }
});

/** Whether a line of text is a sentence of a language: by the letters of Vietnamese, by the small words of English. */
function speaks(line, lang) {
  if (lang === 'vi') return /\p{L}*[ăâđêôơưàảãáạằẳẵắặầẩẫấậèẻẽéẹềểễếệìỉĩíịòỏõóọồổỗốộờởỡớợùủũúụừửữứựỳỷỹýỵ]\p{L}+ \p{L}/iu.test(line);
  return /\b(the|of|and|is|are|with|from|this|that|which)\b/.test(line) && line.split(' ').length > 3;
}

test('light, dark, and kept for the next visit', async () => {
  await page.locator('#theme').selectOption('dark');
  assert.equal(await page.locator('html').getAttribute('data-theme'), 'dark');
  const dark = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  await page.locator('#theme').selectOption('light');
  const light = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  assert.notEqual(dark, light);
  assert.equal(await page.evaluate(() => localStorage.getItem('flash890.theme')), 'light');
});

/** Hands a file to the page as if it was chosen. */
const give = (name, mimeType, buffer) => page.locator('#picture input[type="file"]').setInputFiles({ name, mimeType, buffer });

test('a picture of the reader is read into tokens', async () => {
  await give('mine.png', 'image/png', png(120, 84));
  await page.locator('#picture canvas').waitFor();
  await page.locator('#run').click();
  await page.locator('#strip [data-fold]').waitFor();
  await chapter(page, '1A');
  await screenshot(page, 'own-picture');
  await page.locator('#strip [data-fold]').click();
  assert.ok((await page.locator('#strip .unfold .cell').count()) > 6);
});

test('what cannot be a picture is refused with a sentence', async () => {
  await give('notes.pdf', 'application/pdf', Buffer.from('%PDF'));
  await until(() => document.getElementById('refusal')?.textContent?.includes('notes.pdf'));
  await give('broken.png', 'image/png', Buffer.from('no picture'));
  await until(() => document.getElementById('refusal')?.textContent?.includes('broken.png'));
  await give('wide.png', 'image/png', png(20_000, 40));
  await until(() => /wide\.png.*20.?000/.test(document.getElementById('refusal')?.textContent ?? ''));
  assert.equal(await page.locator('#picture select').inputValue(), 'own');
});

test('100,000 characters are refused before they run', async () => {
  const text = page.locator('#text');
  await text.fill('x'.repeat(100_000));
  assert.match((await page.locator('#refusal').innerText()).replace(/\D/g, ''), /100000.*8192/);
  assert.equal(await page.locator('#run').isDisabled(), true);
  assert.equal(await text.getAttribute('aria-invalid'), 'true');
  await text.fill('890');
  assert.equal(await page.locator('#run').isDisabled(), false);
});

test('all checks pass, and their report can be kept', async () => {
  const { passed, failed, failures } = await runAllChecks(page, 180_000);
  assert.deepEqual(failures, []);
  assert.equal(failed, 0);
  assert.ok(passed > 50, `${passed} passed`);
  await screenshot(page, 'report');
  const [, json, text] = await page.locator('#report footer button').all();
  for (const [button, pattern] of [[json, /^\{[\s\S]*"failed": 0/], [text, /^flash890 lab · 2\d{3}-/]]) {
    const [download] = await Promise.all([page.waitForEvent('download'), button.click()]);
    assert.match(readFileSync(await download.path(), 'utf8'), pattern);
  }
  await page.keyboard.press('Escape');
});

test('the models that come with the page are one choice away, and the layer stays within the model', async () => {
  await page.locator('#ruler [data-layer="39"]').click();
  await page.locator('#model').selectOption('nano');
  await until(() => document.querySelectorAll('#ruler [data-layer]').length === 8);
  await until(() => /lớp 4\./.test(document.getElementById('seen')?.textContent ?? ''));
  assert.equal(await current('ruler').getAttribute('data-layer'), '4');
  assert.equal(new URL(page.url()).searchParams.get('model'), 'nano/');
  assert.equal(await page.locator('#source').isVisible(), false);
  assert.equal(await page.locator('#banners .bad').count(), 0);
  await page.locator('#model').selectOption('built-in');
  await until(() => document.querySelectorAll('#ruler [data-layer]').length === 40);
  await until(() => document.querySelector('#map [data-code="6A"] .fact')?.textContent?.includes('890'));
  assert.equal(new URL(page.url()).searchParams.get('model'), null);
  await page.locator('#model').selectOption('address');
  assert.equal(await page.locator('#source').isVisible(), true);
  await page.locator('#model').selectOption('built-in');
});

test('nothing of this left an error on the console', () => assert.deepEqual(problems, []));
