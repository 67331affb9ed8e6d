// A reader and `<flash-chat>`: whole conversations in two languages, with pictures, stops, second thoughts, keyboard and screen reader.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { launch, screenshot } from './lib/browser.mjs';
import { article, strict, visit } from './lib/chat.mjs';
import { stub } from './lib/endpoint.mjs';
import { png } from './lib/png.mjs';

let browser;
let api;
before(async () => {
  [browser, api] = await Promise.all([launch({ webgpu: false }), stub()]);
});
after(async () => {
  await browser?.close();
  await api?.close();
});

const tag = (more = '', inside = '') => `<flash-chat endpoint="${api.url}" model="deepseek-v4.1-flash" ${more}>${inside}</flash-chat>`;

/** Opens a page with the chat, hands it to `look`, and expects no error on it. */
async function chatting(options, look) {
  const { chat = tag(), lang = 'en', head, ...rest } = options;
  const seen = await visit(browser, article(chat, { lang, head }), { policy: strict(api.origin), ...rest });
  try {
    await look(seen);
    assert.deepEqual(seen.problems(), []);
  } finally {
    await seen.close();
  }
}

const shown = (page) => page.evaluate(() => document.activeElement?.shadowRoot?.activeElement?.className ?? null);

for (const [lang, words] of Object.entries({
  vi: { open: 'Đặt câu hỏi', first: 'Ảnh này có gì?', answer: 'Một **hình tròn** đỏ 🔴.', plain: 'Một hình tròn đỏ 🔴.', second: 'Còn màu nền?', end: 'Màu trắng.', where: 'tại', copy: 'Sao chép' },
  en: { open: 'Ask a question', first: 'What is in the picture?', answer: 'A red **disc** 🔴.', plain: 'A red disc 🔴.', second: 'And the ground?', end: 'White.', where: 'at', copy: 'Copy' },
})) {
  test(`a conversation with a picture, ${lang}`, () =>
    chatting({ lang, context: { permissions: ['clipboard-read', 'clipboard-write'] } }, async ({ page, chat }) => {
      assert.equal((await chat.at('.launcher').innerText()).trim(), words.open);
      await chat.open();
      assert.match(await shown(page), /input/, 'the field has the focus');
      await chat.at('input[type=file]').setInputFiles({ name: 'disc.png', mimeType: 'image/png', buffer: png(40, 30) });
      await chat.at('.attachment canvas').waitFor();
      api.answer = () => ({ pieces: words.answer.split(/(?=[ *])/), cut: 7 });
      await chat.ask(words.first);
      assert.equal(await chat.answer(), words.plain);
      assert.equal(await chat.answers.locator('strong').count(), 1);
      assert.equal(await chat.questions.locator('canvas').count(), 1);
      assert.equal(await chat.at('.attachment').count(), 0, 'a picture is sent once');
      const [{ content }] = api.requests.at(-1).messages;
      assert.deepEqual(content.map(({ type }) => type), ['image_url', 'text']);
      assert.match(content[0].image_url.url, /^data:image\/png;base64,iVBOR/);

      api.answer = () => ({ text: words.end });
      await chat.ask(words.second);
      assert.equal(await chat.answer(), words.end);
      assert.deepEqual(api.requests.at(-1).messages.slice(1), [{ role: 'assistant', content: words.answer }, { role: 'user', content: words.second }]);
      assert.match(await chat.at('.footer').innerText(), new RegExp(`deepseek-v4.1-flash, ${words.where} 127\\.0\\.0\\.1`));
      await chat.answers.first().hover();
      await chat.answers.first().getByRole('button', { name: words.copy }).click();
      assert.equal(await page.evaluate(() => navigator.clipboard.readText()), words.answer);
      await screenshot(page, `chat-${lang}`);
    }));
}

