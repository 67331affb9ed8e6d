// A client of any server that speaks the OpenAI chat protocol, with the calls of the local engine: a page moves from the small model in the tab to
// the full one behind vLLM or SGLang by naming an address. No worker, no wasm; importing this touches no browser global.

import { EngineError } from './errors.js';
import { events } from './endpoint/sse.js';
import { cut, notStarted, policy, refused, reported, wrongType } from './endpoint/trouble.js';

/** @typedef {import('./completions.js').Part} Part */
/** @typedef {import('./completions.js').Message} Message */
/** @typedef {import('./completions.js').Request} Request */
/** @typedef {import('./completions.js').Usage} Usage */
/** @typedef {import('./completions.js').Chunk} Chunk */
/** @typedef {import('./completions.js').Completion} Completion */
/** @typedef {import('./completions.js').Completions['create']} Create */
/** @typedef {{ endpoint: string, model?: string, key?: string, headers?: Record<string, string> }} Where */

/** What of a request is sent as it is. */
const SENT = /** @type {const} */ (['temperature', 'top_p', 'max_tokens', 'stop', 'seed', 'logprobs', 'top_logprobs']);

/** One model behind one address. */
export class Endpoint {
  /** Name of the model that is asked. @type {string} */
  model;
  /** @type {URL} The address with a `/` at its end, so that relative ones lie under it. */
  #base;
  /** @type {Record<string, string>} */
  #headers;

  /** @param {URL} base @param {string} model @param {Record<string, string>} headers */
  constructor(base, model, headers) {
    this.#base = base;
    this.model = model;
    this.#headers = headers;
    const create = /** @type {Create} */ ((/** @type {Request} */ request) => this.#create(request));
    /** The `chat.completions.create` of the OpenAI libraries. @type {{ completions: { create: Create } }} */
    this.chat = { completions: { create } };
  }

  /**
   * Takes an address such as `https://host/v1`. Nothing is asked of the server, unless no model is named: then it is the first that the server lists.
   *
   * A key in a page is readable by everyone who opens the page; a public page names a proxy that adds it.
   * @param {Where} where
   * @returns {Promise<Endpoint>}
   */
  static async open({ endpoint, model, key, headers = {} }) {
    let base;
    try {
      base = new URL(endpoint, globalThis.document?.baseURI);
    } catch {
      throw new EngineError('usage', `“${endpoint}” is not an address; something like https://host/v1 is needed`);
    }
    if (!base.pathname.endsWith('/')) base.pathname += '/';
    const sent = { ...(key ? { Authorization: `Bearer ${key}` } : {}), ...headers };
    const client = new Endpoint(base, model ?? '', sent);
    if (!model) client.model = await client.#first();
    return client;
  }

  /** Host that answers, for people to read. */
  get host() {
    return this.#base.host;
  }

  /** There is nothing to end here; a local engine has the same method. */
  close() {}

  /** @param {Request} request @returns {Promise<AsyncIterableIterator<Chunk> | Completion>} */
  async #create(request) {
    const { messages, stream = false, signal } = request;
    if (!Array.isArray(messages) || messages.length === 0) throw new EngineError('usage', 'messages: at least one is needed');
    /** @type {Record<string, unknown>} */
    const body = { model: this.model, messages: await Promise.all(messages.map(portable)), stream };
    for (const name of SENT) if (request[name] !== undefined) body[name] = request[name];
    if (stream) body.stream_options = { include_usage: true };

    const response = await this.#fetch('chat/completions', { method: 'POST', body: JSON.stringify(body), signal });
    const type = response.headers.get('content-type') ?? '';
    if (/^application\/json\b/i.test(type)) {
      const completion = await json(response, signal);
      return stream ? whole(completion) : completion;
    }
    if (stream && /^text\/event-stream\b/i.test(type)) return chunks(response, signal);
    throw await wrongType(response);
  }

