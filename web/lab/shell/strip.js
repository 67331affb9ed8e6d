// The token strip: the time axis. Prompt tokens, a picture as a thumbnail that unfolds, decoded tokens, and drafts until they are accepted.

import { el } from '../dom.js';
import { arrows, need, reveal } from './page.js';
import { parseLabel, tokenFacts } from './labels.js';
import { thumbnail } from './picture.js';
import { chapterOf, tokenOf } from './state.js';

/** @typedef {import('./state.js').Store} Store */
/** @typedef {import('./state.js').State} State */
/** @typedef {import('../../engine.js').Token} Token */
/** @typedef {import('./i18n.js').I18n} I18n */

/**
 * Runs of tokens of one kind: text tokens one by one, a picture with all of its marks as one.
 * @param {Token[]} tokens
 * @returns {(Token|Token[])[]}
 */
export function spans(tokens) {
  /** @type {(Token|Token[])[]} */
  const result = [];
  for (const token of tokens) {
    const last = result.at(-1);
    if (token.kind === 'text') result.push(token);
    else if (Array.isArray(last) && token.kind !== 'start') last.push(token);
    else result.push([token]);
  }
  return result;
}

/**
 * The drafts that are still open: the answer to the prompt and the five tokens drafted behind it, as long as what was decoded agrees.
 * @param {State} state
 */
export function openDrafts(state) {
  const draft = chapterOf(state, '6B')?.figure?.draft;
  if (!draft || !state.lab) return [];
  const all = [{ ...draft.anchor, confidence: null }, ...draft.tokens];
  const agreed = state.steps.every((step, index) => index >= all.length || step.id === all[index].id);
  if (!agreed) return [];
  const from = state.lab.tokens.length;
  return all.slice(state.steps.length).map((token, index) => ({ ...token, position: from + state.steps.length + index }));
}

/** @param {{ store: Store, i18n: I18n, look: (where: { token: number }) => void }} page */
export function stripView({ store, i18n, look }) {
  const { t } = i18n;
  const [list, scroller] = [need('strip'), need('strip-scroll')];
  let unfolded = false;

  /** @param {Token} token @param {string} extra */
  function button(token, extra = '') {
    const { kind, show } = parseLabel(token.label);
    const text = token.kind === 'text' ? show : t(`kind.short.${token.kind}`);
    const facts = tokenFacts(t, token);
    return el('button', {
      type: 'button', class: `tok ${kind} ${extra}`, tabindex: -1, title: facts, 'data-token': token.position,
      onclick: () => look({ token: token.position }),
    }, el('span', {}, text), ' ', el('i', {}, token.position));
  }

  /** @param {Token[]} span @param {State} state */
  function picture(span, state) {
    const canvas = thumbnail(chapterOf(state, '1A')?.figure);
    const name = t('strip.picture', { count: span.length, from: span[0].position, to: span[span.length - 1].position });
    const toggle = el('button', {
      type: 'button', class: 'tok image', 'aria-expanded': String(unfolded), title: name, 'data-fold': '',
      onclick: () => {
        unfolded = !unfolded;
        draw(store.state);
        /** @type {HTMLElement|null} */ (list.querySelector('[data-fold]'))?.focus();
      },
    }, canvas, el('span', {}, t(unfolded ? 'strip.fold' : 'strip.unfold', { count: span.length })));
    if (!unfolded) return el('li', {}, toggle);
    /** @type {Token[][]} */
    const rows = [[]];
    for (const token of span) {
      rows[rows.length - 1].push(token);
      if (token.kind === 'start' || token.kind === 'newline') rows.push([]);
    }
    const lines = rows.filter((row) => row.length > 0);
    return el('li', { class: 'unfold' }, toggle, ...lines.map((row) => el('ol', {}, ...row.map((token) => el('li', {}, button(token, 'cell'))))));
  }

  /** @param {State} state */
  function draw(state) {
    const items = spans(state.lab?.tokens ?? []).map((span) => (Array.isArray(span) ? picture(span, state) : el('li', {}, button(span))));
    const drafts = openDrafts(state);
    if (state.steps.length + drafts.length > 0) items.push(el('li', { class: 'divide', 'aria-hidden': 'true' }, t('strip.generated')));
    state.steps.forEach((step, index) => {
      const facts = t('strip.made', { facts: tokenFacts(t, step), ms: Math.round(step.seconds * 1000) });
      items.push(el('li', {}, el('button', {
        type: 'button', class: `tok made ${parseLabel(step.label).kind}`, tabindex: -1, title: facts, 'data-made': index,
        onclick: () => store.set({ made: index }),
      }, el('span', {}, parseLabel(step.label).show), ' ', el('i', {}, step.position))));
    });
    for (const token of drafts) {
      const facts = token.confidence === null ? t('strip.answer', { facts: tokenFacts(t, token) })
        : t('strip.draft', { facts: tokenFacts(t, token), confidence: (token.confidence * 100).toFixed(1), verdict: t(token.agrees ? 'strip.agrees' : 'strip.differs') });
      items.push(el('li', { class: 'tok draft', title: facts }, el('span', {}, parseLabel(token.label).show), el('i', {}, token.position)));
    }
    list.replaceChildren(...items);
    mark(state);
  }

  const buttons = () => /** @type {HTMLElement[]} */ ([...list.querySelectorAll('button')]);

  /** @param {State} state */
  function mark(state) {
    const wanted = state.made === null ? `[data-token="${tokenOf(state)}"]` : `[data-made="${state.made}"]`;
    const current = list.querySelector(wanted);
    for (const item of buttons()) {
      if (item === current) item.setAttribute('aria-current', 'true');
      else item.removeAttribute('aria-current');
      item.tabIndex = item === current || (!current && item === buttons()[0]) ? 0 : -1;
    }
    if (current) reveal(scroller, /** @type {HTMLElement} */ (current));
  }

  arrows(list, buttons, (item) => {
    if (item.dataset.token) look({ token: Number(item.dataset.token) });
    else if (item.dataset.made) store.set({ made: Number(item.dataset.made) });
  });
  let drawn = /** @type {unknown[]} */ ([]);
  store.show(['lab', 'steps', 'token', 'made'], (state) => {
    // A report from another place has the same tokens: then only the mark moves, and focus and scroll stay.
    const key = [i18n.lang, state.steps.length, JSON.stringify(openDrafts(state)), JSON.stringify(state.lab?.tokens)];
    if (key.every((value, index) => value === drawn[index])) return mark(state);
    drawn = key;
    const held = list.contains(document.activeElement);
    draw(state);
    const newest = list.querySelector(`[data-made="${state.steps.length - 1}"]`);
    if (newest && state.made === null) reveal(scroller, /** @type {HTMLElement} */ (newest));
    if (held) /** @type {HTMLElement|null} */ (list.querySelector('[tabindex="0"]'))?.focus();
  });
}
