// 1B: the hash as a small machine: multiply, XOR into 64 bits, remainder by primes, row of the table; then the gates per stream.

import { clamp, el, exact, fixed, grouped, range, s } from '../dom.js';
import { keys } from './colour.js';
import { empty, label, part, plot, probe, stack, stepper } from './common.js';

/** @import { Draw, EngramFigure, HashRow, HashStep } from '../chapter.types.js' */

/**
 * @param {Draw<EngramFigure>} d
 * @returns {{ body: Node, finding: string }}
 */
export function engram(d) {
  const { data, t, state } = d;
  if (!data.steps.length || data.blocked) {
    return { finding: t(data.blocked ? 'ch.1b.blocked' : 'ch.1b.none'), body: stack(data.gates.length > 0 && gates(d)) };
  }
  const last = data.steps.length - 1;
  const machine = el('div');
  const found = el('div');
  const paint = (/** @type {number} */ step) => {
    state['1b-step'] = step;
    machine.replaceChildren(...hashStep(d, step));
    found.replaceChildren(rows(d, step + 1));
  };
  const start = clamp(state['1b-step'] ?? last, 0, last);
  const control = stepper({
    label: t('ch.1b.stepLabel'),
    key: '1b-step',
    max: last,
    value: start,
    back: t('ch.back'),
    on: t('ch.onward'),
    text: (step) => t('ch.1b.step', { step: step + 1, count: last + 1 }),
    change: paint,
  });
  paint(start);
  const sum = data.gates.flatMap((line) => line.gates);
  const finding = t('ch.1b.finding', {
    layer: data.layer,
    tokens: data.steps.length,
    rows: data.rows.length,
    low: fixed(Math.min(1, ...sum)),
    high: fixed(Math.max(0, ...sum)),
  });
  return { finding, body: stack(tokens(d), control, machine, found, data.gates.length > 0 && gates(d)) };
}

/** The tokens that the hash takes in, oldest first. @param {Draw<EngramFigure>} d */
function tokens(d) {
  const { t } = d;
  return el(
    'ol',
    { class: 'ch-chips', 'aria-label': t('ch.1b.tokens') },
    ...[...d.data.steps]
      .reverse()
      .map((step) =>
        el(
          'li',
          {},
          el('b', {}, step.position === null ? t('ch.1b.pad') : step.label),
          el('span', { class: 'ch-muted ch-num' }, step.position === null ? t('ch.1b.before') : `p = ${step.position}`),
          el('span', { class: 'ch-num' }, `t${sub(step.back)} = ${grouped(step.compressed)}`),
        ),
      ),
  );
}

/** @param {number} n */
const sub = (n) => [...String(n)].map((digit) => '₀₁₂₃₄₅₆₇₈₉'[Number(digit)]).join('');

/** The 64 bits of a hex string, highest first. @param {string} hex */
const bits = (hex) => {
  const value = BigInt(`0x${hex.replace(/^0x/, '') || '0'}`);
  return range(64).map((i) => Number((value >> BigInt(63 - i)) & 1n));
};