test('pictures by paste and drop; what cannot be sent is said', () =>
  chatting({}, async ({ page, chat }) => {
    await chat.open();
    const give = (selector, kind, files) =>
      chat.at(selector).evaluate((node, { kind, files }) => {
        const data = new DataTransfer();
        for (const { name, bytes } of files) data.items.add(new File([Uint8Array.from(atob(bytes), (c) => c.charCodeAt(0))], name));
        const event = kind === 'paste' ? new ClipboardEvent('paste', { clipboardData: data, bubbles: true, cancelable: true }) : new DragEvent(kind, { dataTransfer: data, bubbles: true, cancelable: true, composed: true });
        node.dispatchEvent(event);
      }, { kind, files });
    const picture = { name: 'a.png', bytes: png(20, 20).toString('base64') };
    await give('.input', 'paste', [picture]);
    await chat.at('.attachment').nth(0).waitFor();
    await give('.panel', 'dragover', [picture]);
    assert.ok(await chat.at('.dropping').isVisible());
    await give('.panel', 'drop', [picture]);
    await chat.at('.attachment').nth(1).waitFor();
    assert.equal(await chat.at('.dropping').count(), 0);
    await chat.at('.detach').first().click();
    assert.equal(await chat.at('.attachment').count(), 1);

    const refusal = chat.at('.refusal');
    await give('.panel', 'drop', [{ name: 'notes.txt', bytes: btoa('not a picture') }]);
    await refusal.filter({ hasText: '“notes.txt” is not a PNG, JPEG or WebP picture.' }).waitFor();
    await give('.panel', 'drop', [{ name: 'broken.png', bytes: btoa('\x89PNG\r\n\x1a\nnothing') }]);
    await refusal.filter({ hasText: 'cannot read “broken.png”' }).waitFor();
    await page.locator('flash-chat').evaluate((node) => {
      const data = new DataTransfer();
      data.items.add(new File(['\x89PNG'.padEnd(10_400_000, 'x')], 'big.png'));
      data.items.add(new File([new Uint8Array([0xff, 0xd8, 0xff]), 'x'.repeat(10_400_000)], 'big.jpg'));
      node.shadowRoot.querySelector('.panel').dispatchEvent(new DragEvent('drop', { dataTransfer: data, bubbles: true, cancelable: true }));
    });
    await refusal.filter({ hasText: '“big.jpg” has 10.4 MB, and at most 10 MB can be sent.' }).waitFor();
    await give('.panel', 'drop', [picture, picture, picture, picture]);
    await refusal.filter({ hasText: 'At most 4 pictures' }).waitFor();
    assert.equal(await chat.at('.attachment').count(), 4);
    api.answer = () => ({ text: 'Four.' });
    await chat.at('.send, .go:not(.stop)').first().click();
    assert.equal(await chat.answer(), 'Four.');
    assert.equal(api.requests.at(-1).messages[0].content.length, 4, 'pictures alone are a question too');
    assert.ok(await refusal.isHidden());
  }));

test('stop, and go on', () =>
  chatting({}, async ({ page, chat }) => {
    await chat.open();
    api.answer = () => ({ pieces: Array(400).fill('word '), pause: 10 });
    await chat.ask('Write much');
    await chat.answers.filter({ hasText: 'word word' }).waitFor();
    assert.equal(await chat.state(), 'streaming');
    const before = api.requests.length;
    await chat.field.fill('not yet');
    await chat.field.press('Enter');
    assert.equal(api.requests.length, before, 'Enter does not interrupt an answer');
    await chat.at('.go.stop').click();
    await chat.answer();
    assert.equal(await chat.state(), 'ready');
    assert.match(await chat.answers.innerText(), /word[\s\S]*Stopped\./);
    assert.match(await shown(page), /input/, 'the focus is not lost with the button');
    assert.equal(await chat.field.inputValue(), 'not yet', 'what was being written stays');
    const length = (await chat.messages())[1].content.length;
    await page.waitForTimeout(100);
    assert.equal((await chat.messages())[1].content.length, length, 'nothing comes after a stop');
    api.answer = () => ({ text: 'Going on.' });
    await chat.field.press('Enter');
    assert.equal(await chat.answer(), 'Going on.');
    assert.equal(api.requests.at(-1).messages[1].content.length, length);
  }));

test('stop before the first word leaves the question', () =>
  chatting({}, async ({ chat }) => {
    await chat.open();
    api.answer = () => ({ text: 'late', wait: 5_000 });
    await chat.ask('Quick?');
    await chat.at('.waiting').waitFor();
    await chat.at('.go.stop').click();
    await chat.answer();
    assert.equal(await chat.answers.count(), 0);
    assert.equal((await chat.messages()).length, 1);
  }));

