// 4A: how each head spreads its attention over window, entries and sink, and what the inverse rotation does to the last dims of a head.

import { clamp, el, exact, fixed, num, range, s } from '../dom.js';
import { paintCells } from '../heatmap.js';
import { keys, legend, scale } from './colour.js';
import { label, part, plot, probe, stack, tokenAt } from './common.js';

/** @import { AttentionFigure, Draw } from '../chapter.types.js' */

/** @param {number[]} list */
const total = (list) => list.reduce((sum, value) => sum + value, 0);

/**
 * @param {Draw<AttentionFigure>} d
 * @returns {{ body: Node, finding: string }}
 */
export function attention(d) {
  const { data, t, state } = d;
  const sinks = data.weights.map((row) => row.at(-1) ?? 0);
  const window = data.weights.map((row) => total(row.slice(0, data.window.length)));
  const mean = (/** @type {number[]} */ list) => total(list) / Math.max(1, list.length);
  const finding = t('ch.4a.finding', {
    layer: data.layer,
    heads: data.weights.length,
    window: data.window.length,
    entries: data.entries.length,
    windowShare: fixed(100 * mean(window), 1),
    entryShare: fixed(100 * (1 - mean(window) - mean(sinks)), 1),
    sink: fixed(100 * mean(sinks), 1),
  });
  const profile = el('div', { class: 'ch-stack' });
  const show = (/** @type {number} */ head) => {
    state['4a-head'] = head;
    profile.replaceChildren(...bars(d, head), ...dials(d, head));
  };
  const heads = map(d, show);
  show(clamp(state['4a-head'] ?? 0, 0, data.weights.length - 1));
  return { finding, body: stack(part(t('ch.4a.map'), t('ch.4a.mapAbout')), ...heads, profile) };
}

/** What row `i` is. @param {Draw<AttentionFigure>} d @param {number} i */
function rowName(d, i) {
  const { data, lab, t } = d;
  if (i < data.window.length) return t('ch.4a.windowRow', { position: data.window[i] ?? 0, token: tokenAt(lab, data.window[i] ?? 0) });
  const entry = data.entries[i - data.window.length];
  if (entry === undefined) return 'sink';
  const from = entry * data.ratio;
  return t('ch.4a.entryRow', { entry, tokens: data.ratio > 1 ? `${from}–${from + data.ratio - 1}` : String(from) });
}

