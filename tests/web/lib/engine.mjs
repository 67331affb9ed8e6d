// engine.js on an empty page, and the native program beside it.
import { execFileSync } from 'node:child_process';
import { open } from './browser.mjs';
import { PROGRAM } from './paths.mjs';

// An empty page: the lab's own engine would take the processor away from the one under test.
export const EMPTY = { 'empty.html': { status: 200, type: 'text/html', body: '<!doctype html><link rel="icon" href="lab/icon.svg"><title>empty</title>' } };

/** What the native program prints as JSON. */
export const native = (...args) => JSON.parse(execFileSync(PROGRAM, args, { encoding: 'utf8', maxBuffer: 1e8, stdio: ['ignore', 'pipe', 'ignore'] }));

/** The greedy ids of the native program, with f32 caches. */
export const nativeIds = (text, count, ...more) =>
  native('generate', ...more, '--prompt', text, '--max-tokens', `${count}`, '--greedy', '--json', '--backend', 'cpu', '--numerics', 'f32', '--kv', 'f32').ids;

/** A page with an engine as `window.engine`, its events in `window.heard`. */
export async function engine(browser, server, backend, more = {}) {
  const { page, problems } = await open(browser, `${server.url}empty.html`);
  page.setDefaultTimeout(180_000);
  const info = await page.evaluate(async ({ backend, more }) => {
    const { Engine } = await import(new URL('engine.js', location.href).href);
    window.heard = [];
    window.notices = [];
    window.progress = [];
    const onprogress = (progress) => window.progress.push(progress);
    window.engine = await Engine.open({ backend, ...more, consent: () => true, onprogress, onnotice: ({ what }) => window.notices.push(what) });
    for (const name of ['lost', 'recovered', 'died']) window.engine.addEventListener(name, () => window.heard.push(name));
    return window.engine.info;
  }, { backend, more });
  return { page, problems, info };
}

/** Runs a text with f32 caches and decodes greedily. */
export const decode = (page, text, count) =>
  page.evaluate(
    async ({ text, count }) => {
      const lab = await window.engine.run({ text, kv: 'f32' });
      const steps = [];
      for (let i = 0; i < count; i += 1) steps.push(await window.engine.step({ temperature: 0 }));
      return { tokens: lab.tokens, steps };
    },
    { text, count },
  );