test('answer again, and edit an earlier question', () =>
  chatting({}, async ({ page, chat }) => {
    await chat.open();
    api.answer = ({ messages }, count) => ({ text: `${messages.at(-1).content} ${count}` });
    await chat.ask('one');
    await chat.answer();
    await chat.ask('two');
    const first = await chat.answer();
    await chat.answers.last().getByRole('button', { name: 'Answer again' }).click();
    await page.waitForFunction((first) => !document.querySelector('flash-chat').messages.some(({ content }) => content === first), first);
    await chat.answer();
    assert.deepEqual((await chat.messages()).map(({ role }) => role), ['user', 'assistant', 'user', 'assistant']);
    assert.equal(await chat.answers.first().getByRole('button', { name: 'Answer again' }).count(), 0, 'only the last answer');

    await chat.questions.first().hover();
    await chat.questions.first().getByRole('button', { name: 'Edit' }).click();
    const field = chat.at('.edit textarea');
    assert.equal(await field.inputValue(), 'one');
    await field.press('Escape');
    assert.equal(await field.count(), 0);
    assert.equal(await chat.at('.panel').isVisible(), true, 'Escape ends the editing, not the chat');
    await chat.questions.first().hover();
    await chat.questions.first().getByRole('button', { name: 'Edit' }).click();
    await field.fill('three');
    await screenshot(page, 'chat-edit');
    await field.press('Enter');
    await chat.questions.filter({ hasText: 'three' }).waitFor();
    await chat.answer();
    const messages = await chat.messages();
    assert.equal(messages.length, 2, 'what followed is gone');
    assert.equal(messages[0].content, 'three');
    assert.equal(api.requests.at(-1).messages.length, 1);
  }));

test('Enter belongs to the input method while it composes; Shift and Enter make a line', () =>
  chatting({}, async ({ chat }) => {
    await chat.open();
    const before = api.requests.length;
    await chat.field.fill('tieesng');
    const press = (more) => chat.field.evaluate((node, more) => node.dispatchEvent(new KeyboardEvent('keydown', { key: 'Enter', bubbles: true, cancelable: true, ...more })), more);
    assert.equal(await press({ isComposing: true, keyCode: 13 }), true, 'not prevented');
    assert.equal(await press({ keyCode: 229 }), true, 'nor where only the key code tells');
    await chat.field.press('Shift+Enter');
    await chat.field.pressSequentially('two');
    assert.equal(await chat.field.inputValue(), 'tieesng\ntwo');
    const height = async () => (await chat.field.boundingBox()).height;
    const low = await height();
    await chat.field.fill('1\n2\n3\n4');
    assert.ok((await height()) > low + 30, 'the field grows with its text');
    await chat.field.fill(Array(40).fill('line').join('\n'));
    assert.ok((await height()) < 160, 'and scrolls when it is high');
    assert.equal(api.requests.length, before);
    api.answer = () => ({ text: 'Sent.' });
    await chat.field.press('Enter');
    assert.equal(await chat.answer(), 'Sent.');
    assert.ok((await height()) < low, 'and is low again');
  }));

test('by keyboard alone', () =>
  chatting({ chat: tag('label="Ask"') }, async ({ page, chat }) => {
    await page.keyboard.press('Tab');
    assert.match(await shown(page), /launcher/);
    await page.keyboard.press('Enter');
    await chat.field.waitFor();
    await page.keyboard.type('By keys');
    api.answer = () => ({ text: 'With `code` and\n\n```\na block\n```' });
    await page.keyboard.press('Enter');
    await chat.answer();
    const stops = [];
    for (let press = 0; press < 9; press += 1) {
      await page.keyboard.press('Shift+Tab');
      stops.push(await page.evaluate(() => { const node = document.activeElement?.shadowRoot?.activeElement; return node?.getAttribute('aria-label') ?? node?.localName ?? null; }));
    }
    for (const stop of ['Add a picture', 'Answer again', 'Copy', 'pre', 'Copy code', 'Edit', 'Conversation']) assert.ok(stops.includes(stop), `${stop} in ${stops}`);
    await page.keyboard.press('Escape');
    assert.equal(await chat.at('.panel').isVisible(), false);
    assert.match(await shown(page), /launcher/, 'the focus goes back to where it came from');
    assert.equal(await page.locator('flash-chat').evaluate((node) => node.open), false);
    await page.keyboard.press('Space');
    assert.equal(await chat.answers.count(), 1, 'the conversation is still there');
    await chat.at('.footer').getByRole('button').focus();
    await page.keyboard.press('Enter');
    assert.match(await chat.at('.about').innerText(), /runs at 127\.0\.0\.1/);
    await screenshot(page, 'chat-about');
    await page.keyboard.press('Escape');
    assert.equal(await chat.at('.about').isVisible(), false);
    assert.equal(await chat.at('.panel').isVisible(), true, 'one Escape, one thing');
  }));

