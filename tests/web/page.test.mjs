// The page loads from any static host, under a strict policy, and says what is wrong when something is.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { launch, open, screenshot } from './lib/browser.mjs';
import { ready } from './lib/page.mjs';
import { DIST } from './lib/paths.mjs';
import { NO_WASM, serve } from './lib/server.mjs';

/** @type {import('playwright-core').Browser} */
let browser;
before(async () => {
  browser = await launch();
});
after(() => browser?.close());

/** Serves with options, opens the page, waits for its engine, and hands both to `look`. */
async function visit(options, look) {
  const server = await serve(options);
  const { page, problems } = await open(browser, server.url);
  try {
    await look({ page, problems, server, ...(await ready(page)) });
  } finally {
    await page.context().close();
    await server.close();
  }
}

const { build } = JSON.parse(readFileSync(join(DIST, 'build.json'), 'utf8'));

test('the page loads under the strict policy without an error', () =>
  visit({}, async ({ page, problems, state, text }) => {
    await screenshot(page, 'page');
    assert.equal(state, 'true', text);
    assert.deepEqual(problems, []);
  }));

test('it loads from a sub-path and asks for nothing outside of it', () =>
  visit({ base: '/deep/er/' }, async ({ problems, server, state, text }) => {
    assert.equal(state, 'true', text);
    assert.deepEqual(problems, []);
    const outside = server.requests.filter((path) => !path.startsWith('/deep/er/') && path !== '/favicon.ico');
    assert.deepEqual(outside, []);
  }));

test('it loads without any header of its own', () =>
  visit({ policy: null }, async ({ problems, state, text }) => {
    assert.equal(state, 'true', text);
    assert.deepEqual(problems, []);
  }));

test('nothing in the page needs a weaker policy', () => {
  const html = readFileSync(join(DIST, 'index.html'), 'utf8');
  assert.doesNotMatch(html, /<style|\sstyle=|\son[a-z]+=|javascript:/i);
  assert.doesNotMatch(html, /<script(?![^>]*\ssrc=)/i, 'a script without src');
  assert.doesNotMatch(html, /(?:src|href)="(?:\/|https?:|data:)/i, 'an address that is not relative');
});

test('scripts of another build are refused, with both ids', () => {
  const body = readFileSync(join(DIST, 'worker.js'), 'utf8').replaceAll(build, '0123456789abcdef');
  const faults = { 'worker.js': { body } };
  return visit({ faults }, async ({ state, text }) => {
    assert.equal(state, 'failed', text);
    assert.match(text, /0123456789abcdef/);
    assert.ok(text.includes(build), text);
  });
});

test('a core of another build is refused', () => {
  const body = Buffer.from(readFileSync(join(DIST, 'flash890_bg.wasm')));
  body.write('0123456789abcdef', body.length - 16);
  return visit({ faults: { 'flash890_bg.wasm': { body } } }, async ({ state, text }) => {
    assert.equal(state, 'failed', text);
    assert.match(text, /0123456789abcdef/);
  });
});

test('HTML in place of the core is named with its address', () => {
  const faults = { 'flash890_bg.wasm': { status: 200, type: 'text/html', body: '<!doctype html><p>app</p>' } };
  return visit({ faults }, async ({ server, state, text }) => {
    assert.equal(state, 'failed', text);
    assert.ok(text.includes(`${server.url}flash890_bg.wasm`), text);
  });
});

test('a policy without leave for WebAssembly is said to be the reason', () =>
  visit({ policy: NO_WASM }, async ({ state, text }) => {
    assert.equal(state, 'failed', text);
    assert.match(text, /Content.Security.Policy|wasm-unsafe-eval/i);
  }));

test('a core that comes late is waited for', () =>
  visit({ faults: { 'flash890_bg.wasm': { delay: 1500 } } }, async ({ state, text }) => {
    assert.equal(state, 'true', text);
  }));
