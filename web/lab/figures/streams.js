// 2A: four streams as ribbons as wide as the mixing weights, and the mixing matrix on its way through the Sinkhorn steps.

import { clamp, el, exact, fixed, num, range, s, superscript } from '../dom.js';
import { keys, legend, scale, textOn } from './colour.js';
import { beside, choices, label, part, plot, probe, stack, stepper } from './common.js';

/** @import { Draw, MixFigure, StreamsFigure } from '../chapter.types.js' */

/**
 * @param {Draw<StreamsFigure>} d
 * @returns {{ body: Node, finding: string }}
 */
export function streams(d) {
  const { data, t, state } = d;
  const chosen = clamp(state['2a-which'] ?? 0, 0, 1);
  const mix = chosen ? data.ffn : data.attn;
  const control = choices({
    label: t('ch.2a.which'), key: '2a-which', options: [t('ch.2a.attn'), t('ch.2a.ffn')], chosen,
    choose: (which) => {
      state['2a-which'] = which;
      d.again();
    },
  });
  const sides = Math.sqrt(mix.comb.length);
  const strongest = mix.comb.reduce((best, value, i) => (value > (mix.comb[best] ?? 0) ? i : best), 0);
  const finding = t('ch.2a.finding', {
    layer: data.layer, part: t(chosen ? 'ch.2a.ffn' : 'ch.2a.attn'), from: Math.floor(strongest / sides), to: strongest % sides, weight: fixed(mix.comb[strongest] ?? 0),
    error: num(mix.rowError.at(-1) ?? 0), steps: mix.sinkhorn.length - 1,
  });
  return {
    finding,
    body: stack(control, part(t('ch.2a.ribbons'), t('ch.2a.ribbonsAbout')), ...ribbons(d, mix, chosen === 1),
      part(t('ch.2a.sinkhorn'), t('ch.2a.sinkhornAbout')), sinkhorn(d, mix)),
  };
}

