// The chapter of one block: what to look for, formula, picture, what goes in and out, tables, notes, checks, measurements.
// Called again with new data it replaces the values in place; focus, zoom and slider positions stay.

import { el, indexed, refocus } from './dom.js';
import { actionsView } from './actions.js';
import { checksView } from './checks.js';
import { formula } from './formulas.js';
import { badgeOf, tableView } from './table.js';
import { drawHeat, isTap, openTensor } from './tensor.js';
import { attention } from './figures/attention.js';
import { cache } from './figures/cache.js';
import { empty } from './figures/common.js';
import { compressor } from './figures/compressor.js';
import { engram } from './figures/engram.js';
import { experts } from './figures/experts.js';
import { head } from './figures/head.js';
import { input } from './figures/input.js';
import { schedule } from './figures/schedule.js';
import { streams } from './figures/streams.js';
import { windowRing } from './figures/window.js';

/** @import { Context, Draw, TensorRef, View } from './chapter.types.js' */
/** @typedef {{ body: Node, finding: string }} Drawn */

/** @type {Record<string, (draw: Draw<any>) => Drawn>} */
const FIGURES = {
  '1A': input,
  '1B': engram,
  '2A': streams,
  '3A': schedule,
  '3B': compressor,
  '3C': windowRing,
  '4A': attention,
  '6A': cache,
  '5A': experts,
  '6B': head,
};
const PARTS = ['top', 'formula', 'heat', 'figure', 'flow', 'tables', 'notes', 'checks', 'measure'];

/** @type {WeakMap<HTMLElement, View>} */
const views = new WeakMap();

/**
 * Draws or updates the chapter.
 * @param {HTMLElement} host
 * @param {Context} context
 */
export function renderChapter(host, context) {
  const old = views.get(host);
  const view = old ?? open(host, context);
  const top = view.parts.top;
  if (top && !host.contains(top)) host.replaceChildren(...Object.values(view.parts));
  const drawn = /** @type {(keyof Context)[]} */ (['chapter', 'lab', 'lang', 'engine', 'source']);
  if (old && drawn.every((name) => old.context[name] === context[name])) {
    view.context = context;
    return;
  }
  const other = !old || old.context.chapter.code !== context.chapter.code;
  const sameRun = !other && old.context.chapter === context.chapter && old.context.lang === context.lang;
  view.context = context;
  if (!sameRun) view.results = new Map();
  if (other) view.open = null;
  const focused = host.contains(document.activeElement) ? document.activeElement?.getAttribute('data-key') : null;
  host.lang = context.lang;
  drawTop(view);
  drawFormula(view);
  drawFlow(view);
  drawFigure(view);
  drawRest(view);
  drawHeat(view);
  if (!other && !sameRun && view.open) void openTensor(view, view.open.tap);
  if (focused && !other) refocus(host, focused);
}

/** @param {HTMLElement} host @param {Context} context @returns {View} */
function open(host, context) {
  const parts = Object.fromEntries(PARTS.map((name) => [name, el('section', { class: `ch-${name}` })]));
  host.classList.add('ch');
  host.replaceChildren(...Object.values(parts));
  /** @type {View} */
  const view = { context, parts, states: new Map(), results: new Map(), open: null, opener: '', width: 0 };
  views.set(host, view);

  const redraw = () => {
    drawFigure(view);
    drawHeat(view);
  };
  new ResizeObserver(() => {
    if (host.clientWidth > 0 && Math.abs(host.clientWidth - view.width) > 1) redraw();
  }).observe(host);
  new MutationObserver(redraw).observe(document.documentElement, { attributeFilter: ['data-theme', 'class'] });
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', redraw);

  // A symbol of the formula and its tensor in the lists light up together.
  const light = (/** @type {Event} */ event) => {
    const name = event.target instanceof Element ? event.target.closest('[data-tap]')?.getAttribute('data-tap') : null;
    for (const node of host.querySelectorAll('[data-tap]')) node.classList.toggle('ch-lit', node.getAttribute('data-tap') === name);
  };
  for (const type of ['pointerover', 'focusin']) host.addEventListener(type, light);
  for (const type of ['pointerleave', 'focusout'])
    host.addEventListener(type, () => {
      for (const node of host.querySelectorAll('.ch-lit')) node.classList.remove('ch-lit');
    });
  host.addEventListener('click', (event) => {
    const button = event.target instanceof Element ? event.target.closest('button[data-tap]') : null;
    if (!button) return;
    view.opener = button.getAttribute('data-key') ?? '';
    void openTensor(view, button.getAttribute('data-tap') ?? '');
    const panel = parts.heat?.firstElementChild;
    if (panel instanceof HTMLElement) {
      panel.focus({ preventScroll: true });
      panel.scrollIntoView({ block: 'nearest' });
    }
  });
  return view;
}

/** @param {View} view */
function drawTop({ context: { chapter, lang, t }, parts }) {
  parts.top?.replaceChildren(
    el('h2', {}, el('span', { class: 'ch-code' }, chapter.code), ' ', chapter.name[lang]),
    el('p', { class: 'ch-look' }, el('span', { class: 'ch-eyebrow' }, t('ch.lookFor')), chapter.look_for[lang]),
  );
}

