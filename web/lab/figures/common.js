// What all figures share: a plot of a given size, and the probe that makes each of its numbers readable by pointer, touch and keyboard.

import { clamp, el, s } from '../dom.js';

/**
 * @typedef {object} Plot
 * @property {HTMLDivElement} root
 * @property {SVGSVGElement} svg above the canvas
 * @property {CanvasRenderingContext2D | null} pen draws in CSS pixels; `null` without a canvas
 * @property {number} width
 * @property {number} height
 */

/**
 * A drawing area. The label says the figure's finding to those who do not see it.
 * @param {{ width: number, height: number, label: string, canvas?: boolean, class?: string }} of sizes in CSS pixels
 * @returns {Plot}
 */
export function plot(of) {
  const width = Math.max(40, Math.floor(of.width));
  const height = Math.max(8, Math.ceil(of.height));
  const root = el('div', { class: `ch-plot ${of.class ?? ''}` });
  root.style.setProperty('width', `${width}px`);
  root.style.setProperty('height', `${height}px`);
  let pen = null;
  if (of.canvas) {
    const ratio = Math.min(3, globalThis.devicePixelRatio || 1);
    const canvas = el('canvas', { width: Math.round(width * ratio), height: Math.round(height * ratio), 'aria-hidden': 'true' });
    pen = canvas.getContext('2d');
    pen?.scale(ratio, ratio);
    root.append(canvas);
  }
  const svg = s('svg', { viewBox: `0 0 ${width} ${height}`, width, height, role: 'img', 'aria-label': of.label });
  root.append(svg);
  return { root, svg, pen, width, height };
}

/**
 * @typedef {object} Probe
 * @property {number} count cells, numbered row by row
 * @property {number} [columns] cells per row, if arrow up and down should move by a row
 * @property {string} label name of what is read
 * @property {string} key where the place is kept in `state`
 * @property {Record<string, number>} state
 * @property {number} [start] cell shown first
 * @property {(x: number, y: number) => number} hit cell under a point, or -1
 * @property {(cell: number) => [number, number, number, number]} box where a cell lies: x, y, width, height
 * @property {(cell: number) => string} text the cell's exact value
 * @property {(cell: number) => void} [change] called when another cell is read
 * @property {(cell: number) => void} [pick] called on click, Enter and Space
 */

/**
 * Lays a slider over a plot: the pointer, a finger or the arrow keys choose a cell, and its exact value stands below.
 * @param {Plot} on
 * @param {Probe} of
 * @returns {{ readout: HTMLElement, move: (cell: number) => void }}
 */
export function probe(on, of) {
  const readout = el('p', { class: 'ch-readout', 'aria-hidden': 'true' });
  const mark = s('rect', { class: 'ch-mark', rx: 1.5 });
  const slider = el('div', {
    class: `ch-probe${of.pick ? ' ch-pick' : ''}`,
    role: 'slider',
    tabindex: 0,
    'aria-label': of.label,
    'aria-valuemin': 0,
    'aria-valuemax': Math.max(0, of.count - 1),
    'data-key': `probe-${of.key}`,
  });
  /** @param {number} to @param {boolean} [quiet] */
  const show = (to, quiet) => {
    const cell = clamp(Math.round(to), 0, Math.max(0, of.count - 1));
    const moved = of.state[of.key] !== cell;
    of.state[of.key] = cell;
    const [x, y, w, h] = of.box(cell);
    for (const [name, value] of Object.entries({ x: x - 1, y: y - 1, width: Math.max(3, w + 2), height: Math.max(3, h + 2) })) {
      mark.setAttribute(name, String(value));
    }
    const text = of.text(cell);
    readout.textContent = text;
    slider.setAttribute('aria-valuenow', String(cell));
    slider.setAttribute('aria-valuetext', text);
    if (moved && !quiet) of.change?.(cell);
  };
  const now = () => of.state[of.key] ?? 0;
  /** @param {PointerEvent} event */
  const under = (event) => {
    const box = on.svg.getBoundingClientRect();
    const cell = of.hit((event.clientX - box.left) * (on.width / box.width), (event.clientY - box.top) * (on.height / box.height));
    if (cell >= 0 && cell < of.count) show(cell);
    return cell;
  };
  slider.addEventListener('pointermove', (event) => {
    under(event);
  });
  slider.addEventListener('click', (event) => {
    if (under(/** @type {PointerEvent} */ (event)) >= 0) of.pick?.(now());
  });
  slider.addEventListener('keydown', (event) => {
    const row = of.columns ?? 1;
    const far = of.columns ? of.columns * 4 : 10;
    /** @type {Record<string, number>} */
    const to = {
      ArrowLeft: now() - 1,
      ArrowRight: now() + 1,
      ArrowUp: now() - row,
      ArrowDown: now() + row,
      PageUp: now() - far,
      PageDown: now() + far,
      Home: 0,
      End: of.count - 1,
    };
    const cell = to[event.key];
    if (cell !== undefined) show(cell);
    else if (of.pick && (event.key === 'Enter' || event.key === ' ')) of.pick(now());
    else return;
    event.preventDefault();
  });
  on.svg.append(mark);
  on.root.append(slider);
  if (of.count > 0) show(clamp(of.state[of.key] ?? of.start ?? 0, 0, of.count - 1), true);
  else {
    slider.remove();
    mark.remove();
  }
  return { readout, move: (cell) => show(cell) };
}

