// 3A: which layers ran for which position, and how many parameters that made active.

import { clamp, exact, grouped, range, s } from '../dom.js';
import { keys } from './colour.js';
import { label, part, plot, probe, stack, tokenAt } from './common.js';

/** @import { Draw, ScheduleFigure } from '../chapter.types.js' */

/** Billions, one place. @param {number} value */
const billions = (value) => `${(value / 1e9).toFixed(2)} B`;

/**
 * @param {Draw<ScheduleFigure>} d
 * @returns {{ body: Node, finding: string }}
 */
export function schedule(d) {
  const { data, t } = d;
  const finding = t('ch.3a.finding', {
    positions: data.positions,
    decoder: data.decoder,
    tail: data.tail,
    layers: data.first.length,
    read: billions(data.released[0]),
    write: billions(data.released[1]),
  });
  return {
    finding,
    body: stack(part(t('ch.3a.field'), t('ch.3a.fieldAbout')), ...field(d), part(t('ch.3a.counter'), t('ch.3a.counterAbout')), ...counters(d)),
  };
}

/** @param {Draw<ScheduleFigure>} d @returns {Node[]} */
function field(d) {
  const { data, lab, t, state, width } = d;
  const [layers, count] = [data.first.length, Math.max(1, data.positions)];
  const [left, top, row] = [74, 18, clamp(Math.floor(440 / layers), 6, 22)];
  const wide = width - left - 2;
  const step = wide / count;
  const on = plot({
    width,
    height: top + layers * row + 34,
    label: t('ch.3a.fieldLabel', { decoder: data.decoder, tail: data.tail, positions: data.positions }),
  });
  const hatch = `ch-hatch-${Math.random().toString(36).slice(2)}`;
  on.svg.append(
    s(
      'defs',
      {},
      s(
        'pattern',
        { id: hatch, width: 6, height: 6, patternUnits: 'userSpaceOnUse', patternTransform: 'rotate(45)' },
        s('path', { d: 'M0 0v6', class: 'ch-hatch-line' }),
      ),
    ),
  );
  let grid = '';
  if (step > 5) for (let p = 1; p < count; p += 1) grid += `M${left + p * step} ${top}v${layers * row}`;
  data.first.forEach((first, l) => {
    const y = top + l * row;
    const x = left + Math.min(first, count) * step;
    if (first > 0) {
      const off = s('rect', { x: left, y, width: Math.min(first, count) * step, height: row - 1, class: 'ch-hatched' });
      off.setAttribute('fill', `url(#${hatch})`);
      on.svg.append(off);
    }
    if (first < count)
      on.svg.append(
        s('rect', { x, y, width: (count - first) * step, height: row - 1, class: l < data.decoder ? 'ch-fill-a ch-field' : 'ch-fill-b ch-field' }),
      );
    if (l % (row < 10 ? 10 : 5) === 0 || l === layers - 1 || l === data.decoder) {
      if (!(row < 10 && l === layers - 1 && l % 10 === 1))
        on.svg.append(label(left - 6, y + row - Math.max(0, (row - 10) / 2), String(l), 'ch-label ch-end'));
    }
  });
  const border = top + data.decoder * row - 0.5;
  const line = (lab.followed + 0.5) * step + left;
  on.svg.append(
    s('path', { d: grid, class: 'ch-gridcut' }),
    s('path', { d: `M${left - 40} ${border}H${width}`, class: 'ch-line-strong' }),
    label(2, top + 12, 'encoder', 'ch-label ch-strong'),
    label(2, border + 15, 'decoder', 'ch-label ch-strong'),
    s('path', { d: `M${line} ${top + layers * row + 3}l4 7h-8z`, class: 'ch-point' }),
    label(clamp(line, left + 8, width - 12), top + layers * row + 23, String(lab.followed), 'ch-label ch-mid ch-strong'),
    label(left, 11, t('ch.3a.axis', { last: data.positions - 1 }), 'ch-label'),
  );
  const tailX = left + (count - data.tail) * step;
  if (data.tail < count) {
    on.svg.append(s('path', { d: `M${tailX + 0.5} ${top + layers * row + 2}v6H${width - 2}v-6`, class: 'ch-line-strong ch-nofill' }));
    // Below the bracket if the mark of the followed token leaves room, else before it.
    const free = Math.abs((tailX + width) / 2 - line) > 60;
    on.svg.append(
      label(
        free ? (tailX + width) / 2 : Math.max(left + 60, tailX - 8),
        top + layers * row + (free ? 23 : 13),
        t('ch.3a.tail', { tail: data.tail }),
        free ? 'ch-label ch-mid' : 'ch-label ch-end',
      ),
    );
  }
  const reader = probe(on, {
    count: layers * count,
    columns: count,
    key: '3a-cell',
    state,
    start: data.decoder * count + clamp(lab.followed, 0, count - 1),
    label: t('ch.3a.read'),
    hit: (x, y) => {
      const [p, l] = [Math.floor((x - left) / step), Math.floor((y - top) / row)];
      return p < 0 || p >= count || l < 0 || l >= layers ? -1 : l * count + p;
    },
    box: (i) => [left + (i % count) * step, top + Math.floor(i / count) * row, step, row - 1],
    text: (i) => {
      const [l, p] = [Math.floor(i / count), i % count];
      const ran = p >= (data.first[l] ?? 0);
      return t(ran ? 'ch.3a.ran' : 'ch.3a.notRan', { layer: l, position: p, token: tokenAt(lab, p), parameters: grouped(data.byLayer[l] ?? 0) });
    },
    pick: (i) => d.onToken(i % count),
  });
  return [
    on.root,
    reader.readout,
    keys([
      ['ch-k-a', t('ch.3a.encoderRan')],
      ['ch-k-b', t('ch.3a.decoderRan')],
      ['ch-k-hatch', t('ch.3a.off')],
    ]),
  ];
}

