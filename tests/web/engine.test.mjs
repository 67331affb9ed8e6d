// engine.js against the native program on text of its own, on the processor and on the GPU.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { after, before, test } from 'node:test';
import { launch, open } from './lib/browser.mjs';
import { PROGRAM } from './lib/paths.mjs';
import { serve } from './lib/server.mjs';

const TEXT = 'Tám trăm chín mươi byte';
const SHORT = 'Chào';
// An empty page: the lab's own engine would take the processor away from the one under test.
const EMPTY = { 'empty.html': { status: 200, type: 'text/html', body: '<!doctype html><title>empty</title>' } };

let browser;
let server;
before(async () => {
  [browser, server] = await Promise.all([launch(), serve({ faults: EMPTY })]);
});
after(async () => {
  await browser?.close();
  await server?.close();
});

/** What the native program prints as JSON. */
const native = (...args) => JSON.parse(execFileSync(PROGRAM, args, { encoding: 'utf8', maxBuffer: 1e8, stdio: ['ignore', 'pipe', 'ignore'] }));

/** The greedy ids of the native program, with f32 caches. */
const nativeIds = (text, count) =>
  native('generate', '--prompt', text, '--max-tokens', `${count}`, '--greedy', '--json', '--backend', 'cpu', '--numerics', 'f32', '--kv', 'f32').ids;

/** A page with an engine as `window.engine`, its events in `window.heard`. */
async function engine(backend) {
  const { page, problems } = await open(browser, `${server.url}empty.html`);
  page.setDefaultTimeout(180_000);
  const info = await page.evaluate(async (backend) => {
    const { Engine } = await import(new URL('engine.js', location.href).href);
    window.engine = await Engine.open({ backend });
    window.heard = [];
    for (const name of ['lost', 'recovered', 'died']) window.engine.addEventListener(name, () => window.heard.push(name));
    return window.engine.info;
  }, backend);
  return { page, problems, info };
}

/** Runs a text with f32 caches and decodes greedily. */
const decode = (page, text, count) =>
  page.evaluate(
    async ({ text, count }) => {
      const lab = await window.engine.run({ text, kv: 'f32' });
      const steps = [];
      for (let i = 0; i < count; i += 1) steps.push(await window.engine.step({ temperature: 0 }));
      return { tokens: lab.tokens, steps };
    },
    { text, count },
  );

/** Where two values differ: numbers by more than four digits, anything else at all. */
function differences(a, b, path = '') {
  if (typeof a === 'number' && typeof b === 'number') return Math.abs(a - b) <= 1e-4 * Math.max(Math.abs(a), Math.abs(b), 1e-3) ? [] : [`${path}: ${a} and ${b}`];
  if (typeof a !== 'object' || typeof b !== 'object' || !a || !b) return a === b ? [] : [`${path}: ${a} and ${b}`];
  return [...new Set([...Object.keys(a), ...Object.keys(b)])].flatMap((key) => differences(a[key], b[key], `${path}/${key}`));
}

test('with f32 caches the page on the processor decodes the tokens of the native program', async () => {
  const { page, problems, info } = await engine('cpu');
  assert.equal(info.backend, 'cpu');
  const { tokens, steps } = await decode(page, TEXT, 6);
  assert.deepEqual(steps.map(({ id }) => id), nativeIds(TEXT, 6));
  assert.deepEqual(steps.map(({ position }) => position), [0, 1, 2, 3, 4, 5].map((i) => tokens.length + i));
  assert.deepEqual(problems, []);
  await page.context().close();
});

test('with the released caches every table is that of the native lab', async () => {
  const { page } = await engine('cpu');
  const lab = await page.evaluate((text) => window.engine.run({ text, kv: 'released' }), TEXT);
  const expected = native('lab', '--json', '--no-image', '--text', TEXT);
  assert.deepEqual(lab.tokens, expected.tokens);
  assert.deepEqual([lab.followed, lab.layer, lab.failed], [expected.followed, expected.layer, 0]);
  assert.equal(lab.chapters.length, 10);
  let numbers = 0;
  for (const [index, { code, tables }] of lab.chapters.entries()) {
    assert.deepEqual(differences(tables, expected.chapters[index].tables), [], `tables of ${code}`);
    numbers += tables.flatMap((table) => table.rows.flat()).filter((cell) => typeof cell === 'number').length;
  }
  assert.ok(numbers > 500, `${numbers} numbers compared`);
  await page.context().close();
});

test('calls that cannot be answered are refused with their kind', async () => {
  const { page } = await engine('cpu');
  const kinds = await page.evaluate(async () => {
    const { engine } = window;
    const refused = (call) => call.then(() => 'answered', (error) => error.kind);
    const early = await refused(engine.step());
    await engine.run({ text: 'a' });
    return [early, ...(await Promise.all([
      refused(engine.run({ text: 'x'.repeat(100_000) })),
      refused(engine.run({ text: 'a', token: 99 })),
      refused(engine.run({ text: 'a', picture: { bytes: new TextEncoder().encode('no picture').buffer, name: 'a' } })),
      refused(engine.tensor({ tap: 'none', layer: 0 })),
      refused(engine.report({ layer: 40 })),
    ]))];
  });
  assert.deepEqual(kinds, ['usage', 'prompt', 'usage', 'picture', 'usage', 'usage']);
  await page.context().close();
});

test('on the GPU: every tap within its limit of the reference, the native tokens, and a lost device comes back', async () => {
  const { page, problems, info } = await engine('gpu');
  assert.equal(info.backend, 'gpu', info.reason.en);
  const { steps } = await decode(page, SHORT, 2);
  assert.deepEqual(steps.map(({ id }) => id), nativeIds(SHORT, 2));
  const { rows } = await page.evaluate(() => window.engine.parity());
  assert.ok(rows.length > 300, `${rows.length} rows`);
  assert.deepEqual(rows.filter(({ passed }) => !passed), []);

  const next = await page.evaluate(async () => {
    await window.engine.loseDevice();
    return window.engine.step({ temperature: 0 });
  });
  assert.equal(next.id, nativeIds(SHORT, 3)[2]);
  assert.deepEqual(await page.evaluate(() => window.heard), ['lost', 'recovered']);
  assert.deepEqual(problems, []);
  await page.context().close();
});

test('a worker that is ended lets every call settle, and the next call starts another', async () => {
  const { page } = await open(browser, `${server.url}empty.html`);
  const found = await page.evaluate(async () => {
    const { Engine } = await import(new URL('engine.js', location.href).href);
    const workers = [];
    const worker = () => {
      workers.push(new Worker(new URL('worker.js', location.href), { type: 'module' }));
      return workers.at(-1);
    };
    const engine = await Engine.open({ backend: 'cpu', worker });
    const first = await engine.run({ text: 'a' });
    const waiting = [engine.report({ layer: 1 }), engine.step(), engine.taps()].map((call) => call.then(() => 'answered', (error) => error.kind));
    workers[0].terminate();
    const kinds = await Promise.all(waiting);
    const second = await engine.report({ layer: 1 });
    engine.close();
    const closed = await engine.step().then(() => 'answered', (error) => error.kind);
    return { kinds, closed, workers: workers.length, same: JSON.stringify(first.tokens) === JSON.stringify(second.tokens), layer: second.layer };
  });
  assert.deepEqual(found, { kinds: ['worker', 'worker', 'worker'], closed: 'worker', workers: 2, same: true, layer: 1 });
  await page.context().close();
});
