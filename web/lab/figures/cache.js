// 6A: one entry as it lies in memory, byte by byte, and the ledger of the source layers.

import { el, exact, grouped, num, s } from '../dom.js';
import { keys } from './colour.js';
import { empty, label, part, plot, probe, stack } from './common.js';

/** @import { CacheFigure, Draw, EntryBytes } from '../chapter.types.js' */

/** Magnitudes of E2M1, by the lower three bits. */
const E2M1 = [0, 0.5, 1, 1.5, 2, 3, 4, 6];

/** @param {number} nibble */
export const e2m1 = (nibble) => (nibble & 8 ? -1 : 1) * (E2M1[nibble & 7] ?? 0);

/** Sign, four bits of exponent with bias 7, three of mantissa; exponent 0 is subnormal. @param {number} byte */
export function e4m3(byte) {
  const [exponent, mantissa] = [(byte >> 3) & 15, byte & 7];
  const size = (byte & 127) === 127 ? NaN : exponent ? 2 ** (exponent - 7) * (1 + mantissa / 8) : 2 ** -6 * (mantissa / 8);
  return byte & 128 ? -size : size;
}

/** A power of two with bias 127. @param {number} byte */
export const e8m0 = (byte) => (byte === 255 ? NaN : 2 ** (byte - 127));

const hex = (/** @type {number} */ byte) => byte.toString(16).toUpperCase().padStart(2, '0');
const binary = (/** @type {number} */ value, /** @type {number} */ width) => value.toString(2).padStart(width, '0');

/**
 * @param {Draw<CacheFigure>} d
 * @returns {{ body: Node, finding: string }}
 */
export function cache(d) {
  const { data, t } = d;
  const entry = data.entry;
  const size = entry ? entry.codes.length + entry.scales.length + entry.keyCodes.length + entry.keyScales.length : 0;
  const finding = t('ch.6a.finding', { perToken: num(data.perToken), bytes: grouped(data.bytes), tokens: data.tokens, sources: data.ledger.length })
    + (entry ? ` ${t('ch.6a.findingEntry', { layer: data.layer, index: entry.index, size })}` : '');
  return {
    finding,
    body: stack(part(t('ch.6a.entry', { layer: data.layer, index: entry ? entry.index : '–' }), entry ? t('ch.6a.entryAbout', { size }) : ''),
      ...(entry ? bytes(d, entry) : [empty(t('ch.6a.noEntry'))]), part(t('ch.6a.ledger'), t('ch.6a.ledgerAbout')), ...ledger(d)),
  };
}

