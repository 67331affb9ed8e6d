// `<flash-chat>` where it is not welcome: strict policies, hostile style sheets, hostile answers, broken servers, no network, large downloads.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { after, before, test } from 'node:test';
import { launch, open, screenshot } from './lib/browser.mjs';
import { article, hands, strict, visit } from './lib/chat.mjs';
import { stub } from './lib/endpoint.mjs';
import { serve } from './lib/server.mjs';

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

let browser;
let api;
before(async () => {
  [browser, api] = await Promise.all([launch({ webgpu: false }), stub()]);
});
after(async () => {
  await browser?.close();
  await api?.close();
});

const tag = (more = '', endpoint = api.url) => `<flash-chat endpoint="${endpoint}" model="m" ${more}></flash-chat>`;
const body = (type, text) => ({ status: 200, type, body: text });

/** Opens a page, hands it to `look`, closes it. */
async function on(html, options, look) {
  const seen = await visit(browser, html, options);
  try {
    await look(seen);
  } finally {
    await seen.close();
  }
}

const COUNT_VIOLATIONS = { 'count.js': body('text/javascript', "window.violations = []; document.addEventListener('securitypolicyviolation', (event) => window.violations.push(event.violatedDirective));") };

test('under the strictest policy nothing is violated', () =>
  on(article(tag(), { head: '<script src="count.js"></script>' }), { policy: strict(api.origin), files: COUNT_VIOLATIONS }, async ({ page, chat, problems }) => {
    await chat.open();
    api.answer = () => ({ text: '| a | b |\n|:-:|--:|\n| 1 | 2 |\n\n> quote\n\n```js\nlet a;\n```' });
    await chat.ask('Everything');
    await chat.answer();
    assert.equal(await chat.at('.content td.centre').count(), 1);
    await chat.at('.footer button').click();
    assert.deepEqual(await page.evaluate(() => window.violations), []);
    assert.deepEqual(problems(), []);
  }));

test('a policy that forbids the server is named as such', () =>
  on(article(tag(), { head: '<script src="count.js"></script>' }), { policy: strict(), files: COUNT_VIOLATIONS }, async ({ page, chat }) => {
    await chat.open();
    await chat.ask('Blocked');
    await chat.at('.trouble').waitFor();
    assert.deepEqual(await page.evaluate(() => window.violations), ['connect-src']);
    assert.match(await chat.at('.trouble').innerText(), /policy of this page forbids/);
  }));

const HOSTILE = `* { all: unset !important; color: red !important; font: 3px/0 fantasy !important; display: inline !important; letter-spacing: 9px !important; }
  html, body, main, flash-chat { text-transform: uppercase !important; direction: ltr; visibility: hidden !important; opacity: 0.1 !important; transform: rotate(3deg) !important;
    filter: blur(4px) !important; overflow: hidden !important; clip-path: circle(2px) !important; pointer-events: none !important; cursor: none !important;
    -webkit-user-select: none !important; user-select: none !important; position: relative !important; z-index: -1 !important; contain: strict !important; }
  button, textarea, p, div { display: none !important; width: 0 !important; } :root { --accent: red; --ground: lime; --text: yellow; --radius: 99px; --line: red; }`;

