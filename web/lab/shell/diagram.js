// The diagram: ten boxes with live thumbnails, arrows that thicken with the bytes they move. A box is a link to its chapter, so that address,
// keyboard and middle click work as everywhere.

import { el, s } from '../dom.js';
import { ARROWS, BOXES, COLUMNS, SIZE, boxOf, head, widthOf } from './map.js';
import { ORDER } from './route.js';
import { bytes, need, shapeText } from './page.js';
import { chapterOf } from './state.js';
import { thumb } from './thumbs.js';

/** @typedef {import('./state.js').Store} Store */
/** @typedef {import('./state.js').State} State */
/** @typedef {import('./i18n.js').I18n} I18n */
/** @typedef {import('./map.js').Box} Box */
/** @typedef {import('./map.js').Arrow} Arrow */

const PAD = 10;

/** Breaks a name into lines of at most `most` letters. @param {string} name @param {number} most */
function lines(name, most) {
  /** @type {string[]} */
  const result = [''];
  for (const word of name.split(' ')) {
    const last = result[result.length - 1];
    if (last && last.length + word.length + 1 > most) result.push(word);
    else result[result.length - 1] = last ? `${last} ${word}` : word;
  }
  return result;
}

/** Name and column of a block: from the core, or from the geometry before there is one. @param {State} state @param {string} code */
export function blockOf(state, code) {
  return state.info?.model.map.find((block) => block.code === code) ?? { code, name: chapterOf(state, code)?.name ?? null, column: boxOf(code).column, focus: /** @type {string[]} */ ([]) };
}

/** The reference of a tensor in the chapters, for its shape. @param {State} state @param {string} name */
function tensorOf(state, name) {
  for (const chapter of state.lab?.chapters ?? []) {
    const found = [...chapter.outputs, ...chapter.inputs].find((tensor) => tensor.name === name);
    if (found) return found;
  }
  return null;
}

