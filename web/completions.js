// OpenAI's chat completions on the local engine: one request after the other, each as an async iterable of chunks or as a whole.

import { EngineError } from './errors.js';

/** @typedef {{ type: 'text', text: string } | { type: 'image_url', image_url: { url: string } }} Part */
/** @typedef {{ role: 'system'|'developer'|'user'|'assistant', content: string | Part[] }} Message */
/**
 * As with OpenAI, where not said otherwise: `temperature` is 0 unless given; pictures are `data:` or `blob:` addresses; what is not listed here is
 * refused by name. `signal` ends the answer; what was written so far stays as the beginning of what may follow. `dspark: false` has tokens written
 * one by one; they are the same.
 * @typedef {{ model?: string, stream?: boolean, temperature?: number, top_p?: number, max_tokens?: number, stop?: string|string[], seed?: number,
 *   logprobs?: boolean, top_logprobs?: number, dspark?: boolean, signal?: AbortSignal }} How
 */
/**
 * A conversation to answer; or `continue: true` in its place, which goes on at the last token that was read or written, as after
 * `engine.chat.load`. An answer that had come to its end goes on behind it.
 * @typedef {How & ({ messages: Message[], continue?: false } | { continue: true, messages?: undefined })} Request
 */
/** @typedef {{ token: string, logprob: number, bytes: number[], top_logprobs?: TokenScore[] }} TokenScore */
/**
 * `flash890` is of the local engine: drafted tokens that were verified, those accepted, calls of the model, seconds.
 * @typedef {{ prompt_tokens: number, completion_tokens: number, total_tokens: number, prompt_tokens_details: { cached_tokens: number },
 *   flash890?: { drafted: number, accepted: number, rounds: number, prefill_seconds: number, decode_seconds: number } }} Usage
 */
/** @typedef {'stop'|'length'} FinishReason */
/**
 * @typedef {{ index: 0, delta: { role?: 'assistant', content?: string }, finish_reason: FinishReason|null,
 *   logprobs?: null|{ content: TokenScore[] } }} ChunkChoice
 */
/** The last chunk has `usage`. @typedef {{ id: string, object: 'chat.completion.chunk', created: number, model: string, choices: ChunkChoice[], usage?: Usage }} Chunk */
/**
 * @typedef {{ id: string, object: 'chat.completion', created: number, model: string, choices: [{ index: 0,
 *   message: { role: 'assistant', content: string }, finish_reason: FinishReason, logprobs?: { content: TokenScore[] } }], usage: Usage }} Completion
 */
/**
 * A step of the core, `crate/chat/reply.rs`.
 * @typedef {{ reading: [number, number]|null, text: string, logprobs: TokenScore[], done: { finish_reason: FinishReason, usage: Usage }|null }} Step
 */

/** Chat completions of one engine. */
export class Completions {
  /** @type {(method: string, params?: object) => Promise<any>} */
  #call;
  #model;
  #count = 0;
  /** Requests wait for the one before. @type {Promise<void>} */
  #turn = Promise.resolve();

  /**
   * @param {(method: string, params?: object) => Promise<any>} call a call of the worker
   * @param {string} model the name that answers bear
   */
  constructor(call, model) {
    this.#call = call;
    this.#model = model;
  }

  /**
   * Asks for an answer. A wrong request is refused here; what goes wrong later ends the iteration.
   * @overload @param {Request & { stream: true }} request @returns {Promise<AsyncIterableIterator<Chunk>>}
   */
  /** @overload @param {Request & { stream?: false }} request @returns {Promise<Completion>} */
  /** @overload @param {Request} request @returns {Promise<AsyncIterableIterator<Chunk>|Completion>} */
  /** @param {Request} request @returns {Promise<any>} */
  async create({ signal, stream = false, ...request }) {
    const { body, steps } = await this.#begin(request, signal);
    const chunks = this.#chunks(steps, body.logprobs === true);
    return stream ? chunks : whole(chunks);
  }

  /**
   * Does something that is no request, in its turn.
   * @template T
   * @param {() => Promise<T>} work
   */
  async between(work) {
    const done = this.#turn.then(work);
    this.#turn = done.then(() => {}, () => {});
    return done;
  }

  /**
   * Waits for its turn and hands the request over.
   * @param {Omit<Request, 'signal'|'stream'>} request
   * @param {AbortSignal} [signal]
   */
  async #begin(request, signal) {
    const body = await prepared(request);
    const before = this.#turn;
    /** @type {() => void} */
    let done = () => {};
    this.#turn = new Promise((resolve) => {
      done = resolve;
    });
    try {
      await Promise.race([before, aborted(signal)]);
      await this.#call('chatBegin', { request: body });
    } catch (error) {
      void before.then(done);
      throw error;
    }
    return { body, steps: new Steps(this.#call, signal, done) };
  }

  /**
   * @param {Steps} steps
   * @param {boolean} scored
   * @returns {AsyncIterableIterator<Chunk>}
   */
  async *#chunks(steps, scored) {
    this.#count += 1;
    const id = `chatcmpl-${Date.now().toString(36)}-${this.#count}`;
    const about = { id, object: /** @type {const} */ ('chat.completion.chunk'), created: Math.floor(Date.now() / 1000), model: this.#model };
    /** @type {(delta: ChunkChoice['delta'], scores?: TokenScore[]) => Chunk} */
    const chunk = (delta, scores) => ({
      ...about,
      choices: [{ index: 0, delta, finish_reason: null, ...(scored && { logprobs: scores ? { content: scores } : null }) }],
    });
    try {
      yield chunk({ role: 'assistant', content: '' });
      for (;;) {
        const { text, logprobs, done } = await steps.next();
        if (text || logprobs.length) yield chunk({ content: text }, logprobs);
        if (done) {
          const last = chunk({});
          last.choices[0].finish_reason = done.finish_reason;
          last.usage = done.usage;
          yield last;
          return;
        }
      }
    } finally {
      steps.close();
    }
  }
}

