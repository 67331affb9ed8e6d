// A conversation without its looks: the turns so far, the engine that answers, and the one answer that is on its way.

import { EngineError } from '../errors.js';
import { open, unlessAborted } from './source.js';

/** @typedef {import('../endpoint.js').Message} Message */
/** @typedef {import('../endpoint.js').Usage} Usage */
/** @typedef {import('./source.js').Source} Source */
/** @typedef {import('./source.js').Opened} Opened */
/** @typedef {import('./source.js').Progress} Progress */
/**
 * One turn. `waiting` has no text yet; `stopped` and `failed` keep what had come.
 * @typedef {{ id: number, role: 'user'|'assistant', content: Message['content'], state: 'done'|'waiting'|'streaming'|'stopped'|'failed',
 *   error?: EngineError, finish?: string, usage?: Usage, model?: string }} Turn
 */
/** `consent` waits for the reader's leave to download; see {@link Conversation.size}. @typedef {'idle'|'consent'|'loading'|'ready'|'streaming'|'error'} State */
/**
 * @typedef {{ source: () => Source, system: () => string|null, options: () => object,
 *   onturns: () => void, onturn: (turn: Turn) => void, ontoken: (turn: Turn, text: string) => void, onend: (turn: Turn) => void,
 *   onstate: (state: State, previous: State) => void, onprogress: (progress: Progress) => void, onready: (opened: Opened) => void,
 *   onerror: (error: EngineError) => void }} Hooks
 */

/** What a refused download is: neither a success nor a fault. */
const LATER = new DOMException('not now', 'AbortError');

export class Conversation {
  /** @type {Turn[]} */
  turns = [];
  /** @type {State} */
  state = 'idle';
  /** Bytes that wait, or waited in vain, for consent. */
  size = 0;
  /** How far the loading is. @type {Progress|null} */
  progress = null;
  /** Why the engine could not be opened. @type {EngineError|null} */
  error = null;
  /** @type {Opened|null} */
  opened = null;
  /** @type {Hooks} */
  #hooks;
  /** @type {Promise<Opened>|null} */
  #opening = null;
  /** @type {((isGranted: boolean) => void)|null} */
  #question = null;
  /** @type {AbortController|null} */
  #answering = null;
  #last = 0;
  /** Grows when the source changes, so that an opening of an older one is let go. */
  #source = 0;

  /** @param {Hooks} hooks */
  constructor(hooks) {
    this.#hooks = hooks;
  }

  /** Whether an answer is on its way. */
  get busy() {
    return this.#answering !== null;
  }

  /**
   * Opens the engine. The reader is asked before more than 20 MB are fetched.
   * @returns {Promise<Opened>}
   */
  load() {
    this.#opening ??= this.#open(this.#source);
    return this.#opening;
  }