/** @param {Draw<StreamsFigure>} d @param {MixFigure} mix @param {boolean} ffn @returns {Node[]} */
function ribbons(d, mix, ffn) {
  const { data, t, state, width } = d;
  const h = mix.post.length;
  const narrow = width < 520;
  const [left, right] = [narrow ? 74 : 150, width - (narrow ? 92 : 168)];
  const [lane, gap] = [34, 14];
  const top = 22;
  const y = (/** @type {number} */ i) => top + i * (lane + gap);
  const yOut = y(h) + 8;
  const thick = (/** @type {number} */ w) => Math.max(0.75, w * lane);
  const on = plot({ width, height: yOut + 40, label: t('ch.2a.ribbonsLabel', { list: mix.comb.map((w, i) => `${Math.floor(i / h)}→${i % h} ${fixed(w)}`).join(', ') }) });
  const middle = (left + right) / 2;
  /** @type {[number, number, number, number][]} */
  const boxes = [];
  const filled = new Array(h).fill(0);
  for (const i of range(h)) {
    let from = 0;
    for (const j of range(h)) {
      const w = thick(mix.comb[i * h + j] ?? 0);
      const [y0, y1] = [y(i) + from + w / 2, y(j) + filled[j] + w / 2];
      on.svg.append(s('path', { d: `M${left} ${y0}C${middle} ${y0} ${middle} ${y1} ${right} ${y1}`, 'stroke-width': w, class: `ch-ribbon ch-lane${i % 4}` }));
      boxes.push([left + (right - left) * 0.9 - 5, y1 - w / 2 + 0, 10, w]);
      from += w;
      filled[j] += w;
    }
  }
  const after = narrow ? right + 8 : right + 10;
  for (const i of range(h)) {
    on.svg.append(s('rect', { x: left - 6, y: y(i), width: 6, height: lane, class: `ch-lane-end ch-lane${i % 4}` }), s('rect', { x: right, y: y(i), width: 6, height: lane, class: 'ch-lane-out' }),
      label(left - 14, y(i) + 15, `h${'₀₁₂₃₄₅₆₇'[i] ?? i}`, 'ch-label ch-end ch-strong'), label(left - 14, y(i) + 30, ffn ? '' : narrow ? fixed(data.before[i] ?? 0, 1) : `‖h‖ ${fixed(data.before[i] ?? 0, 1)}`, 'ch-label ch-end'),
      label(after, y(i) + 15, `h′${'₀₁₂₃₄₅₆₇'[i] ?? i}${narrow || !ffn ? '' : ` ‖h′‖ ${fixed(data.after[i] ?? 0, 1)}`}`, 'ch-label ch-strong'),
      label(after, y(i) + 30, `+ ${fixed(mix.post[i] ?? 0)} y`, 'ch-label'));
    const [bus, end] = [right + 6 + (narrow ? 80 : 150), right + (narrow ? 70 : 120)];
    const thickness = Math.max(0.75, clamp((mix.post[i] ?? 0) / 2, 0, 1) * 9);
    on.svg.append(s('path', { d: `M${bus} ${yOut + 16}V${y(i) + 26}`, class: 'ch-post' }), s('path', { d: `M${bus} ${y(i) + 26}H${end + 6}`, 'stroke-width': thickness, class: 'ch-post' }),
      s('path', { d: `M${end} ${y(i) + 26}l8 ${-thickness / 2 - 3}v${thickness + 6}z`, class: 'ch-head' }));
  }
  on.svg.append(label(left - 6, 12, t('ch.2a.in'), 'ch-label'), label(right + 6, 12, t('ch.2a.out'), 'ch-label ch-end'),
    label(width - 2, yOut + 30, narrow ? 'y' : t('ch.2a.y'), 'ch-label ch-end'));
  const bar = Math.min(120, (right - left) / h - 10);
  on.svg.append(label(2, yOut + 30, narrow ? 'pre' : t('ch.2a.pre'), 'ch-label'));
  range(h).forEach((i) => {
    const x = left + i * (bar + 8);
    if (x + bar > width - 60) return;
    on.svg.append(s('rect', { x, y: yOut + 20, width: bar, height: 10, class: 'ch-soft' }), s('rect', { x, y: yOut + 20, width: clamp(mix.pre[i] ?? 0, 0, 1) * bar, height: 10, class: `ch-lane-end ch-lane${i % 4}` }),
      label(x, yOut + 16, fixed(mix.pre[i] ?? 0), 'ch-label'));
  });
  const reader = probe(on, {
    count: h * h, columns: h, key: '2a-ribbon', state, label: t('ch.2a.ribbonsRead'),
    hit: (x, at) => {
      const found = boxes.map(([, by, , bh]) => Math.abs(by + bh / 2 - at));
      return x < left ? -1 : found.indexOf(Math.min(...found));
    },
    box: (i) => boxes[i] ?? [0, 0, 0, 0],
    text: (i) => {
      const [from, to] = [Math.floor(i / h), i % h];
      return t('ch.2a.ribbon', { from, to, weight: exact(mix.comb[i] ?? 0), post: exact(mix.post[to] ?? 0), pre: exact(mix.pre[from] ?? 0) });
    },
  });
  return [on.root, reader.readout, keys(range(h).map((i) => /** @type {[string, string]} */ ([`ch-k-lane${i % 4}`, t('ch.stream', { c: i })])))];
}

