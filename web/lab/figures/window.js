// 3C: the ring with its write head, and the scores of all entries with candidate blocks and the chosen ones.

import { clamp, el, exact, range, s } from '../dom.js';
import { keys } from './colour.js';
import { empty, label, part, plot, probe, stack, tokenAt } from './common.js';

/** @import { Draw, WindowFigure } from '../chapter.types.js' */

/**
 * @param {Draw<WindowFigure>} d
 * @returns {{ body: Node, finding: string }}
 */
export function windowRing(d) {
  const { data, t, width } = d;
  const filled = data.slots.filter((slot) => slot !== null).length;
  const scored = data.scores.filter((score) => score !== null).length;
  const selection =
    data.indexSource === null
      ? t('ch.3c.windowOnly')
      : t('ch.3c.findingIndex', { source: data.indexSource, visible: data.scores.length, scored, chosen: data.chosen.length, top: data.topK });
  const finding =
    t('ch.3c.finding', { layer: data.layer, filled, slots: data.slots.length, head: data.head }) +
    ` ${selection}`;
  const wide = width > 620;
  const first = el('div', {}, part(t('ch.3c.ring'), t('ch.3c.ringAbout')), ...ring(d, Math.min(wide ? 300 : width, 340)));
  const second = el(
    'div',
    {},
    part(t('ch.3c.scores'), data.indexSource === null ? '' : t('ch.3c.scoresAbout', { source: data.indexSource, ratio: data.ratio })),
    ...(data.scores.length ? scores(d, wide ? width - 330 : width) : [empty(t(data.indexSource === null ? 'ch.3c.windowOnly' : 'ch.3c.noEntries'))]),
  );
  return { finding, body: wide && data.scores.length ? el('div', { class: 'ch-ring-side' }, first, second) : stack(first, second) };
}

/** @param {Draw<WindowFigure>} d @param {number} room @returns {Node[]} */
function ring(d, room) {
  const { data, lab, t, state } = d;
  const count = data.slots.length;
  const on = plot({
    width: room,
    height: room,
    label: t('ch.3c.ringLabel', { count, head: data.head, filled: data.slots.filter((slot) => slot !== null).length }),
  });
  const [mid, outer, inner] = [room / 2, room / 2 - 26, room / 2 - 58];
  /** @param {number} slot @param {number} r @returns {[number, number]} */
  const spot = (slot, r) => {
    const angle = (slot / count) * 2 * Math.PI - Math.PI / 2;
    return [mid + Math.cos(angle) * r, mid + Math.sin(angle) * r];
  };
  const pad = count > 1 ? Math.min(0.12, 0.03 + count / 2000) : 0;
  for (const slot of range(count)) {
    const position = data.slots[slot];
    const [a, b] = [slot + pad, slot + 1 - pad];
    const large = b - a > count / 2 ? 1 : 0;
    const outside = `M${spot(a, outer)}A${outer} ${outer} 0 ${large} 1 ${spot(b, outer)}`;
    const path = `${outside}L${spot(b, inner)}A${inner} ${inner} 0 ${large} 0 ${spot(a, inner)}Z`;
    on.svg.append(s('path', { d: path, class: slot === data.head ? 'ch-fill-b' : position === null ? 'ch-slot-empty' : 'ch-fill-a' }));
  }
  // A wrapped ring has a seam: the newest row beside the oldest one.
  const head = spot(data.head + 0.5, inner - 6);
  const turn = ((data.head + 0.5) / count) * 360;
  on.svg.append(
    s('path', { d: 'M0 0l6 13h-12z', class: 'ch-point', transform: `translate(${head}) rotate(${turn})` }),
    s('path', { d: `M${mid} ${mid}L${spot(data.head + 0.5, inner - 18)}`, class: 'ch-line-strong' }),
    s('circle', { cx: mid, cy: mid, r: 3, class: 'ch-point' }),
  );
  for (const slot of range(4).map((q) => Math.round((q * count) / 4))) {
    const [x, y] = spot(slot + 0.5, outer + 13);
    on.svg.append(label(x, y + 4, String(slot % count), 'ch-label ch-mid'));
  }
  const below = Math.sin(((data.head + 0.5) / count) * 2 * Math.PI - Math.PI / 2) > 0 ? -1 : 1;
  on.svg.append(
    label(mid, mid + below * 30, t('ch.3c.slots', { count }), 'ch-label ch-mid ch-strong'),
    label(mid, mid + below * 30 + 17, t('ch.3c.headAt', { head: data.head }), 'ch-label ch-mid'),
  );
  const reader = probe(on, {
    count,
    key: '3c-slot',
    state,
    start: data.head,
    label: t('ch.3c.ringRead'),
    hit: (x, y) => {
      const r = Math.hypot(x - mid, y - mid);
      if (r < inner - 20 || r > outer + 14) return -1;
      const angle = (Math.atan2(y - mid, x - mid) + Math.PI / 2 + 2 * Math.PI) % (2 * Math.PI);
      return clamp(Math.floor((angle / (2 * Math.PI)) * count), 0, count - 1);
    },
    box: (slot) => {
      const [x, y] = spot(slot + 0.5, (outer + inner) / 2);
      return [x - 9, y - 9, 18, 18];
    },
    text: (slot) => {
      const position = data.slots[slot];
      if (position === null || position === undefined) return t('ch.3c.slotEmpty', { slot });
      return t(slot === data.head ? 'ch.3c.slotHead' : 'ch.3c.slot', { slot, position, token: tokenAt(lab, position), age: lab.followed - position });
    },
    pick: (slot) => {
      const position = data.slots[slot];
      if (position !== null && position !== undefined) d.onToken(position);
    },
  });
  return [
    on.root,
    reader.readout,
    keys([
      ['ch-k-a', t('ch.3c.filled')],
      ['ch-k-b', t('ch.3c.head')],
      ['ch-k-empty', t('ch.3c.empty')],
    ]),
  ];
}