test('a hostile style sheet changes nothing inside', async () => {
  api.answer = () => ({ text: 'Still **readable**.\n\n- one\n- two' });
  /** @type {Record<string, string>[]} */
  const looks = [];
  for (const css of ['', HOSTILE]) {
    const files = { 'theme.css': body('text/css', css) };
    await on(article(tag(), { head: '<link rel="stylesheet" href="theme.css">' }), { files, policy: strict(api.origin) }, async ({ page, chat }) => {
      await chat.open();
      await chat.ask('Can you be read?');
      await chat.answer();
      await screenshot(page, css ? 'chat-hostile' : 'chat-plain');
      const pieces = ['.panel', '.title', '.log', '.bubble', '.content', '.content li', '.composer', '.input', '.go', '.footer', '.tool'];
      looks.push(Object.fromEntries(await Promise.all(pieces.map(async (piece) => [piece, await chat.at(piece).first().evaluate((node) => {
        const { x, y, width, height } = node.getBoundingClientRect();
        const style = getComputedStyle(node);
        const names = ['color', 'backgroundColor', 'font', 'letterSpacing', 'textTransform', 'visibility', 'display', 'cursor', 'pointerEvents', 'userSelect', 'borderRadius'];
        return JSON.stringify([[x, y, width, height].map(Math.round), names.map((name) => `${name}: ${style[name]}`)]);
      })]))));
    });
  }
  assert.deepEqual(looks[1], looks[0]);
});

test('in the flow of a hostile page too', () =>
  on(article(tag('inline'), { head: '<link rel="stylesheet" href="theme.css">' }), { files: { 'theme.css': body('text/css', '* { all: unset !important; } flash-chat { opacity: 0 !important; visibility: hidden !important; display: none !important; transform: scale(0) !important; }') } }, async ({ page, chat }) => {
    const box = await chat.at('.panel').boundingBox();
    assert.ok(box.width > 600 && box.height > 500, JSON.stringify(box));
    api.answer = () => ({ text: 'Here.' });
    await chat.ask('Where?');
    assert.equal(await chat.answer(), 'Here.');
    await screenshot(page, 'chat-inline-hostile');
  }));

const ATTACKS = {
  'a script': '<script>window.hit=1</script>',
  'an image that runs': '<img src=x onerror="window.hit=1">',
  'svg': '<svg/onload=window.hit=1><animate onbegin=window.hit=1 attributeName=x dur=1s>',
  'a frame': '<iframe srcdoc="<script>parent.hit=1</script>"></iframe>',
  'a style': '<style>*{display:none}</style><link rel=stylesheet href=//example.org/x.css>',
  'a form': '<form action="https://example.org"><input name=password></form>',
  'javascript: links': '[a](javascript:window.hit=1) [b](JaVaScRiPt:window.hit=1) [c](java\tscript:window.hit=1) [d](&#106;avascript:window.hit=1) [e]( javascript:window.hit=1) [f](\\javascript:window.hit=1) <javascript:window.hit=1>',
  'other schemes': '[a](data:text/html,<script>1</script>) [b](vbscript:x) [c](file:///etc/passwd) [d](blob:https://a/b) [e](//example.org/x) [f](x.html) [g](#x) ![h](data:image/svg+xml,<svg/>)',
  'definitions': '[a]\n\n[a]: javascript:window.hit=1\n\n[b]: <data:text/html,x>\n[b]',
  'broken quotes': '[a](https://example.org/"onmouseover="window.hit=1) [b](https://example.org "\\" onclick=window.hit=1")',
  'a language of code': '```"><img src=x onerror=window.hit=1>\ncode\n```',
  'a table': '|<img src=x onerror=window.hit=1>|[x](javascript:window.hit=1)|\n|-|-|\n|<script>window.hit=1</script>|b|',
  'a link text': '[<img src=x onerror=window.hit=1>](https://example.org) [![i](https://example.org/i.png)](javascript:window.hit=1)',
  'broken Markdown': '**a *b `c [d](e ![f **| g |\n|-\n```\nnever closed <b>',
  'bytes': 'a\u0000b\u202Ec\ud800d\uFFFEe',
};

