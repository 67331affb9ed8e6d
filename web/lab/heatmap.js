// A whole tensor as a heat map: rows down, everything else across. Where cells are finer than pixels, a pixel shows the largest magnitude in it.

import { clamp, el, exact, exact32, num, s } from './dom.js';
import { legend, scale } from './figures/colour.js';
import { plot, probe } from './figures/common.js';

/** @import { Tensor, Translate } from './chapter.types.js' */

/**
 * @param {Tensor} tensor
 * @param {{ host: HTMLElement, width: number, t: Translate, state: Record<string, number>, mark?: number }} of `mark` is a row to point at
 */
export function heatmap(tensor, of) {
  const { t, state } = of;
  const { data } = tensor;
  const rows = tensor.shape.length > 1 ? (tensor.shape[0] ?? 1) : 1;
  const columns = rows ? Math.floor(data.length / rows) : 0;
  const box = el('div', { class: 'ch-heat' });
  if (!rows || !columns) {
    box.append(el('p', { class: 'ch-empty' }, t('ch.tensorEmpty')));
    return box;
  }
  const { min, max, mean } = summary(data);
  const of_ = scale(of.host, min < 0 && tensor.kind === 'f32' ? 'signed' : 'weight', Math.max(Math.abs(min), Math.abs(max)));
  const stage = el('div');
  const shown = el('span', { class: 'ch-num ch-muted' });

  const view = () => {
    const size = clamp(state['heat-size'] || columns, Math.min(8, columns), columns);
    return { size, from: clamp(state['heat-from'] ?? 0, 0, columns - size) };
  };
  const zoom = (/** @type {number} */ by) => {
    const { size, from } = view();
    const cell = state['heat-at'] ?? 0;
    const next = clamp(Math.round(size * by), Math.min(8, columns), columns);
    const at = cell % columns;
    state['heat-size'] = next;
    state['heat-from'] = clamp((at >= from && at < from + size ? at : from) - Math.floor(next / 2), 0, columns - next);
    paint();
  };
  const pan = (/** @type {number} */ by) => {
    const { size, from } = view();
    state['heat-from'] = clamp(from + Math.round(by * size), 0, columns - size);
    paint();
  };

  function paint() {
    const { size, from } = view();
    const left = 34;
    const wide = Math.max(40, of.width - left);
    const tall = clamp(rows * 14, 24, 420);
    const on = plot({ width: of.width, height: tall + 2, label: `${tensor.tap} [${tensor.shape.join(', ')}]`, canvas: true });
    const [cw, ch] = [wide / size, tall / rows];
    if (on.pen) paintCells(on.pen, { data, columns, rows, size, from, left, cw, ch, scale: of_ });
    for (const r of new Set([0, of.mark ?? 0, rows - 1])) {
      on.svg.append(
        s(
          'text',
          { x: left - 6, y: clamp(r * ch + ch / 2 + 4, 10, tall), class: r === of.mark ? 'ch-label ch-end ch-strong' : 'ch-label ch-end' },
          r,
        ),
      );
    }
    if (of.mark !== undefined && of.mark < rows) {
      on.svg.append(s('path', { d: `M${left - 4} ${of.mark * ch + ch / 2}h4`, class: 'ch-line-strong' }));
    }
    const reader = probe(on, {
      count: rows * columns,
      columns,
      key: 'heat-at',
      state,
      label: t('ch.readTensor', { name: tensor.tap }),
      start: (of.mark !== undefined && of.mark < rows ? of.mark : 0) * columns,
      hit: (x, y) => {
        const [r, c] = [Math.floor(y / ch), from + Math.floor((x - left) / cw)];
        return r < 0 || r >= rows || c < from || c >= from + size ? -1 : r * columns + c;
      },
      box: (cell) => [left + (clamp(cell % columns, from, from + size - 1) - from) * cw, Math.floor(cell / columns) * ch, cw, ch],
      text: (cell) =>
        `[${place(cell, tensor.shape).join(', ')}] = ${tensor.kind === 'f32' ? exact32(data[cell] ?? 0) : exact(data[cell] ?? 0)}`,
    });
    shown.textContent = t('ch.columns', { from, to: from + size - 1, count: columns });
    stage.replaceChildren(on.root, reader.readout);
  }
  const button = (/** @type {string} */ sign, /** @type {string} */ name, /** @type {() => void} */ act) =>
    el('button', { type: 'button', class: 'ch-small', 'aria-label': t(name), title: t(name), onclick: act }, sign);
  paint();
  box.append(
    stage,
    el(
      'div',
      { class: 'ch-under' },
      legend(of_, t(of_.kind === 'signed' ? 'ch.signed' : 'ch.values')),
      el('span', { class: 'ch-num ch-muted' }, t('ch.summary', { min: num(min), max: num(max), mean: num(mean) })),
      columns > 16 &&
        el(
          'div',
          { class: 'ch-tools' },
          button('−', 'ch.zoomOut', () => zoom(2)),
          button('+', 'ch.zoomIn', () => zoom(0.5)),
          button('‹', 'ch.panLeft', () => pan(-0.5)),
          button('›', 'ch.panRight', () => pan(0.5)),
          shown,
        ),
    ),
  );
  return box;
}