/**
 * A row of choices, one of them pressed.
 * @param {{ label: string, key: string, options: string[], chosen: number, choose: (index: number) => void }} of
 */
export function choices(of) {
  const group = el('div', { class: 'ch-choices', role: 'group', 'aria-label': of.label });
  const buttons = of.options.map((text, i) =>
    el(
      'button',
      {
        type: 'button',
        'aria-pressed': String(i === of.chosen),
        'data-key': `${of.key}-${i}`,
        onclick: () => {
          buttons.forEach((button, j) => button.setAttribute('aria-pressed', String(j === i)));
          of.choose(i);
        },
      },
      text,
    ),
  );
  group.append(...buttons);
  return group;
}

/**
 * A slider with buttons for one step back and on.
 * @param {{ label: string, key: string, max: number, value: number, text: (value: number) => string, back: string, on: string,
 *   change: (value: number) => void }} of `back` and `on` name the buttons
 */
export function stepper(of) {
  const shown = el('output', { class: 'ch-num' }, of.text(of.value));
  const input = el('input', { type: 'range', min: 0, max: of.max, step: 1, value: of.value, 'aria-label': of.label, 'data-key': of.key });
  const set = (/** @type {number} */ value) => {
    const to = clamp(value, 0, of.max);
    input.value = String(to);
    input.setAttribute('aria-valuetext', of.text(to));
    shown.textContent = of.text(to);
    of.change(to);
  };
  input.setAttribute('aria-valuetext', of.text(of.value));
  input.addEventListener('input', () => set(Number(input.value)));
  const button = (/** @type {string} */ sign, /** @type {string} */ name, /** @type {number} */ by) =>
    el(
      'button',
      {
        type: 'button',
        class: 'ch-small',
        'aria-label': name,
        title: name,
        'data-key': `${of.key}${by}`,
        onclick: () => set(Number(input.value) + by),
      },
      sign,
    );
  return el('div', { class: 'ch-stepper' }, el('span', {}, of.label), button('‹', of.back, -1), input, button('›', of.on, 1), shown);
}

/** A heading inside a figure. @param {string} text @param {string} [aside] */
export const part = (text, aside) => el('p', { class: 'ch-part' }, text, aside ? el('span', { class: 'ch-aside' }, aside) : null);

/** A sentence in place of a picture. @param {string} text */
export const empty = (text) => el('p', { class: 'ch-empty' }, text);

/** Children side by side where there is room. @param {...Node} kids */
export const beside = (...kids) => el('div', { class: 'ch-beside' }, ...kids);

/** Children below each other. @param {...(Node | null | false)} kids */
export const stack = (...kids) => el('div', { class: 'ch-stack' }, ...kids);

/**
 * SVG text.
 * @param {number} x @param {number} y @param {string} text @param {string} [name] classes
 */
export const label = (x, y, text, name = '') => s('text', { x, y, class: name }, text);

/**
 * A token of the prompt in words.
 * @param {import('../chapter.types.js').Lab} lab
 * @param {number} position
 */
export const tokenAt = (lab, position) => lab.tokens[position]?.label ?? '?';
