// The engine, as a page sees it: a typed client of the worker that owns the wasm core and the GPU.
//
// Every call is one message with an id; every call settles: with a result, with an EngineError, or, when the worker dies, with an EngineError of
// kind `worker`. The next call after that starts a new worker, which reads the last prompt again before it answers.
//
// | method      | parameters                         | result                                                                    |
// |-------------|------------------------------------|---------------------------------------------------------------------------|
// | `plan`      | model, memory, keep, build, lock   | {@link Plan} of the checkpoint at an address; before `open`               |
// | `open`      | backend, build, lock               | {@link Info}; made by {@link Engine.open}                                 |
// | `run`       | text, picture, token, layer, kv    | {@link Lab}: ten chapters about one token in one layer                    |
// | `report`    | token, layer                       | {@link Lab} of the same prompt, seen from elsewhere                       |
// | `taps`      |                                    | what {@link Engine.tensor} can give: {@link TapInfo} list                 |
// | `tensor`    | tap, layer                         | {@link TensorData}: a recorded tensor                                     |
// | `step`      | temperature, seed                  | {@link Step}: one more token behind the prompt                            |
// | `compareKv` |                                    | {@link KvComparison}: FP4 caches against f32 caches                       |
// | `parity`    |                                    | {@link Parity}: GPU against CPU reference, tap by tap                     |
// | `timings`   |                                    | {@link Timings}: prefill and decode, with conditions                      |
// | `slots`     |                                    | {@link SlotUse}: experts that come as they are asked for; null if all stay |
// | `heap`      |                                    | bytes of the core's memory: the most that it has needed so far            |
// | `stored`    |                                    | bytes that the browser keeps of checkpoints                               |
// | `clearStored`|                                   | removes them; the bytes that are left, since another tab has them open    |
// | `chatBegin` | request                            | a request of {@link Engine.chat} is taken: prompt_tokens, cached_tokens   |
// | `chatNext`  |                                    | the next step of its answer                                               |
// | `chatStop`  |                                    | ends it                                                                   |
// | `chatSave`  | compact                            | the session of {@link Engine.chat} as a file: Uint8Array                  |
// | `chatLoad`  | file: ArrayBuffer                  | goes on with the session of a file: {@link Loaded}                        |
// | `loseDevice`|                                    | destroys the GPU device, to see the engine recover                        |
//
// Events of the worker: `alive` {} once it holds the lock, `progress` {@link Progress}, `notice` {@link Notice}, `lost` {message}, `recovered` {}, `died` {message}.

/** @typedef {{ vi: string, en: string }} Text */
/** @typedef {{ id: number, label: string, logit: number, probability: number }} Candidate */
/** @typedef {{ position: number, id: number, kind: 'text'|'start'|'image'|'newline'|'end', label: string }} Token */
/** @typedef {{ name: string, shape: number[], about: Text }} TensorRef */
/** @typedef {'gpu'|'cpu-reference'|'config'|'checkpoint'} Badge */
/** @typedef {{ title: Text, badge: Badge, columns: Text[], rows: (null|number|Text)[][] }} Table */
/** @typedef {{ what: Text, passed: boolean, numbers: Text }} Check */
/** @typedef {{ block: string, [key: string]: any }} Figure  The structs of crate/lab/figure.rs, with camelCase keys. */
/**
 * @typedef {{ code: string, name: Text, look_for: Text, inputs: TensorRef[], happens: Text, formula: Text[], outputs: TensorRef[],
 *   tables: Table[], notes: Text[], checks: Check[], figure: Figure|null }} Chapter
 */
/**
 * @typedef {{ about: Text[], tokens: Token[], followed: number, layer: number, chapters: Chapter[], passed: number, failed: number }} Lab
 */
/**
 * @typedef {{ layer: number, side: 'encoder'|'decoder', engram: boolean, ratio: number, role: 'window'|'full'|'reindex'|'reuse',
 *   kvSource: number|null, indexSource: number|null, target: boolean }} LayerInfo
 */
/** @typedef {{ code: string, name: Text, column: number, focus: string[] }} BlockInfo */
/** @typedef {{ about: Text[], config: any, layers: LayerInfo[], map: BlockInfo[] }} Model */
/**
 * @typedef {{ build: string, backend: 'gpu'|'cpu'|'recorded', adapter: string, software: boolean, reason: Text, sentence: Text,
 *   limits: { positions: number, characters: number }, tokenBytes: number, model: Model }} Info  `tokenBytes`: weights that writing a token reads
 */