  /** The first model that the server lists. */
  async #first() {
    const response = await this.#fetch('models', {});
    if (!/^application\/json\b/i.test(response.headers.get('content-type') ?? '')) throw await wrongType(response);
    const id = (await json(response)).data?.[0]?.id;
    if (typeof id !== 'string') throw new EngineError('endpoint', `${response.url} lists no model`, { url: response.url });
    return id;
  }

  /**
   * An answer with a status of success.
   * @param {string} path
   * @param {{ method?: string, body?: string, signal?: AbortSignal }} options
   */
  async #fetch(path, { method = 'GET', body, signal }) {
    const url = new URL(path, this.#base);
    url.search = this.#base.search;
    const headers = { ...(body ? { 'Content-Type': 'application/json' } : {}), ...this.#headers };
    const { end, refusal } = policy(url);
    let response;
    try {
      response = await fetch(url, { method, body, headers, signal });
    } catch (error) {
      if (signal?.aborted) throw signal.reason;
      throw notStarted(url, error, await refusal());
    } finally {
      end();
    }
    if (!response.ok) throw await refused(response);
    return response;
  }
}

/**
 * The chunks of an answer. Leaving the loop early ends the connection.
 * @param {Response} response
 * @param {AbortSignal} [signal]
 * @returns {AsyncGenerator<Chunk>}
 */
async function* chunks(response, signal) {
  const { url } = response;
  let isFinished = false;
  try {
    for await (const { event, data } of events(response)) {
      if (data === '[DONE]') return;
      let chunk;
      try {
        chunk = JSON.parse(data);
      } catch {
        throw cut(url, `not JSON: ${data.slice(0, 80)}`);
      }
      if (chunk?.error || event === 'error') throw reported(chunk?.error ?? chunk, url);
      if (!Array.isArray(chunk?.choices)) throw cut(url, `no choices: ${data.slice(0, 80)}`);
      isFinished ||= chunk.choices.some((/** @type {any} */ choice) => choice.finish_reason);
      yield chunk;
      // What has come already is not handed out after a stop.
      signal?.throwIfAborted();
    }
  } catch (error) {
    if (signal?.aborted) throw signal.reason;
    if (error instanceof EngineError) throw error;
    throw cut(url, String(error));
  }
  signal?.throwIfAborted();
  // Some servers leave out `[DONE]`; an answer that says why it ended has ended.
  if (!isFinished) throw cut(url, 'the answer has no end');
}

/**
 * A completion in the form of a stream, for servers that do not stream.
 * @param {Completion} completion
 * @returns {AsyncGenerator<Chunk>}
 */
async function* whole({ id, created, model, choices, usage }) {
  const parts = choices.map(({ index, message, finish_reason, logprobs }) => ({ index, delta: message, finish_reason, logprobs: logprobs ?? null }));
  yield { id, object: 'chat.completion.chunk', created, model, choices: parts, usage };
}

/**
 * The body of an answer, which must be the JSON object that its type says.
 * @param {Response} response
 * @param {AbortSignal} [signal]
 * @returns {Promise<any>}
 */
async function json(response, signal) {
  let value;
  try {
    value = await response.json();
  } catch (error) {
    if (signal?.aborted) throw signal.reason;
    throw cut(response.url, String(error));
  }
  if (value?.error) throw reported(value.error, response.url);
  return value;
}

/**
 * A message that another machine can read: a `blob:` address means something in this tab alone.
 * @param {Message} message
 * @returns {Promise<Message>}
 */
async function portable({ role, content }) {
  if (typeof content === 'string') return { role, content };
  return { role, content: await Promise.all(content.map(portablePart)) };
}

/** @param {Part} part @returns {Promise<Part>} */
async function portablePart(part) {
  if (part.type !== 'image_url' || !part.image_url.url.startsWith('blob:')) return part;
  const blob = await (await fetch(part.image_url.url)).blob();
  const bytes = new Uint8Array(await blob.arrayBuffer());
  let raw = '';
  // In pieces: a call takes a limited number of arguments.
  for (let at = 0; at < bytes.length; at += 0x8000) raw += String.fromCharCode(...bytes.subarray(at, at + 0x8000));
  return { type: 'image_url', image_url: { url: `data:${blob.type};base64,${btoa(raw)}` } };
}
