// What the page knows at the moment, in one place. Views subscribe to the parts they show.

import { pause } from './page.js';

/** @typedef {import('../../engine.js').Info} Info */
/** @typedef {import('../../engine.js').Lab} Lab */
/** @typedef {import('../../engine.js').Chapter} Chapter */
/** @typedef {import('../../engine.js').Step} Step */
/** @typedef {import('../../engine.js').Picture} Picture */
/** @typedef {{ kind: string, message: string, reason?: string }} Problem */
/** `rate` is in bytes a second. @typedef {{ key: string, stage: string|null, done: number, total: number, part?: string, rate?: number }} Busy */
/** @typedef {{ plan: import('../../engine.js').Plan, answer: (yes: boolean) => void }} Asked */
/** @typedef {{ token: number, layer: number, lab: Lab }} Recorded */
/**
 * @typedef {object} State
 * @property {Info|null} info          the engine's, or the recording's before there is one
 * @property {Lab|null} lab            the run that is shown
 * @property {'gpu'|'cpu'|'recorded'} source
 * @property {boolean} live            whether an engine is open
 * @property {Recorded[]} recorded
 * @property {number|null} token       chosen position; null until a run says which one it followed
 * @property {number} layer            chosen layer
 * @property {string} block            code of the chosen block
 * @property {Step[]} steps            tokens decoded behind the prompt
 * @property {number|null} made        index of the decoded token that is looked at, if one is
 * @property {boolean} playing
 * @property {boolean} stopping
 * @property {Busy|null} busy
 * @property {Problem|null} problem
 * @property {string|null} lost        why the device was lost, until it is back
 * @property {'recovered'|null} news
 * @property {Asked|null} asked       a checkpoint that waits for the reader's word
 * @property {import('../../engine.js').Notice|null} notice  why something is not kept
 * @property {number} stored           bytes that the browser keeps of checkpoints
 * @property {number|null} elapsed     milliseconds of the last run or report
 * @property {string|null} focus       focus group of the diagram
 * @property {boolean} overlay
 * @property {string[]} holding        blocks that hold the tensor that was pointed at
 */

/** Milliseconds of work before the browser gets its turn. */
const SLICE = 16;

/** @returns {State} */
const start = () => ({
  info: null, lab: null, source: 'recorded', live: false, recorded: [], token: null, layer: 20, block: '1A', steps: [], made: null, playing: false,
  stopping: false, busy: null, problem: null, lost: null, news: null, asked: null, notice: null, stored: 0, elapsed: null, focus: null, overlay: true, holding: [],
});

/** State with subscribers; changes of one task reach them together. */
export class Store {
  #state = start();
  /** @type {{ keys: Set<keyof State>, view: (state: State) => void }[]} */
  #views = [];
  /** @type {Set<keyof State>} */
  #changed = new Set();

  get state() {
    return this.#state;
  }

  /** @param {Partial<State>} patch */
  set(patch) {
    for (const key of /** @type {(keyof State)[]} */ (Object.keys(patch))) {
      if (this.#state[key] === patch[key]) continue;
      if (this.#changed.size === 0) queueMicrotask(() => this.#tell());
      this.#changed.add(key);
    }
    this.#state = { ...this.#state, ...patch };
  }

  /**
   * Calls the view now and after each change of one of these keys.
   * @param {(keyof State)[]} keys
   * @param {(state: State) => void} view
   */
  show(keys, view) {
    this.#views.push({ keys: new Set(keys), view });
    this.#draw(view);
  }

  /** Calls every view, as after a change of language. */
  refresh() {
    return this.#call(this.#views);
  }

  #tell() {
    const changed = [...this.#changed];
    this.#changed = new Set();
    return this.#call(this.#views.filter(({ keys }) => changed.some((key) => keys.has(key))));
  }

  /** Views that take long get a task of their own, so that the page answers in between; each sees the newest state. @param {{ view: (state: State) => void }[]} views */
  async #call(views) {
    let begin = performance.now();
    for (const { view } of views) {
      if (performance.now() - begin > SLICE) {
        await pause();
        begin = performance.now();
      }
      this.#draw(view);
    }
  }

  /** A view that fails leaves the others alone. @param {(state: State) => void} view */
  #draw(view) {
    try {
      view(this.#state);
    } catch (error) {
      console.error(error);
    }
  }
}

/** @param {State} state @param {string} code @returns {Chapter|undefined} */
export const chapterOf = (state, code) => state.lab?.chapters.find((chapter) => chapter.code === code);

/** The position that the run follows, or the newest. @param {State} state */
export const tokenOf = (state) => state.token ?? state.lab?.followed ?? 0;

/**
 * Whether a layer ran for the token that is looked at: figure 3A holds the first position that went through each layer.
 * A decoded token goes through all.
 * @param {State} state
 * @param {number} layer
 */
export function ran(state, layer) {
  const first = chapterOf(state, '3A')?.figure?.first?.[layer];
  return state.made !== null || first === undefined || tokenOf(state) >= first;
}

/**
 * What the recording offers nearest to the wish: the token first, then the layer.
 * @param {Recorded[]} recorded
 * @param {number|null} token
 * @param {number} layer
 * @returns {Recorded|null}
 */
export function nearest(recorded, token, layer) {
  /** @param {Recorded} item */
  const distance = (item) => (token === null ? 0 : Math.abs(item.token - token) * 1000) + Math.abs(item.layer - layer);
  return recorded.reduce((/** @type {Recorded|null} */ best, item) => (best && distance(best) <= distance(item) ? best : item), null);
}
