// A conversation as a file, between a tab and the native program; and drafts, which change no token.
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { launch } from './lib/browser.mjs';
import { EMPTY, engine, native } from './lib/engine.mjs';
import { serve } from './lib/server.mjs';
import { idsOf } from './lib/snapshot.mjs';

const QUESTION = '890 byte được cộng thế nào?';
let browser;
let server;
let folder;
before(async () => {
  folder = mkdtempSync(join(tmpdir(), 'flash890-session-'));
  [browser, server] = await Promise.all([launch(), serve({ faults: EMPTY })]);
});
after(async () => {
  await browser?.close();
  await server?.close();
  rmSync(folder, { recursive: true, force: true });
});

/** A page with nano in `window.engine`, and calls on its session. */
async function nano(backend) {
  const { page, problems } = await engine(browser, server, backend, { model: './nano/', keep: false });
  const of = (bytes) => (bytes ? [...bytes] : null);
  return {
    page,
    problems,
    ask: (request) => page.evaluate((request) => window.engine.chat.completions.create(request), request),
    save: async (how = {}) => Uint8Array.from(await page.evaluate(async (how) => [...(await window.engine.chat.save(how))], how)),
    /** What was loaded, or why not. */
    load: (bytes) =>
      page.evaluate(
        (bytes) => window.engine.chat.load(new Uint8Array(bytes)).then(null, ({ name, kind, message }) => `${name} ${kind} ${message}`),
        of(bytes),
      ),
  };
}

/** The native program with nano on the processor. */
const generate = (...args) => native('generate', '--chat', '--backend', 'cpu', '--greedy', '--json', ...args);

const question = (content, more = {}) => ({ messages: [{ role: 'user', content }], ...more });

test('what a tab has saved goes on natively, with the same tokens and without reading anything again', async () => {
  const { page, ask, save, problems } = await nano('cpu');
  const first = await ask(question(QUESTION, { max_tokens: 7 }));
  assert.equal(first.choices[0].finish_reason, 'length');
  const forms = { full: await save(), compact: await save({ compact: true }) };
  assert.ok(forms.compact.length < forms.full.length);
  const on = await ask({ continue: true, max_tokens: 12 });
  const { usage } = on;
  assert.deepEqual([usage.completion_tokens, usage.prompt_tokens_details.cached_tokens], [12, usage.prompt_tokens]);
  const ids = idsOf(await save());
  for (const [form, bytes] of Object.entries(forms)) {
    const file = join(folder, form);
    writeFileSync(file, bytes);
    const found = generate('--load', file, '--max-tokens', '12');
    assert.deepEqual([...idsOf(bytes), ...found.ids], ids, form);
    assert.equal(found.text, on.choices[0].message.content, form);
    // The compact form has its last token run once more, for logits or for rings; no prompt is read.
    assert.deepEqual([found.usage.prompt_tokens, found.usage.reused_tokens], [0, idsOf(bytes).length - 1], form);
  }
  assert.deepEqual(problems, []);
  await page.context().close();
});

test('what the native program has saved goes on in a tab', async () => {
  const { page, ask, save, load, problems } = await nano('cpu');
  for (const form of [[], ['--save-compact']]) {
    const file = join(folder, 'native');
    const begun = generate('--prompt', QUESTION, '--max-tokens', '7', '--save', file, ...form);
    const expected = generate('--load', file, '--max-tokens', '12');
    const bytes = readFileSync(file);
    const ids = idsOf(bytes);
    assert.deepEqual(ids.slice(-7), begun.ids);
    assert.deepEqual(await load(bytes), { tokens: ids.length - 1 });
    const on = await ask({ continue: true, max_tokens: 12 });
    assert.deepEqual(idsOf(await save()), [...ids, ...expected.ids]);
    assert.equal(on.choices[0].message.content, expected.text);
    assert.deepEqual([on.usage.prompt_tokens, on.usage.prompt_tokens_details.cached_tokens], [ids.length - 1, ids.length - 1]);

    // As a conversation, too: a request that begins like it reads the rest alone.
    await load(bytes);
    const again = await ask(question(QUESTION, { max_tokens: 19 }));
    assert.equal(again.choices[0].message.content, begun.text + expected.text);
    assert.equal(again.usage.prompt_tokens_details.cached_tokens, again.usage.prompt_tokens - 1);
  }
  assert.deepEqual(problems, []);
  await page.context().close();
});