/** @param {Draw<CacheFigure>} d @param {EntryBytes} entry @returns {Node[]} */
function bytes(d, entry) {
  const { t, state, width } = d;
  const groups = [
    { key: 'codes', bytes: entry.codes, name: t('ch.6a.codes', { count: entry.codes.length }), mark: 'ch-byte-codes' },
    { key: 'scales', bytes: entry.scales, name: t('ch.6a.scales', { count: entry.scales.length }), mark: 'ch-byte-scales' },
    { key: 'keyCodes', bytes: entry.keyCodes, name: t('ch.6a.keyCodes', { count: entry.keyCodes.length }), mark: 'ch-byte-key' },
    { key: 'keyScales', bytes: entry.keyScales, name: t('ch.6a.keyScales', { count: entry.keyScales.length }), mark: 'ch-byte-keyscale' },
  ].filter((group) => group.bytes.length > 0);
  const per = width < 420 ? 16 : width < 760 ? 16 : 32;
  const cell = Math.min(26, Math.floor((width - 4) / per));
  const tall = 20;
  /** @type {{ group: number, index: number, box: [number, number, number, number] }[]} */
  const cells = [];
  let y = 0;
  const marks = groups.map((group, g) => {
    const top = y + 20;
    group.bytes.forEach((_, i) => cells.push({ group: g, index: i, box: [1 + (i % per) * cell, top + Math.floor(i / per) * tall, cell - 1.5, tall - 1.5] }));
    y = top + Math.ceil(group.bytes.length / per) * tall + 8;
    return top;
  });
  const on = plot({ width: per * cell + 4, height: y, label: t('ch.6a.bytesLabel', { list: groups.map((group) => group.name).join(', ') }) });
  groups.forEach((group, g) => on.svg.append(label(1, (marks[g] ?? 0) - 6, group.name, 'ch-label')));
  // A scale and its eight bytes of codes belong together: every other group of 16 numbers stands on a darker ground.
  const numbers = entry.scales.length ? (2 * entry.codes.length) / entry.scales.length : 16;
  const keyNumbers = entry.keyScales.length ? (2 * entry.keyCodes.length) / entry.keyScales.length : 32;
  const groupOf = (/** @type {string} */ key, /** @type {number} */ i) =>
    (key === 'codes' ? Math.floor((2 * i) / numbers) : key === 'keyCodes' ? Math.floor((2 * i) / keyNumbers) : i);
  const nodes = cells.map(({ group, index, box }) => {
    const found = groups[group];
    const rect = s('rect', { x: box[0], y: box[1], width: box[2], height: box[3], rx: 1.5, class: `${found?.mark}${groupOf(found?.key ?? '', index) % 2 ? ' odd' : ''}` });
    on.svg.append(rect, label(box[0] + box[2] / 2, box[1] + 13.5, hex(found?.bytes[index] ?? 0), 'ch-hex ch-mid'));
    return rect;
  });
  const panel = el('div', { class: 'ch-decode' });
  const decode = (/** @type {number} */ i) => {
    const { group, index } = cells[i] ?? { group: 0, index: 0 };
    const key = groups[group]?.key ?? '';
    const kin = groupOf(key, index);
    const family = key.startsWith('key') ? 'keyCodes keyScales' : 'codes scales';
    nodes.forEach((node, n) => {
      const other = cells[n];
      const name = groups[other?.group ?? 0]?.key ?? '';
      node.classList.toggle('kin', family.split(' ').includes(name) && groupOf(name, other?.index ?? 0) === kin);
    });
    panel.replaceChildren(...decoded(d, entry, key, index, kin));
  };
  const reader = probe(on, {
    count: cells.length, columns: per, key: '6a-byte', state, label: t('ch.6a.read'),
    hit: (x, at) => cells.findIndex(({ box }) => x >= box[0] - 0.8 && x < box[0] + cell - 0.8 && at >= box[1] && at < box[1] + tall),
    box: (i) => cells[i]?.box ?? [0, 0, 0, 0],
    text: (i) => {
      const { group, index } = cells[i] ?? { group: 0, index: 0 };
      const found = groups[group];
      const byte = found?.bytes[index] ?? 0;
      return t('ch.6a.byte', { name: found?.name ?? '', index, byte: `0x${hex(byte)}` }) + ` ${short(found?.key ?? '', byte)}`;
    },
    change: decode,
  });
  decode(state['6a-byte'] ?? 0);
  return [on.root, reader.readout, panel,
    keys([['ch-k-codes', t('ch.6a.kCodes')], ['ch-k-scales', t('ch.6a.kScales')], ['ch-k-key', t('ch.6a.kKey')], ['ch-k-keyscale', t('ch.6a.kKeyScale')], ['ch-k-kin', t('ch.6a.kKin')]])];
}

/** @param {string} key @param {number} byte */
function short(key, byte) {
  if (key === 'scales') return `= ${exact(e4m3(byte))} (E4M3)`;
  if (key === 'keyScales') return `= ${exact(e8m0(byte))} (E8M0)`;
  return `= ${exact(e2m1(byte & 15))}, ${exact(e2m1(byte >> 4))} (E2M1)`;
}

/** The bits of a byte and the numbers that they make. @param {Draw<CacheFigure>} d @param {EntryBytes} entry @param {string} key @param {number} index @param {number} kin @returns {Node[]} */
function decoded(d, entry, key, index, kin) {
  const { t } = d;
  const line = (/** @type {string} */ name, /** @type {[string, string][]} */ parts, /** @type {string} */ text) => el('div', { class: 'ch-decode-line' },
    el('span', { class: 'ch-muted' }, name), el('span', { class: 'ch-bits' }, ...parts.map(([bits, about]) => el('span', { class: 'ch-bitbox' }, el('b', {}, bits), el('span', {}, about)))), el('span', { class: 'ch-num' }, text));
  const sign = t('ch.6a.sign');
  if (key === 'scales' || key === 'keyScales') {
    const byte = (key === 'scales' ? entry.scales : entry.keyScales)[index] ?? 0;
    return key === 'scales'
      ? [line(t('ch.6a.scaleOf', { group: kin }), [[binary(byte >> 7, 1), sign], [binary((byte >> 3) & 15, 4), 'e'], [binary(byte & 7, 3), 'm']], `E4M3 = ${exact(e4m3(byte))}`)]
      : [line(t('ch.6a.scaleOf', { group: kin }), [[binary(byte, 8), 'e']], `E8M0 = 2^(${byte} − 127) = ${exact(e8m0(byte))}`)];
  }
  const byte = (key === 'codes' ? entry.codes : entry.keyCodes)[index] ?? 0;
  const scale = key === 'codes' ? e4m3(entry.scales[kin] ?? 0) : e8m0(entry.keyScales[kin] ?? 0);
  return [byte & 15, byte >> 4].map((nibble, n) => {
    const dim = 2 * index + n;
    const value = e2m1(nibble) * scale;
    const rest = key === 'codes' ? t('ch.6a.against', { stored: exact(entry.stored[dim] ?? 0), exact: num(entry.exact[dim] ?? 0), error: num(value - (entry.exact[dim] ?? 0)) }) : '';
    return line(t(n ? 'ch.6a.high' : 'ch.6a.low', { dim }), [[binary(nibble >> 3, 1), sign], [binary((nibble >> 1) & 3, 2), 'e'], [binary(nibble & 1, 1), 'm']],
      `${exact(e2m1(nibble))} × ${exact(scale)} = ${exact(value)}${rest ? `; ${rest}` : ''}`);
  });
}