/** Bars around zero, wrapped into rows where the entries are many. @param {Draw<WindowFigure>} d @param {number} room @returns {Node[]} */
function scores(d, room) {
  const { data, t, state } = d;
  const count = data.scores.length;
  const left = 44;
  const wide = room - left - 2;
  const rows = Math.ceil(count / Math.max(16, Math.floor(wide / 5)));
  const per = Math.ceil(count / rows);
  const step = Math.min(26, wide / per);
  const row = rows === 1 ? 190 : rows < 4 ? 110 : 78;
  const values = data.scores.map((score) => score ?? 0);
  const [high, low] = [Math.max(0, ...values), Math.min(0, ...values)];
  const span = high - low || 1;
  const chosen = new Set(data.chosen);
  const blocks = new Set(data.blocks);
  const bar = row - 34;
  const on = plot({ width: room, height: rows * row, label: t('ch.3c.scoresLabel', { count, chosen: data.chosen.length, max: exact(high) }) });
  /** @param {number} i @returns {[number, number]} */
  const spot = (i) => [left + (i % per) * step, Math.floor(i / per) * row + 12];
  const paths = { block: '', kept: '', other: '', none: '', mark: '' };
  for (const i of range(count)) {
    const [x, y] = spot(i);
    const score = data.scores[i];
    const zero = y + (high / span) * bar;
    if (blocks.has(Math.floor(i / Math.max(1, data.blockSize)))) paths.block += `M${x} ${y - 6}h${step}v${bar + 12}h${-step}z`;
    if (score === null || score === undefined) {
      paths.none += `M${x + step / 2} ${zero - 4}v8`;
      continue;
    }
    const h = (Math.abs(score) / span) * bar;
    const line = `M${x + step * 0.12} ${score < 0 ? zero : zero - Math.max(h, 0.8)}h${step * 0.76}v${Math.max(h, 0.8)}h${-step * 0.76}z`;
    if (chosen.has(i)) {
      paths.kept += line;
      paths.mark += `M${x + step / 2} ${y + bar + 8}l${Math.min(3.5, step / 2)} 6h${-2 * Math.min(3.5, step / 2)}z`;
    } else paths.other += line;
  }
  on.svg.append(s('path', { d: paths.block, class: 'ch-block' }));
  for (const r of range(rows)) {
    const [, y] = spot(r * per);
    const zero = y + (high / span) * bar;
    const end = Math.min(count, (r + 1) * per) - 1;
    on.svg.append(
      s('path', { d: `M${left} ${zero}h${(end - r * per + 1) * step}`, class: 'ch-line' }),
      label(left - 6, zero + 4, '0', 'ch-label ch-end'),
      label(left, y + bar + 26 - (rows > 3 ? 2 : 0), String(r * per), 'ch-label ch-tiny'),
    );
    if (r === 0 && high / span > 0.15) on.svg.append(label(left - 6, y + 5, exact(Number(high.toPrecision(3))), 'ch-label ch-end'));
    if (r === 0 && -low / span > 0.15) on.svg.append(label(left - 6, y + bar + 2, exact(Number(low.toPrecision(3))), 'ch-label ch-end'));
  }
  for (let b = 0; data.blockSize > 0 && b * data.blockSize < count; b += 1) {
    const [x, y] = spot(b * data.blockSize);
    on.svg.append(s('path', { d: `M${x} ${y - 8}v${bar + 14}`, class: 'ch-blockline' }));
  }
  on.svg.append(
    s('path', { d: paths.none, class: 'ch-line' }),
    s('path', { d: paths.other, class: 'ch-bar-off' }),
    s('path', { d: paths.kept, class: 'ch-fill-a' }),
    s('path', { d: paths.mark, class: 'ch-point' }),
  );
  const best = values.reduce((found, value, i) => (data.scores[i] !== null && value > (values[found] ?? -Infinity) ? i : found), 0);
  const reader = probe(on, {
    count,
    columns: rows > 1 ? per : 1,
    key: '3c-score',
    state,
    start: best,
    label: t('ch.3c.scoresRead'),
    hit: (x, y) => {
      const [r, c] = [clamp(Math.floor(y / row), 0, rows - 1), Math.floor((x - left) / step)];
      return c < 0 || c >= per || r * per + c >= count ? -1 : r * per + c;
    },
    box: (i) => [spot(i)[0], spot(i)[1] - 4, step, bar + 8],
    text: (i) => {
      const score = data.scores[i];
      const from = i * data.ratio;
      const tokens = data.ratio > 1 ? `${from}–${from + data.ratio - 1}` : String(from);
      const verdict = t(score === null || score === undefined ? 'ch.3c.outside' : chosen.has(i) ? 'ch.3c.isChosen' : 'ch.3c.isNot');
      return t('ch.3c.entry', {
        entry: i,
        tokens,
        block: Math.floor(i / Math.max(1, data.blockSize)),
        score: score === null || score === undefined ? '–' : exact(score),
        verdict,
      });
    },
  });
  return [
    on.root,
    reader.readout,
    keys([
      ['ch-k-a ch-k-mark', t('ch.3c.chosen')],
      ['ch-k-off', t('ch.3c.left')],
      ['ch-k-block', t('ch.3c.block')],
      ['ch-k-none', t('ch.3c.unscored')],
    ]),
  ];
}
