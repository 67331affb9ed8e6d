// `<flash-chat>` with the model that comes along: loaded, asked, stopped, asked about a picture, all on this device.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { launch, screenshot } from './lib/browser.mjs';
import { article, strict, visit } from './lib/chat.mjs';
import { png } from './lib/png.mjs';

let browser;
before(async () => {
  browser = await launch({ webgpu: false });
});
after(() => browser?.close());

test('nano answers in a page under the strict policy, in Vietnamese and about a picture', async () => {
  const seen = await visit(browser, article('<flash-chat lang="vi"></flash-chat>', { lang: 'vi' }), { policy: strict() });
  const { page, chat, problems } = seen;
  try {
    page.setDefaultTimeout(120_000);
    await chat.open();
    const start = Date.now();
    await page.waitForFunction(() => document.querySelector('flash-chat').state === 'ready', null, { timeout: 60_000 });
    const loaded = Date.now() - start;
    assert.match(await chat.at('.footer').innerText(), /nano, trên máy của bạn/);

    await chat.ask('890 byte được cộng thế nào?');
    assert.match(await chat.answer(), /890/);
    const usage = await page.locator('flash-chat').evaluate((node) => node.usage);
    assert.ok(usage.completion_tokens > 0, JSON.stringify(usage));
    const speed = usage.completion_tokens / usage.flash890.decode_seconds;
    console.log(`nano loaded in ${loaded} ms, ${speed.toFixed(1)} tokens per second, ${usage.flash890.accepted} of ${usage.flash890.drafted} drafts accepted`);

    await chat.ask('Còn một triệu token?');
    assert.ok((await chat.answer()).length > 0);
    const second = await page.locator('flash-chat').evaluate((node) => node.usage);
    assert.ok(second.prompt_tokens_details.cached_tokens > 0, 'what was read is not read again');

    await page.locator('flash-chat').evaluate((node) => { node.options = { stop: ['90'], max_tokens: 40 }; });
    await chat.ask('890 byte được cộng thế nào?');
    assert.doesNotMatch(await chat.answer(), /90/, 'the stop string ends the answer and is not part of it');
    await page.locator('flash-chat').evaluate((node) => { node.options = {}; });

    await chat.ask('Kể hết mười khối.');
    await chat.answers.last().locator('.content').filter({ hasText: /\S/ }).waitFor();
    await chat.at('.go.stop').click().catch(() => {});
    await chat.answer();
    assert.equal(await chat.state(), 'ready');

    await chat.at('input[type=file]').setInputFiles({ name: 'picture.png', mimeType: 'image/png', buffer: png(64, 64) });
    await chat.at('.attachment').waitFor();
    await chat.ask('Ảnh này có gì?');
    assert.ok((await chat.answer()).length > 0);
    assert.equal(await chat.state(), 'ready');
    await screenshot(page, 'chat-nano');
    assert.deepEqual(problems(), []);
  } finally {
    await seen.close();
  }
});