/** Bytes per token of each source layer, one after another up to the sum. @param {Draw<CacheFigure>} d @returns {Node[]} */
function ledger(d) {
  const { data, t, state, width } = d;
  const narrow = width < 520;
  const [left, row, top] = [narrow ? 66 : 150, 34, 6];
  const wide = width - left - (narrow ? 8 : 76);
  const sum = data.ledger.reduce((all, line) => all + line.perToken, 0) || 1;
  const on = plot({ width, height: top + (data.ledger.length + 1) * row + 20, label: t('ch.6a.ledgerLabel', { list: data.ledger.map((line) => num(line.perToken)).join(' + '), sum: num(sum) }) });
  /** @type {{ box: [number, number, number, number], text: string }[]} */
  const cells = [];
  const names = ['ch.6a.kCodes', 'ch.6a.kScales', 'ch.6a.kKey', 'ch.6a.kKeyScale'];
  const looks = ['ch-byte-codes', 'ch-byte-scales', 'ch-byte-key', 'ch-byte-keyscale'];
  let from = 0;
  data.ledger.forEach((line, r) => {
    const y = top + r * row;
    const whole = line.parts.reduce((all, part_) => all + part_, 0) || 1;
    let x = left + (from / sum) * wide;
    on.svg.append(label(2, y + 13, t('ch.layer', { layer: line.layer }), 'ch-label ch-strong'), label(narrow ? 2 : 62, narrow ? y + 27 : y + 13, t('ch.6a.ratio', { ratio: line.ratio }), 'ch-label'), s('path', { d: `M${left} ${y + 9}H${x}`, class: 'ch-dotted' }));
    line.parts.forEach((amount, i) => {
      const w = (line.perToken / sum) * wide * (amount / whole);
      on.svg.append(s('rect', { x, y, width: Math.max(0.5, w - 0.75), height: 19, class: looks[i] ?? '' }));
      cells.push({ box: [x, y, w, 19], text: t('ch.6a.part', { layer: line.layer, name: t(names[i] ?? ''), bytes: grouped(amount), entries: line.entries, per: num((line.perToken * amount) / whole) }) });
      x += w;
    });
    from += line.perToken;
    // The last bar ends at the right edge: its number stands in front of it.
    on.svg.append(narrow && r === data.ledger.length - 1 ? label(left + ((from - line.perToken) / sum) * wide - 6, y + 27, num(line.perToken), 'ch-label ch-end ch-strong') : label(x + 6, y + 14, num(line.perToken), 'ch-label ch-strong'));
    if (r < data.ledger.length - 1) on.svg.append(s('path', { d: `M${x} ${y + 19}v${row - 19}`, class: 'ch-dotted' }));
  });
  const y = top + data.ledger.length * row + 4;
  on.svg.append(s('path', { d: `M${left} ${y - 6}h${wide}`, class: 'ch-line-strong' }), s('rect', { x: left, y: y + 2, width: wide, height: 19, class: 'ch-soft-on' }),
    label(2, y + 16, t('ch.6a.sum'), 'ch-label ch-strong'), label(left + 8, y + 16, `${data.ledger.map((line) => num(line.perToken)).join(' + ')} = ${num(sum)}`, 'ch-label ch-strong'));
  if (!narrow) on.svg.append(label(left + wide + 6, y + 16, num(sum), 'ch-label ch-strong'));
  const reader = probe(on, {
    count: cells.length, columns: 4, key: '6a-part', state, label: t('ch.6a.ledgerRead'),
    hit: (x, at) => cells.findIndex(({ box }) => x >= box[0] && x < box[0] + box[2] && at >= box[1] - 4 && at < box[1] + 26),
    box: (i) => cells[i]?.box ?? [0, 0, 0, 0], text: (i) => cells[i]?.text ?? '',
  });
  return [on.root, reader.readout, el('p', { class: 'ch-muted ch-num' }, t('ch.6a.counted', { bytes: grouped(data.bytes), tokens: data.tokens, rings: grouped(data.rings), open: grouped(data.open) }))];
}
