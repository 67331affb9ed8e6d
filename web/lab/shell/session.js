// Everything the page asks of the engine, one call after the other, and what becomes of the answers. Without an engine the recording answers.

import { nearest, tokenOf } from './state.js';

/** @typedef {import('../../engine.js').Engine} Engine */
/** @typedef {import('../../engine.js').RunRequest} RunRequest */
/** @typedef {import('./state.js').Store} Store */
/** @typedef {import('./state.js').Problem} Problem */
/** @typedef {import('./state.js').Recorded} Recorded */

/** Kinds of an EngineError; the page has a sentence and a next step for each. */
const KINDS = ['usage', 'prompt', 'picture', 'integrity', 'gpu', 'does-not-fit', 'io', 'internal', 'worker', 'csp', 'network', 'consent'];

/** @param {unknown} error @returns {Problem} */
export function problemOf(error) {
  const { kind, message, reason } = /** @type {{ kind?: string, message?: string, reason?: string }} */ (error ?? {});
  return { kind: kind && KINDS.includes(kind) ? kind : 'internal', message: message ?? String(error), ...(reason ? { reason } : {}) };
}

/**
 * The layer to look at in a model that may have fewer: beyond its last one, that which stores the global KV.
 * @param {import('../../engine.js').LayerInfo[]} layers
 * @param {number} layer
 */
const layerIn = (layers, layer) => (layer < layers.length ? layer
  : (layers.find((one) => one.side === 'decoder' && one.kvSource === one.layer)?.layer ?? layers.length - 1));

/** Bytes a second over the last few seconds. @returns {(done: number) => number} */
function meter() {
  /** @type {[number, number][]} */
  const seen = [];
  return (done) => {
    const now = performance.now();
    seen.push([now, done]);
    while (seen.length > 2 && now - seen[0][0] > 3000) seen.shift();
    const [begin, first] = seen[0];
    return now > begin ? (1000 * (done - first)) / (now - begin) : 0;
  };
}

/** The one conversation with the engine. */
export class Session {
  /** @type {Engine|null} */
  engine = null;
  #store;
  /** Calls wait for the one before. @type {Promise<unknown>} */
  #tail = Promise.resolve();
  /** Only the newest wish for a token and layer is carried out. */
  #wish = 0;
  /** @type {RunRequest|null} */
  #request = null;
  #played = 0;
  /** Address of the open model; none for the built-in one. @type {string|undefined} */
  #model;

  /** @param {Store} store */
  constructor(store) {
    this.#store = store;
  }

  /** Loads the recorded run, so that there is something to see at once. */
  async recording() {
    try {
      const response = await fetch(new URL('../../recorded.json', import.meta.url));
      if (!response.ok) return;
      const { info, labs } = await response.json();
      const { state } = this.#store;
      if (state.live) return;
      this.#store.set({ recorded: labs, info });
      this.#recall();
    } catch (error) {
      console.error('recorded.json', error);
    }
  }

