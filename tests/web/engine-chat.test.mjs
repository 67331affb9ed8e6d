// engine.chat: nano in the page, on the processor.
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { after, before, test } from 'node:test';
import { launch, open } from './lib/browser.mjs';
import { EMPTY, native } from './lib/engine.mjs';
import { fromRoot } from './lib/paths.mjs';
import { serve } from './lib/server.mjs';

const { cases } = JSON.parse(await readFile(fromRoot('tests/conformance/chat.json'), 'utf8'));
let browser;
let server;
before(async () => {
  [browser, server] = await Promise.all([launch(), serve({ faults: EMPTY })]);
});
after(async () => {
  await browser?.close();
  await server?.close();
});

/** A page with nano in `window.engine`, and what it heard of loading. */
async function nano(options = {}) {
  const { page, problems } = await open(browser, `${server.url}empty.html`);
  page.setDefaultTimeout(180_000);
  const heard = await page.evaluate(async (options) => {
    const { Engine } = await import(new URL('engine.js', location.href).href);
    const heard = [];
    window.engine = await Engine.open({ model: './nano/', backend: 'cpu', onprogress: (progress) => heard.push(progress), ...options });
    /** All chunks of an answer; `at` is called with each. */
    window.chunks = async (request, at = () => {}) => {
      const chunks = [];
      for await (const chunk of await window.engine.chat.completions.create({ ...request, stream: true })) {
        chunks.push(chunk);
        at(chunk, chunks.length);
      }
      return chunks;
    };
    window.textOf = (chunks) => chunks.map(({ choices }) => choices[0].delta.content ?? '').join('');
    return heard;
  }, options);
  return { page, problems, heard };
}

const ask = (content, more = {}) => ({ messages: [{ role: 'user', content }], ...more });
const LONG = ask('890 byte được cộng thế nào?', { max_tokens: 40 });

test('importing the client needs no browser', async () => {
  const { Engine, EngineError } = await import('../../web/engine.js');
  assert.equal(typeof Engine.open, 'function');
  assert.equal(new EngineError('usage', 'a').kind, 'usage');
});

test('the page gives the recorded answers', async () => {
  const { page, problems, heard } = await nano();
  const bytes = heard.filter(({ stage }) => stage === 'bytes');
  assert.ok(bytes.length > 1 && bytes.at(-1).total > 1e7, JSON.stringify(bytes));
  assert.ok(bytes.every(({ done, total }, i) => total === bytes[0].total && (i === 0 || done > bytes[i - 1].done)), JSON.stringify(bytes));
  assert.equal(bytes.at(-1).done, bytes.at(-1).total);
  for (const { name, request, answer } of cases) {
    const given = await page.evaluate((request) => window.engine.chat.completions.create(request), request);
    assert.deepEqual(
      [given.choices[0].message, given.choices[0].finish_reason, given.usage.completion_tokens],
      [{ role: 'assistant', content: answer.text }, answer.finish_reason, answer.ids.length],
      name,
    );
    assert.deepEqual([given.object, given.model], ['chat.completion', 'nano']);
    const { prompt_tokens, completion_tokens, total_tokens, flash890 } = given.usage;
    assert.equal(total_tokens, prompt_tokens + completion_tokens);
    assert.ok(flash890.rounds < completion_tokens && flash890.decode_seconds > 0, JSON.stringify(given.usage));
  }
  assert.deepEqual(problems, []);
  await page.context().close();
});

test('the native program gives the same', async () => {
  for (const { name, request, answer } of cases.slice(0, 3)) {
    const question = request.messages[0].content;
    const { ids } = native('generate', '--chat', '--prompt', question, '--max-tokens', `${request.max_tokens}`, '--greedy', '--json', '--backend', 'cpu');
    assert.deepEqual(ids, answer.ids, name);
  }
});

test('a stream has a beginning, pieces and an end with what it took', async () => {
  const { page } = await nano();
  const chunks = await page.evaluate((request) => window.chunks(request), LONG);
  const [first, last] = [chunks[0], chunks.at(-1)];
  assert.deepEqual(first.choices[0].delta, { role: 'assistant', content: '' });
  assert.ok(chunks.every(({ id, object, created }) => id === first.id && object === 'chat.completion.chunk' && created === first.created));
  assert.ok(chunks.slice(0, -1).every(({ choices, usage }) => choices[0].finish_reason === null && usage === undefined));
  assert.ok(['stop', 'length'].includes(last.choices[0].finish_reason) && last.usage.completion_tokens > 0);
  assert.ok(chunks.slice(1, -1).every(({ choices }) => choices[0].delta.content.length > 0));

  const scored = await page.evaluate((request) => window.chunks({ ...request, logprobs: true, top_logprobs: 2 }), LONG);
  const text = (chunks) => chunks.map(({ choices }) => choices[0].delta.content ?? '').join('');
  assert.equal(text(scored), text(chunks));
  const tokens = scored.flatMap(({ choices }) => choices[0].logprobs?.content ?? []);
  assert.equal(Buffer.from(tokens.flatMap(({ bytes }) => bytes)).toString(), text(chunks));
  assert.ok(tokens.every(({ logprob, top_logprobs: [best] }) => logprob === best.logprob && logprob <= 0));
  await page.context().close();
});

