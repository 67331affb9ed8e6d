// endpoint.js in Node.js, as a program on a server would use it: any cut of an event stream, every kind of refusal, abort.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { join } from 'node:path';
import { sse, stub } from './lib/endpoint.mjs';
import { DIST } from './lib/paths.mjs';

const load = (file) => import(pathToFileURL(join(DIST, file)));

let api;
let client;
let Endpoint;
let EngineError;
before(async () => {
  ({ Endpoint } = await load('endpoint.js'));
  ({ EngineError } = await load('errors.js'));
  api = await stub();
  client = await Endpoint.open({ endpoint: api.url, model: 'stub-1', key: 'secret', headers: { 'X-Page': 'a' } });
});
after(() => api?.close());

const MESSAGES = [{ role: 'user', content: 'Xin chào' }];
const ask = (more = {}) => client.chat.completions.create({ messages: MESSAGES, stream: true, ...more });

/** All chunks of an answer, and its text. */
async function collect(stream) {
  const chunks = [];
  for await (const chunk of await stream) chunks.push(chunk);
  return { chunks, text: chunks.map(({ choices }) => choices[0]?.delta?.content ?? '').join('') };
}

/** Waits until so many connections ended early; one too many is a fault. @param {number} count */
async function closed(count) {
  for (let tries = 0; api.aborted < count && tries < 100; tries += 1) await new Promise((done) => setTimeout(done, 10));
  assert.equal(api.aborted, count);
}

/** The error that a request ends with. */
async function failure(answer, more) {
  api.answer = () => answer;
  try {
    await collect(ask(more));
  } catch (error) {
    assert.ok(error instanceof EngineError, `${error}`);
    return error;
  }
  throw new assert.AssertionError({ message: 'the request should have failed' });
}

test('the request is what the protocol says, and nothing else', async () => {
  api.answer = () => ({ text: 'Chào bạn!' });
  const { text } = await collect(ask({ temperature: 0, top_p: 0.9, max_tokens: 7, stop: ['\n'], seed: 3, logprobs: true, top_logprobs: 2 }));
  assert.equal(text, 'Chào bạn!');
  const { headers, ...body } = api.requests.at(-1);
  assert.deepEqual(body, {
    model: 'stub-1', messages: MESSAGES, stream: true, stream_options: { include_usage: true },
    temperature: 0, top_p: 0.9, max_tokens: 7, stop: ['\n'], seed: 3, logprobs: true, top_logprobs: 2,
  });
  assert.equal(headers.authorization, 'Bearer secret');
  assert.equal(headers['x-page'], 'a');
});

test('without a model the first of the server is asked', async () => {
  assert.equal((await Endpoint.open({ endpoint: `${api.url}/` })).model, 'stub-1');
  await assert.rejects(Endpoint.open({ endpoint: 'not an address' }), { name: 'EngineError', kind: 'usage' });
});

test('an answer in one piece, asked for or not', async () => {
  api.answer = () => ({ text: 'one' });
  const completion = await client.chat.completions.create({ messages: MESSAGES });
  assert.equal(completion.choices[0].message.content, 'one');
  assert.equal(completion.usage.total_tokens, 6);
  api.answer = () => ({ body: JSON.stringify(completion) });
  const { text, chunks } = await collect(ask());
  assert.equal(text, 'one');
  assert.equal(chunks.at(-1).usage.total_tokens, 6);
});

test('a stream may be cut at every byte: in a line, in a line end, in a character', async () => {
  const { Parser } = await load('endpoint/sse.js');
  const text = '\ufeff: keep-alive\r\n\r\ndata: {"a":"Tiếng Việt 🙂"}\r\n\r\nevent: note\rdata: one\rdata:two\r\r: more\n\ndata: [DONE]\n\n';
  const bytes = new TextEncoder().encode(text);
  const whole = new Parser().push(bytes);
  assert.deepEqual(whole.at(0), { event: 'message', data: '{"a":"Tiếng Việt 🙂"}' });
  assert.deepEqual(whole.at(-1), { event: 'message', data: '[DONE]' });
  assert.deepEqual(whole.at(-2), { event: 'note', data: 'one\ntwo' });
  for (let at = 1; at < bytes.length; at += 1) {
    const parser = new Parser();
    assert.deepEqual([...parser.push(bytes.subarray(0, at)), ...parser.push(bytes.subarray(at))], whole, `cut at ${at}`);
  }
  const parser = new Parser();
  assert.deepEqual([...bytes].flatMap((byte) => parser.push(Uint8Array.of(byte))), whole, 'byte by byte');
});