/** @param {View} view */
function drawFormula({ context: { chapter, t }, parts }) {
  const seen = new Set();
  /** @type {[Element, HTMLButtonElement][]} */
  const pairs = [];
  const rows = formula(chapter.code, t).map(({ math, note }, i) => {
    const box = el('div', { class: 'ch-math' }, math);
    for (const symbol of math.querySelectorAll('[data-tap]')) {
      const name = symbol.getAttribute('data-tap') ?? '';
      if (!isTap(name)) continue;
      // Assistive technology reads a formula as one thing: its symbols get buttons that lie over them instead of being buttons.
      const button = el('button', {
        type: 'button',
        class: 'ch-symbol',
        'data-tap': name,
        'data-key': `symbol-${i}-${name}`,
        tabindex: seen.has(name) ? -1 : 0,
        'aria-label': t('ch.openTensor', { name }),
        title: name,
      });
      symbol.setAttribute('data-open', '');
      box.append(button);
      pairs.push([symbol, button]);
      seen.add(name);
    }
    if (box.childElementCount === 1) box.tabIndex = 0;
    return el('div', { class: 'ch-formula-line' }, box, el('span', { class: 'ch-muted' }, ...indexed(note)));
  });
  const symbols = t(`ch.symbols.${chapter.code}`).split(' · ').flatMap((one) => {
    const [name = '', about = ''] = one.split(/:(.*)/s);
    return [el('span', {}, el('b', {}, ...indexed(name)), ...indexed(about)), ' '];
  });
  parts.formula?.replaceChildren(el('h3', { class: 'ch-offscreen' }, t('ch.formula')), ...rows,
    el('p', { class: 'ch-symbols' }, ...symbols, el('span', {}, t('ch.symbols.hint'))));
  const lay = () => pairs.forEach(([symbol, button]) => layOver(symbol, button));
  lay();
  void document.fonts.ready.then(lay);
}

/** @param {Element} symbol @param {HTMLElement} button */
function layOver(symbol, button) {
  const box = button.parentElement;
  if (!box) return;
  const [at, from] = [symbol.getBoundingClientRect(), box.getBoundingClientRect()];
  const place = {
    left: at.left - from.left + box.scrollLeft - 2,
    top: at.top - from.top + box.scrollTop - 2,
    width: at.width + 4,
    height: at.height + 4,
  };
  for (const [name, value] of Object.entries(place)) button.style.setProperty(name, `${value}px`);
}

/** @param {View} view */
function drawFlow({ context: { chapter, lang, t }, parts }) {
  const list = (/** @type {TensorRef[]} */ refs) =>
    el(
      'ul',
      { class: 'ch-tensors' },
      ...refs.map((ref, i) => {
        const inside = [el('code', {}, ref.name), ' ', el('span', { class: 'ch-shape ch-num' }, `[${ref.shape.join(', ')}]`)];
        const node = isTap(ref.name)
          ? el(
              'button',
              { type: 'button', 'data-tap': ref.name, 'data-key': `tap-${ref.name}-${i}`, title: t('ch.openTensor', { name: ref.name }) },
              ...inside,
            )
          : el('span', { 'data-tap': ref.name }, ...inside);
        return el('li', {}, node, el('span', { class: 'ch-muted' }, ref.about[lang]));
      }),
    );
  const column = (/** @type {string} */ name, /** @type {Node} */ body) => el('div', {}, el('h3', {}, t(name)), body);
  parts.flow?.replaceChildren(
    column('ch.in', list(chapter.inputs)),
    column('ch.happens', el('p', {}, chapter.happens[lang])),
    column('ch.out', list(chapter.outputs)),
  );
}

/** @param {View} view */
function drawFigure(view) {
  const { context, parts } = view;
  const { chapter, lab, lang, t } = context;
  const host = parts.figure;
  if (!host) return;
  // The section is hidden while it is empty: the width is that of the chapter.
  view.width = host.parentElement?.clientWidth ?? 0;
  const focused = host.contains(document.activeElement) ? document.activeElement?.getAttribute('data-key') : null;
  const state = view.states.get(chapter.code) ?? {};
  view.states.set(chapter.code, state);
  const figure = chapter.figure;
  const draw = figure ? FIGURES[figure.block] : undefined;
  if (!draw || view.width === 0) {
    host.replaceChildren(draw ? '' : empty(t('ch.noFigure')));
    return;
  }
  const drawn = draw({
    data: figure,
    lab,
    lang,
    t,
    width: view.width,
    host,
    state,
    onToken: (position) => context.onToken?.(position),
    again: () => drawFigure(view),
  });
  // A figure shows what the tables show: its numbers come from the same place.
  const badge = chapter.tables.find((table) => table.badge === 'gpu' || table.badge === 'cpu-reference')?.badge;
  const from = badgeOf(badge ?? (context.source === 'gpu' ? 'gpu' : 'cpu-reference'), context.source, t);
  host.replaceChildren(el('figure', {}, el('figcaption', {}, drawn.finding, ' ', from), drawn.body));
  if (focused) refocus(host, focused);
}

/** @param {View} view */
function drawRest(view) {
  const { context, parts } = view;
  const { chapter, lang, t, source } = context;
  parts.tables?.replaceChildren(...chapter.tables.map((table, i) => tableView(table, { lang, t, source, key: `${chapter.code}-${i}` })));
  parts.notes?.replaceChildren(
    ...(chapter.notes.length ? [el('ul', { class: 'ch-notes' }, ...chapter.notes.map((note) => el('li', {}, note[lang])))] : []),
  );
  parts.checks?.replaceChildren(...checksView(context));
  parts.measure?.replaceChildren(...actionsView(context, view.results));
}