  /** @param {number} mine */
  async #open(mine) {
    const source = this.#hooks.source();
    try {
      this.#enter('loading');
      this.progress = null;
      const progress = (/** @type {Progress} */ at) => {
        if (mine !== this.#source) return;
        this.progress = at;
        this.#hooks.onprogress(at);
      };
      const opened = await open(source, { progress, consent: (bytes) => this.#ask(bytes) });
      if (mine !== this.#source) {
        opened.release();
        throw LATER;
      }
      this.opened = opened;
      this.error = null;
      this.#enter('ready');
      this.#hooks.onready(opened);
      return opened;
    } catch (error) {
      if (mine === this.#source) {
        this.#opening = null;
        this.error = isLater(error) ? null : typed(error);
        this.#enter(this.error ? 'error' : 'idle');
        if (this.error) this.#hooks.onerror(this.error);
      }
      throw isLater(error) ? LATER : typed(error);
    }
  }

  /** Waits for the reader's leave. @param {number} bytes @returns {Promise<boolean>} */
  async #ask(bytes) {
    this.size = bytes;
    this.#enter('consent');
    const isGranted = await new Promise((/** @type {(isGranted: boolean) => void} */ resolve) => {
      this.#question = resolve;
    });
    if (isGranted) this.#enter('loading');
    return isGranted;
  }

  /** The reader's answer to a download. @param {boolean} isGranted */
  consent(isGranted) {
    const question = this.#question;
    this.#question = null;
    question?.(isGranted);
  }

  /**
   * Adds a turn of the reader and has it answered.
   * @param {Message['content']} content
   * @returns {Promise<Turn>} the answer, also when it was stopped or failed
   */
  async send(content) {
    if (this.busy) throw new EngineError('usage', 'an answer is on its way; stop it first');
    this.turns.push({ id: (this.#last += 1), role: 'user', content, state: 'done' });
    return this.#answer();
  }

  /** Has the last turn of the reader answered again. @returns {Promise<Turn|null>} */
  async retry() {
    if (this.busy) return null;
    while (this.turns.at(-1)?.role === 'assistant') this.turns.pop();
    return this.turns.length ? this.#answer() : null;
  }

  /**
   * Puts another text in place of a turn of the reader and goes on from there; what came after it is forgotten.
   * @param {number} id
   * @param {Message['content']} content
   */
  async edit(id, content) {
    const index = this.turns.findIndex((turn) => turn.id === id);
    if (index < 0 || this.busy) return null;
    this.turns.length = index;
    return this.send(content);
  }

  /** Ends the answer that is on its way; what has come of it stays. */
  stop() {
    this.#answering?.abort();
  }

  /** Stops, and forgets that there was an answer on its way. */
  #drop() {
    this.stop();
    this.#answering = null;
    if (this.state === 'streaming') this.#enter('ready');
  }

  /** Forgets every turn. */
  reset() {
    this.#drop();
    this.turns = [];
    if (this.state === 'error') this.#enter(this.opened ? 'ready' : 'idle');
    this.#hooks.onturns();
  }

  /** Replaces the turns. @param {Message[]} messages */
  restore(messages) {
    this.#drop();
    this.turns = messages
      .filter(({ role }) => role === 'user' || role === 'assistant')
      .map(({ role, content }) => ({ id: (this.#last += 1), role: /** @type {'user'|'assistant'} */ (role), content, state: 'done' }));
    this.#hooks.onturns();
  }

  /** The turns as an engine takes them, without answers that never came. @returns {Message[]} */
  messages() {
    const system = this.#hooks.system();
    const turns = this.turns.filter(({ role, content }) => role === 'user' || content !== '').map(({ role, content }) => ({ role, content }));
    return [...(system ? [{ role: /** @type {const} */ ('system'), content: system }] : []), ...turns];
  }

  /** Lets the engine go, as when another model is named. The turns stay. */
  close() {
    this.#drop();
    this.#source += 1;
    this.consent(false);
    this.opened?.release();
    this.opened = null;
    this.#opening = null;
    this.error = null;
    this.#enter('idle');
  }

  /** @returns {Promise<Turn>} */
  async #answer() {
    const messages = this.messages();
    /** @type {Turn} */
    const turn = { id: (this.#last += 1), role: 'assistant', content: '', state: 'waiting' };
    const abort = new AbortController();
    const { signal } = abort;
    this.turns.push(turn);
    this.#answering = abort;
    this.#hooks.onturns();
    try {
      const opened = await unlessAborted(this.load(), signal);
      turn.model = opened.model;
      this.#enter('streaming');
      await this.#listen(turn, opened.ask({ ...this.#hooks.options(), messages, signal }), signal);
      turn.state = 'done';
    } catch (error) {
      const isStopped = signal.aborted || error === LATER;
      turn.state = isStopped ? 'stopped' : 'failed';
      if (!isStopped) turn.error = typed(error);
    }
    if (this.#answering === abort) this.#end(turn);
    return turn;
  }

  /**
   * Adds to the turn what comes. A stop ends this at once, however long the engine takes to notice.
   * @param {Turn} turn
   * @param {AsyncIterable<import('../endpoint.js').Chunk>} chunks
   * @param {AbortSignal} signal
   */
  async #listen(turn, chunks, signal) {
    const iterator = chunks[Symbol.asyncIterator]();
    try {
      for (;;) {
        const { done, value } = await unlessAborted(iterator.next(), signal);
        if (done) return;
        this.#add(turn, value);
      }
    } finally {
      iterator.return?.().catch(() => {});
    }
  }

  /** @param {Turn} turn @param {import('../endpoint.js').Chunk} chunk */
  #add(turn, { choices, usage }) {
    if (usage) turn.usage = usage;
    const [choice] = choices;
    if (choice?.finish_reason) turn.finish = choice.finish_reason;
    const text = choice?.delta?.content;
    if (!text) return;
    turn.state = 'streaming';
    turn.content += text;
    this.#hooks.ontoken(turn, text);
  }

  /** After an answer. @param {Turn} turn */
  #end(turn) {
    this.#answering = null;
    if (turn.state === 'stopped' && turn.content === '') this.turns = this.turns.filter((other) => other !== turn);
    // A failed opening has told its own state and error already.
    if (turn.error && turn.error !== this.error) {
      this.#enter('error');
      this.#hooks.onerror(turn.error);
    } else if (this.state === 'streaming') this.#enter('ready');
    this.#hooks.onend(turn);
  }

  /** @param {State} state */
  #enter(state) {
    const previous = this.state;
    if (state === previous) return;
    this.state = state;
    this.#hooks.onstate(state, previous);
  }
}

/** @param {any} error */
const isLater = (error) => error === LATER || error?.kind === 'consent';

/** @param {any} error @returns {EngineError} */
function typed(error) {
  if (error instanceof EngineError) return error;
  return new EngineError(typeof error?.kind === 'string' ? error.kind : 'internal', error?.message ?? String(error), { cause: error });
}