/**
 * The steps of one answer. They are made without being asked for: a reader that is slow, or never comes, holds up neither the engine nor the
 * request after it.
 */
class Steps {
  /** @type {Step[]} */
  #ready = [];
  /** @type {{ reason: unknown }|null} */
  #failed = null;
  #closed = false;
  #wake = () => {};

  /**
   * @param {(method: string) => Promise<Step>} call
   * @param {AbortSignal|undefined} signal
   * @param {() => void} done called when the engine is free again
   */
  constructor(call, signal, done) {
    const abort = () => {
      this.#fail(signal?.reason);
      this.#closed = true;
    };
    signal?.addEventListener('abort', abort, { once: true });
    if (signal?.aborted) abort();
    const made = this.#make(call).catch((reason) => this.#fail(reason));
    void made.then(() => {
      signal?.removeEventListener('abort', abort);
      done();
    });
  }

  /** @param {(method: string) => Promise<Step>} call */
  async #make(call) {
    while (!this.#closed) {
      const step = await call('chatNext');
      this.#ready.push(step);
      this.#wake();
      if (step.done) return;
    }
    await call('chatStop');
  }

  /** @param {unknown} reason */
  #fail(reason) {
    this.#failed ??= { reason };
    this.#wake();
  }

  /** The next step; an end from outside comes at once, before what is ready. @returns {Promise<Step>} */
  async next() {
    for (;;) {
      if (this.#failed) throw this.#failed.reason;
      const step = this.#ready.shift();
      if (step) return step;
      await new Promise((resolve) => {
        this.#wake = () => resolve(undefined);
      });
    }
  }

  /** Nobody reads on. */
  close() {
    this.#closed = true;
  }
}

/** Fails when the signal does, at once if it has. @param {AbortSignal} [signal] @returns {Promise<never>} */
function aborted(signal) {
  return new Promise((_, reject) => {
    if (signal?.aborted) reject(signal.reason);
    signal?.addEventListener('abort', () => reject(signal.reason), { once: true });
  });
}

/** @param {AsyncIterable<Chunk>} chunks @returns {Promise<Completion>} */
async function whole(chunks) {
  let [content, last] = ['', /** @type {Chunk|null} */ (null)];
  const scores = [];
  let scored = false;
  for await (const chunk of chunks) {
    const { delta, logprobs } = chunk.choices[0];
    content += delta.content ?? '';
    scored ||= logprobs !== undefined;
    scores.push(...(logprobs?.content ?? []));
    last = chunk;
  }
  if (!last?.usage) throw new EngineError('internal', 'the answer has no end');
  const { id, created, model, usage } = last;
  const finish_reason = last.choices[0].finish_reason ?? 'stop';
  return {
    id,
    object: 'chat.completion',
    created,
    model,
    choices: [{ index: 0, message: { role: 'assistant', content }, finish_reason, ...(scored && { logprobs: { content: scores } }) }],
    usage,
  };
}

/**
 * The request as the core takes it: pictures behind `blob:` addresses become part of it, and a draw without a seed gets one.
 * @param {Omit<Request, 'signal'|'stream'>} request
 */
async function prepared(request) {
  const body = { ...request };
  if (typeof body.temperature === 'number' && body.temperature > 0 && body.seed === undefined) {
    [body.seed] = crypto.getRandomValues(new Uint32Array(1));
  }
  if (!Array.isArray(body.messages)) return body;
  body.messages = await Promise.all(
    body.messages.map(async (message, at) => {
      if (!Array.isArray(message?.content)) return message;
      const parts = message.content.map((part, nth) => inlined(part, `messages[${at}].content[${nth}].image_url.url`));
      return { ...message, content: await Promise.all(parts) };
    }),
  );
  return body;
}

/** @param {Part} part @param {string} field @returns {Promise<Part>} */
async function inlined(part, field) {
  if (part?.type !== 'image_url' || !String(part.image_url?.url).startsWith('blob:')) return part;
  let blob;
  try {
    blob = await (await fetch(part.image_url.url)).blob();
  } catch (error) {
    // The policy of the page may forbid it, or the address was revoked.
    throw new EngineError('picture', `${field}: ${part.image_url.url} cannot be read (${error}); a data: address can`);
  }
  const bytes = new Uint8Array(await blob.arrayBuffer());
  let binary = '';
  for (let from = 0; from < bytes.length; from += 0x8000) binary += String.fromCharCode(...bytes.subarray(from, from + 0x8000));
  return { type: 'image_url', image_url: { url: `data:${blob.type || 'image/png'};base64,${btoa(binary)}` } };
}