/** One turn: product and XOR. @param {Draw<EngramFigure>} d @param {number} k @returns {Node[]} */
function hashStep(d, k) {
  const { data, t, state, width } = d;
  const step = /** @type {HashStep} */ (data.steps[k]);
  const before = k > 0 ? (data.steps[k - 1]?.hash ?? '0') : '0';
  const lines = [
    { name: k > 0 ? `v${sub(k)}` : '0', text: before, bits: bits(before) },
    { name: `t${sub(k)} · m${sub(k)}`, text: step.product, bits: bits(step.product) },
    { name: `v${sub(k + 1)}`, text: step.hash, bits: bits(step.hash) },
  ];
  const [left, tall] = [64, 17];
  const columns = width < 520 ? 32 : 64;
  const cell = (width - left - 2) / columns;
  const wraps = 64 / columns;
  const block = wraps * tall + 10;
  const on = plot({ width, height: 3 * block + 8, label: t('ch.1b.bitsLabel', { before, product: step.product, hash: step.hash }) });
  lines.forEach((line, r) => {
    const top = r * block + (r === 2 ? 6 : 0);
    let [ones, zeros] = ['', ''];
    line.bits.forEach((bit, i) => {
      const [x, y] = [left + (i % columns) * cell, top + Math.floor(i / columns) * tall];
      const square = `M${x + 0.75} ${y + 1.5}h${cell - 1.5}v${tall - 3}h${1.5 - cell}z`;
      if (bit) ones += square;
      else zeros += square;
    });
    on.svg.append(
      s('path', { d: zeros, class: 'ch-bit0' }),
      s('path', { d: ones, class: r === 2 ? 'ch-fill-b' : 'ch-fill-a' }),
      label(left - 10, top + 13, line.name, 'ch-label ch-end'),
    );
  });
  on.svg.append(
    label(8, block + 13, '⊕', 'ch-label'),
    label(8, 2 * block + 19, '=', 'ch-label'),
    s('path', { d: `M${left} ${2 * block}H${width - 2}`, class: 'ch-line' }),
  );
  const reader = probe(on, {
    count: 192,
    columns: 64,
    key: '1b-bit',
    state,
    label: t('ch.1b.bitsRead'),
    hit: (x, y) => {
      const r = clamp(Math.floor(y / block), 0, 2);
      const wrap = clamp(Math.floor((y - r * block - (r === 2 ? 6 : 0)) / tall), 0, wraps - 1);
      const c = Math.floor((x - left) / cell);
      return c < 0 || c >= columns ? -1 : r * 64 + wrap * columns + c;
    },
    box: (i) => {
      const [r, bit] = [Math.floor(i / 64), i % 64];
      return [left + (bit % columns) * cell + 0.75, r * block + (r === 2 ? 6 : 0) + Math.floor(bit / columns) * tall + 1.5, cell - 1.5, tall - 3];
    },
    text: (i) =>
      `${lines[Math.floor(i / 64)]?.name} = 0x${lines[Math.floor(i / 64)]?.text}, bit ${63 - (i % 64)} = ${lines[Math.floor(i / 64)]?.bits[i % 64]}`,
  });
  const flow = el(
    'dl',
    { class: 'ch-machine' },
    ...pair(t('ch.1b.multiply'), `t${sub(k)} · m${sub(k)} = ${grouped(step.compressed)} × 0x${step.multiplier} = 0x${step.product}`),
    ...pair(t('ch.1b.xor'), `v${sub(k + 1)} = ${k > 0 ? `v${sub(k)} ⊕ ` : ''}0x${step.product} = 0x${step.hash}`),
  );
  return [
    flow,
    on.root,
    reader.readout,
    keys([
      ['ch-k-a', t('ch.1b.one')],
      ['ch-k-b', t('ch.1b.oneHash')],
      ['ch-k-bit0', t('ch.1b.zero')],
    ]),
  ];
}

/** @param {string} name @param {string} text */
const pair = (name, text) => [el('dt', {}, name), el('dd', { class: 'ch-num' }, text)];