  /** Shows the recorded lab nearest to the chosen token and layer. */
  #recall() {
    const { state } = this.#store;
    const best = nearest(state.recorded, state.token, state.layer);
    if (best) this.#store.set({ lab: best.lab, source: 'recorded' });
  }

  /**
   * Opens the engine. The page stays usable with the recording while this takes its time, and when it fails.
   * @param {{ backend: 'auto'|'gpu'|'cpu', model?: string }} options
   */
  async open(options) {
    const before = this.engine;
    this.engine = null;
    before?.close();
    this.#store.state.asked?.answer(false);
    this.#request = null;
    this.#store.set({ live: false, problem: null, notice: null, busy: { key: 'busy.open', stage: null, done: 0, total: 0 } });
    try {
      const { Engine } = await import('../../engine.js');
      const rate = meter();
      const onprogress = (/** @type {import('../../engine.js').Progress} */ progress) => {
        const { busy } = this.#store.state;
        if (busy) this.#store.set({ busy: { ...busy, part: '', ...progress, rate: progress.stage === 'bytes' ? rate(progress.done) : 0 } });
      };
      const onnotice = (/** @type {import('../../engine.js').Notice} */ notice) => this.#store.set({ notice });
      const consent = (/** @type {import('../../engine.js').Plan} */ plan) => this.#consent(plan);
      const engine = await Engine.open(/** @type {any} */ ({ ...options, onprogress, onnotice, consent }));
      this.#weigh(engine);
      engine.addEventListener('lost', (event) => {
        const detail = /** @type {CustomEvent} */ (event).detail;
        this.#store.set({ lost: detail?.message ?? '', news: null });
        // The next call recovers: if none is on its way, looking again is that call.
        if (!this.#store.state.busy && this.#request) this.look({}, true);
      });
      engine.addEventListener('died', (event) => {
        const detail = /** @type {CustomEvent} */ (event).detail;
        if (this.engine !== engine) return;
        // A new worker reads the prompt again, but not what was decoded behind it.
        this.#store.set({ steps: [], made: null, playing: false });
        if (!this.#store.state.busy) this.#store.set({ problem: { kind: 'worker', message: detail?.message ?? '' } });
      });
      engine.addEventListener('recovered', () => this.#store.set({ lost: null, news: 'recovered', problem: null }));
      this.engine = engine;
      const layer = layerIn(engine.info.model.layers, this.#store.state.layer);
      // Another model has other tokens: the place in the old one means nothing there.
      const token = before === null || options.model === this.#model ? this.#store.state.token : null;
      this.#model = options.model;
      this.#store.set({ live: true, info: engine.info, busy: null, layer, token });
      return true;
    } catch (error) {
      this.#store.set({ busy: null, problem: problemOf(error) });
      return false;
    }
  }

  /** Waits for the reader's word about a checkpoint. @param {import('../../engine.js').Plan} plan @returns {Promise<boolean>} */
  #consent(plan) {
    return new Promise((resolve) => {
      const answer = (/** @type {boolean} */ yes) => {
        this.#store.set({ asked: null });
        resolve(yes);
      };
      this.#store.set({ asked: { plan, answer } });
    });
  }

  /** How much the browser keeps. @param {Engine} engine */
  async #weigh(engine) {
    this.#store.set({ stored: await engine.stored().catch(() => 0) });
  }

  /** Removes what the browser keeps of checkpoints; the open one goes on. */
  async clearStored() {
    const left = await this.ask('busy.clear', (engine) => engine.clearStored());
    if (left !== null) this.#store.set({ stored: left });
  }

  /**
   * Puts a call at the end of the queue, with its name in the status line.
   * @template T
   * @param {string} key
   * @param {() => Promise<T>} call
   * @returns {Promise<T|null>}  null if it failed; the problem is then in the state
   */
  #queue(key, call) {
    const turn = this.#tail.then(async () => {
      this.#store.set({ busy: { key, stage: null, done: 0, total: 0 } });
      try {
        const result = await call().catch((error) => this.#again(error, call));
        this.#store.set({ problem: null, lost: null });
        return result;
      } catch (error) {
        this.#store.set({ problem: problemOf(error), playing: false });
        return null;
      } finally {
        this.#store.set({ busy: null });
      }
    });
    this.#tail = turn;
    return turn;
  }

  /**
   * A call that failed because the device was lost is made once more: that is what recovers. The event may come after the refusal.
   * @template T
   * @param {unknown} error
   * @param {() => Promise<T>} call
   */
  async #again(error, call) {
    if (problemOf(error).kind !== 'gpu') throw error;
    if (this.#store.state.lost === null) await new Promise((resolve) => setTimeout(resolve, 300));
    if (this.#store.state.lost === null) throw error;
    return call();
  }

  /** @param {Omit<RunRequest, 'token'|'layer'>} prompt */
  async run(prompt) {
    const { engine } = this;
    if (!engine) return;
    const same = this.#request !== null && this.#request.text === prompt.text && this.#request.picture === prompt.picture;
    const { state } = this.#store;
    const begin = performance.now();
    // The last token is followed in a new prompt; in the first one and in a repeated one the chosen token stays.
    const token = same || this.#request === null ? state.token : null;
    let lab = await this.#queue('busy.run', () => engine.run({ ...prompt, token, layer: state.layer }));
    if (!lab && token !== null && this.#store.state.problem?.kind === 'usage') {
      lab = await this.#queue('busy.run', () => engine.run({ ...prompt, token: null, layer: state.layer }));
    }
    if (!lab) return;
    this.#request = { ...prompt };
    this.#take(lab, begin);
    this.#store.set({ steps: [], made: null, playing: false, token: lab.followed });
  }

  /** @param {import('../../engine.js').Lab} lab @param {number} begin */
  #take(lab, begin) {
    const source = /** @type {'gpu'|'cpu'} */ (this.engine?.info.backend ?? 'cpu');
    this.#store.set({ lab, source, info: this.engine?.info ?? this.#store.state.info, elapsed: performance.now() - begin });
  }

  /**
   * Looks at another token or layer of the same prompt.
   * @param {{ token?: number|null, layer?: number|null }} where
   * @param {boolean} [again]  even if it is what is shown
   */
  async look(where, again = false) {
    const { state } = this.#store;
    const most = (state.info?.model.layers.length ?? 40) - 1;
    const last = (state.lab?.tokens.length ?? 1) - 1;
    const token = Math.max(0, Math.min(last, where.token ?? tokenOf(state)));
    const layer = Math.max(0, Math.min(most, where.layer ?? state.layer));
    if (!again && token === tokenOf(state) && layer === state.layer && state.made === null) return;
    this.#store.set({ token, layer, made: null });
    const { engine } = this;
    if (!engine || !this.#request) return this.#recall();
    const wish = ++this.#wish;
    await this.#tail;
    if (wish !== this.#wish) return;
    const begin = performance.now();
    const lab = await this.#queue('busy.look', () => engine.report({ token, layer }));
    if (lab && wish === this.#wish) this.#take(lab, begin);
  }

  /** Decodes one token. @param {{ temperature: number, seed: number }} how */
  async step(how) {
    const { engine } = this;
    if (!engine || !this.#request) return null;
    const step = await this.#queue('busy.step', () => engine.step(how));
    if (step) this.#store.set({ steps: [...this.#store.state.steps, step] });
    return step;
  }

  /**
   * Decodes until there are enough tokens, the model ends, or it is stopped.
   * @param {() => { temperature: number, seed: number, count: number }} read  read before each token, so that the controls act at once
   */
  async play(read) {
    const run = ++this.#played;
    this.#store.set({ playing: true });
    while (this.#store.state.playing && run === this.#played) {
      const { count, ...how } = read();
      if (this.#store.state.steps.length >= count) break;
      const step = await this.step(how);
      if (!step || step.finished) break;
    }
    if (run === this.#played) this.#store.set({ playing: false });
  }

  stop() {
    this.#store.set({ playing: false });
  }

  /** Forgets the decoded tokens: the prompt is read again. */
  async reset() {
    this.stop();
    if (this.#request) await this.run(this.#request);
  }

  /**
   * A call for the checks.
   * @template T
   * @param {string} key
   * @param {(engine: Engine) => Promise<T>} call
   */
  async ask(key, call) {
    const { engine } = this;
    return engine ? this.#queue(key, () => call(engine)) : null;
  }

  /** The prompt of the run. */
  get request() {
    return this.#request;
  }
}
