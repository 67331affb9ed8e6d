// One turn of the conversation on the page: what was said, the pictures, what went wrong, and what can be done with it.

import { el } from '../dom.js';
import { icon } from './icons.js';
import { thumbnail } from './picture.js';
import { sentence } from './words.js';

/** @typedef {import('./conversation.js').Turn} Turn */
/** @typedef {import('./words.js').Say} Say */
/**
 * What the turns need from around them.
 * @typedef {{ say: Say, host: () => string, isBusy: () => boolean, markdown: () => typeof import('./markdown.js').Markdown | null,
 *   retry: () => void, edit: (id: number, content: Turn['content']) => void, tell: (text: string) => void }} Around
 */

/** The words of a message, without its pictures. @param {Turn['content']} content */
export function textOf(content) {
  if (typeof content === 'string') return content;
  return content.map((part) => (part.type === 'text' ? part.text : '')).join('\n').trim();
}

/**
 * A button that is only a drawing, with its name for those who do not see it.
 * @param {string} part @param {string} label @param {Parameters<typeof icon>[0]} drawing @param {(event: MouseEvent) => void} onclick
 */
export const drawn = (part, label, drawing, onclick) =>
  el('button', { type: 'button', class: part, part: `button ${part}`, 'aria-label': label, title: label, onclick }, icon(drawing));

/**
 * Copies a text and shows on the button that it did.
 * @param {HTMLButtonElement} button @param {string} text @param {Around} around
 */
async function copy(button, text, { say, tell }) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    return tell(say('copy.failed'));
  }
  tell(say('copied'));
  const before = [...button.childNodes];
  button.replaceChildren(icon('done'));
  setTimeout(() => button.replaceChildren(...before), 1_500);
}

/** A box of code with its language and a button to copy it. @param {Around} around */
const codeBox = (around) => (/** @type {string} */ text, /** @type {string} */ lang) => {
  const button = drawn('action', around.say('copy.code'), 'copy', () => void copy(button, text, around));
  return el('div', { class: 'code', part: 'code-block' }, el('div', {}, lang || ' ', button), el('pre', { tabindex: 0 }, el('code', {}, text)));
};

/** The element of one turn, kept up to date by `update`. */
export class TurnView {
  /** @type {Turn} */
  #turn;
  /** @type {Around} */
  #around;
  #content = el('div', { class: 'content', part: 'content' });
  #extra = el('div', { hidden: true });
  #actions;
  /** @type {import('./markdown.js').Markdown|null} */
  #markdown = null;
  #shown = '';