test('a screen reader hears an answer once, at its end', () =>
  chatting({}, async ({ page, chat }) => {
    await chat.open();
    await page.locator('flash-chat').evaluate((node) => {
      window.said = [];
      const status = node.shadowRoot.querySelector('[role=status]');
      new MutationObserver(() => window.said.push(status.textContent)).observe(status, { childList: true, characterData: true, subtree: true });
    });
    api.answer = () => ({ text: 'A **whole** answer.', pause: 20 });
    await chat.ask('Say it');
    await chat.at('.log[aria-busy=true]').waitFor();
    await chat.answer();
    assert.deepEqual(await page.evaluate(() => window.said), ['Answer: A whole answer.']);
    const log = chat.at('.log');
    assert.deepEqual([await log.getAttribute('role'), await log.getAttribute('aria-live')], ['log', 'off']);
    assert.equal(await chat.answers.getAttribute('aria-label'), 'Answer');
  }));

test('a growing answer keeps its nodes, never shows half a marker, and leaves a reader alone who reads above', () =>
  chatting({}, async ({ page, chat }) => {
    await chat.open();
    const text = `First **bold words here** and [a link](https://example.org/long/address).\n\n${'A paragraph of some length that goes on and on.\n\n'.repeat(40)}The *end*.`;
    api.answer = () => ({ text, pause: 4 });
    await page.locator('flash-chat').evaluate((node) => {
      window.seen = [];
      node.addEventListener('token', () => requestAnimationFrame(() => window.seen.push(node.shadowRoot.querySelector('.content')?.textContent ?? '')));
    });
    await chat.ask('Long');
    await chat.at('.content > p').nth(1).waitFor();
    await chat.at('.content > p').first().evaluate((node) => { node.dataset.mine = 'kept'; });
    await chat.at('.content > p').nth(16).waitFor();
    const end = () => chat.at('.log').evaluate((log) => log.scrollHeight - log.scrollTop - log.clientHeight);
    assert.ok((await end()) < 48, 'a reader at the end stays at the end');
    await chat.at('.log').evaluate((log) => { log.scrollTop = 0; });
    await page.waitForTimeout(150);
    assert.equal(await chat.at('.log').evaluate((log) => log.scrollTop), 0);
    assert.ok(await chat.at('.latest').isVisible());
    await chat.answer();
    assert.equal(await chat.at('.log').evaluate((log) => log.scrollTop), 0);
    await chat.at('.latest').click();
    assert.ok((await end()) < 48);
    assert.equal(await chat.at('.content > p').first().getAttribute('data-mine'), 'kept');
    const halves = await page.evaluate(() => window.seen.filter((text) => /\*|\]\(|\[a/.test(text)));
    assert.deepEqual(halves, []);
  }));

test('the page hears events and can steer by properties and methods', () =>
  chatting({ chat: '<p id="here"></p>' }, async ({ page, chat }) => {
    api.answer = () => ({ text: 'Heard you.' });
    const { events, answer, json, markdown, usage } = await page.evaluate(async (endpoint) => {
      const node = document.createElement('flash-chat');
      Object.assign(node, { endpoint, model: 'm', system: 'Be brief.', options: { temperature: 0, max_tokens: 9, stop: ['\n\n'] }, key: 'k', suggestions: ['Why?'], open: true });
      const events = [];
      for (const name of ['ready', 'token', 'message', 'statechange']) {
        document.body.addEventListener(name, ({ detail, composed }) => events.push([name, composed, detail.state ?? detail.text ?? detail.model]));
      }
      document.getElementById('here').append(node);
      await node.load();
      const answer = await node.send('Do you hear?');
      return { events, answer, json: JSON.parse(node.export()), markdown: node.export('markdown'), usage: node.usage };
    }, api.url);
    assert.deepEqual(events.filter(([name]) => name !== 'token').map(([name, composed, what]) => `${name} ${composed} ${what}`), [
      'statechange true loading', 'statechange true ready', 'ready true m', 'statechange true streaming', 'statechange true ready', 'message true done',
    ]);
    assert.equal(events.filter(([name]) => name === 'token').map(([, , text]) => text).join(''), 'Heard you.');
    assert.equal(answer.content, 'Heard you.');
    assert.equal(answer.finish_reason, 'stop');
    assert.equal(usage.total_tokens, 7);
    assert.deepEqual(json, { model: 'm', messages: [{ role: 'user', content: 'Do you hear?' }, { role: 'assistant', content: 'Heard you.' }] });
    assert.match(markdown, /\*\*You\*\*\n\nDo you hear\?\n\n\*\*Answer\*\*\n\nHeard you\.\n/);
    const { messages, temperature, max_tokens, stop, headers } = api.requests.at(-1);
    assert.deepEqual(messages[0], { role: 'system', content: 'Be brief.' });
    assert.deepEqual({ temperature, max_tokens, stop }, { temperature: 0, max_tokens: 9, stop: ['\n\n'] });
    assert.equal(headers.authorization, 'Bearer k');

    await page.locator('flash-chat').evaluate((node) => node.reset());
    assert.equal(await chat.at('.message').count(), 0);
    await chat.at('.suggestion').click();
    assert.equal(await chat.answer(), 'Heard you.');
    assert.equal(api.requests.at(-1).messages.at(-1).content, 'Why?');
    await page.locator('flash-chat').evaluate((node) => { node.messages = [{ role: 'user', content: 'Before' }, { role: 'assistant', content: '# Then' }]; });
    assert.equal(await chat.answers.locator('[role=heading]').innerText(), 'Then');
    await page.locator('flash-chat').evaluate((node) => { node.lang = 'vi'; node.label = 'Hỏi'; });
    assert.equal(await chat.at('.title').innerText(), 'Hỏi');
    assert.equal(await chat.field.getAttribute('placeholder'), 'Viết câu hỏi');
    assert.equal(await chat.answers.count(), 1, 'another language, the same conversation');
  }));

test('an engine of the page, set before the script came, and moved while it answers', () =>
  chatting({ chat: '<flash-chat inline></flash-chat>', head: '<script src="early.js"></script>', files: { 'early.js': { status: 200, type: 'text/javascript', body: `
      addEventListener('DOMContentLoaded', () => {
        const pieces = ['Mine', ' own', '.'];
        document.querySelector('flash-chat').options = { seed: 4 };
        document.querySelector('flash-chat').engine = { model: 'house model', chat: { completions: { create: async (request) => {
          window.asked = request;
          return (async function* () {
            for (const content of pieces) { await new Promise((done) => setTimeout(done, 40)); yield { choices: [{ delta: { content }, finish_reason: null }] }; }
          })();
        } } } };
      });` } } }, async ({ page, chat }) => {
    await chat.ask('Who?');
    await chat.answers.filter({ hasText: 'Mine' }).waitFor();
    await page.evaluate(() => document.querySelector('main').prepend(document.querySelector('flash-chat')));
    assert.equal(await chat.answer(), 'Mine own.');
    assert.equal(await page.evaluate(() => window.asked.seed), 4);
    assert.match(await chat.at('.footer').innerText(), /house model, by this page/);
  }));

test('slots, parts and variables change the looks', () =>
  chatting({
    chat: tag('open theme="dark"', '<b slot="empty">Our own greeting</b><img slot="avatar" alt="" src="lab/icon.svg">'),
    head: '<link rel="stylesheet" href="page.css">',
    files: { 'page.css': { status: 200, type: 'text/css', body: 'flash-chat { --flash-chat-accent: rgb(180, 0, 60); --flash-chat-width: 333px; } flash-chat::part(title) { color: rgb(1, 2, 3); } flash-chat::part(link) { color: rgb(4, 5, 6); }' } },
  }, async ({ page, chat }) => {
    const style = (selector, name) => chat.at(selector).first().evaluate((node, name) => getComputedStyle(node)[name], name);
    await chat.at('.panel').waitFor();
    await page.getByText('Our own greeting').waitFor();
    assert.equal(await style('.avatar', 'backgroundColor'), 'rgb(180, 0, 60)');
    assert.equal(await style('.panel', 'width'), '333px');
    assert.equal(await style('.title', 'color'), 'rgb(1, 2, 3)');
    api.answer = () => ({ text: '[a](https://example.org)' });
    await chat.ask('Link?');
    await chat.answer();
    assert.equal(await style('.content a', 'color'), 'rgb(4, 5, 6)');
    assert.equal(await page.getByText('Our own greeting').isVisible(), false);
    const bare = await page.locator('flash-chat').evaluate((node) => [...node.shadowRoot.querySelectorAll('button, textarea, .message, .header, .panel, .log, .composer, .footer')].filter((piece) => !piece.part.length).map((piece) => piece.outerHTML.slice(0, 80)));
    assert.deepEqual(bare, [], 'every piece is a part');
  }));

test('the theme is that of the page unless it says otherwise', async () => {
  const ground = (page) => page.locator('flash-chat .panel').evaluate((node) => getComputedStyle(node).backgroundColor);
  const LIGHT = 'rgb(255, 255, 255)';
  const DARK = 'rgb(22, 25, 29)';
  const both = '<meta name="color-scheme" content="light dark">';
  for (const [head, theme, system, expected] of [['', '', 'dark', LIGHT], [both, '', 'dark', DARK], [both, '', 'light', LIGHT], [both, 'theme="light"', 'dark', LIGHT], ['', 'theme="dark"', 'light', DARK]]) {
    await chatting({ chat: tag(`open ${theme}`), head, context: { colorScheme: system } }, async ({ page }) => assert.equal(await ground(page), expected, `${head} ${theme} ${system}`));
  }
});

test('on a phone: all of the screen, text that iOS does not zoom, room for the keyboard', () =>
  chatting({ context: { viewport: { width: 375, height: 667 }, hasTouch: true, isMobile: true }, head: '' }, async ({ page, chat }) => {
    await chat.at('.launcher').tap();
    await chat.at('.log:focus').waitFor();
    const box = async () => {
      const { x, y, width, height } = await chat.at('.panel').boundingBox();
      return { x, y, width, height };
    };
    assert.deepEqual(await box(), { x: 0, y: 0, width: 375, height: 667 });
    assert.ok(parseFloat(await chat.field.evaluate((node) => getComputedStyle(node).fontSize)) >= 16);
    for (const size of await chat.at('button:visible').evaluateAll((nodes) => nodes.map((node) => node.getBoundingClientRect()).map(({ width, height }) => Math.min(width, height)))) {
      assert.ok(size >= 24, `a button of ${size} pixels`);
    }
    // What a keyboard does: the visual viewport is less high, and has moved.
    await page.evaluate(() => {
      Object.defineProperties(visualViewport, { height: { value: 380, configurable: true }, offsetTop: { value: 20, configurable: true } });
      visualViewport.dispatchEvent(new Event('resize'));
    });
    assert.deepEqual(await box(), { x: 0, y: 20, width: 375, height: 380 });
    assert.ok((await chat.at('.composer').boundingBox()).y < 400);
    await screenshot(page, 'chat-phone');
  }));

test('whoever wants no motion sees none', () =>
  chatting({ context: { reducedMotion: 'reduce' } }, async ({ chat }) => {
    await chat.open();
    api.answer = () => ({ text: 'x', wait: 600 });
    await chat.ask('Still?');
    await chat.at('.waiting').waitFor();
    assert.equal(await chat.at('.waiting i').first().evaluate((node) => getComputedStyle(node).animationName), 'none');
    await chat.answer();
  }));
