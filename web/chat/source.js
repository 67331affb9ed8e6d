// Where answers come from: a checkpoint that this device computes, a server, or an engine that the page brings along.

import { EngineError } from '../errors.js';

/** @typedef {import('../endpoint.js').Request} Request */
/** @typedef {import('../endpoint.js').Chunk} Chunk */
/** @typedef {{ chat: { completions: { create: (request: any) => Promise<any> } }, model?: string, close?: () => void, [more: string]: any }} AnyEngine */
/**
 * @typedef {{ model?: string|null, endpoint?: string|null, key?: string, headers?: Record<string, string>, engine?: AnyEngine|null }} Source
 */
/** @typedef {{ stage: string, done: number, total: number }} Progress */
/** `consent` is asked before more than 20 MB are fetched. @typedef {{ progress: (progress: Progress) => void, consent: (bytes: number) => Promise<boolean> }} Ear */
/**
 * An engine that is open: what people are told about it, how to ask it, how to let it go.
 * @typedef {{ engine: AnyEngine, model: string, host: string|null, ask: (request: Request) => AsyncIterable<Chunk>, release: () => void }} Opened
 */

/** The checkpoint that ships beside these scripts goes by its name alone. */
const BUNDLED = /^nano\/?$/;

/**
 * The folder of the checkpoint, with a `/` at its end. As with every address in a page, the page is where a relative one starts.
 * @param {Source} source
 */
export function folder({ model }) {
  const isBundled = !model || BUNDLED.test(model);
  const url = isBundled ? new URL(/* @vite-ignore */ '../nano/', import.meta.url) : new URL(model, document.baseURI);
  if (!url.pathname.endsWith('/')) url.pathname += '/';
  return url;
}

/** What the model is called before it has been opened. @param {Source} source */
export function nameOf(source) {
  if (source.engine || source.endpoint) return source.model || source.engine?.model || '';
  return decodeURIComponent(folder(source).pathname).split('/').filter(Boolean).at(-1) ?? '';
}

/** Host that computes the answers; `null` when it is this device. @param {Source} source */
export function hostOf({ endpoint, engine }) {
  if (!endpoint || engine) return null;
  return URL.canParse(endpoint, document.baseURI) ? new URL(endpoint, document.baseURI).host : endpoint;
}

/**
 * Opens a source.
 * @param {Source} source
 * @param {Ear} ear
 * @returns {Promise<Opened>}
 */
export async function open(source, ear) {
  const { engine, endpoint, key, headers } = source;
  if (engine) return { engine, model: nameOf(source), host: null, ask: (request) => stream(engine, request), release: () => {} };
  if (endpoint) {
    const { Endpoint } = await script(import('../endpoint.js'));
    const client = await Endpoint.open({ endpoint, model: source.model ?? undefined, key, headers });
    return { engine: client, model: client.model, host: client.host, ask: (request) => stream(client, request), release: () => {} };
  }
  return openLocal(source, ear);
}

/** @param {AnyEngine} engine @param {Request} request @returns {AsyncGenerator<Chunk>} */
async function* stream(engine, request) {
  yield* await engine.chat.completions.create({ ...request, stream: true });
}

/**
 * Engines of this page by the address of their checkpoint. Two widgets with one model share the worker, its memory and the GPU, and take turns.
 * @type {Map<string, { engine: Promise<AnyEngine>, users: number, ears: Set<Ear>, last: Promise<unknown> }>}
 */
const shared = new Map();

/** @param {Source} source @param {Ear} ear @returns {Promise<Opened>} */
async function openLocal(source, ear) {
  const { href } = folder(source);
  const slot = shared.get(href) ?? start(href, ear);
  slot.users += 1;
  slot.ears.add(ear);
  const release = () => {
    slot.users -= 1;
    if (slot.users > 0) return;
    if (shared.get(href) === slot) shared.delete(href);
    slot.engine.then((engine) => engine.close?.(), () => {});
  };
  try {
    const engine = await slot.engine;
    return { engine, model: engine.model ?? nameOf(source), host: null, ask: (request) => inTurn(slot, request), release };
  } catch (error) {
    // Whoever tries again starts anew, whether or not others have heard of this yet.
    if (shared.get(href) === slot) shared.delete(href);
    throw error;
  } finally {
    slot.ears.delete(ear);
  }
}

/** @param {string} href @param {Ear} first who is asked for consent */
function start(href, first) {
  /** @type {Set<Ear>} */
  const ears = new Set();
  const engine = begin(href, { progress: (progress) => ears.forEach((ear) => ear.progress(progress)), consent: first.consent });
  const slot = { engine, users: 0, ears, last: Promise.resolve() };
  shared.set(href, slot);
  return slot;
}

/**
 * A script that is fetched when it is needed; that it does not come is trouble with the network, as with anything else.
 * @template T
 * @param {Promise<T>} coming
 */
const script = (coming) =>
  coming.catch((error) => {
    throw new EngineError('network', String(error), { cause: error });
  });

/** @param {string} model @param {Ear} ear @returns {Promise<AnyEngine>} */
async function begin(model, { progress, consent }) {
  const { Engine } = await script(import('../engine.js'));
  return Engine.open({ model, onprogress: progress, consent: ({ fetch }) => consent(fetch), worker });
}

/**
 * The worker of the engine. A page of another host may not start it from its address, but may start one that imports it.
 * @returns {Worker}
 */
function worker() {
  // Written out, since bundlers look for just this.
  if (new URL(import.meta.url).origin === location.origin) return new Worker(new URL('../worker.js', import.meta.url), { type: 'module' });
  const url = new URL(`${'..'}/worker.js`, import.meta.url);
  const script = URL.createObjectURL(new Blob([`import ${JSON.stringify(url.href)};`], { type: 'text/javascript' }));
  const started = new Worker(script, { type: 'module' });
  // Once it says anything, it has read its script.
  started.addEventListener('message', () => URL.revokeObjectURL(script), { once: true });
  return started;
}

/**
 * Asks after the questions before have been answered.
 * @param {{ engine: Promise<AnyEngine>, last: Promise<unknown> }} slot
 * @param {Request} request
 * @returns {AsyncGenerator<Chunk>}
 */
async function* inTurn(slot, request) {
  const before = slot.last;
  /** @type {() => void} */
  let done = () => {};
  const mine = new Promise((/** @type {(value?: undefined) => void} */ resolve) => {
    done = resolve;
  });
  slot.last = before.then(() => mine);
  try {
    await unlessAborted(before, request.signal);
    yield* stream(await slot.engine, request);
  } finally {
    done();
  }
}

/**
 * A promise that an AbortSignal ends early.
 * @template T
 * @param {Promise<T>} promise
 * @param {AbortSignal} [signal]
 * @returns {Promise<T>}
 */
export function unlessAborted(promise, signal) {
  if (!signal) return promise;
  return new Promise((resolve, reject) => {
    const abort = () => reject(signal.reason);
    if (signal.aborted) return abort();
    signal.addEventListener('abort', abort, { once: true });
    promise.then(resolve, reject).finally(() => signal.removeEventListener('abort', abort));
  });
}