/** @typedef {null|'disc'|'grid'|{ bytes: ArrayBuffer, name: string }} Picture */
/**
 * @typedef {{ text: string, picture?: Picture, token?: number|null, layer?: number|null, kv?: 'released'|'f32' }} RunRequest
 */
/** @typedef {{ tap: string, layer: number, shape: number[], kind: 'f32'|'i64', source: 'gpu'|'cpu' }} TapInfo */
/** @typedef {TapInfo & { data: Float32Array|Int32Array }} TensorData */
/**
 * @typedef {{ position: number, id: number, label: string, finished: boolean, seconds: number, top: Candidate[], kvBytes: number,
 *   layers: number, dispatches: number|null }} Step
 */
/** @typedef {{ argmaxSame: boolean, maxLogit: number, nmse: number, before: Candidate[], after: Candidate[] }} KvComparison */
/** @typedef {{ rows: { tap: string, layer: number, nmse: number, limit: number, passed: boolean }[]|null, reason: Text|null }} Parity */
/** @typedef {{ p50: number, p95: number, p99: number, runs: number }} Quantiles */
/** @typedef {{ prefill: Quantiles & { tokens: number }, decode: Quantiles, unit: 'ms', conditions: Text[] }} Timings */
/**
 * What a checkpoint at an address needs, in bytes: `fetch` before it runs (of `bytes` in all), `resident` stays in memory and has to fit into
 * `memory`; `slots` of `experts` experts, null if all stay. `kept` is what the browser's store has of it, and how much it still takes.
 * @typedef {{ address: string, tensors: number, bytes: number, asked: number, loaded: number, tables: number, expert: number, experts: number,
 *   slots: number|null, resident: number, memory: number, fits: boolean, fetch: number, kept: { bytes: number, room: number }|null, ask: boolean }} Plan
 */
/**
 * `model` is the address of a checkpoint's folder; without one it is the built-in model. `consent` is asked before more than 20 MB are fetched;
 * without it they are not. `memory` is for weights, in bytes. What is fetched is kept in the browser unless `keep` is false; `onnotice` hears why
 * something is not. With `endpoint`, the address of a server that speaks OpenAI's protocol, `model` is a name there, and `key` what the server wants.
 * @typedef {{ backend?: 'auto'|'gpu'|'cpu', model?: string, memory?: number, consent?: (plan: Plan) => boolean|Promise<boolean>,
 *   endpoint?: string, key?: string, keep?: boolean, onnotice?: (notice: Notice) => void, onprogress?: (progress: Progress) => void, worker?: () => Worker }} Options
 */
/** Why something is not kept: no room, another tab has it, no file system. The run goes on. @typedef {{ what: 'full'|'in-use'|'broken', message: string }} Notice */
/** @typedef {{ hits: number, misses: number, bytes: number, seconds: number }} SlotUse */
/** Tokens that have run through the model, and need not again. @typedef {{ tokens: number }} Loaded */
/**
 * `save` gives the session of the conversation as one file, for `load` here and for `flash890 generate --load`; `load` takes what `save` and
 * `flash890 generate --save` wrote with the same model, on any machine: nothing is read again, and the tokens that follow are the same. The
 * compact form is smaller (890 bytes per token) and has the last tokens run again. A file that is damaged (`integrity`) or of another model
 * (`usage`) is refused with the reason, and the conversation goes on as before. Both wait for answers that are on their way.
 * @typedef {{ completions: { create: Completions['create'] }, save: (how?: { compact?: boolean }) => Promise<Uint8Array>,
 *   load: (file: Blob|ArrayBuffer|Uint8Array) => Promise<Loaded> }} Chat
 */
/** In the stage `bytes`, `part` is what is read now. @typedef {{ stage: string, done: number, total: number, part?: string }} Progress */

import { Completions } from './completions.js';
import { EngineError } from './errors.js';

export { EngineError };

const BUILD = '@FLASH890_BUILD@';

/**
 * One model in one worker, or on a server: then there is `chat` and nothing else.
 *
 * Importing this file touches nothing of a browser.
 */