/** Bars of active parameters: the release, and this model layer by layer. @param {Draw<ScheduleFigure>} d @returns {Node[]} */
function counters(d) {
  const { data, t, state, width } = d;
  const layers = data.byLayer.length;
  const narrow = width < 520;
  const [left, bar, gap] = [narrow ? 2 : 190, 22, narrow ? 26 : 12];
  const wide = width - left - (narrow ? 2 : 4);
  const most = Math.max(...data.released, 16e9);
  const x16 = (/** @type {number} */ value) => left + (value / most) * (wide - 76);
  const [wholeRead, wholeWrite] = [data.read, data.write];
  const scaleOwn = (/** @type {number} */ value) => (value / Math.max(1, wholeWrite)) * (wide - 76);
  const y = (/** @type {number} */ r) => (narrow ? 18 : 8) + r * (bar + gap) + (r > 1 ? 30 : 0);
  const on = plot({
    width,
    height: y(3) + bar + 14,
    label: t('ch.3a.counterLabel', {
      read: grouped(data.released[0]),
      write: grouped(data.released[1]),
      read2: grouped(wholeRead),
      write2: grouped(wholeWrite),
    }),
  });
  const name = (/** @type {number} */ r, /** @type {string} */ text) =>
    on.svg.append(label(narrow ? left : left - 10, narrow ? y(r) - 5 : y(r) + 15, text, narrow ? 'ch-label' : 'ch-label ch-end'));
  [
    [0, data.released[0], 'ch.3a.releaseRead'],
    [1, data.released[1], 'ch.3a.releaseWrite'],
  ].forEach(([r, value, key]) => {
    const [row, amount] = [Number(r), Number(value)];
    name(row, t(String(key)));
    on.svg.append(
      s('rect', { x: left, y: y(row), width: x16(amount) - left, height: bar, class: row ? 'ch-fill-b' : 'ch-fill-a' }),
      label(x16(amount) + 6, y(row) + 15, billions(amount), 'ch-label ch-strong'),
    );
  });
  for (const tick of [0, 4e9, 8e9, 12e9, 16e9]) {
    on.svg.append(
      s('path', { d: `M${x16(tick)} ${y(0) - 3}V${y(1) + bar + 5}`, class: 'ch-tick' }),
      label(x16(tick), y(1) + bar + 18, tick ? `${tick / 1e9} B` : '0', tick ? 'ch-label ch-mid' : 'ch-label'),
    );
  }
  const rows = [
    { r: 2, total: wholeRead, to: data.decoder, key: 'ch.3a.ownRead' },
    { r: 3, total: wholeWrite, to: layers, key: 'ch.3a.ownWrite' },
  ];
  /** @type {{ box: [number, number, number, number], text: string }[]} */
  const cells = [];
  for (const { r, total, to, key } of rows) {
    name(r, t(key));
    let at = 0;
    for (const l of range(to)) {
      const amount = data.byLayer[l] ?? 0;
      const [x, w] = [left + scaleOwn(at), scaleOwn(amount)];
      on.svg.append(s('rect', { x, y: y(r), width: Math.max(0.4, w - 0.8), height: bar, class: l < data.decoder ? 'ch-fill-a' : 'ch-fill-b' }));
      at += amount;
      cells.push({ box: [x, y(r), w, bar], text: t('ch.3a.layerAdds', { layer: l, parameters: exact(amount), sum: exact(at) }) });
    }
    const rest = total - at;
    if (rest > 0) {
      on.svg.append(s('rect', { x: left + scaleOwn(at), y: y(r), width: Math.max(0.5, scaleOwn(rest)), height: bar, class: 'ch-rest' }));
      cells.push({
        box: [left + scaleOwn(at), y(r), scaleOwn(rest), bar],
        text: t('ch.3a.restAdds', { parameters: exact(rest), sum: exact(total) }),
      });
    }
    on.svg.append(label(left + scaleOwn(Math.max(total, at)) + 6, y(r) + 15, `${(total / 1e6).toFixed(2)} M`, 'ch-label ch-strong'));
  }
  const reader = probe(on, {
    count: cells.length,
    key: '3a-count',
    state,
    start: cells.length - 1,
    label: t('ch.3a.counterRead'),
    hit: (x, at) => cells.findIndex(({ box }) => x >= box[0] && x < box[0] + box[2] && at >= box[1] - 4 && at < box[1] + box[3] + 4),
    box: (i) => cells[i]?.box ?? [0, 0, 0, 0],
    text: (i) => cells[i]?.text ?? '',
  });
  return [
    on.root,
    reader.readout,
    keys([
      ['ch-k-a', t('ch.3a.encoderLayer')],
      ['ch-k-b', t('ch.3a.decoderLayer')],
      ['ch-k-rest', t('ch.3a.rest')],
    ]),
  ];
}
