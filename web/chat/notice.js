// What stands between conversation and field while there is no engine: a question before a download, how far it is, or why it failed.

import { el } from '../dom.js';
import { trouble } from './turn.js';
import { sizeText } from './words.js';

/**
 * @typedef {{ say: import('./words.js').Say, lang: import('./words.js').Lang, host: string, isLocal: boolean, load: () => void }} Around
 */

/**
 * Shows in the box what the conversation's state asks for.
 * @param {HTMLElement} box
 * @param {import('./conversation.js').Conversation} talk
 * @param {Around} around
 */
export function notice(box, talk, around) {
  const content = contents(talk, around);
  // The bar stays the same element while it grows, so that it grows smoothly.
  if (talk.state === 'loading' && box.classList.contains('loading') && content) return advance(box, content);
  box.hidden = content === null;
  box.classList.toggle('loading', talk.state === 'loading');
  box.replaceChildren(...(content ?? []));
}

/** @param {HTMLElement} box @param {Node[]} content */
function advance(box, [text, bar]) {
  const [shownText, shownBar] = /** @type {HTMLElement[]} */ ([...box.children]);
  if (!shownText || !shownBar || !(bar instanceof HTMLElement) || text?.textContent === shownText.textContent) return;
  shownText.textContent = text?.textContent ?? '';
  shownBar.setAttribute('aria-valuenow', bar.getAttribute('aria-valuenow') ?? '0');
  const inner = /** @type {HTMLElement} */ (shownBar.firstElementChild);
  inner.style.setProperty('--done', /** @type {HTMLElement} */ (bar.firstElementChild).style.getPropertyValue('--done'));
}

/** @param {import('./conversation.js').Conversation} talk @param {Around} around @returns {Node[]|null} */
function contents(talk, { say, lang, host, isLocal, load }) {
  const button = (/** @type {string} */ kind, /** @type {string} */ text, /** @type {() => void} */ onclick) =>
    el('button', { type: 'button', class: `button ${kind}`, part: 'button', onclick }, text);
  switch (talk.state) {
    case 'consent': {
      const size = sizeText(talk.size, lang);
      return [
        el('p', {}, say('load.consent', { size })),
        el(
          'div',
          { class: 'row' },
          button('primary', say('load.agree', { size }), () => talk.consent(true)),
          button('', say('load.refuse'), () => talk.consent(false)),
        ),
      ];
    }
    case 'loading': {
      // A server is open at once; a box that comes and goes would only startle.
      if (!isLocal) return null;
      const { done, total } = talk.progress ?? { done: 0, total: 0 };
      const share = total ? Math.min(1, done / total) : 0;
      const text = total > 1e5 ? say('loading.bytes', { done: sizeText(done, lang), total: sizeText(total, lang) }) : say('loading');
      const inner = el('div');
      inner.style.setProperty('--done', String(share));
      const bar = { class: 'bar', part: 'progress', role: 'progressbar', 'aria-label': say('loading'), 'aria-valuemin': 0, 'aria-valuemax': 100 };
      return [el('p', {}, text), el('div', { ...bar, 'aria-valuenow': Math.round(share * 100) }, inner)];
    }
    case 'error': {
      // When a question waits, its place says why it cannot be answered.
      if (!talk.error || talk.turns.at(-1)?.error) return null;
      return [el('div', { class: 'trouble', part: 'error' }, ...trouble(say, talk.error, host, load))];
    }
    case 'idle':
      return talk.size === 0 ? null : [el('div', { class: 'row' }, el('span', {}, say('load.idle')), button('', say('load.again'), load))];
    default:
      return null;
  }
}