export class Engine extends EventTarget {
  /** @type {Info} */
  info;
  /** Of a checkpoint at an address. @type {Plan|null} */
  plan = null;
  /** @type {Options} */
  #options;
  /** @type {Worker|null} */
  #worker = null;
  /** @type {Map<number, { resolve: (value: any) => void, reject: (error: EngineError) => void }>} */
  #calls = new Map();
  #last = 0;
  #closed = false;
  /** @type {RunRequest|null} The prompt that a new worker has to read again. */
  #request = null;
  /** @type {Chat|null} */
  #chat = null;

  /** @param {Options} options */
  constructor(options) {
    super();
    this.#options = options;
    this.info = /** @type {Info} */ (/** @type {unknown} */ (null));
  }

  /**
   * Starts the worker, loads the core and chooses what computes. With an `endpoint`, nothing of that: the server computes.
   * @param {Options} [options]
   */
  static async open(options = {}) {
    const engine = new Engine(options);
    if (options.endpoint === undefined) {
      await engine.#start();
    } else {
      const { Endpoint } = await import('./endpoint.js');
      engine.#chat = { ...engine.chat, ...(await Endpoint.open(/** @type {any} */ (options))).chat };
    }
    return engine;
  }

  /** OpenAI's chat completions: `engine.chat.completions.create({ messages })`. @returns {Chat} */
  get chat() {
    if (!this.#chat) {
      /** @type {(method: string, params?: object) => Promise<any>} */
      const call = (method, params) => this.#call(method, params);
      const completions = new Completions(call, this.#name());
      this.#chat = {
        completions,
        save: ({ compact = false } = {}) => completions.between(() => call('chatSave', { compact })),
        load: (file) => completions.between(async () => call('chatLoad', { file: await new Blob([/** @type {BlobPart} */ (file)]).arrayBuffer() })),
      };
    }
    return this.#chat;
  }

