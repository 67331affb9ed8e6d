// Where the reader writes: a field that grows, pictures by button, paste and drop, and one place for send and stop.

import { el } from '../dom.js';
import { icon } from './icons.js';
import { MAX_PICTURES, filesOf, read } from './picture.js';
import { drawn, isSend, withPictures } from './turn.js';

/** @typedef {import('./picture.js').Picture} Picture */
/**
 * @typedef {{ say: import('./words.js').Say, lang: import('./words.js').Lang, placeholder: string, send: (content: import('./conversation.js').Turn['content']) => void,
 *   stop: () => void }} Around
 */

export class Composer {
  /** @type {Around} */
  #around;
  /** @type {Picture[]} */
  #pictures = [];
  #isBusy = false;
  #attachments = el('div', { class: 'attachments', hidden: true });
  #refusal = el('p', { class: 'refusal', part: 'refusal', role: 'alert', hidden: true });
  #file = el('input', { type: 'file', accept: 'image/png,image/jpeg,image/webp', multiple: true, hidden: true, onchange: () => this.#chosen() });
  #send;
  #stop;

  /** @param {Around} around */
  constructor(around) {
    this.#around = around;
    const { say, placeholder } = around;
    this.field = el('textarea', { class: 'input', part: 'input', rows: 1, placeholder, 'aria-label': placeholder, enterkeyhint: 'send', autocomplete: 'off', dir: 'auto' });
    this.#send = el('button', { type: 'submit', class: 'go', part: 'button send', 'aria-label': say('send'), title: say('send'), disabled: true }, icon('send'));
    this.#stop = drawn('go stop', say('stop'), 'stop', () => {
      around.stop();
      this.field.focus();
    });
    this.#stop.setAttribute('part', 'button stop');
    this.#stop.hidden = true;
    const attach = drawn('tool', say('attach'), 'picture', () => this.#file.click());
    attach.setAttribute('part', 'button attach');
    this.element = el(
      'form',
      { class: 'composer', part: 'composer' },
      this.#refusal,
      this.#attachments,
      el('div', { class: 'line' }, attach, this.#file, this.field, this.#send, this.#stop),
    );
    this.#listen();
  }

  #listen() {
    this.element.addEventListener('submit', (event) => {
      event.preventDefault();
      this.#submit();
    });
    this.field.addEventListener('keydown', (event) => {
      if (!isSend(event)) return;
      event.preventDefault();
      this.#submit();
    });
    this.field.addEventListener('input', () => this.#changed());
    this.field.addEventListener('paste', (event) => {
      const files = filesOf(event.clipboardData);
      if (!files.length) return;
      event.preventDefault();
      void this.add(files);
    });
  }

  /** What has been written and not sent. */
  get draft() {
    return this.field.value;
  }

  set draft(text) {
    this.field.value = text;
    this.#changed();
  }

  /** Whether an answer is on its way: then there is stop in the place of send. @param {boolean} isBusy */
  update(isBusy) {
    const hadFocus = this.#stop.matches(':focus');
    this.#isBusy = isBusy;
    this.#send.hidden = isBusy;
    this.#stop.hidden = !isBusy;
    if (hadFocus && !isBusy) this.field.focus();
  }

  /** Adds pictures; what cannot be added is said in a sentence. @param {File[]} files */
  async add(files) {
    const { say, lang } = this.#around;
    this.#refuse('');
    for (const file of files) {
      if (this.#pictures.length >= MAX_PICTURES) return this.#refuse(say('picture.tooMany', { limit: MAX_PICTURES }));
      const picture = await read(file, say, lang);
      if (typeof picture === 'string') this.#refuse(picture);
      else this.#pictures.push(picture);
      this.#changed();
    }
    this.field.focus();
  }

  #chosen() {
    const files = [...(this.#file.files ?? [])];
    // So that choosing the same file again is a change.
    this.#file.value = '';
    void this.add(files);
  }

  #submit() {
    const text = this.field.value.trim();
    if (this.#isBusy || (!text && !this.#pictures.length)) return;
    const pictures = this.#pictures.map(({ url }) => ({ type: 'image_url', image_url: { url } }));
    this.field.value = '';
    this.#pictures = [];
    this.#refuse('');
    this.#changed();
    this.field.focus();
    this.#around.send(withPictures(text, pictures));
  }

  #changed() {
    const { say } = this.#around;
    this.#send.disabled = !this.field.value.trim() && !this.#pictures.length;
    // Where the style sheet cannot size a field by its text, this does.
    if (!CSS.supports('field-sizing', 'content')) {
      this.field.style.height = 'auto';
      this.field.style.height = `${this.field.scrollHeight}px`;
    }
    this.#attachments.hidden = !this.#pictures.length;
    const shown = this.#pictures.map((picture) => {
      const remove = drawn('detach', say('detach', { name: picture.name }), 'close', () => {
        this.#pictures = this.#pictures.filter((other) => other !== picture);
        this.#changed();
        this.field.focus();
      });
      return el('div', { class: 'attachment', part: 'attachment' }, picture.preview, remove);
    });
    this.#attachments.replaceChildren(...shown);
  }

  /** @param {string} why */
  #refuse(why) {
    this.#refusal.hidden = !why;
    this.#refusal.textContent = why;
  }
}
