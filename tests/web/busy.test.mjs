// The page never blocks for more than 100 ms: the worker computes, and what the page draws comes in short pieces.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { launch, open } from './lib/browser.mjs';
import { CODES, chapter, live, showing } from './lib/page.mjs';
import { serve } from './lib/server.mjs';
import { tasksDuring } from './lib/trace.mjs';

/** Milliseconds that one piece of work of the page may take. */
const LONGEST = 100;

let browser;
let server;
let page;
before(async () => {
  [browser, server] = await Promise.all([launch(), serve()]);
  ({ page } = await open(browser, 'about:blank', { locale: 'vi-VN' }));
  page.setDefaultTimeout(60_000);
});
after(async () => {
  await browser?.close();
  await server?.close();
});

/** Does something and wants every piece of the page's work below the limit. */
async function staysFree(act) {
  const tasks = await tasksDuring(browser, page, act);
  assert.ok(tasks.length > 20, `${tasks.length} tasks in the trace`);
  const [longest] = tasks;
  assert.ok(longest.processor <= LONGEST, `a task of ${longest.processor.toFixed(1)} ms (${longest.clock.toFixed(1)} ms by the clock)`);
}

test('loading and the first run leave the page free', () =>
  staysFree(async () => {
    await page.goto(`${server.url}?backend=cpu`);
    await live(page);
  }));

test('so does a run with a picture, seen from every chapter', () =>
  staysFree(async () => {
    await page.locator('#text').fill('Mỗi token để lại bao nhiêu byte?');
    await page.locator('#picture select').selectOption('disc');
    await page.locator('#run').click();
    await page.locator('#strip [data-fold]').waitFor();
    for (const code of CODES) await chapter(page, code);
  }));

test('so do another layer, a step, a heat map and another language', () =>
  staysFree(async () => {
    const token = Number(await page.locator('#strip [aria-current="true"]').getAttribute('data-token'));
    await page.locator('#ruler [data-layer="8"]').click();
    await showing(page, { token, layer: 8 });
    await page.locator('[data-step="step"]').click();
    await page.locator('#strip [data-made]').waitFor();
    await chapter(page, '2A');
    await page.locator('#chapter .ch-flow button[data-tap]').first().click();
    await page.locator('#chapter .ch-heat canvas').first().waitFor();
    await page.locator('#lang').selectOption('en');
    await page.locator('#chapter[lang="en"]').waitFor();
  }));

test('work that does block would be seen', async () => {
  const tasks = await tasksDuring(browser, page, () =>
    page.evaluate(
      () =>
        new Promise((resolve) => {
          setTimeout(() => {
            let sum = 0;
            // On a machine with other work a second of the clock is a part of one of the processor.
            for (const begin = performance.now(); performance.now() - begin < 1500; ) sum += Math.sqrt(sum + 1);
            resolve(sum);
          });
        }),
    ),
  );
  assert.ok(tasks[0].processor > LONGEST, `${tasks[0].processor} ms`);
});
