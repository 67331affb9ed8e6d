// `<flash-chat>`: what a page can tell it, ask it and hear from it.
//
// | attribute     |                                                                                                              |
// |---------------|--------------------------------------------------------------------------------------------------------------|
// | `model`       | folder of a checkpoint, or the model's name at `endpoint`; without it `nano`, which ships beside the scripts |
// | `endpoint`    | a server that speaks the OpenAI protocol, such as `https://host/v1`; without it this device computes         |
// | `lang`        | `vi` or `en`; without it that of the page                                                                    |
// | `theme`       | `light` or `dark`; `auto`, the default, follows the page's `color-scheme`                                    |
// | `label`       | words on the button and in the header                                                                        |
// | `placeholder` | words in the empty field                                                                                     |
// | `system`      | instructions for the model, before the first turn                                                            |
// | `open`        | whether the panel is open                                                                                    |
// | `inline`      | in the flow of the page, always open, instead of a button in the corner                                      |
// | `auto-load`   | loads the model with the page rather than when the chat is opened; above 20 MB the reader is asked all the same |
//
// | property              |                                                                                            |
// |-----------------------|--------------------------------------------------------------------------------------------|
// | `messages`            | the conversation, as an engine takes it; can be set                                        |
// | `options`             | temperature, top_p, max_tokens, stop, seed                                                 |
// | `suggestions`         | questions to press before the first one is asked                                           |
// | `key`, `headers`      | for the endpoint; readable by everyone who opens the page                                  |
// | `engine`              | an engine that is open already, or anything with its `chat.completions.create`             |
// | `state`, `usage`      | `idle`, `consent`, `loading`, `ready`, `streaming`, `error`; tokens of the last answer     |
//
// Methods: `load`, `send`, `stop`, `reset`, `export`. Events, bubbling and composed: `ready`, `progress`, `token`, `message`, `error`,
// `statechange`. Slots: `header`, `avatar`, `empty`. Parts and `--flash-chat-*` variables: README.

import { Attributes } from './attributes.js';
import { Conversation } from './conversation.js';
import { BASE, styles } from './looks.js';
import { hostOf, nameOf } from './source.js';
import { Shell } from './shell.js';
import { languageOf, speaker } from './words.js';

/** @typedef {import('../endpoint.js').Message} Message */
/** @typedef {import('./conversation.js').Turn} Turn */

/** Attributes that say who answers. */
const SOURCE = ['model', 'endpoint'];
/** Attributes that change words or shape. */
const LOOK = ['lang', 'label', 'placeholder', 'inline'];
/** Accessors that a page may have set before this script came. */
const EARLY = ['messages', 'suggestions', 'engine'];

export class FlashChat extends Attributes {
  static observedAttributes = [...SOURCE, ...LOOK, 'open'];

