// Stepping through the blocks of the chosen token, and what is being looked at: from a recording, from another place than chosen, or a decoded token.
// On narrow screens a breadcrumb of the ten codes stands for the diagram.

import { el } from '../dom.js';
import { blockOf } from './diagram.js';
import { parseLabel, tokenFacts } from './labels.js';
import { icon, need } from './page.js';
import { ORDER } from './route.js';
import { ran, tokenOf } from './state.js';

/** @typedef {import('./state.js').Store} Store */
/** @typedef {import('./state.js').State} State */
/** @typedef {import('./i18n.js').I18n} I18n */

const [BACK, ON] = ['M10 2 4 8l6 6 1.4-1.4L6.8 8l4.6-4.6z', 'M6 2l6 6-6 6-1.4-1.4L9.2 8 4.6 3.4z'];

/** @param {{ store: Store, i18n: I18n }} page */
export function walkView({ store, i18n }) {
  const { t, pick } = i18n;
  const [walk, seen] = [need('walk'), need('seen')];

  /** @param {State} state @param {number} by */
  function go(state, by) {
    const code = ORDER[ORDER.indexOf(state.block) + by];
    const label = code ? t(by < 0 ? 'walk.back' : 'walk.on', { block: `${code} ${pick(blockOf(state, code).name)}` }) : t('walk.end');
    return el('button', { type: 'button', disabled: !code, title: label, 'data-walk': by, onclick: () => store.set({ block: code }) },
      by < 0 && icon(BACK), code ?? '–', by > 0 && icon(ON));
  }

  store.show(['block', 'lab', 'layer', 'token', 'info'], (state) => {
    const held = /** @type {HTMLElement|null} */ (document.activeElement)?.dataset.walk;
    const token = state.lab?.tokens[tokenOf(state)];
    const where = token ? t('walk.where', { at: ORDER.indexOf(state.block) + 1, of: ORDER.length, token: tokenFacts(t, token), layer: state.layer }) : '';
    const line = el('p', { title: where }, el('b', {}, state.block), ` · ${where}`);
    walk.replaceChildren(go(state, -1), line, go(state, 1));
    if (held) /** @type {HTMLElement|null} */ (walk.querySelector(`[data-walk="${held}"]`))?.focus();
  });

  store.show(['lab', 'made', 'steps', 'source', 'recorded', 'layer', 'token'], (state) => seen.replaceChildren(...what(state)));

  /** @param {State} state @returns {(Node|string)[]} */
  function what(state) {
    const step = state.made === null ? null : state.steps[state.made];
    if (step) {
      const best = step.top.slice(0, 5).map((item) => `${parseLabel(item.label).show} ${(item.probability * 100).toFixed(2)} %`).join(', ');
      return [el('b', {}, t('seen.made')), ` ${tokenFacts(t, step)}. `, t('seen.madeFacts', { layers: step.layers, ms: Math.round(step.seconds * 1000), best }), ' ', t('seen.madeNote')];
    }
    if (!state.lab) return [];
    const idle = ran(state, state.layer) ? '' : ` ${t('seen.idle', { layer: state.layer })}`;
    if (state.source !== 'recorded') {
      const { tokens, followed, layer } = state.lab;
      return [el('b', {}, `${t(`source.${state.source}`)}.`), ` ${t('seen.live', { tokens: tokens.length, token: followed, layer })}${idle}`];
    }
    const layers = [...new Set(state.recorded.map((item) => item.layer))].sort((a, b) => a - b);
    const note = [el('b', {}, t('seen.recorded')), ` ${t('seen.recordedNote')}`];
    const other = state.lab.layer !== state.layer || state.lab.followed !== tokenOf(state);
    if (other) note.push(` ${t('seen.nearest', { token: state.lab.followed, layer: state.lab.layer, layers: layers.join(', ') })}`);
    return [...note, idle];
  }
}

/** @param {{ store: Store, i18n: I18n }} page */
export function crumbsView({ store, i18n }) {
  const { t, pick } = i18n;
  const [crumbs, pane] = [need('crumbs'), need('map-pane')];
  store.show(['block', 'info', 'lab'], (state) => {
    const held = /** @type {HTMLElement|null} */ (document.activeElement)?.dataset.crumb;
    crumbs.replaceChildren(
      ...ORDER.map((code) => {
        const block = blockOf(state, code);
        return el('button', {
          type: 'button', class: `crumb c${block.column}`, 'data-crumb': code, 'aria-current': code === state.block && 'true',
          title: pick(block.name), onclick: () => store.set({ block: code }),
        }, code);
      }),
      el('button', {
        type: 'button', class: 'open', 'aria-expanded': String(pane.classList.contains('open')), 'aria-controls': 'map-pane', 'data-crumb': 'map',
        onclick: (/** @type {Event} */ event) => {
          const open = pane.classList.toggle('open');
          /** @type {HTMLElement} */ (event.currentTarget).setAttribute('aria-expanded', String(open));
        },
      }, t('crumbs.map')));
    if (held) /** @type {HTMLElement|null} */ (crumbs.querySelector(`[data-crumb="${held}"]`))?.focus({ preventScroll: true });
  });
}
