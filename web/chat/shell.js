// What there is of a chat before anyone uses it: a button, or in the flow of a page a greeting over something to write in. The panel comes when it is used.

import { el } from '../dom.js';
import { icon } from './icons.js';

/** @typedef {{ say: import('./words.js').Say, lang: import('./words.js').Lang, isInline: boolean, label: string|null, placeholder: string|null, isBundled: boolean }} Facts */
/** @typedef {{ use: () => void, expect: () => void }} Actions */

export class Shell {
  /** @type {Facts} */
  #facts;
  #button;
  #place;
  #trouble = el('p', { class: 'lost', role: 'alert', hidden: true });
  /** @type {HTMLElement|null} */
  #panel = null;
  #follow = () => this.#viewport();

  /** @param {Facts} facts @param {Actions} actions */
  constructor(facts, { use, expect }) {
    const { say, lang, isInline, label, placeholder, isBundled } = facts;
    this.#facts = facts;
    const listeners = { onclick: use, onpointerenter: expect, onfocus: expect };
    if (isInline) {
      const hint = placeholder || say('placeholder');
      this.#button = el('button', { type: 'button', class: 'field', part: 'button field', ...listeners }, el('span', {}, hint), icon('send'));
      const greeting = el('div', { class: 'greeting', part: 'empty' }, el('slot', { name: 'empty' }, el('p', {}, say(isBundled ? 'empty.nano' : 'empty'))));
      this.#place = el('div', { class: 'panel facade', part: 'panel', role: 'region', 'aria-label': label || say('title') }, greeting, this.#trouble, this.#button);
    } else {
      this.#button = el('button', { type: 'button', class: 'launcher', part: 'button launcher', 'aria-haspopup': 'dialog', 'aria-expanded': 'false', ...listeners }, icon('chat'), label || say('launch'));
      this.#place = el('div', {}, this.#trouble, this.#button);
    }
    this.element = el('div', { class: `root ${isInline ? 'in' : 'over'}`, part: 'root', lang }, this.#place);
  }

  /** To be called when the element is on the page. */
  connected() {
    visualViewport?.addEventListener('resize', this.#follow);
    visualViewport?.addEventListener('scroll', this.#follow);
    this.#viewport();
    if (this.#facts.isInline || !this.element.showPopover) return;
    // In the top layer no stacking context and no transformed ancestor of the page matters.
    this.element.popover = 'manual';
    this.element.showPopover();
  }

  disconnected() {
    visualViewport?.removeEventListener('resize', this.#follow);
    visualViewport?.removeEventListener('scroll', this.#follow);
  }

  /** On a phone the keyboard covers part of the page; the panel takes what is left. */
  #viewport() {
    if (!visualViewport) return;
    this.element.style.setProperty('--view-top', `${visualViewport.offsetTop}px`);
    this.element.style.setProperty('--view-height', `${visualViewport.height}px`);
  }

  /** Puts the panel where it belongs. @param {HTMLElement} panel */
  mount(panel) {
    this.#panel = panel;
    this.element.prepend(panel);
  }

  /** Shows the panel, if it is there, or what stands for it. @param {boolean} isOpen */
  show(isOpen) {
    const isShown = isOpen && this.#panel !== null;
    this.element.classList.toggle('open', isShown);
    if (this.#panel) this.#panel.hidden = !isShown;
    this.#place.hidden = isShown;
    if (!this.#facts.isInline) this.#button.setAttribute('aria-expanded', String(isShown));
  }

  /** Says that the panel could not be fetched; the next use tries again. */
  lost() {
    this.#trouble.textContent = this.#facts.say('error.network', { host: new URL(import.meta.url).host });
    this.#trouble.hidden = false;
  }

  focus() {
    this.#button.focus();
  }
}