  // A page may have set these before this script came; then they are there already.
  /** What goes with every request: temperature, top_p, max_tokens, stop, seed. @type {Record<string, unknown>} */
  options = Object(this).options ?? {};
  /** Sent to the endpoint as a bearer token. @type {string|undefined} */
  key = Object(this).key;
  /** More headers for the endpoint. @type {Record<string, string>|undefined} */
  headers = Object(this).headers;
  /** @type {import('./source.js').AnyEngine|null} */
  #engine = null;
  /** @type {string[]} */
  #suggestions = [];
  /** @type {Shell|null} */
  #shell = null;
  /** @type {import('./view.js').View|null} */
  #view = null;
  /** The panel on its way. @type {Promise<void>|null} */
  #coming = null;
  #shadow = this.attachShadow({ mode: 'open' });
  #talk = new Conversation({
    source: () => ({ model: this.getAttribute('model'), endpoint: this.getAttribute('endpoint'), key: this.key, headers: this.headers, engine: this.#engine }),
    system: () => this.getAttribute('system'),
    options: () => this.options,
    onturns: () => {
      this.#view?.turns();
      if (this.#talk.turns.length) void this.#panel();
    },
    onturn: () => this.#view?.grew(),
    ontoken: (turn, text) => {
      this.#view?.grew();
      this.#emit('token', { text, message: shared(turn) });
    },
    onend: (turn) => {
      this.#view?.ended(turn);
      this.#emit('message', shared(turn));
    },
    onstate: (state, previous) => {
      this.#view?.state();
      this.#emit('statechange', { state, previous });
    },
    onprogress: (progress) => {
      this.#view?.progress();
      this.#emit('progress', progress);
    },
    onready: ({ model, host }) => this.#emit('ready', { model, host }),
    onerror: (error) => this.#emit('error', error),
  });

  connectedCallback() {
    for (const name of EARLY) this.#adopt(name);
    this.#build();
    if (this.hasAttribute('auto-load')) void this.load();
  }

  disconnectedCallback() {
    this.#clear();
    // An element that is only moved is back before this runs.
    queueMicrotask(() => {
      if (!this.isConnected) this.#talk.close();
    });
  }

  /** @param {string} name @param {string|null} before @param {string|null} after */
  attributeChangedCallback(name, before, after) {
    if (!this.#shell || before === after) return;
    if (SOURCE.includes(name)) this.#talk.close();
    if (name === 'open') this.#show();
    else this.#build();
  }

  /** A property that was set before the class was known is in the way of the class's own. @param {string} name */
  #adopt(name) {
    const self = /** @type {any} */ (this);
    if (!Object.hasOwn(this, name)) return;
    const value = self[name];
    delete self[name];
    self[name] = value;
  }

  /** Makes what is on the page, anew when words or shape have changed. */
  #build() {
    const draft = this.#clear();
    const facts = this.#facts();
    this.#shell = new Shell(facts, {
      use: () => {
        if (!this.inline) this.open = true;
        void this.#engage().then(() => this.#view?.entered());
      },
      expect: () => void import('./view.js').catch(() => {}),
    });
    this.#shadow.adoptedStyleSheets = [styles(BASE)];
    this.#shadow.replaceChildren(this.#shell.element);
    this.#shell.connected();
    if (draft !== null || this.#talk.turns.length) {
      void this.#panel().then(() => {
        if (this.#view && draft) this.#view.draft = draft;
      });
    }
    this.#show();
  }

  /** Takes everything off the page. @returns {string|null} what was being written; `null` when there was no panel */
  #clear() {
    const draft = this.#view?.draft ?? null;
    this.#shell?.disconnected();
    this.#view?.gone();
    this.#shell = this.#view = this.#coming = null;
    return draft;
  }

  #facts() {
    const lang = languageOf(this);
    return {
      say: speaker(lang),
      lang,
      isInline: this.inline,
      label: this.getAttribute('label'),
      placeholder: this.getAttribute('placeholder'),
      suggestions: this.#suggestions,
      isBundled: !this.#engine && !this.getAttribute('endpoint') && /^(nano\/?)?$/.test(this.getAttribute('model') ?? ''),
    };
  }

  /** Has the panel on the page, fetched at its first use. @returns {Promise<void>} */
  #panel() {
    const shell = this.#shell;
    if (!shell) return Promise.resolve();
    this.#coming ??= import('./view.js').then(
      ({ View, sheet }) => {
        if (shell !== this.#shell) return;
        this.#view = new View(this.#talk, this.#facts(), {
          close: () => {
            this.open = false;
            shell.focus();
          },
          send: (content) => void this.#talk.send(content),
          edit: (id, content) => void this.#talk.edit(id, content),
          retry: () => void this.#talk.retry(),
          load: () => void this.load(),
          where: () => this.#where(),
        });
        this.#shadow.adoptedStyleSheets = [styles(BASE), sheet()];
        shell.mount(this.#view.element);
        this.#place();
      },
      () => {
        this.#coming = null;
        shell.lost();
      },
    );
    return this.#coming;
  }

  /** Shows panel or button, as the attributes say. */
  #place() {
    // In the flow of a page the panel is there once it has been used.
    this.#shell?.show(this.inline ? this.#view !== null : this.open);
    this.#view?.shown();
  }

  /** The same, after the attributes changed. */
  #show() {
    this.#place();
    if (this.open && !this.inline) void this.#engage();
  }

  /** The reader means to chat: that is the click that a small download needs. */
  async #engage() {
    const panel = this.#panel();
    void this.load();
    await panel;
    void this.#view?.fetchMarkdown();
  }

  /** Who answers, and where, before and after the engine is open. */
  #where() {
    const source = { model: this.getAttribute('model'), endpoint: this.getAttribute('endpoint'), engine: this.#engine };
    const { opened } = this.#talk;
    const host = hostOf(source);
    const place = this.#engine ? 'page' : host === null ? 'device' : 'host';
    const about = opened?.engine.info?.sentence?.[languageOf(this)] ?? null;
    return { model: opened?.model || nameOf(source), host, place: /** @type {'device'|'host'|'page'} */ (place), about };
  }

  /** @param {string} name @param {unknown} detail */
  #emit(name, detail) {
    this.dispatchEvent(new CustomEvent(name, { detail, bubbles: true, composed: true }));
  }

  /**
   * Opens the engine. Above 20 MB the reader is asked first.
   * @returns {Promise<boolean>} whether it is open; why not is an event `error`
   */
  async load() {
    return this.#talk.load().then(() => true, () => false);
  }

  /**
   * Asks a question, as if the reader had.
   * @param {string} text
   * @param {{ pictures?: string[] }} [more] addresses of pictures, `data:` or `blob:`
   * @returns {Promise<ReturnType<typeof shared>>} the answer, also when it was stopped or failed; its `state` says so
   */
  async send(text, { pictures = [] } = {}) {
    const parts = pictures.map((url) => ({ type: /** @type {const} */ ('image_url'), image_url: { url } }));
    return shared(await this.#talk.send(parts.length ? [...parts, { type: 'text', text }] : text));
  }

  /** Ends the answer that is being written; what has come stays. */
  stop() {
    this.#talk.stop();
  }

  /** Starts a new conversation. */
  reset() {
    this.#talk.reset();
  }

  /**
   * The conversation as a text.
   * @param {'json'|'markdown'} [format]
   */
  export(format = 'json') {
    if (format === 'json') return JSON.stringify({ model: this.#where().model, messages: this.messages }, null, 2);
    const say = speaker(languageOf(this));
    const words = (/** @type {Message} */ { content }) =>
      typeof content === 'string' ? content : content.map((part) => (part.type === 'text' ? part.text : `[${say('picture')}]`)).join('\n\n');
    return this.messages.map((message) => `**${say(message.role === 'user' ? 'you' : 'model')}**\n\n${words(message)}\n`).join('\n');
  }

  /** Puts the cursor into the field, or on the button that opens the chat. */
  focus() {
    if (this.#view && this.open) this.#view.focus();
    else this.#shell?.focus();
  }

  /** @returns {Message[]} */
  get messages() {
    return this.#talk.messages().filter(({ role }) => role !== 'system');
  }

  set messages(messages) {
    this.#talk.restore(messages);
  }

  /** @returns {string[]} */
  get suggestions() {
    return this.#suggestions;
  }

  set suggestions(texts) {
    this.#suggestions = [...texts];
    if (this.#shell) this.#build();
  }

  get engine() {
    return this.#engine;
  }

  set engine(engine) {
    this.#engine = engine;
    this.#talk.close();
    if (this.#shell) this.#build();
  }

  /** Where the chat stands. */
  get state() {
    return this.#talk.state;
  }

  /** Tokens of the last answer. */
  get usage() {
    return this.#talk.turns.findLast(({ usage }) => usage)?.usage ?? null;
  }
}

/** What a page is given of a turn. @param {Turn} turn */
const shared = ({ role, content, state, finish, usage, error, model }) => ({
  role,
  content,
  state,
  finish_reason: finish ?? null,
  usage: usage ?? null,
  error: error ?? null,
  model: model ?? null,
});
