// 2A: the mixing matrix on its way through the Sinkhorn steps, and how fast its sums reach one.

import { clamp, el, exact, exact32, fixed, num, range, s, superscript } from '../dom.js';
import { legend, scale, textOn } from './colour.js';
import { beside, label, plot, probe, stack, stepper } from './common.js';

/** @import { Draw, MixFigure, StreamsFigure } from '../chapter.types.js' */

/** @param {Draw<StreamsFigure>} d @param {MixFigure} mix */
export function sinkhorn(d, mix) {
  const { t, state, width } = d;
  const last = mix.sinkhorn.length - 1;
  const matrix = el('div');
  const curve = el('div');
  const wide = width > 620;
  const room = wide ? Math.floor((width - 28) / 2) : width;
  const paint = (/** @type {number} */ step) => {
    state['2a-step'] = step;
    state['2a-error'] = step;
    matrix.replaceChildren(...matrixAt(d, mix, step, Math.min(room, 380)));
    curve.replaceChildren(...errorCurve(d, mix, step, Math.min(room, 420)));
  };
  const start = clamp(state['2a-step'] ?? last, 0, last);
  const control = stepper({
    label: t('ch.2a.step'),
    key: '2a-step',
    max: last,
    value: start,
    back: t('ch.back'),
    on: t('ch.onward'),
    text: (step) => (step === 0 ? t('ch.2a.softmax') : `${step} / ${last}`),
    change: paint,
  });
  paint(start);
  return stack(control, beside(matrix, curve));
}

/** @param {Draw<StreamsFigure>} d @param {MixFigure} mix @param {number} step @param {number} room @returns {Node[]} */
function matrixAt(d, mix, step, room) {
  const { t, state } = d;
  const values = mix.sinkhorn[step] ?? [];
  const h = mix.post.length;
  const size = clamp((room - 24) / (h + 1.25), 24, 62);
  const left = 22;
  const total = size * 1.15;
  const on = plot({
    width: left + h * size + total,
    height: left + h * size + size * 0.7,
    label: t('ch.2a.matrixLabel', { step, error: num(mix.rowError[step] ?? 0) }),
  });
  const colours = scale(d.host, 'weight', Math.max(...mix.sinkhorn.flat()));
  const rowSum = (/** @type {number} */ i) => range(h).reduce((sum, j) => sum + (values[i * h + j] ?? 0), 0);
  const colSum = (/** @type {number} */ j) => range(h).reduce((sum, i) => sum + (values[i * h + j] ?? 0), 0);
  for (const i of range(h)) {
    on.svg.append(
      label(left - 8, left + i * size + size / 2 + 5, String(i), 'ch-label ch-end'),
      label(left + i * size + size / 2, 14, String(i), 'ch-label ch-mid'),
    );
    for (const j of range(h)) {
      const value = values[i * h + j] ?? 0;
      const text = label(left + j * size + size / 2, left + i * size + size / 2 + 5, fixed(value), 'ch-cell ch-mid');
      text.style.setProperty('fill', textOn(colours.rgb(value)));
      const cell = s('rect', { x: left + j * size, y: left + i * size, width: size - 1.5, height: size - 1.5 });
      cell.style.setProperty('fill', colours.at(value));
      on.svg.append(cell, text);
    }
    on.svg.append(
      label(left + h * size + total - 4, left + i * size + size / 2 + 5, fixed(rowSum(i), 4), 'ch-label ch-end'),
      label(left + i * size + size / 2, left + h * size + 16, fixed(colSum(i), size < 44 ? 2 : 4), 'ch-label ch-mid'),
    );
  }
  on.svg.append(label(left + h * size + total - 4, 14, 'Σ', 'ch-label ch-end'), label(left - 8, left + h * size + 16, 'Σ', 'ch-label ch-end'));
  const reader = probe(on, {
    count: h * h,
    columns: h,
    key: '2a-cell',
    state,
    label: t('ch.2a.matrixRead'),
    hit: (x, y) => {
      const [i, j] = [Math.floor((y - left) / size), Math.floor((x - left) / size)];
      return i < 0 || j < 0 || i >= h || j >= h ? -1 : i * h + j;
    },
    box: (c) => [left + (c % h) * size, left + Math.floor(c / h) * size, size - 1.5, size - 1.5],
    text: (c) =>
      t('ch.2a.cell', {
        i: Math.floor(c / h),
        j: c % h,
        value: exact(values[c] ?? 0),
        row: exact32(Math.fround(rowSum(Math.floor(c / h)))),
        column: exact32(Math.fround(colSum(c % h))),
      }),
  });
  return [on.root, reader.readout, legend(colours, t('ch.weightScale'))];
}

/**
 * Distance of the row sums from one, on a logarithmic axis.
 * @param {Draw<StreamsFigure>} d
 * @param {MixFigure} mix
 * @param {number} step
 * @param {number} room
 * @returns {Node[]}
 */
function errorCurve(d, mix, step, room) {
  const { t, state } = d;
  const errors = mix.rowError.map((error) => Math.log10(Math.max(error, 1e-8)));
  const [low, high] = [Math.floor(Math.min(...errors)), Math.ceil(Math.max(...errors, -1))];
  const [left, tall, top] = [44, 150, 24];
  const wide = room - left - 14;
  const last = Math.max(1, errors.length - 1);
  const x = (/** @type {number} */ i) => left + (i / last) * wide;
  const y = (/** @type {number} */ value) => top + ((high - value) / Math.max(1, high - low)) * tall;
  const on = plot({
    width: room,
    height: top + tall + 34,
    label: t('ch.2a.errorLabel', { first: num(mix.rowError[0] ?? 0), last: num(mix.rowError.at(-1) ?? 0) }),
  });
  const every = Math.ceil((high - low) / 6);
  for (let p = high; p >= low; p -= every) {
    on.svg.append(
      s('path', { d: `M${left} ${y(p)}h${wide}`, class: 'ch-grid' }),
      label(left - 8, y(p) + 4, p === 0 ? '1' : `10${superscript(p)}`, 'ch-label ch-end'),
    );
  }
  on.svg.append(
    label(left, 12, t('ch.2a.error'), 'ch-label'),
    s('path', { d: errors.map((e, i) => `${i ? 'L' : 'M'}${x(i)} ${y(e)}`).join(''), class: 'ch-curve' }),
    ...errors.map((e, i) => s('circle', { cx: x(i), cy: y(e), r: i === step ? 5 : 2.2, class: i === step ? 'ch-dot-on' : 'ch-dot' })),
    label(left, top + tall + 18, '0', 'ch-label ch-mid'),
    label(left + wide, top + tall + 18, String(last), 'ch-label ch-mid'),
    label(left + wide / 2, top + tall + 30, t('ch.2a.step'), 'ch-label ch-mid'),
  );
  const reader = probe(on, {
    count: errors.length,
    key: '2a-error',
    state,
    label: t('ch.2a.errorRead'),
    start: step,
    hit: (at) => clamp(Math.round(((at - left) / wide) * last), 0, last),
    box: (i) => [x(i) - 6, y(errors[i] ?? 0) - 6, 12, 12],
    text: (i) => t('ch.2a.errorAt', { step: i, error: exact(mix.rowError[i] ?? 0) }),
  });
  return [on.root, reader.readout];
}