test('a conversation is read once, and an answer that was stopped is its beginning', async () => {
  const { page } = await nano();
  const found = await page.evaluate(async (request) => {
    const { textOf, chunks } = window;
    const whole = await chunks(request);
    const messages = [...request.messages, { role: 'assistant', content: textOf(whole) }, { role: 'user', content: 'Vì sao?' }];
    const second = await chunks({ messages, max_tokens: 8 });

    // Stopped by the signal after some text; by the reader; before it began.
    const stop = new AbortController();
    const seen = [];
    const other = { messages: [{ role: 'user', content: 'How do the 890 bytes add up?' }], max_tokens: 40 };
    const error = await chunks({ ...other, signal: stop.signal }, (chunk, count) => {
      seen.push(chunk);
      if (count === 3) stop.abort();
    }).then(() => null, (error) => ({ name: error.name, same: error === stop.signal.reason }));
    for await (const chunk of await window.engine.chat.completions.create({ ...other, stream: true })) {
      if (chunk.choices[0].delta.content) break;
    }
    const early = await window.engine.chat.completions.create({ ...other, signal: AbortSignal.abort() }).then(() => null, (error) => error.name);
    const again = await chunks(other);
    return { first: whole.at(-1).usage, second: second.at(-1).usage, error, part: textOf(seen), early, again: again.at(-1).usage, text: textOf(again) };
  }, LONG);
  assert.equal(found.first.prompt_tokens_details.cached_tokens, 0);
  assert.ok(found.second.prompt_tokens_details.cached_tokens >= found.first.prompt_tokens, JSON.stringify(found.second));
  assert.deepEqual(found.error, { name: 'AbortError', same: true });
  assert.equal(found.early, 'AbortError');
  assert.ok(found.text.startsWith(found.part) && found.part.length > 0, `${found.part} | ${found.text}`);
  assert.equal(found.again.prompt_tokens_details.cached_tokens, found.again.prompt_tokens - 1);
  await page.context().close();
});

test('requests at the same time are answered one after the other, and nobody has to read', async () => {
  const { page } = await nano();
  const found = await page.evaluate(async (request) => {
    const { create } = window.engine.chat.completions;
    const make = create.bind(window.engine.chat.completions);
    void (await make({ ...request, stream: true }));
    const answers = await Promise.all([make(request), make({ ...request, max_tokens: 4 }), make(request)]);
    return answers.map(({ choices }) => choices[0].message.content);
  }, LONG);
  assert.equal(found[0], found[2]);
  assert.ok(found[0].startsWith(found[1]) && found[1].length < found[0].length);
  await page.context().close();
});

test('pictures come as data and as blobs', async () => {
  const { page } = await nano();
  const { request, answer } = cases.find(({ name }) => name === 'picture');
  const text = await page.evaluate(async (request) => {
    const [{ content }] = request.messages;
    const bytes = Uint8Array.from(atob(content[0].image_url.url.split(',')[1]), (character) => character.charCodeAt(0));
    const url = URL.createObjectURL(new Blob([bytes], { type: 'image/png' }));
    const messages = [{ role: 'user', content: [{ type: 'image_url', image_url: { url } }, content[1]] }];
    return window.engine.chat.completions.create({ ...request, messages }).then(
      ({ choices }) => choices[0].message.content,
      (error) => `${error.kind}: ${error.message}`,
    );
  }, request);
  // Under the strict policy a page may not read blobs; then it is told what it can do.
  assert.ok(text === answer.text || /^picture: .*a data: address can$/.test(text), text);
  await page.context().close();
});

test('wrong requests are refused with the field that is wrong', async () => {
  const { page } = await nano();
  const refused = await page.evaluate(async (ask) => {
    const kinds = [];
    const with_ = (more) => ({ ...ask, ...more });
    for (const request of [
      {}, with_({ messages: [] }), with_({ temperature: -1 }), with_({ stop: '' }), with_({ tools: [] }), with_({ max_tokens: 0, stream: true }),
      with_({ messages: [{ role: 'user', content: [{ type: 'image_url', image_url: { url: 'data:image/png;base64,Zm9v' } }] }] }),
      with_({ messages: [{ role: 'user', content: 'a b '.repeat(20000) }] }),
    ]) {
      kinds.push(await window.engine.chat.completions.create(request).then(() => 'answered', (error) => `${error.name} ${error.kind} ${error.message}`));
    }
    const after = await window.engine.chat.completions.create({ ...ask, max_tokens: 2 });
    return { kinds, tokens: after.usage.completion_tokens };
  }, ask('a'));
  const expected = ['usage messages: ', 'usage messages: ', 'usage temperature: ', 'usage stop[0]: ', 'usage tools: ', 'usage max_tokens: ', 'picture picture: messages[0]', 'prompt prompt: '];
  refused.kinds.forEach((found, i) => assert.ok(found.startsWith(`EngineError ${expected[i]}`), `${found}, needed ${expected[i]}`));
  assert.equal(refused.tokens, 2);
  await page.context().close();
});

test('a model that is not there, and a worker that dies, are said so', async () => {
  const { page } = await open(browser, `${server.url}empty.html`);
  const found = await page.evaluate(async (request) => {
    const { Engine } = await import(new URL('engine.js', location.href).href);
    const missing = await Engine.open({ model: './nowhere/', backend: 'cpu' }).then(() => null, ({ kind, reason }) => `${kind} ${reason}`);
    const workers = [];
    const worker = () => {
      workers.push(new Worker(new URL('worker.js', location.href), { type: 'module' }));
      return workers.at(-1);
    };
    const engine = await Engine.open({ model: './nano/', backend: 'cpu', worker });
    const { completions } = engine.chat;
    const whole = await completions.create(request);
    let died = null;
    try {
      for await (const chunk of await completions.create({ ...request, stream: true })) if (chunk.choices[0].delta.content) workers[0].terminate();
    } catch (error) {
      died = error.kind;
    }
    const again = await completions.create(request);
    return { missing, died, workers: workers.length, same: again.choices[0].message.content === whole.choices[0].message.content };
  }, LONG);
  assert.deepEqual(found, { missing: 'io not-found', died: 'worker', workers: 2, same: true });
  await page.context().close();
});