/** @param {{ store: Store, i18n: I18n }} page */
export function diagramView({ store, i18n }) {
  const { t, pick } = i18n;
  const host = need('map');
  const arrows = s('g', {});
  const boxes = s('g', {});
  const columns = s('g', {});
  const picture = s('svg', { viewBox: `0 0 ${SIZE.width} ${SIZE.height}`, role: 'group', 'aria-label': '' }, columns, arrows, boxes);
  host.replaceChildren(picture);

  /** @param {State} state @param {Box} box */
  function drawBox(state, box) {
    const block = blockOf(state, box.code);
    const chapter = chapterOf(state, box.code);
    const name = lines(pick(block.name), 17).slice(0, 2);
    const top = box.y + 66;
    const room = box.y + box.height - 30 - top;
    const small = thumb(box.code, chapter?.figure, box.width - 2 * PAD, room);
    const fact = small.fact ? t(small.fact.key, small.fact.values) : '';
    const { x, y, width, height } = box;
    return s('a', { class: `box c${box.column}`, href: `#${box.code.toLowerCase()}`, 'data-code': box.code },
      s('rect', { class: 'frame', x, y, width, height, rx: 6 }),
      s('text', { class: 'code', x: x + PAD, y: y + 21 }, `${box.code} `),
      ...name.map((line, index) => s('text', { class: 'label', x: x + PAD, y: y + 38 + index * 16 }, `${line} `)),
      s('g', { class: 'thumb', 'aria-hidden': 'true', transform: `translate(${x + PAD} ${top})` }, ...small.nodes),
      s('text', { class: 'fact', x: x + PAD, y: y + height - 10 }, fact));
  }

  /** @param {State} state @param {Arrow} arrow */
  function drawArrow(state, arrow) {
    const moved = arrow.tensors.map((name) => tensorOf(state, name)).filter((tensor) => tensor !== null);
    const size = moved.reduce((sum, tensor) => sum + 4 * tensor.shape.reduce((product, side) => product * side, 1), 0);
    const width = widthOf(size);
    const title = `${arrow.from} → ${arrow.to}${moved.map((tensor) => `\n${tensor.name} ${shapeText(tensor.shape)}`).join('')}${size ? `\n${bytes(size)}` : ''}`;
    const group = s('g', { class: 'arrow' },
      s('title', {}, title),
      s('path', { d: arrow.path, 'stroke-width': width.toFixed(2) }),
      s('path', { class: 'tip', d: head(arrow.tip, width) }));
    if (arrow.label && arrow.at) {
      const left = arrow.at[0] < boxOf(arrow.from).x + boxOf(arrow.from).width / 2;
      group.append(s('text', { x: arrow.at[0] + (left ? -10 : 10), y: arrow.at[1], 'text-anchor': left ? 'end' : 'start' }, t(arrow.label)));
    }
    return group;
  }

  /** @param {State} state */
  function draw(state) {
    picture.setAttribute('aria-label', t('map.label'));
    const held = /** @type {HTMLElement|null} */ (document.activeElement?.closest?.('.box'))?.dataset.code;
    columns.replaceChildren(...COLUMNS.map(({ column, x }) => s('text', { class: `column-name c${column}`, x, y: 18 }, s('tspan', {}, column), ` ${t(`map.column.${column}`)}`)));
    arrows.replaceChildren(...ARROWS.map((arrow) => drawArrow(state, arrow)));
    boxes.replaceChildren(...ORDER.map((code) => drawBox(state, boxOf(code))));
    mark(state);
    if (held) /** @type {SVGElement|null} */ (boxes.querySelector(`[data-code="${held}"]`))?.focus();
    need('map-hint').textContent = t('map.hint');
  }

  /** @param {State} state */
  function mark(state) {
    host.classList.toggle('plain', !state.overlay);
    host.classList.toggle('focused', state.focus !== null);
    for (const box of /** @type {NodeListOf<SVGElement>} */ (boxes.querySelectorAll('.box'))) {
      const code = box.dataset.code ?? '';
      box.classList.toggle('lit', state.focus !== null && blockOf(state, code).focus.includes(state.focus));
      box.classList.toggle('holds', state.holding.includes(code));
      if (code === state.block) box.setAttribute('aria-current', 'true');
      else box.removeAttribute('aria-current');
    }
  }

  picture.addEventListener('keydown', (event) => {
    const at = ORDER.indexOf(/** @type {HTMLElement|null} */ (document.activeElement)?.dataset.code ?? '');
    const step = /** @type {Record<string, number>} */ ({ ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 })[event.key];
    const code = ORDER[at + (step ?? 0)];
    if (at < 0 || !step || !code) return;
    event.preventDefault();
    /** @type {SVGElement|null} */ (boxes.querySelector(`[data-code="${code}"]`))?.focus();
  });
  // The address changes by the link itself; here it only must not jump to the top, and a second click on the same box must not do nothing.
  picture.addEventListener('click', (event) => {
    const code = /** @type {HTMLElement|null} */ (/** @type {Element} */ (event.target).closest('.box'))?.dataset.code;
    if (!code || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    store.set({ block: code });
  });

  store.show(['lab', 'info'], draw);
  store.show(['block', 'focus', 'overlay', 'holding'], mark);
}

/** The tools above the map: focus groups, zoom, overlay. @param {{ store: Store, i18n: I18n }} page */
export function toolsView({ store, i18n }) {
  const { t } = i18n;
  const [tools, scaling, map] = [need('map-tools'), need('map-scale'), need('map')];
  let zoom = 1;

  /** @param {number} to */
  function scale(to) {
    zoom = Math.max(0.5, Math.min(3, Math.round(to * 4) / 4));
    map.style.width = `${zoom * 100}%`;
    map.style.height = `${zoom * 100}%`;
    const output = scaling.querySelector('output');
    if (output) output.textContent = `${Math.round(zoom * 100)} %`;
  }

  /** @param {string} name */
  const focus = (name) => el('button', {
    type: 'button', 'data-focus': name, 'aria-pressed': 'false', title: t(`focus.${name}.about`), onclick: () => store.set({ focus: store.state.focus === name ? null : name }),
  }, t(`focus.${name}`));

  function draw() {
    const overlay = el('button', { type: 'button', 'data-overlay': '', title: t('overlay.about'), onclick: () => store.set({ overlay: !store.state.overlay }) });
    tools.replaceChildren(el('span', { class: 'name' }, t('focus.name')), ...['prefill', 'decode', 'kv', 'moe'].map(focus));
    scaling.replaceChildren(
      el('button', { type: 'button', 'aria-label': t('zoom.out'), onclick: () => scale(zoom - 0.25) }, '−'),
      el('output', {}, `${Math.round(zoom * 100)} %`),
      el('button', { type: 'button', 'aria-label': t('zoom.in'), onclick: () => scale(zoom + 0.25) }, '+'),
      el('button', { type: 'button', onclick: () => scale(1) }, t('zoom.fit')),
      overlay);
    mark(store.state);
  }

  /** @param {State} state */
  function mark(state) {
    for (const button of /** @type {NodeListOf<HTMLElement>} */ (tools.querySelectorAll('[data-focus]'))) {
      button.setAttribute('aria-pressed', String(button.dataset.focus === state.focus));
    }
    const overlay = scaling.querySelector('[data-overlay]');
    if (overlay) overlay.textContent = t(state.overlay ? 'overlay.off' : 'overlay.on');
  }

  draw();
  i18n.addEventListener('change', draw);
  store.show(['focus', 'overlay'], mark);
}