test('nothing in an answer becomes more than text, lists, tables, code and safe links', () =>
  on(article(tag('open')), { policy: null }, async ({ page, chat, problems, server }) => {
    const before = server.requests.length;
    for (const [name, text] of Object.entries(ATTACKS)) {
      // Each also as it grows, character by character.
      api.answer = () => ({ pieces: [...text], pause: 1, cut: 900 });
      await chat.ask(name);
      await chat.answer();
      const found = await chat.answers.last().locator('.content').evaluate((node) => ({
        elements: [...new Set([...node.querySelectorAll('*')].map(({ localName }) => localName))].filter((name) => !/^(p|a|br|code|pre|div|span|em|strong|del|ul|ol|li|blockquote|table|thead|tbody|tr|th|td|hr|button|svg|path)$/.test(name)),
        links: [...node.querySelectorAll('a')].filter((a) => a.hasAttribute('href')).map(({ protocol, rel, target }) => `${protocol} ${rel} ${target}`).filter((link) => !/^https?: noopener noreferrer nofollow ugc _blank$/.test(link)),
        handlers: [...node.querySelectorAll('*')].flatMap((element) => element.getAttributeNames()).filter((attribute) => /^on|^style$|^src|^srcdoc$/.test(attribute)),
      }));
      assert.deepEqual(found, { elements: [], links: [], handlers: [] }, name);
    }
    assert.equal(await page.evaluate(() => window.hit), undefined);
    assert.equal(await page.evaluate(() => getComputedStyle(document.querySelector('h1')).display), 'block');
    assert.deepEqual(server.requests.slice(before).filter((path) => !/\/(chat|i18n|lab|endpoint)\//.test(path)), [], 'nothing was fetched for an answer');
    assert.deepEqual(problems(), []);
  }));

test('huge and deep answers leave the page alive', () =>
  on(article(tag('open')), {}, async ({ page, chat }) => {
    const huge = {
      'a table': `|a|b|\n|-|-|\n${'|1|2|\n'.repeat(3_000)}`,
      'a wide table': `${'|a'.repeat(900)}|\n${'|-'.repeat(900)}|\n${`${'|1'.repeat(900)}|\n`.repeat(20)}`,
      'quotes in quotes': `${'>'.repeat(5_000)}deep`,
      'lists in lists': Array.from({ length: 200 }, (_, depth) => `${' '.repeat(2 * depth)}- x`).join('\n'),
      'marks': '*a _b '.repeat(5_000),
      'brackets': '['.repeat(20_000),
      'a long line': 'x'.repeat(300_000),
    };
    for (const [name, text] of Object.entries(huge)) {
      api.answer = () => ({ pieces: text.match(/[\s\S]{1,2000}/g) });
      await chat.ask(name);
      await chat.answer();
      assert.equal((await chat.messages()).at(-1).content, text, name);
      assert.ok((await chat.answers.last().locator('.content *').count()) < 5_000, name);
    }
    assert.match(await chat.answers.first().innerText(), /2,?801 more rows/);
    const free = await page.evaluate(async () => {
      const start = performance.now();
      await new Promise(requestAnimationFrame);
      return performance.now() - start;
    });
    assert.ok(free < 1_000, `${free} ms until the next frame`);
    await chat.at('.log').evaluate((log) => { log.scrollTop = 0; });
    assert.ok(await chat.at('.panel').evaluate((panel) => panel.scrollWidth <= panel.clientWidth), 'no answer widens the panel');
  }));

const TROUBLES = [
  { name: '401', answer: { status: 401, body: '{"error":{"message":"bad key"}}' }, en: /refuses this page access/, vi: /không cho trang này truy cập/, raw: /HTTP 401: bad key/ },
  { name: '429', answer: { status: 429, headers: { 'Retry-After': '12' }, body: '' }, en: /Try again in 12 seconds/, vi: /thử lại sau 12 giây/, raw: /HTTP 429/ },
  { name: '500', answer: { status: 500, body: 'oops' }, en: /has a fault at the moment/, vi: /đang gặp sự cố/, raw: /HTTP 500: oops/ },
  { name: 'HTML', answer: { type: 'text/html', body: '<!doctype html><h1>Welcome</h1>' }, en: /not an answer/, vi: /không phải câu trả lời/, raw: /text\/html.*Welcome/ },
  { name: 'a cut stream', answer: { pieces: ['Half', ' of'], hangUp: 'reset', cut: 400, pause: 5 }, en: /broke off in the middle/, vi: /đứt giữa chừng/, raw: /broke off/, kept: 'Half of' },
  { name: 'an error in the stream', answer: { raw: 'data: {"error":{"message":"full","code":503}}\n\n' }, en: /has a fault/, vi: /gặp sự cố/, raw: /full/ },
];

for (const lang of ['en', 'vi']) {
  test(`a server's failures are sentences with a next step, ${lang}`, () =>
    on(article(tag('open'), { lang }), { policy: strict(api.origin) }, async ({ page, chat }) => {
      await page.evaluate(() => { window.errors = []; document.addEventListener('error', (event) => window.errors.push(event.detail.kind)); });
      for (const { name, answer, raw, kept, ...said } of TROUBLES) {
        await page.locator('flash-chat').evaluate((node) => node.reset());
        api.answer = () => answer;
        await chat.ask(name);
        const box = chat.answers.locator('.trouble');
        await box.waitFor();
        assert.match(await box.innerText(), said[lang], name);
        assert.equal(await chat.state(), 'error');
        if (kept) assert.equal(await chat.answers.locator('.content').innerText(), kept, name);
        await box.locator('summary').click();
        assert.match(await box.locator('details').innerText(), raw, name);
        api.answer = () => ({ text: 'Fine now.' });
        await box.getByRole('button').click();
        await chat.answers.filter({ hasText: 'Fine now.' }).waitFor();
        assert.equal(await chat.answer(), 'Fine now.', name);
        assert.equal(await chat.state(), 'ready');
      }
      assert.deepEqual(await page.evaluate(() => window.errors), ['auth', 'rate', 'server', 'endpoint', 'endpoint', 'server']);
    }));
}

test('offline says so, and works again when there is a network', () =>
  on(article(tag('open')), {}, async ({ page, chat }) => {
    api.answer = () => ({ text: 'Back.' });
    await page.waitForFunction(() => document.querySelector('flash-chat').state === 'ready');
    await chat.field.waitFor();
    await page.context().setOffline(true);
    await chat.ask('Anyone?');
    await chat.at('.trouble', { hasText: 'You are offline.' }).waitFor();
    await screenshot(page, 'chat-offline');
    await page.context().setOffline(false);
    await chat.at('.trouble').getByRole('button').click();
    await chat.answers.filter({ hasText: 'Back.' }).waitFor();
  }));

test('two chats on one page know nothing of each other', async () => {
  const other = await stub(() => ({ text: 'From B.', pause: 10 }));
  api.answer = () => ({ text: 'From A.', pause: 10 });
  try {
    await on(article(`${tag('id="a" inline lang="en"')}${tag('id="b" inline lang="vi" theme="dark"', other.url)}`), {}, async ({ page, problems }) => {
      const [a, b] = [hands(page, '#a'), hands(page, '#b')];
      await a.ask('A?');
      await b.ask('B?');
      assert.deepEqual([await a.answer(), await b.answer()], ['From A.', 'From B.']);
      await page.locator('#a').evaluate((node) => node.reset());
      assert.deepEqual([(await a.messages()).length, (await b.messages()).length], [0, 2]);
      assert.deepEqual([await a.field.getAttribute('placeholder'), await b.field.getAttribute('placeholder')], ['Write a question', 'Viết câu hỏi']);
      assert.deepEqual(problems(), []);
      await screenshot(page, 'chat-two');
    });
  } finally {
    await other.close();
  }
});

/** An engine that needs no weights. */
const ENGINE = `export class Engine {
  static async open({ model, onprogress, worker, consent }) {
    if (model.endsWith('/big/') && !(await consent({ fetch: 510e9 }))) throw Object.assign(new Error('not agreed to'), { kind: 'consent' });
    window.opened = [...(window.opened ?? []), model];
    for (const done of [3e6, 6e6]) { onprogress({ stage: 'weights', done, total: 11.7e6 }); await new Promise((next) => setTimeout(next, 30)); }
    // As long as a test wants to look at it.
    while (window.hold) await new Promise((next) => setTimeout(next, 30));
    onprogress({ stage: 'weights', done: 11.7e6, total: 11.7e6 });
    window.worker = worker;
    return new Engine();
  }
  info = { sentence: { vi: 'Chạy thử.', en: 'A trial.' } };
  chat = { completions: { create: async () => (async function* () { window.busy = (window.busy ?? 0) + 1; window.most = Math.max(window.most ?? 0, window.busy); for (const content of ['On', ' your', ' device.']) { await new Promise((next) => setTimeout(next, 30)); yield { choices: [{ index: 0, delta: { content }, finish_reason: null }] }; } window.busy -= 1; })() } };
  close() { window.ended = (window.ended ?? 0) + 1; }
}`;
const LOCAL = { 'engine.js': body('text/javascript', ENGINE) };

test('a small model loads when the chat is opened, not before, and says where it runs', () =>
  on(article('<flash-chat></flash-chat>'), { files: LOCAL }, async ({ page, chat, server }) => {
    await page.waitForTimeout(200);
    assert.deepEqual(server.requests.filter((path) => /nano|engine|vendor|markdown/.test(path)), []);
    await page.evaluate(() => { window.hold = true; });
    await chat.open();
    await chat.at('.notice').filter({ hasText: '6 MB of 11.7 MB' }).waitFor();
    assert.equal(await chat.at('[role=progressbar]').getAttribute('aria-valuenow'), '51');
    await screenshot(page, 'chat-loading');
    await page.evaluate(() => { window.hold = false; });
    await page.waitForFunction(() => document.querySelector('flash-chat').state === 'ready');
    assert.equal(await chat.at('.notice').isVisible(), false);
    assert.match(await chat.at('.footer').innerText(), /nano, on your device/);
    assert.equal(await chat.at('.suggestion').count(), 3);
    await chat.at('.suggestion').first().click();
    assert.equal(await chat.answer(), 'On your device.');
    await chat.at('.footer button').click();
    assert.match(await chat.at('.about').innerText(), /does not leave your device[\s\S]*A trial\./);
    assert.equal(await page.evaluate(() => window.opened[0]), `${server.url}nano/`);
  }));

test('more than 20 MB wait for a click that names them, whatever the page wants', () =>
  on(article('<flash-chat model="big/" auto-load></flash-chat>'), { files: LOCAL }, async ({ page, chat }) => {
    await page.waitForFunction(() => document.querySelector('flash-chat').state === 'consent');
    await chat.open();
    await chat.at('.notice', { hasText: '510 GB' }).waitFor();
    await screenshot(page, 'chat-consent');
    assert.equal(await page.evaluate(() => window.opened), undefined);
    await chat.ask('Waiting?');
    await chat.at('.waiting').waitFor();
    await chat.at('.notice').getByRole('button', { name: 'Not now' }).click();
    await chat.answer();
    assert.equal(await chat.answers.count(), 0);
    assert.equal(await chat.state(), 'idle');
    await chat.at('.notice').getByRole('button', { name: 'Load it' }).click();
    await chat.ask('Now?');
    await chat.at('.notice').getByRole('button', { name: 'Download 510 GB' }).click();
    await chat.answers.filter({ hasText: 'On your device.' }).waitFor();
  }));

test('auto-load loads a small model with the page', () =>
  on(article('<flash-chat auto-load model="nano/"></flash-chat>'), { files: LOCAL }, ({ page }) => page.waitForFunction(() => document.querySelector('flash-chat').state === 'ready')));

test('two chats with one model share one engine and take turns; the last to go closes it', () =>
  on(article('<flash-chat id="a" inline></flash-chat><flash-chat id="b" inline></flash-chat>'), { files: LOCAL }, async ({ page }) => {
    const [a, b] = [hands(page, '#a'), hands(page, '#b')];
    await a.ask('A?');
    await b.ask('B?');
    assert.deepEqual([await a.answer(), await b.answer()], ['On your device.', 'On your device.']);
    assert.deepEqual(await page.evaluate(() => [window.opened.length, window.most]), [1, 1]);
    await page.evaluate(() => document.getElementById('a').remove());
    assert.equal(await page.evaluate(() => window.ended), undefined);
    await page.evaluate(() => document.getElementById('b').remove());
    await page.waitForFunction(() => window.ended === 1);
  }));

test('an engine that cannot be opened says why and tries again', () => {
  const files = { ...LOCAL, 'engine.js': body('text/javascript', "let tries = 0; export class Engine { static async open() { tries += 1; if (tries === 1) throw Object.assign(new Error('2.1 GB needed, 1.0 GB free'), { kind: 'does-not-fit' }); return { chat: { completions: { create: async () => (async function* () { yield { choices: [{ delta: { content: 'Fits.' }, finish_reason: 'stop' }] }; })() } } }; } }") };
  return on(article('<flash-chat open></flash-chat>'), { files }, async ({ chat }) => {
    await chat.at('.notice', { hasText: 'needs more memory than this device has free' }).waitFor();
    await chat.at('.notice').getByRole('button', { name: 'Try again' }).click();
    await chat.ask('And now?');
    await chat.answers.filter({ hasText: 'Fits.' }).waitFor();
  });
});

test('from another host: the scripts, the model and the worker', async () => {
  const cdn = await serve({ policy: null, headers: { 'Access-Control-Allow-Origin': '*' }, faults: { ...LOCAL, 'worker.js': body('text/javascript', "postMessage(import.meta.url)") } });
  const host = await serve({ policy: null, faults: { 'host.html': body('text/html', `<!doctype html><html lang="en"><title>Host</title><link rel="icon" href="lab/icon.svg"><script type="module" src="${cdn.url}flash-chat.js"></script><flash-chat open></flash-chat></html>`) } });
  const { page, problems } = await open(browser, `${host.url}host.html`);
  try {
    const chat = hands(page);
    await chat.ask('From afar?');
    await chat.answers.filter({ hasText: 'On your device.' }).waitFor();
    assert.equal(await page.evaluate(() => window.opened[0]), `${cdn.url}nano/`);
    assert.equal(await page.evaluate(() => new Promise((done) => { window.worker().onmessage = ({ data }) => done(data); })), `${cdn.url}worker.js`);
    assert.deepEqual(problems, []);
  } finally {
    await page.context().close();
    await Promise.all([cdn.close(), host.close()]);
  }
});

test('axe finds nothing, in any state, in either theme', async () => {
  for (const [theme, lang] of [['light', 'en'], ['dark', 'vi']]) {
    await on(article(tag(`theme="${theme}"`), { lang }), {}, async ({ page, chat }) => {
      await page.evaluate(AXE);
      const clean = async (state) => {
        const found = await page.evaluate(async () => (await window.axe.run(document, { resultTypes: ['violations'] })).violations.map(({ id, nodes }) => `${id}: ${nodes.slice(0, 3).map(({ html }) => html.slice(0, 160)).join(' | ')}`));
        assert.deepEqual(found, [], `${theme}, ${state}`);
      };
      await clean('closed');
      await chat.open();
      await clean('open');
      api.answer = () => ({ text: '# Head\n\n#### Small\n\nA [link](https://example.org), `code`, **bold**.\n\n- [x] done\n- [ ] open\n\n| a | b |\n|-|-|\n| 1 | 2 |\n\n```js\nlet a;\n```\n\n> quote', wait: 900 });
      await chat.ask('All of it');
      await chat.at('.waiting').waitFor();
      await clean('waiting');
      await chat.answer();
      await clean('answered');
      await chat.at('.footer button').click();
      await clean('about');
      await page.keyboard.press('Escape');
      await chat.questions.last().hover();
      await chat.questions.last().getByRole('button').first().click();
      await clean('editing');
      await page.keyboard.press('Escape');
      api.answer = () => ({ status: 500, body: 'x' });
      await chat.ask('Fail');
      await chat.at('.trouble').waitFor();
      await clean('failed');
    });
  }
  await on(article('<flash-chat model="big/" open theme="dark"></flash-chat>'), { files: LOCAL }, async ({ page, chat }) => {
    await chat.at('.notice').waitFor();
    await page.evaluate(AXE);
    assert.deepEqual(await page.evaluate(async () => (await window.axe.run(document)).violations.map(({ id }) => id)), []);
  });
});

test('the demo pages, under the policy of the lab, and as axe sees them', async () => {
  const server = await serve();
  try {
    for (const name of ['index', 'plain', 'theme']) {
      const { page, problems } = await open(browser, `${server.url}embed/${name}.html`);
      await page.locator('.launcher, .facade').first().waitFor();
      await page.evaluate(AXE);
      const found = await page.evaluate(async () => (await window.axe.run(document)).violations.map(({ id, nodes }) => `${id}: ${nodes[0].html.slice(0, 120)}`));
      // The theme is bad on purpose; of its page only the chat counts.
      assert.deepEqual(name === 'theme' ? found.filter((line) => line.includes('launcher')) : found, [], name);
      assert.deepEqual(problems, [], name);
      await page.context().close();
    }
  } finally {
    await server.close();
  }
});

test('the form of the demo page moves the chat to another server', async () => {
  const server = await serve({ policy: null });
  const { page } = await open(browser, `${server.url}embed/index.html`);
  try {
    api.answer = () => ({ text: 'Chào.' });
    await page.getByLabel('Address').fill(api.url);
    await page.getByLabel('Language').selectOption('vi');
    await page.getByRole('button', { name: 'Use it' }).click();
    const chat = hands(page);
    await chat.ask('Ở đâu?');
    assert.equal(await chat.answer(), 'Chào.');
    assert.match(await chat.at('.footer').innerText(), /stub-1, tại 127/);
  } finally {
    await page.context().close();
    await server.close();
  }
});

test('what the page loads before the first click is at most 60 KB, and can be clicked within a second', async () => {
  const seen = await visit(browser, article('<flash-chat></flash-chat>'), { files: LOCAL });
  try {
    const { page, chat, server } = seen;
    const files = server.requests.filter((path) => path.endsWith('.js') || path.endsWith('.css'));
    const bytes = await page.evaluate(() => performance.getEntriesByType('resource').filter(({ name }) => /\.(js|css)$/.test(name)).reduce((sum, { decodedBodySize }) => sum + decodedBodySize, 0));
    assert.ok(files.length > 5 && bytes > 10_000 && bytes <= 60_000, `${bytes} bytes in ${files.length} files`);
    // Timed by the page itself. The first visit also starts the browser, and a machine may have something else to do: the best of some.
    await page.addInitScript(() => {
      window.timed = (async () => {
        await customElements.whenDefined('flash-chat');
        const { shadowRoot } = document.querySelector('flash-chat');
        const there = performance.now();
        shadowRoot.querySelector('.launcher').click();
        while (!shadowRoot.querySelector('.panel .input')?.checkVisibility()) await new Promise((next) => setTimeout(next));
        return { there, opening: performance.now() - there };
      })();
    });
    const times = [];
    for (let visit = 0; visit < 5 && !times.some(({ there, opening }) => there < 1_000 && opening < 1_000); visit += 1) {
      await page.reload();
      times.push(await page.evaluate(() => window.timed));
    }
    const best = times.at(-1);
    assert.ok(best.there < 1_000 && best.opening < 1_000, JSON.stringify(times));
  } finally {
    await seen.close();
  }
});