/** All heads. @param {Draw<AttentionFigure>} d @param {(head: number) => void} show @returns {Node[]} */
function map(d, show) {
  const { data, t, state, width } = d;
  const heads = data.weights.length;
  const columns = data.window.length + data.entries.length + 1;
  const [left, top] = [34, 18];
  const sinkWide = Math.min(120, width * 0.2);
  const wide = width - left - sinkWide - 16;
  const row = clamp(Math.floor(360 / Math.max(1, heads)), 6, 26);
  const cell = wide / Math.max(1, columns - 1);
  const on = plot({ width, height: top + heads * row + 8, canvas: true, label: t('ch.4a.mapLabel', { heads, rows: columns - 1 }) });
  const flat = new Float64Array(heads * columns);
  data.weights.forEach((list, h) => flat.set(list.slice(0, columns), h * columns));
  const rows = data.weights.flatMap((list) => list.slice(0, -1));
  const colours = scale(
    d.host,
    'weight',
    rows.reduce((max, value) => Math.max(max, value), 0),
  );
  const split = left + data.window.length * cell;
  if (on.pen && columns > 1) {
    on.pen.save();
    on.pen.translate(0, top);
    paintCells(on.pen, { data: flat, columns, rows: heads, size: columns - 1, from: 0, left, cw: cell, ch: row, scale: colours });
    on.pen.restore();
  }
  const most = Math.max(...data.weights.map((list) => list.at(-1) ?? 0), 1e-9);
  const x0 = left + wide + 14;
  const every = Math.ceil(14 / row);
  for (const h of range(heads)) {
    const sink = data.weights[h]?.at(-1) ?? 0;
    on.svg.append(
      s('rect', { x: x0, y: top + h * row + 1, width: Math.max(0.5, (sink / most) * (sinkWide - 4)), height: row - 2, class: 'ch-fill-b' }),
    );
    if (h % every === 0) on.svg.append(label(left - 6, top + h * row + row / 2 + 4, String(h), 'ch-label ch-end'));
  }
  const group = heads / Math.max(1, data.groups);
  let lines = '';
  for (let g = 1; g < data.groups && Number.isInteger(group); g += 1) lines += `M${left} ${top + g * group * row - 0.5}h${wide}`;
  on.svg.append(
    s('path', { d: lines, class: 'ch-gridcut' }),
    s('path', { d: `M${split} ${top - 14}v${heads * row + 16}`, class: 'ch-line-strong' }),
    s('path', { d: `M${x0 - 0.5} ${top}v${heads * row}`, class: 'ch-line' }),
    label(x0, 12, width < 520 ? 'sink' : t('ch.4a.sinkAxis', { max: num(most) }), 'ch-label'),
  );
  if (split - left > 50) on.svg.append(label(left, 12, t('ch.4a.window', { count: data.window.length }), 'ch-label'));
  if (left + wide - split > 60) on.svg.append(label(split + 6, 12, t('ch.4a.entries', { count: data.entries.length }), 'ch-label'));
  const reader = probe(on, {
    count: heads * columns,
    columns,
    key: '4a-cell',
    state,
    label: t('ch.4a.read'),
    hit: (x, y) => {
      const h = Math.floor((y - top) / row);
      if (h < 0 || h >= heads || x < left) return -1;
      return h * columns + (x >= x0 - 6 ? columns - 1 : Math.min(columns - 2, Math.floor((x - left) / cell)));
    },
    box: (i) =>
      i % columns === columns - 1
        ? [x0, top + Math.floor(i / columns) * row, sinkWide - 4, row]
        : [left + (i % columns) * cell, top + Math.floor(i / columns) * row, cell, row],
    text: (i) => `${t('ch.4a.head', { head: Math.floor(i / columns) })}, ${rowName(d, i % columns)}: ${exact(flat[i] ?? 0)}`,
    change: (i) => {
      if (Math.floor(i / columns) !== state['4a-head']) show(Math.floor(i / columns));
    },
  });
  return [on.root, reader.readout, el('div', { class: 'ch-under' }, legend(colours, t('ch.4a.weight')), keys([['ch-k-b', t('ch.4a.sink')]]))];
}

/** Weights of one head as bars. @param {Draw<AttentionFigure>} d @param {number} head @returns {Node[]} */
function bars(d, head) {
  const { data, t, state, width } = d;
  const list = data.weights[head] ?? [];
  const count = list.length;
  const [left, tall, top] = [44, 110, 16];
  const gaps = 24;
  const step = Math.min(34, (width - left - gaps) / Math.max(1, count));
  const max = Math.max(...list, 1e-9);
  const x = (/** @type {number} */ i) => left + i * step + (i >= data.window.length ? gaps / 2 : 0) + (i === count - 1 ? gaps / 2 : 0);
  const h = (/** @type {number} */ i) => Math.max(0.5, ((list[i] ?? 0) / max) * (tall - 4));
  const on = plot({ width, height: top + tall + 24, label: t('ch.4a.barsLabel', { head, sink: exact(list.at(-1) ?? 0), sum: exact(total(list)) }) });
  const path = (/** @type {number} */ from, /** @type {number} */ to) =>
    range(to - from)
      .map((k) => {
        const [i, w] = [from + k, step > 3 ? step * 0.8 : step + 0.05];
        return `M${x(i)} ${top + tall}v${-h(i)}h${w}v${h(i)}z`;
      })
      .join('');
  on.svg.append(
    s('path', { d: path(0, data.window.length), class: 'ch-fill-a' }),
    s('path', { d: path(data.window.length, count - 1), class: 'ch-fill-c' }),
    s('path', { d: path(count - 1, count), class: 'ch-fill-b' }),
    s('path', { d: `M${left} ${top + tall + 0.5}H${x(count - 1) + step}`, class: 'ch-line' }),
    label(left - 6, top + 9, fixed(max), 'ch-label ch-end'),
    label(left - 6, top + tall, '0', 'ch-label ch-end'),
    label(x(count - 1) + step * 0.8, top + tall + 18, 'sink', 'ch-label ch-end ch-strong'),
  );
  if (data.window.length * step > 60)
    on.svg.append(label(x(0), top + tall + 18, t('ch.4a.windowSum', { sum: fixed(total(list.slice(0, data.window.length)), 3) }), 'ch-label'));
  if (data.entries.length * step > 130)
    on.svg.append(
      label(x(data.window.length), top + tall + 18, t('ch.4a.entrySum', { sum: fixed(total(list.slice(data.window.length, -1)), 3) }), 'ch-label'),
    );
  const reader = probe(on, {
    count,
    key: '4a-bar',
    state,
    start: count - 1,
    label: t('ch.4a.barsRead', { head }),
    hit: (at) => range(count).findLast((i) => at >= x(i) - 1) ?? -1,
    box: (i) => [x(i), top, step, tall],
    text: (i) => `${rowName(d, i)}: ${exact(list[i] ?? 0)}`,
    pick: (i) => {
      if (i < data.window.length) d.onToken(data.window[i] ?? 0);
    },
  });
  return [
    part(t('ch.4a.bars', { head }), t('ch.4a.barsAbout', { sum: fixed(total(list.slice(0, -1)), 4) })),
    on.root,
    reader.readout,
    keys([
      ['ch-k-a', t('ch.4a.windowKey')],
      ['ch-k-c', t('ch.4a.entryKey')],
      ['ch-k-b', 'sink'],
    ]),
  ];
}

