// The panel with the conversation in it. It shows what the conversation says and passes on what the reader does.
//
// Fetched when the chat is used for the first time, with everything that it imports.

import { el } from '../dom.js';
import { Composer } from './composer.js';
import { icon } from './icons.js';
import { styles } from './looks.js';
import { notice } from './notice.js';
import { filesOf } from './picture.js';
import { PANEL } from './style.js';
import { TurnView, drawn, textOf } from './turn.js';

/** The style sheet of the panel. */
export const sheet = () => styles(PANEL);

/** @typedef {import('./conversation.js').Conversation} Conversation */
/** @typedef {import('./conversation.js').Turn} Turn */
/**
 * What the view is told once, when it is made.
 * @typedef {import('./shell.js').Facts & { suggestions: string[] }} Facts
 */
/**
 * @typedef {{ close: () => void, send: (content: Turn['content']) => void, edit: (id: number, content: Turn['content']) => void, retry: () => void,
 *   load: () => void, where: () => { model: string, host: string|null, place: 'device'|'host'|'page', about: string|null } }} Actions
 */

/** Distance from the end, in pixels, at which the reader still follows the answer. */
const NEAR = 48;
/** A text that took this many milliseconds to show is shown less often. */
const SLOW = 12;

let views = 0;

export class View {
  /** @type {Conversation} */
  #talk;
  /** @type {Facts} */
  #facts;
  /** @type {Actions} */
  #actions;
  /** @type {Map<number, TurnView>} */
  #turns = new Map();
  /** Whether the reader is at the end and wants to stay there, and where the end was. */
  #isPinned = true;
  #top = 0;
  #frame = 0;
  #wait = 0;
  /** @type {typeof import('./markdown.js').Markdown|null} */
  #Markdown = null;
  #id = `flash-chat-${(views += 1)}`;
  #said = el('p', { class: 'sr', role: 'status' });
  #notice = el('div', { class: 'notice', part: 'notice', hidden: true });
  #latest;
  #empty;
  #log;
  #who = el('span', { class: 'who', part: 'model' });
  #about;
  #aboutButton;
  #composer;
  #follow = () => this.shown();

