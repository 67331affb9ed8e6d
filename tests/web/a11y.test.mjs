// axe finds nothing on the page: every chapter in one theme and language and in the other, the first one in the two that are left.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { after, before, test } from 'node:test';
import { launch, open } from './lib/browser.mjs';
import { CODES, chapter, live } from './lib/page.mjs';
import { serve } from './lib/server.mjs';

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

let browser;
let server;
let page;
before(async () => {
  [browser, server] = await Promise.all([launch(), serve()]);
  ({ page } = await open(browser, `${server.url}?backend=cpu`, { locale: 'vi-VN' }));
  await live(page);
  await page.evaluate(AXE);
});
after(async () => {
  await browser?.close();
  await server?.close();
});

/** What axe finds, in lines. */
const violations = () =>
  page.evaluate(async () => {
    const { violations } = await window.axe.run(document, { resultTypes: ['violations'] });
    return violations.map(({ id, impact, nodes }) => `${impact} ${id}: ${nodes.slice(0, 4).map(({ html }) => html.slice(0, 160)).join(' | ')}`);
  });

for (const [lang, theme, codes] of [['vi', 'light', CODES], ['en', 'dark', CODES], ['en', 'light', ['1A']], ['vi', 'dark', ['1A']]]) {
  test(`${lang}, ${theme}`, async () => {
    await page.locator('#lang').selectOption(lang);
    await page.locator('#theme').selectOption(theme);
    const found = {};
    for (const code of codes) {
      await chapter(page, code);
      const lines = await violations();
      if (lines.length) found[code] = lines;
    }
    assert.deepEqual(found, {});
  });
}

test('the report, in the dark', async () => {
  await page.locator('[data-action="run-all-checks"]').click();
  await page.locator('#report[data-checks="done"]').waitFor({ timeout: 120_000 });
  assert.deepEqual(await violations(), []);
});
