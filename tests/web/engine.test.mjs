// engine.js against the native program on text of its own, on the processor.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { launch, open } from './lib/browser.mjs';
import { EMPTY, decode, engine, native, nativeIds } from './lib/engine.mjs';
import { CODES } from './lib/page.mjs';
import { serve } from './lib/server.mjs';

const TEXT = 'Tám trăm chín mươi byte';
let browser;
let server;
before(async () => {
  [browser, server] = await Promise.all([launch(), serve({ faults: EMPTY })]);
});
after(async () => {
  await browser?.close();
  await server?.close();
});

/** The numbers in the tables of a chapter. */
const numbersOf = ({ tables }) => tables.flatMap(({ rows }) => rows.flat()).filter((cell) => typeof cell === 'number');

/** Everything about the tables of a chapter except their numbers. */
const texts = ({ tables }) => JSON.parse(JSON.stringify(tables, (_, value) => (typeof value === 'number' ? 0 : value)));

/** Squared error over squared signal. */
function nmse(found, expected) {
  const square = (values) => values.reduce((sum, value) => sum + value * value, 0);
  return square(expected.map((value, i) => value - found[i])) / Math.max(square(expected), 1e-30);
}

test('with f32 caches the page on the processor decodes the tokens of the native program', async () => {
  const { page, problems, info } = await engine(browser, server, 'cpu');
  assert.equal(info.backend, 'cpu');
  const { tokens, steps } = await decode(page, TEXT, 6);
  assert.deepEqual(steps.map(({ id }) => id), nativeIds(TEXT, 6));
  assert.deepEqual(steps.map(({ position }) => position), [0, 1, 2, 3, 4, 5].map((i) => tokens.length + i));
  assert.deepEqual(problems, []);
  await page.context().close();
});

// Caches of four bits round: a last digit that differs (the native program has other vector instructions) can put a value on the next step of the
// grid, and that grows from layer to layer. So the blocks of a layer before the first such cache are compared digit by digit, texts too; of a deep
// layer the four streams as a whole.
for (const [layer, codes, limit] of [[1, ['1A', '1B', '2A', '3A', '4A', '5A'], 1e-12], [20, ['1A', '2A', '3A'], 1e-5]]) {
  test(`with the released caches the tables of layer ${layer} are those of the native lab`, async () => {
    const { page } = await engine(browser, server, 'cpu');
    const lab = await page.evaluate((request) => window.engine.run(request), { text: TEXT, layer, kv: 'released' });
    const expected = native('lab', '--json', '--no-image', '--text', TEXT, '--layer', `${layer}`);
    assert.deepEqual(lab.tokens, expected.tokens);
    assert.deepEqual([lab.followed, lab.layer, lab.failed], [expected.followed, layer, 0]);
    assert.deepEqual(lab.chapters.map(({ code }) => code), CODES);
    for (const code of codes) {
      const [found, wanted] = [lab, expected].map(({ chapters }) => chapters.find((chapter) => chapter.code === code));
      assert.deepEqual(texts(found), texts(wanted));
      const [numbers, native] = [found, wanted].map(numbersOf);
      const error = nmse(numbers, native);
      assert.ok(numbers.length > 0 && error <= limit, `${code}: NMSE ${error} of ${numbers.length} numbers`);
    }
    await page.context().close();
  });
}

test('calls that cannot be answered are refused with their kind', async () => {
  const { page } = await engine(browser, server, 'cpu');
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