  /** What answers say they are from: the last part of the model's address. */
  #name() {
    return this.#options.model?.replace(/\/+$/, '').split('/').pop() || 'lab';
  }

  async #start() {
    // Written out, since bundlers look for just this.
    const worker = this.#options.worker?.() ?? new Worker(new URL('./worker.js', import.meta.url), { type: 'module' });
    this.#worker = worker;
    worker.onmessage = ({ data }) => this.#receive(data);
    // A script that does not load, or an error that nobody caught: either way the worker answers no more.
    worker.onerror = (event) => {
      event.preventDefault();
      this.#died(event.message || `${new URL('./worker.js', import.meta.url).href} could not be started`);
    };
    worker.onmessageerror = () => this.#died('a message could not be read');
    const lock = this.#watch(worker);
    try {
      if (this.#options.model) await this.#ask(this.#options.model, lock);
      this.info = await this.#send('open', { backend: this.#options.backend ?? 'auto', build: BUILD, lock });
    } catch (error) {
      // A worker that could not open answers nothing else; the next call tries with a new one.
      worker.terminate();
      if (this.#worker === worker) this.#worker = null;
      throw error;
    }
  }

  /**
   * Opens a checkpoint and asks whether it may be fetched, once: a new worker goes on with what was agreed to.
   * @param {string} model
   * @param {string|null} lock
   */
  async #ask(model, lock) {
    const { memory, keep, consent } = this.#options;
    const agreed = this.plan !== null;
    /** @type {Plan} */
    const plan = await this.#send('plan', { model: new URL(model, location.href).href, memory, keep, build: BUILD, lock });
    const size = (/** @type {number} */ bytes) => (bytes < 1e9 ? `${(bytes / 1e6).toFixed(1)} MB` : `${(bytes / 1e9).toFixed(1)} GB`);
    if (!plan.fits) {
      throw new EngineError('does-not-fit', `${plan.address}: needs ${size(plan.resident)} of memory, available: ${size(plan.memory)}`, { reason: 'too-large' });
    }
    if (plan.ask && !agreed && !(await consent?.(plan))) {
      throw new EngineError('consent', `${plan.address}: ${size(plan.fetch)} were not agreed to`);
    }
    this.plan = plan;
  }

  /**
   * A worker that is ended from outside says nothing. So it holds a lock as long as it lives: whoever is given the lock after it knows that it
   * is gone. Where there are no locks, `null`.
   * @param {Worker} worker
   */
  #watch(worker) {
    if (!navigator.locks) return null;
    const lock = `flash890 ${crypto.randomUUID()}`;
    const held = (/** @type {Event} */ event) => {
      if (/** @type {MessageEvent} */ (event).data?.event !== 'alive') return;
      worker.removeEventListener('message', held);
      void navigator.locks.request(lock, () => {
        if (this.#worker === worker) this.#died('the worker ended');
      });
    };
    worker.addEventListener('message', held);
    return lock;
  }

  /** @param {{ id?: number, result?: any, error?: { kind: string, message: string, reason?: string }, event?: string, detail?: any }} message */
  #receive({ id, result, error, event, detail }) {
    if (event === 'died') return this.#died(detail.message);
    if (event) {
      if (event === 'progress') this.#options.onprogress?.(detail);
      if (event === 'notice') this.#options.onnotice?.(detail);
      this.dispatchEvent(new CustomEvent(event, { detail }));
      return;
    }
    const call = this.#calls.get(id ?? -1);
    this.#calls.delete(id ?? -1);
    if (error) call?.reject(new EngineError(error.kind, error.message, { reason: error.reason }));
    else call?.resolve(result);
  }

  /** @param {string} message */
  #died(message) {
    this.#worker?.terminate();
    this.#worker = null;
    const calls = [...this.#calls.values()];
    this.#calls.clear();
    for (const call of calls) call.reject(new EngineError('worker', message));
    this.dispatchEvent(new CustomEvent('died', { detail: { message } }));
  }

  /**
   * @param {string} method
   * @param {object} [params]
   * @param {Transferable[]} [transfer]
   * @returns {Promise<any>}
   */
  #send(method, params = {}, transfer = []) {
    return new Promise((resolve, reject) => {
      if (!this.#worker) return reject(new EngineError('worker', 'the engine is not running'));
      const id = ++this.#last;
      this.#calls.set(id, { resolve, reject });
      this.#worker.postMessage({ id, method, params }, transfer);
    });
  }

  /**
   * Sends a call; a worker that died is replaced first.
   * @param {string} method
   * @param {object} [params]
   */
  async #call(method, params = {}) {
    if (this.#options.endpoint !== undefined) throw new EngineError('usage', `${method}: an engine on a server can chat, no more`);
    if (this.#closed) throw new EngineError('worker', 'the engine is closed');
    if (!this.#worker) {
      await this.#start();
      if (this.#request && method !== 'run') await this.#send('run', this.#request);
    }
    return this.#send(method, params);
  }

  /** @param {RunRequest} request @returns {Promise<Lab>} */
  async run(request) {
    const lab = await this.#call('run', request);
    this.#request = request;
    return lab;
  }

  /** @param {{ token?: number, layer?: number }} where @returns {Promise<Lab>} */
  report(where) {
    return this.#call('report', where);
  }

  /** @returns {Promise<TapInfo[]>} */
  taps() {
    return this.#call('taps');
  }

  /** @param {{ tap: string, layer: number }} which @returns {Promise<TensorData>} */
  tensor(which) {
    return this.#call('tensor', which);
  }

  /** @param {{ temperature?: number, seed?: number }} [how] @returns {Promise<Step>} */
  step(how = {}) {
    return this.#call('step', how);
  }

  /** @returns {Promise<KvComparison>} */
  compareKv() {
    return this.#call('compareKv');
  }

  /** @returns {Promise<Parity>} */
  parity() {
    return this.#call('parity');
  }

  /** @returns {Promise<Timings>} */
  timings() {
    return this.#call('timings');
  }

  /** @returns {Promise<SlotUse|null>} */
  slots() {
    return this.#call('slots');
  }

  /** Bytes of the core's memory, the most that it has needed so far. @returns {Promise<number>} */
  heap() {
    return this.#call('heap');
  }

  /** Bytes that the browser keeps of checkpoints. @returns {Promise<number>} */
  stored() {
    return this.#call('stored');
  }

  /** Removes them; returns what is left. @returns {Promise<number>} */
  clearStored() {
    return this.#call('clearStored');
  }

  /** Destroys the GPU device; the next call recovers. @returns {Promise<void>} */
  loseDevice() {
    return this.#call('loseDevice');
  }

  /** Ends the worker. Calls that are on their way are refused. */
  close() {
    this.#closed = true;
    this.#died('the engine was closed');
  }
}