  /** @param {Turn} turn @param {Around} around */
  constructor(turn, around) {
    this.#turn = turn;
    this.#around = around;
    const { say } = around;
    const isUser = turn.role === 'user';
    const copies = drawn('action', say('copy'), 'copy', () => void copy(copies, textOf(turn.content), around));
    this.#actions = el(
      'div',
      { class: 'actions', part: 'actions' },
      isUser ? drawn('action', say('edit'), 'edit', () => this.#edit()) : null,
      copies,
      isUser ? null : drawn('action again', say('retry'), 'reset', around.retry),
    );
    this.element = el('article', { class: `message ${turn.role}`, part: `message message-${turn.role}`, 'aria-label': say(isUser ? 'you' : 'model') });
    if (isUser) this.element.append(...this.#asked());
    else this.element.append(this.#content, this.#extra, this.#actions);
  }

  /** What the reader wrote, as it was written. */
  #asked() {
    const { content } = this.#turn;
    const pictures = typeof content === 'string' ? [] : content.filter((part) => part.type === 'image_url').map((part) => this.#picture(part.image_url.url));
    const text = textOf(content);
    return [
      pictures.length ? el('div', { class: 'pictures' }, ...pictures) : '',
      el('div', { class: 'said' }, text ? el('div', { class: 'bubble', part: 'bubble' }, text) : null, this.#actions),
    ];
  }

  /** A picture on another host is named, not fetched. @param {string} url */
  #picture(url) {
    const { say } = this.#around;
    if (!/^(data|blob):/.test(url)) return el('span', { class: 'bubble' }, say('picture.elsewhere', { host: URL.canParse(url) ? new URL(url).host : url.slice(0, 40) }));
    const preview = thumbnail(url);
    preview.className = 'thumb';
    preview.setAttribute('part', 'picture');
    return el('span', { role: 'img', 'aria-label': say('picture') }, preview);
  }

  /** @param {{ isLast: boolean, isBusy: boolean }} place */
  update({ isLast, isBusy }) {
    this.element.classList.toggle('last', isLast && !isBusy);
    this.#actions.hidden = this.#turn.role === 'assistant' && (this.#turn.state === 'waiting' || this.#turn.state === 'streaming' || this.#turn.content === '');
    for (const button of this.#actions.querySelectorAll('.again')) /** @type {HTMLElement} */ (button).hidden = !isLast;
    if (this.#turn.role === 'user') {
      for (const button of this.#actions.querySelectorAll('button')) button.disabled = isBusy && button.getAttribute('aria-label') === this.#around.say('edit');
      return;
    }
    this.#write();
    this.#note();
  }

  /** The text so far. */
  #write() {
    // Half of a character beyond the first 65,536 waits for its other half.
    const text = textOf(this.#turn.content).replace(/[\ud800-\udbff]$/, '');
    this.#content.hidden = text === '';
    const Markdown = this.#around.markdown();
    if (Markdown && !this.#markdown) {
      this.#content.replaceChildren();
      this.#markdown = new Markdown(this.#content, { more: (count) => this.#around.say('rows.more', { count }), code: codeBox(this.#around) });
      this.#shown = '';
    }
    const key = `${this.#turn.state} ${text}`;
    if (key === this.#shown) return;
    this.#shown = key;
    if (this.#markdown) this.#markdown.update(text, { isGrowing: this.#turn.state === 'streaming' });
    else this.#content.replaceChildren(el('p', { class: 'plain' }, text));
  }

  /** What stands below the text: that one waits, why it ended, what went wrong. */
  #note() {
    const { say } = this.#around;
    const { state, content, finish, error } = this.#turn;
    const note = (/** @type {string} */ text) => el('p', { class: 'note', part: 'note' }, text);
    const below = () => {
      if (error) return trouble(say, error, this.#around.host(), this.#around.retry);
      if (state === 'waiting') return el('div', { class: 'waiting', part: 'waiting' }, el('i'), el('i'), el('i'), el('span', { class: 'sr' }, say('waiting')));
      if (state === 'stopped') return note(say('stopped'));
      if (state === 'done' && finish === 'length') return note(say('cut'));
      if (state === 'done' && content === '') return note(say('nothing'));
      return null;
    };
    const key = `${state} ${finish} ${content === ''}`;
    if (this.#extra.dataset.key === key) return;
    this.#extra.dataset.key = key;
    const node = below();
    this.#extra.hidden = node === null;
    this.#extra.className = error ? 'trouble' : '';
    if (error) this.#extra.setAttribute('part', 'error');
    this.#extra.replaceChildren(...(node ? [node].flat() : []));
  }

  /** Puts a field in place of what was asked. */
  #edit() {
    const { say, edit, isBusy } = this.#around;
    if (isBusy()) return;
    const { id, content } = this.#turn;
    const field = el('textarea', { 'aria-label': say('edit.label'), rows: 2, part: 'input' });
    field.value = textOf(content);
    const back = () => {
      this.element.replaceChildren(...this.#asked());
      /** @type {HTMLElement|null} */ (this.#actions.querySelector('button'))?.focus();
    };
    const again = () => {
      const text = field.value.trim();
      const pictures = typeof content === 'string' ? [] : content.filter((part) => part.type === 'image_url');
      if (text || pictures.length) edit(id, withPictures(text, pictures));
    };
    const form = el(
      'form',
      { class: 'edit', onsubmit: (/** @type {Event} */ event) => (event.preventDefault(), again()) },
      field,
      el(
        'div',
        { class: 'row' },
        el('p', { class: 'note' }, say('edit.warning')),
        el('button', { type: 'button', class: 'button', part: 'button', onclick: back }, say('edit.cancel')),
        el('button', { type: 'submit', class: 'button primary', part: 'button' }, say('edit.send')),
      ),
    );
    form.addEventListener('keydown', (event) => {
      if (event.key === 'Escape' && !event.isComposing) {
        event.stopPropagation();
        back();
      } else if (isSend(event)) {
        event.preventDefault();
        if (event.target === field) again();
      }
    });
    this.element.replaceChildren(form);
    field.focus();
    field.setSelectionRange(field.value.length, field.value.length);
  }
}

/** Content of a message: text alone, or text and pictures. @param {string} text @param {any[]} pictures @returns {Turn['content']} */
export const withPictures = (text, pictures) => (pictures.length ? [...pictures, ...(text ? [{ type: /** @type {const} */ ('text'), text }] : [])] : text);

/**
 * Whether a key press in a text field means to send. While an input method is at work, Enter chooses among its proposals; Safari says so only by
 * the key code 229.
 * @param {KeyboardEvent} event
 */
export const isSend = (event) =>
  event.key === 'Enter' && !event.shiftKey && !event.isComposing && event.keyCode !== 229 && /** @type {Element} */ (event.target).localName === 'textarea';

/**
 * What went wrong, with the next step and the raw words for those who can use them.
 * @param {Say} say
 * @param {import('../errors.js').EngineError} error
 * @param {string} host
 * @param {() => void} again
 */
export function trouble(say, error, host, again) {
  const details = el('details', {}, el('summary', {}, say('error.details')), el('p', { tabindex: 0 }, `${error.kind}: ${error.message}`));
  const button = el('button', { type: 'button', class: 'button', part: 'button', onclick: again }, say('error.again'));
  return [icon('warning'), el('div', { role: 'alert' }, el('p', {}, sentence(say, error, host)), button, details)];
}