/** Rows of the n-grams of this size in the table. @param {Draw<EngramFigure>} d @param {number} size */
function rows(d, size) {
  const { data, t, state, width } = d;
  const found = data.rows.filter((row) => row.size === size);
  if (!found.length) return stack(part(t('ch.1b.modulo')), empty(t('ch.1b.noRows', { size })));
  const end = Math.max(...data.rows.map((row) => row.offset + row.prime));
  const on = plot({ width, height: 62, label: t('ch.1b.tableLabel', { size, count: found.length }) });
  const x = (/** @type {number} */ row) => 1 + (row / end) * (width - 2);
  const ends = [...new Set(data.rows.map((row) => row.size))].map((n) => {
    const of = data.rows.filter((row) => row.size === n);
    return { n, from: Math.min(...of.map((row) => row.offset)), to: Math.max(...of.map((row) => row.offset + row.prime)) };
  });
  for (const { n, from, to } of ends) {
    on.svg.append(
      s('rect', { x: x(from), y: 22, width: Math.max(1, x(to) - x(from) - 2), height: 18, class: n === size ? 'ch-soft-on' : 'ch-soft' }),
      label((x(from) + x(to)) / 2, 60, t('ch.1b.gram', { n }), 'ch-label ch-mid'),
    );
  }
  for (const row of data.rows) {
    const mine = row.size === size;
    on.svg.append(s('path', { d: `M${x(row.row)} ${mine ? 14 : 24}V${mine ? 44 : 38}`, class: mine ? 'ch-needle' : 'ch-needle-off' }));
    if (mine) on.svg.append(s('path', { d: `M${x(row.row)} 16l-3.5 -7h7z`, class: 'ch-point' }));
  }
  const reader = probe(on, {
    count: found.length,
    key: `1b-row-${size}`,
    state,
    label: t('ch.1b.tableRead'),
    hit: (at) => found.reduce((best, row, i) => (Math.abs(x(row.row) - at) < Math.abs(x(found[best]?.row ?? 0) - at) ? i : best), 0),
    box: (i) => [x(found[i]?.row ?? 0) - 4, 6, 8, 40],
    text: (i) => {
      const row = /** @type {HashRow} */ (found[i]);
      const modulo = `v${sub(size)} mod ${exact(row.prime)} = ${exact(row.remainder)}`;
      const place = `${exact(row.remainder)} + ${exact(row.offset)} = ${t('ch.1b.rowIs', { row: exact(row.row) })}`;
      return `${t('ch.1b.head', { head: row.head })}: ${modulo}; ${place}`;
    },
  });
  return stack(part(t('ch.1b.modulo'), t('ch.1b.moduloAbout', { size, count: found.length })), on.root, reader.readout);
}

/** Gates per stream and Engram layer. @param {Draw<EngramFigure>} d */
function gates(d) {
  const { data, t, state, width } = d;
  const lanes = Math.max(...data.gates.map((line) => line.gates.length));
  const per = Math.min(300, Math.floor(width / (width < 520 ? 1 : data.gates.length || 1)) - 16);
  const across = Math.max(1, Math.floor((width + 16) / (per + 16)));
  const tall = lanes * 20 + 26;
  const on = plot({ width, height: Math.ceil(data.gates.length / across) * (tall + 8), label: t('ch.1b.gatesLabel') });
  /** @param {number} i @returns {[number, number, number]} */
  const place = (i) => {
    const line = Math.floor(i / lanes);
    return [(line % across) * (per + 16), Math.floor(line / across) * (tall + 8), i % lanes];
  };
  const [left, bar] = [62, per - 62 - 44];
  data.gates.forEach((line, l) => {
    const [x0, y0] = place(l * lanes);
    on.svg.append(label(x0, y0 + 13, t('ch.layer', { layer: line.layer }), line.layer === data.layer ? 'ch-label ch-strong' : 'ch-label'));
    line.gates.forEach((gate, c) => {
      const y = y0 + 22 + c * 20;
      on.svg.append(
        label(x0, y + 11, t('ch.stream', { c }), 'ch-label'),
        s('rect', { x: x0 + left, y, width: bar, height: 13, class: 'ch-soft' }),
        s('rect', { x: x0 + left, y, width: clamp(gate, 0, 1) * bar, height: 13, class: 'ch-fill-a' }),
        label(x0 + left + bar + 6, y + 11, fixed(gate), 'ch-label'),
      );
    });
  });
  const reader = probe(on, {
    count: data.gates.length * lanes,
    columns: lanes,
    key: '1b-gate',
    state,
    label: t('ch.1b.gatesRead'),
    hit: (x, y) =>
      range(data.gates.length * lanes).find((i) => {
        const [x0, y0, c] = place(i);
        return x >= x0 && x <= x0 + per && y >= y0 + 19 + c * 20 && y < y0 + 39 + c * 20;
      }) ?? -1,
    box: (i) => [place(i)[0] + left, place(i)[1] + 22 + place(i)[2] * 20, bar, 13],
    text: (i) => {
      const line = data.gates[Math.floor(i / lanes)];
      return t('ch.1b.gate', { layer: line?.layer ?? 0, c: i % lanes, value: exact(line?.gates[i % lanes] ?? 0) });
    },
  });
  return stack(part(t('ch.1b.gates'), t('ch.1b.gatesAbout')), on.root, reader.readout);
}