test('damaged and foreign files are refused with the reason, and the session goes on', async () => {
  const { page, ask, save, load } = await nano('cpu');
  const early = await page.evaluate(() => window.engine.chat.save().then(null, ({ kind, message }) => `${kind} ${message}`));
  assert.equal(early, 'usage nothing was asked yet');
  await ask(question(QUESTION, { max_tokens: 7 }));
  const bytes = await save();
  const with_ = (change) => change(Uint8Array.from(bytes));
  const foreign = join(folder, 'foreign');
  native('generate', '--prompt', 'a', '--max-tokens', '1', '--save', foreign, '--json', '--backend', 'cpu');
  const wrong = [
    [with_((copy) => ((copy[copy.length >> 1] ^= 4), copy)), 'integrity integrity: snapshot: its checksum is not that of its bytes'],
    [bytes.slice(0, -1), `integrity integrity: snapshot: ${bytes.length - 1} bytes; it says that it has ${bytes.length}`],
    [bytes.slice(0, 15), 'integrity integrity: snapshot: 8 bytes needed, 3 left'],
    [[], 'integrity integrity: snapshot: does not begin as one'],
    [with_((copy) => ((copy[8] = 9), copy)), 'integrity integrity: snapshot: version 9; this program reads version 1'],
    [readFileSync(foreign), 'usage the snapshot is of a model with another config'],
  ];
  for (const [file, reason] of wrong) assert.equal(await load(file), `EngineError ${reason}`);
  assert.deepEqual(await save(), bytes, 'nothing has changed');
  const on = await ask({ continue: true, max_tokens: 3 });
  assert.equal(on.usage.completion_tokens, 3);

  // A file as a page has it; and while an answer is on its way, both wait for its end.
  const found = await page.evaluate(async ([bytes, request]) => {
    const chunks = await window.engine.chat.completions.create({ ...request, stream: true });
    const [saved, loaded] = await Promise.all([window.engine.chat.save(), window.engine.chat.load(new File([new Uint8Array(bytes)], 'talk'))]);
    let text = '';
    for await (const { choices } of chunks) text += choices[0].delta.content ?? '';
    return { saved: [...saved], loaded, text, refused: await window.engine.chat.completions.create({ ...request, continue: true }).then(null, ({ kind, message }) => `${kind} ${message}`) };
  }, [[...bytes], question(QUESTION, { max_tokens: 5 })]);
  assert.deepEqual(found.loaded, { tokens: idsOf(bytes).length - 1 });
  assert.deepEqual(idsOf(Uint8Array.from(found.saved)), idsOf(bytes).slice(0, -2));
  assert.ok(found.text.length > 0);
  assert.equal(found.refused, 'usage continue: needed no messages beside it');
  assert.deepEqual(await save(), bytes);
  await page.context().close();
});

/** Answers with drafts and without: ids and the whole state, in bytes, are compared in the page. */
const bothWays = (page, prompts, max_tokens) =>
  page.evaluate(async ({ prompts, max_tokens }) => {
    const { completions, save } = window.engine.chat;
    const counts = { drafted: 0, accepted: 0, tokens: 0, undrafted: 0, different: [] };
    for (const content of prompts) {
      const request = { messages: [{ role: 'user', content }], max_tokens };
      const drafted = await completions.create(request);
      const first = await save();
      const single = await completions.create({ ...request, dspark: false });
      const second = await save();
      counts.drafted += drafted.usage.flash890.drafted;
      counts.accepted += drafted.usage.flash890.accepted;
      counts.undrafted += single.usage.flash890.drafted;
      counts.tokens += single.usage.completion_tokens;
      const isSame = first.length === second.length && first.every((byte, at) => byte === second[at]);
      if (!isSame || drafted.choices[0].message.content !== single.choices[0].message.content) counts.different.push(content);
    }
    return counts;
  }, { prompts, max_tokens });

const PROMPTS = [
  'a', 'Xin chào', '890 byte?', 'What is a token?', 'Token là gì?', 'Engram', 'How many experts?', 'Bao nhiêu chuyên gia?',
  'What does DSpark do?', 'DSpark làm gì?', 'mHC', 'Why FP4?', 'Vì sao là FP4?', 'The indexer', 'Indexer chọn gì?', 'A window of 128',
  'Cửa sổ trượt', 'Which layers write KV?', 'Lớp nào ghi KV?', 'x = 1', '🦀', 'Decoder', 'Encoder đọc gì?', 'One million tokens',
];

test('drafts change no token and no byte of the state: 24 prompts on the processor', async () => {
  const { page } = await nano('cpu');
  const found = await bothWays(page, PROMPTS, 10);
  assert.deepEqual([found.different, found.undrafted], [[], 0]);
  assert.ok(found.accepted > 24 && found.drafted >= found.accepted && found.tokens > 120, JSON.stringify(found));
  await page.context().close();
});

test('drafts change no token and no byte of the state on the GPU, and a session comes back there', async () => {
  const { page, save, load } = await nano('gpu');
  const found = await bothWays(page, PROMPTS.slice(2, 4), 5);
  assert.deepEqual([found.different, found.undrafted], [[], 0]);
  assert.ok(found.drafted > 0, JSON.stringify(found));
  const bytes = await save();
  assert.deepEqual(await load(bytes), { tokens: idsOf(bytes).length - 1 });
  assert.deepEqual(await save(), bytes);
  await page.context().close();
});
