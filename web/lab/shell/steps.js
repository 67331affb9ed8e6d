// Decoding behind the prompt: one step, play until enough, reset; temperature and number of tokens.

import { el } from '../dom.js';
import { icon, need, recall, remember } from './page.js';

/** @typedef {import('./state.js').Store} Store */
/** @typedef {import('./state.js').State} State */
/** @typedef {import('./i18n.js').I18n} I18n */
/** @typedef {import('./session.js').Session} Session */

const ICONS = { step: 'M2 2l8 6-8 6zM11 2h3v12h-3z', play: 'M3 2l11 6-11 6z', pause: 'M3 2h4v12H3zM9 2h4v12H9z', reset: 'M8 2.5a5.5 5.5 0 1 1-5.3 4h2a3.6 3.6 0 1 0 3.3-2.1v2.4L4 3.4 8 0z' };
const MOST = { temperature: 2, count: 256 };

/** A number from a field, kept within its limits. @param {string|null} text @param {number} most @param {number} otherwise */
function within(text, most, otherwise) {
  const value = Number(text);
  return text === null || text === '' || !Number.isFinite(value) ? otherwise : Math.max(0, Math.min(most, value));
}

/** @param {{ store: Store, i18n: I18n, session: Session }} page */
export function stepsView({ store, i18n, session }) {
  const { t } = i18n;
  const host = need('steps');
  const temperature = el('input', { type: 'number', id: 'temperature', min: 0, max: MOST.temperature, step: 0.1, inputmode: 'decimal' });
  const count = el('input', { type: 'number', id: 'count', min: 1, max: MOST.count, step: 1, inputmode: 'numeric' });
  temperature.value = String(within(recall('temperature'), MOST.temperature, 0));
  count.value = String(Math.max(1, Math.round(within(recall('count'), MOST.count, 16))));
  temperature.addEventListener('change', () => remember('temperature', temperature.value = String(within(temperature.value, MOST.temperature, 0))));
  count.addEventListener('change', () => remember('count', count.value = String(Math.max(1, Math.round(within(count.value, MOST.count, 16))))));

  // Another seed for each token, the same in each run: a prompt with the same controls gives the same tokens.
  const read = () => ({
    temperature: within(temperature.value, MOST.temperature, 0), seed: 890 + store.state.steps.length, count: Math.max(1, Math.round(within(count.value, MOST.count, 16))),
  });

  /** @param {'step'|'play'|'pause'|'reset'} name @param {() => void} act */
  const button = (name, act) => el('button', {
    type: 'button', 'data-step': name, 'aria-label': t(`steps.${name}`), title: `${t(`steps.${name}`)}. ${t(`steps.${name}.about`)}`, onclick: act,
  }, icon(ICONS[name]), name === 'step' && t('steps.step'));

  const playOrPause = () => (store.state.playing ? button('pause', () => session.stop()) : button('play', () => session.play(read)));

  function draw() {
    host.replaceChildren(
      button('step', () => session.step(read())),
      playOrPause(),
      button('reset', () => session.reset()),
      el('label', { title: t('steps.temperature.about') }, t('steps.temperature'), temperature),
      el('label', { title: t('steps.count.about') }, t('steps.count'), count));
    mark(store.state);
  }

  /** One button takes the other's place: without the rest of the row the strip would be wider for a moment, and lose where it is scrolled to. */
  function turn() {
    const old = host.querySelector('[data-step="play"], [data-step="pause"]');
    const held = old !== null && old === document.activeElement;
    const next = playOrPause();
    old?.replaceWith(next);
    mark(store.state);
    if (held) next.focus();
  }

  /** @param {State} state */
  function mark(state) {
    const ready = state.live && session.request !== null;
    for (const item of /** @type {NodeListOf<HTMLButtonElement>} */ (host.querySelectorAll('[data-step]'))) {
      const name = item.dataset.step;
      item.disabled = !ready || (name === 'step' && state.playing) || (name === 'reset' && state.steps.length === 0);
    }
  }

  draw();
  store.show(['playing'], turn);
  store.show(['live', 'lab', 'steps'], mark);
  i18n.addEventListener('change', draw);
}