/** Each pair of rotated dims as a dial: before in outline, after filled. @param {Draw<AttentionFigure>} d @param {number} head @returns {Node[]} */
function dials(d, head) {
  const { data, t, state, width } = d;
  const [before, after] = [data.tailBefore[head] ?? [], data.tailAfter[head] ?? []];
  const pairs = Math.floor(before.length / 2);
  if (!pairs) return [];
  const size = width < 520 ? 46 : 56;
  const per = Math.max(1, Math.min(pairs, Math.floor(width / size)));
  const lines = Math.ceil(pairs / per);
  const longest = Math.max(...range(pairs).map((i) => Math.hypot(before[2 * i] ?? 0, before[2 * i + 1] ?? 0)), 1e-9);
  const on = plot({ width: per * size, height: lines * (size + 14), label: t('ch.4a.dialsLabel', { head, pairs }) });
  const r = size / 2 - 4;
  for (const i of range(pairs)) {
    const [cx, cy] = [(i % per) * size + size / 2, Math.floor(i / per) * (size + 14) + size / 2];
    // Square root of the length: short pairs stay visible, and both hands are still equally long.
    const by = r / Math.sqrt(longest * Math.max(1e-12, Math.hypot(before[2 * i] ?? 0, before[2 * i + 1] ?? 0)));
    const tip = (/** @type {number[]} */ of) => `${cx + (of[2 * i] ?? 0) * by} ${cy - (of[2 * i + 1] ?? 0) * by}`;
    on.svg.append(
      s('circle', { cx, cy, r, class: 'ch-dial' }),
      s('path', { d: `M${cx} ${cy}L${tip(before)}`, class: 'ch-hand-before' }),
      s('path', { d: `M${cx} ${cy}L${tip(after)}`, class: 'ch-hand-after' }),
      s('circle', { cx: tip(after).split(' ')[0], cy: tip(after).split(' ')[1], r: 2.4, class: 'ch-point-b' }),
      label(cx, cy + size / 2 + 9, String(i), 'ch-label ch-mid ch-tiny'),
    );
  }
  const angle = (/** @type {number[]} */ of, /** @type {number} */ i) => Math.atan2(of[2 * i + 1] ?? 0, of[2 * i] ?? 0);
  const reader = probe(on, {
    count: pairs,
    columns: per,
    key: '4a-dial',
    state,
    label: t('ch.4a.dialsRead'),
    hit: (x, y) => {
      const i = Math.floor(y / (size + 14)) * per + Math.floor(x / size);
      return i < pairs && x < per * size ? i : -1;
    },
    box: (i) => [(i % per) * size + 3, Math.floor(i / per) * (size + 14) + 3, size - 6, size - 6],
    text: (i) =>
      t('ch.4a.dial', {
        pair: i,
        before: `${num(before[2 * i] ?? 0)}, ${num(before[2 * i + 1] ?? 0)}`,
        after: `${num(after[2 * i] ?? 0)}, ${num(after[2 * i + 1] ?? 0)}`,
        turn: fixed(((((((angle(after, i) - angle(before, i)) * 180) / Math.PI) % 360) + 540) % 360) - 180, 2),
      }),
  });
  return [
    part(t('ch.4a.dials', { head }), t('ch.4a.dialsAbout')),
    on.root,
    reader.readout,
    keys([
      ['ch-k-before', t('ch.4a.before')],
      ['ch-k-after', t('ch.4a.after')],
    ]),
  ];
}