/** @param {Float32Array | Int32Array} data */
function summary(data) {
  let [min, max, sum] = [Infinity, -Infinity, 0];
  for (const value of data) {
    min = Math.min(min, value);
    max = Math.max(max, value);
    sum += value;
  }
  return { min, max, mean: sum / Math.max(1, data.length) };
}

/** Indices of a flat index in a shape. @param {number} flat @param {number[]} shape */
function place(flat, shape) {
  const found = [];
  let rest = flat;
  for (const size of [...shape].reverse()) {
    found.unshift(rest % Math.max(1, size));
    rest = Math.floor(rest / Math.max(1, size));
  }
  return found;
}

/**
 * @param {CanvasRenderingContext2D} pen
 * @param {{ data: ArrayLike<number>, columns: number, rows: number, size: number, from: number, left: number, cw: number, ch: number,
 *   scale: import('./figures/colour.js').Scale }} of `size` of the `columns` are shown, beginning at `from`; cells are `cw` by `ch` pixels
 */
export function paintCells(pen, of) {
  const ratio = Math.min(2, globalThis.devicePixelRatio || 1);
  const [w, h] = [Math.min(of.size, Math.ceil(of.size * of.cw * ratio)), Math.min(of.rows, Math.ceil(of.rows * of.ch * ratio))];
  const image = new ImageData(w, h);
  const best = new Float64Array(w * h);
  for (let r = 0; r < of.rows; r += 1) {
    const y = Math.floor((r * h) / of.rows);
    for (let c = 0; c < of.size; c += 1) {
      const at = y * w + Math.floor((c * w) / of.size);
      const value = of.data[r * of.columns + of.from + c] ?? 0;
      if (Math.abs(value) > Math.abs(best[at] ?? 0)) best[at] = value;
    }
  }
  // 512 steps of the scale, each mixed once: half a million cells must not take longer than a frame or two.
  const table = Array.from({ length: 513 }, (_, i) =>
    of.scale.rgb(of.scale.kind === 'signed' ? (i / 256 - 1) * of.scale.max : (i / 512) * of.scale.max),
  );
  for (let i = 0; i < best.length; i += 1) {
    const share = (best[i] ?? 0) / of.scale.max;
    const step = Math.round(512 * clamp(of.scale.kind === 'signed' ? (share + 1) / 2 : share, 0, 1));
    const [r, g, b] = table[step] ?? [0, 0, 0];
    image.data[4 * i] = r;
    image.data[4 * i + 1] = g;
    image.data[4 * i + 2] = b;
    image.data[4 * i + 3] = 255;
  }
  const small = document.createElement('canvas');
  small.width = w;
  small.height = h;
  small.getContext('2d')?.putImageData(image, 0, 0);
  pen.imageSmoothingEnabled = false;
  pen.drawImage(small, of.left, 0, of.size * of.cw, of.rows * of.ch);
}