test('over a connection too, with an emoji in two events', async () => {
  const pieces = ['Số ', '890 ', 'byte', ' \ud83d', '\ude42', ' và 👩‍👩‍👧'];
  for (const cut of [1, 3, 7, 64]) {
    api.answer = () => ({ pieces, cut });
    const { text, chunks } = await collect(ask());
    assert.equal(text, 'Số 890 byte 🙂 và 👩‍👩‍👧');
    assert.equal(chunks.at(-1).usage.completion_tokens, pieces.length);
  }
});

test('comments keep a slow answer alive', async () => {
  api.answer = () => ({ raw: `: ping\n\n: ping\n\n${sse(['late'])}`, cut: 40, pause: 5 });
  assert.equal((await collect(ask())).text, 'late');
});

test('an answer without [DONE] has ended if it says why', async () => {
  api.answer = () => ({ text: 'done', done: false });
  assert.equal((await collect(ask())).text, 'done');
});

for (const [status, kind] of [[400, 'usage'], [401, 'auth'], [403, 'auth'], [404, 'endpoint'], [422, 'usage'], [429, 'rate'], [500, 'server'], [503, 'server']]) {
  test(`status ${status} is an error of kind ${kind}`, async () => {
    const error = await failure({ status, body: JSON.stringify({ error: { message: 'because' } }) });
    assert.equal(error.kind, kind);
    assert.equal(error.status, status);
    assert.equal(error.url, `${api.url}/chat/completions`);
    assert.match(error.message, /because/);
  });
}

test('429 says how long to wait, in seconds or as a date', async () => {
  assert.equal((await failure({ status: 429, headers: { 'Retry-After': '17' } })).retryAfter, 17);
  const date = new Date(Date.now() + 60_000).toUTCString();
  const { retryAfter } = await failure({ status: 429, headers: { 'Retry-After': date } });
  assert.ok(retryAfter > 50 && retryAfter <= 61, `${retryAfter}`);
  assert.equal((await failure({ status: 429, headers: { 'Retry-After': 'soon' } })).retryAfter, undefined);
});

test('a page in place of an answer is named', async () => {
  const error = await failure({ type: 'text/html', body: '<!doctype html><title>Log in</title>' });
  assert.equal(error.kind, 'endpoint');
  assert.match(error.message, /text\/html.*Log in/);
  assert.equal((await failure({ type: 'application/json', body: '<p>not JSON' })).kind, 'endpoint');
});

test('an error inside the stream, and streams that make no sense', async () => {
  const told = await failure({ raw: `${sse(['a'], { finish: null, done: false })}data: {"error":{"message":"overloaded","code":429}}\n\n` });
  assert.equal(told.kind, 'rate');
  assert.equal((await failure({ raw: 'data: {"error":{"message":"bad","code":"x"}}\n\n' })).kind, 'server');
  assert.equal((await failure({ raw: 'data: {"cho\n\n' })).kind, 'endpoint');
  assert.equal((await failure({ raw: 'data: {"choices":7}\n\n' })).kind, 'endpoint');
});

test('a stream that breaks off fails after what it said', async () => {
  for (const hangUp of ['end', 'reset']) {
    api.answer = () => ({ pieces: ['half', ' an'], hangUp });
    let text = '';
    const read = async () => {
      for await (const { choices } of await ask()) text += choices[0].delta.content;
    };
    await assert.rejects(read, { name: 'EngineError', kind: 'endpoint' });
    assert.equal(text, 'half an', hangUp);
  }
});

test('nobody at the address is an error of the network', async () => {
  const gone = await Endpoint.open({ endpoint: 'http://127.0.0.1:9/v1', model: 'm' });
  await assert.rejects(gone.chat.completions.create({ messages: MESSAGES, stream: true }), { name: 'EngineError', kind: 'network' });
});

test('a signal ends the answer with its reason and the connection with it; the next request works', async () => {
  api.answer = () => ({ pieces: Array(200).fill('word '), pause: 5 });
  const before = api.aborted;
  for (const reason of [undefined, new Error('mine')]) {
    const abort = new AbortController();
    let count = 0;
    const read = async () => {
      for await (const chunk of await ask({ signal: abort.signal })) if (chunk.choices[0] && (count += 1) === 3) abort.abort(reason);
    };
    await assert.rejects(read, reason ?? { name: 'AbortError' });
    assert.equal(count, 3);
  }
  const early = new AbortController();
  early.abort();
  await assert.rejects(ask({ signal: early.signal }), { name: 'AbortError' });
  await closed(before + 2);
  api.answer = () => ({ text: 'again' });
  assert.equal((await collect(ask())).text, 'again');
});

test('leaving the loop ends the connection', async () => {
  api.answer = () => ({ pieces: Array(200).fill('word '), pause: 5 });
  const before = api.aborted;
  for await (const chunk of await ask()) if (chunk.choices[0]?.delta.content) break;
  await closed(before + 1);
});
