// 6A: one entry as it lies in memory, byte by byte.

import { el, exact, grouped, num, s } from '../dom.js';
import { keys } from './colour.js';
import { empty, label, part, plot, probe, stack } from './common.js';
import { binary, e2m1, e4m3, e8m0, hex } from './formats.js';
import { ledger } from './ledger.js';

/** @import { CacheFigure, Draw, EntryBytes } from '../chapter.types.js' */

/**
 * @param {Draw<CacheFigure>} d
 * @returns {{ body: Node, finding: string }}
 */
export function cache(d) {
  const { data, t } = d;
  const entry = data.entry;
  const size = entry ? entry.codes.length + entry.scales.length + entry.keyCodes.length + entry.keyScales.length : 0;
  const finding =
    t('ch.6a.finding', { perToken: num(data.perToken), bytes: grouped(data.bytes), tokens: data.tokens, sources: data.ledger.length }) +
    (entry ? ` ${t('ch.6a.findingEntry', { layer: data.layer, index: entry.index, size })}` : '');
  return {
    finding,
    body: stack(
      part(t('ch.6a.entry', { layer: data.layer, index: entry ? entry.index : '–' }), entry ? t('ch.6a.entryAbout', { size }) : ''),
      ...(entry ? bytes(d, entry) : [empty(t('ch.6a.noEntry'))]),
      part(t('ch.6a.ledger'), t('ch.6a.ledgerAbout')),
      ...ledger(d),
    ),
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
  const per = width < 660 ? 16 : 32;
  const cell = Math.min(26, Math.floor((width - 4) / per));
  const tall = 20;
  /** @type {{ group: number, index: number, box: [number, number, number, number] }[]} */
  const cells = [];
  let y = 0;
  const marks = groups.map((group, g) => {
    const top = y + 20;
    group.bytes.forEach((_, i) =>
      cells.push({ group: g, index: i, box: [1 + (i % per) * cell, top + Math.floor(i / per) * tall, cell - 1.5, tall - 1.5] }),
    );
    y = top + Math.ceil(group.bytes.length / per) * tall + 8;
    return top;
  });
  const on = plot({ width: per * cell + 4, height: y, label: t('ch.6a.bytesLabel', { list: groups.map((group) => group.name).join(', ') }) });
  groups.forEach((group, g) => on.svg.append(label(1, (marks[g] ?? 0) - 6, group.name, 'ch-label')));
  // A scale and its eight bytes of codes belong together: every other group of 16 numbers stands on a darker ground.
  const numbers = entry.scales.length ? (2 * entry.codes.length) / entry.scales.length : 16;
  const keyNumbers = entry.keyScales.length ? (2 * entry.keyCodes.length) / entry.keyScales.length : 32;
  const groupOf = (/** @type {string} */ key, /** @type {number} */ i) =>
    key === 'codes' ? Math.floor((2 * i) / numbers) : key === 'keyCodes' ? Math.floor((2 * i) / keyNumbers) : i;
  const nodes = cells.map(({ group, index, box }) => {
    const found = groups[group];
    const rect = s('rect', {
      x: box[0],
      y: box[1],
      width: box[2],
      height: box[3],
      rx: 1.5,
      class: `${found?.mark}${groupOf(found?.key ?? '', index) % 2 ? ' odd' : ''}`,
    });
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
    count: cells.length,
    columns: per,
    key: '6a-byte',
    state,
    label: t('ch.6a.read'),
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
  return [
    on.root,
    reader.readout,
    panel,
    keys([
      ['ch-k-codes', t('ch.6a.kCodes')],
      ['ch-k-scales', t('ch.6a.kScales')],
      ['ch-k-key', t('ch.6a.kKey')],
      ['ch-k-keyscale', t('ch.6a.kKeyScale')],
      ['ch-k-kin', t('ch.6a.kKin')],
    ]),
  ];
}

/** @param {string} key @param {number} byte */
function short(key, byte) {
  if (key === 'scales') return `= ${exact(e4m3(byte))} (E4M3)`;
  if (key === 'keyScales') return `= ${exact(e8m0(byte))} (E8M0)`;
  return `= ${exact(e2m1(byte & 15))}, ${exact(e2m1(byte >> 4))} (E2M1)`;
}

/**
 * The bits of a byte and the numbers that they make.
 * @param {Draw<CacheFigure>} d
 * @param {EntryBytes} entry
 * @param {string} key
 * @param {number} index
 * @param {number} kin
 * @returns {Node[]}
 */
function decoded(d, entry, key, index, kin) {
  const { t } = d;
  const line = (/** @type {string} */ name, /** @type {[string, string][]} */ parts, /** @type {string} */ text) =>
    el(
      'div',
      { class: 'ch-decode-line' },
      el('span', { class: 'ch-muted' }, name),
      el('span', { class: 'ch-bits' }, ...parts.map(([bits, about]) => el('span', { class: 'ch-bitbox' }, el('b', {}, bits), el('span', {}, about)))),
      el('span', { class: 'ch-num' }, text),
    );
  const sign = t('ch.6a.sign');
  if (key === 'scales' || key === 'keyScales') {
    const byte = (key === 'scales' ? entry.scales : entry.keyScales)[index] ?? 0;
    return key === 'scales'
      ? [
          line(
            t('ch.6a.scaleOf', { group: kin }),
            [
              [binary(byte >> 7, 1), sign],
              [binary((byte >> 3) & 15, 4), 'e'],
              [binary(byte & 7, 3), 'm'],
            ],
            `E4M3 = ${exact(e4m3(byte))}`,
          ),
        ]
      : [line(t('ch.6a.scaleOf', { group: kin }), [[binary(byte, 8), 'e']], `E8M0 = 2^(${byte} − 127) = ${exact(e8m0(byte))}`)];
  }
  const byte = (key === 'codes' ? entry.codes : entry.keyCodes)[index] ?? 0;
  const scale = key === 'codes' ? e4m3(entry.scales[kin] ?? 0) : e8m0(entry.keyScales[kin] ?? 0);
  return [byte & 15, byte >> 4].map((nibble, n) => {
    const dim = 2 * index + n;
    const value = e2m1(nibble) * scale;
    const rest =
      key === 'codes'
        ? t('ch.6a.against', {
            stored: exact(entry.stored[dim] ?? 0),
            exact: num(entry.exact[dim] ?? 0),
            error: num(value - (entry.exact[dim] ?? 0)),
          })
        : '';
    return line(
      t(n ? 'ch.6a.high' : 'ch.6a.low', { dim }),
      [
        [binary(nibble >> 3, 1), sign],
        [binary((nibble >> 1) & 3, 2), 'e'],
        [binary(nibble & 1, 1), 'm'],
      ],
      `${exact(e2m1(nibble))} × ${exact(scale)} = ${exact(value)}${rest ? `; ${rest}` : ''}`,
    );
  });
}