  /** @param {Conversation} talk @param {Facts} facts @param {Actions} actions */
  constructor(talk, facts, actions) {
    this.#talk = talk;
    this.#facts = facts;
    this.#actions = actions;
    const { say, lang } = facts;
    this.#composer = new Composer({ say, lang, placeholder: facts.placeholder || say('placeholder'), send: actions.send, stop: () => talk.stop() });
    this.#empty = this.#greeting();
    this.#log = el('div', { class: 'log', part: 'log', role: 'log', 'aria-live': 'off', 'aria-label': say('log'), tabindex: 0 }, this.#empty);
    this.#latest = drawn('latest', say('latest'), 'down', () => this.#toEnd());
    this.#latest.hidden = true;
    this.#aboutButton = el('button', { type: 'button', part: 'button about-button', 'aria-expanded': 'false', onclick: () => this.#showAbout(this.#about.hidden) }, say('about'));
    this.#about = el('div', { class: 'about', part: 'about', role: 'group', 'aria-label': say('about'), tabindex: -1, hidden: true });
    this.element = this.#frameOf();
    this.#listen();
    visualViewport?.addEventListener('resize', this.#follow);
    this.turns();
    this.state();
  }

  /** The panel, with its header, conversation, field and last line. */
  #frameOf() {
    const { say, label, isInline } = this.#facts;
    const title = el('p', { class: 'title', part: 'title', role: 'heading', 'aria-level': 2, id: `${this.#id}-title` }, label || say('title'));
    const avatar = el('span', { class: 'avatar', part: 'avatar' }, el('slot', { name: 'avatar' }, icon('chat')));
    const close = drawn('tool', say('close'), 'close', this.#actions.close);
    close.hidden = isInline;
    const reset = drawn('tool', say('reset'), 'reset', () => {
      this.#talk.reset();
      this.#composer.field.focus();
    });
    close.setAttribute('part', 'button close');
    reset.setAttribute('part', 'button reset');
    return el(
      'div',
      { class: 'panel', part: 'panel', role: isInline ? 'region' : 'dialog', 'aria-labelledby': `${this.#id}-title` },
      el('div', { class: 'header', part: 'header' }, el('div', { class: 'brand' }, el('slot', { name: 'header' }, el('div', { class: 'brand' }, avatar, title))), reset, close),
      el('div', { class: 'middle' }, this.#log, this.#latest, this.#about),
      this.#notice,
      this.#composer.element,
      el('p', { class: 'footer', part: 'footer' }, this.#who, this.#aboutButton),
      this.#said,
    );
  }

  /** What stands there before the first question. */
  #greeting() {
    const { say, suggestions, isBundled } = this.#facts;
    const texts = suggestions.length || !isBundled ? suggestions : [say('suggest.1'), say('suggest.2'), say('suggest.3')];
    const buttons = texts.map((text) => el('button', { type: 'button', class: 'suggestion', part: 'button suggestion', onclick: () => this.#actions.send(text) }, text));
    const own = [el('p', {}, say(isBundled ? 'empty.nano' : 'empty')), buttons.length ? el('div', { class: 'suggestions' }, ...buttons) : null];
    return el('div', { class: 'empty', part: 'empty' }, el('slot', { name: 'empty' }, ...own));
  }

  #listen() {
    this.#log.addEventListener('scroll', () => {
      this.#isPinned = this.#toGo() < NEAR;
      this.#latest.hidden = this.#isPinned;
    });
    this.element.addEventListener('keydown', (event) => {
      if (event.key !== 'Escape' || event.isComposing || event.defaultPrevented) return;
      if (!this.#about.hidden) this.#showAbout(false);
      else if (!this.#facts.isInline) this.#actions.close();
      else return;
      event.preventDefault();
    });
    const sign = el('div', { class: 'dropping' }, this.#facts.say('drop'));
    const isFiles = (/** @type {DragEvent} */ event) => event.dataTransfer?.types.includes('Files');
    this.element.addEventListener('dragover', (event) => {
      if (!isFiles(event)) return;
      event.preventDefault();
      this.element.append(sign);
    });
    this.element.addEventListener('dragleave', (event) => {
      if (!this.element.contains(/** @type {Node|null} */ (event.relatedTarget))) sign.remove();
    });
    this.element.addEventListener('drop', (event) => {
      sign.remove();
      if (!isFiles(event)) return;
      event.preventDefault();
      void this.#composer.add(filesOf(event.dataTransfer));
    });
  }

  /** To be called when the panel is shown, or has another size. */
  shown() {
    if (this.#isPinned) this.#toEnd();
  }

  /** To be called when the panel is thrown away. */
  gone() {
    visualViewport?.removeEventListener('resize', this.#follow);
    cancelAnimationFrame(this.#frame);
    clearTimeout(this.#wait);
    // So that nothing is drawn any more.
    this.#frame = -1;
  }

  /** Fetches what shows answers, when there will be some. */
  async fetchMarkdown() {
    if (this.#Markdown) return;
    try {
      this.#Markdown = (await import('./markdown.js')).Markdown;
    } catch {
      // Plain text is readable too; the next opening tries again.
    }
    this.#flush();
  }

  /** The reader has opened the panel. Where the keyboard covers half of the screen, it comes when it is asked for. */
  entered() {
    const isTouch = !this.#facts.isInline && matchMedia('(pointer: coarse)').matches;
    if (isTouch) this.#log.focus({ preventScroll: true });
    else this.focus();
  }

  /** Puts the cursor where the reader can write. */
  focus() {
    this.#composer.field.focus();
  }

  get draft() {
    return this.#composer.draft;
  }

  set draft(text) {
    this.#composer.draft = text;
  }

  /** The turns changed: some came, some went. */
  turns() {
    const { turns } = this.#talk;
    const here = new Set(turns.map(({ id }) => id));
    for (const [id, view] of this.#turns) {
      if (here.has(id)) continue;
      view.element.remove();
      this.#turns.delete(id);
    }
    for (const turn of turns.filter(({ id }) => !this.#turns.has(id))) {
      const view = new TurnView(turn, {
        say: this.#facts.say,
        host: () => this.#actions.where().host ?? location.host,
        isBusy: () => this.#talk.busy,
        markdown: () => this.#Markdown,
        retry: this.#actions.retry,
        edit: this.#actions.edit,
        tell: (text) => this.#tell(text),
      });
      this.#turns.set(turn.id, view);
      this.#log.append(view.element);
      this.#isPinned = true;
      this.#top = 0;
    }
    this.#empty.hidden = turns.length > 0;
    if (turns.length) void this.fetchMarkdown();
    this.state();
    this.#flush();
  }

  /** A turn grew: at most once a frame, and less often when it takes long. */
  grew() {
    if (this.#frame || this.#wait) return;
    this.#frame = requestAnimationFrame(() => {
      this.#frame = 0;
      const start = performance.now();
      this.#flush();
      const took = performance.now() - start;
      if (took < SLOW) return;
      this.#wait = window.setTimeout(() => {
        this.#wait = 0;
        this.#flush();
      }, took * 4);
    });
  }

  /** An answer ended. Whoever listens hears it once, whole. @param {Turn} turn */
  ended(turn) {
    const { say } = this.#facts;
    this.turns();
    // An error is announced by itself.
    if (turn.state === 'done') this.#tell(say('said.answer', { text: this.#turns.get(turn.id)?.element.querySelector('.content')?.textContent || textOf(turn.content) }));
    if (turn.state === 'stopped') this.#tell(say('said.stopped'));
  }

  /** Shows every turn as it is now. */
  #flush() {
    const { turns, busy } = this.#talk;
    // The reader may have moved up since, which is an event only in the next frame.
    if (this.#log.scrollTop < this.#top - 1 && this.#toGo() >= NEAR) this.#isPinned = false;
    turns.forEach((turn, index) => this.#turns.get(turn.id)?.update({ isLast: index === turns.length - 1, isBusy: busy }));
    if (this.#isPinned) this.#toEnd();
    else this.#latest.hidden = false;
  }

  /** The state changed. */
  state() {
    const { busy } = this.#talk;
    this.#composer.update(busy);
    this.#log.setAttribute('aria-busy', String(busy));
    this.progress();
    this.#model();
    if (this.#isPinned) this.#toEnd();
  }

  /** How far the loading is, or whatever else stands in its place. */
  progress() {
    const { host, place } = this.#actions.where();
    const { say, lang } = this.#facts;
    notice(this.#notice, this.#talk, { say, lang, host: host ?? location.host, isLocal: place === 'device', load: this.#actions.load });
  }

  /** The line that says who answers, and where. */
  #model() {
    const { say } = this.#facts;
    const { model, host, place } = this.#actions.where();
    const where = place === 'host' ? say('where.host', { host: host ?? '' }) : say(place === 'page' ? 'where.page' : 'where.device');
    this.#who.textContent = model ? `${model}, ${where}` : where;
  }

  /** @param {boolean} isShown */
  #showAbout(isShown) {
    const { say, isBundled } = this.#facts;
    const { model, host, place, about } = this.#actions.where();
    this.#about.hidden = !isShown;
    this.#aboutButton.setAttribute('aria-expanded', String(isShown));
    if (!isShown) return this.#aboutButton.focus();
    const where = place === 'host' ? say('about.host', { host: host ?? '' }) : say(place === 'page' ? 'about.page' : 'about.device');
    const texts = [isBundled ? say('about.nano') : null, where, about, say('about.wrong')];
    this.#about.replaceChildren(
      el('p', { class: 'name' }, model || say('about')),
      ...texts.flatMap((text) => (text ? [el('p', {}, text)] : [])),
      el('button', { type: 'button', class: 'button', part: 'button', onclick: () => this.#showAbout(false) }, say('about.close')),
    );
    this.#about.focus();
  }

  #toEnd() {
    this.#isPinned = true;
    this.#latest.hidden = true;
    this.#log.scrollTop = this.#log.scrollHeight;
    this.#top = this.#log.scrollTop;
  }

  /** Pixels to the end. */
  #toGo() {
    return this.#log.scrollHeight - this.#log.scrollTop - this.#log.clientHeight;
  }

  /** Has a screen reader say something. @param {string} text */
  #tell(text) {
    this.#said.textContent = text;
  }
}