/** @param {Draw<StreamsFigure>} d @param {MixFigure} mix */
function sinkhorn(d, mix) {
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
    label: t('ch.2a.step'), key: '2a-step', max: last, value: start, back: t('ch.back'), on: t('ch.onward'),
    text: (step) => (step === 0 ? t('ch.2a.softmax') : `${step} / ${last}`), change: paint,
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
  const on = plot({ width: left + h * size + total, height: left + h * size + size * 0.7, label: t('ch.2a.matrixLabel', { step, error: num(mix.rowError[step] ?? 0) }) });
  const colours = scale(d.host, 'weight', Math.max(...mix.sinkhorn.flat()));
  const rowSum = (/** @type {number} */ i) => range(h).reduce((sum, j) => sum + (values[i * h + j] ?? 0), 0);
  const colSum = (/** @type {number} */ j) => range(h).reduce((sum, i) => sum + (values[i * h + j] ?? 0), 0);
  for (const i of range(h)) {
    on.svg.append(label(left - 8, left + i * size + size / 2 + 5, String(i), 'ch-label ch-end'), label(left + i * size + size / 2, 14, String(i), 'ch-label ch-mid'));
    for (const j of range(h)) {
      const value = values[i * h + j] ?? 0;
      const text = label(left + j * size + size / 2, left + i * size + size / 2 + 5, fixed(value), 'ch-cell ch-mid');
      text.style.setProperty('fill', textOn(colours.rgb(value)));
      const cell = s('rect', { x: left + j * size, y: left + i * size, width: size - 1.5, height: size - 1.5 });
      cell.style.setProperty('fill', colours.at(value));
      on.svg.append(cell, text);
    }
    on.svg.append(label(left + h * size + total - 4, left + i * size + size / 2 + 5, fixed(rowSum(i), 4), 'ch-label ch-end'), label(left + i * size + size / 2, left + h * size + 16, fixed(colSum(i), size < 44 ? 2 : 4), 'ch-label ch-mid'));
  }
  on.svg.append(label(left + h * size + total - 4, 14, 'Σ', 'ch-label ch-end'), label(left - 8, left + h * size + 16, 'Σ', 'ch-label ch-end'));
  const reader = probe(on, {
    count: h * h, columns: h, key: '2a-cell', state, label: t('ch.2a.matrixRead'),
    hit: (x, y) => {
      const [i, j] = [Math.floor((y - left) / size), Math.floor((x - left) / size)];
      return i < 0 || j < 0 || i >= h || j >= h ? -1 : i * h + j;
    },
    box: (c) => [left + (c % h) * size, left + Math.floor(c / h) * size, size - 1.5, size - 1.5],
    text: (c) => t('ch.2a.cell', { i: Math.floor(c / h), j: c % h, value: exact(values[c] ?? 0), row: exact(rowSum(Math.floor(c / h))), column: exact(colSum(c % h)) }),
  });
  return [on.root, reader.readout, legend(colours, t('ch.weightScale'))];
}

/** Distance of the row sums from one, on a logarithmic axis. @param {Draw<StreamsFigure>} d @param {MixFigure} mix @param {number} step @param {number} room @returns {Node[]} */
function errorCurve(d, mix, step, room) {
  const { t, state } = d;
  const errors = mix.rowError.map((error) => Math.log10(Math.max(error, 1e-8)));
  const [low, high] = [Math.floor(Math.min(...errors)), Math.ceil(Math.max(...errors, -1))];
  const [left, tall, top] = [44, 150, 24];
  const wide = room - left - 14;
  const last = Math.max(1, errors.length - 1);
  const x = (/** @type {number} */ i) => left + (i / last) * wide;
  const y = (/** @type {number} */ value) => top + ((high - value) / Math.max(1, high - low)) * tall;
  const on = plot({ width: room, height: top + tall + 34, label: t('ch.2a.errorLabel', { first: num(mix.rowError[0] ?? 0), last: num(mix.rowError.at(-1) ?? 0) }) });
  const every = Math.ceil((high - low) / 6);
  for (let p = high; p >= low; p -= every) {
    on.svg.append(s('path', { d: `M${left} ${y(p)}h${wide}`, class: 'ch-grid' }), label(left - 8, y(p) + 4, p === 0 ? '1' : `10${superscript(p)}`, 'ch-label ch-end'));
  }
  on.svg.append(label(left, 12, t('ch.2a.error'), 'ch-label'), s('path', { d: errors.map((e, i) => `${i ? 'L' : 'M'}${x(i)} ${y(e)}`).join(''), class: 'ch-curve' }),
    ...errors.map((e, i) => s('circle', { cx: x(i), cy: y(e), r: i === step ? 5 : 2.2, class: i === step ? 'ch-dot-on' : 'ch-dot' })),
    label(left, top + tall + 18, '0', 'ch-label ch-mid'), label(left + wide, top + tall + 18, String(last), 'ch-label ch-mid'), label(left + wide / 2, top + tall + 30, t('ch.2a.step'), 'ch-label ch-mid'));
  const reader = probe(on, {
    count: errors.length, key: '2a-error', state, label: t('ch.2a.errorRead'), start: step,
    hit: (at) => clamp(Math.round(((at - left) / wide) * last), 0, last),
    box: (i) => [x(i) - 6, y(errors[i] ?? 0) - 6, 12, 12],
    text: (i) => t('ch.2a.errorAt', { step: i, error: exact(mix.rowError[i] ?? 0) }),
  });
  return [on.root, reader.readout];
}
