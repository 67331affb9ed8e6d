// 6A: bytes per token of the source layers, one after another up to their sum.

import { el, grouped, num, s } from '../dom.js';
import { label, plot, probe } from './common.js';

/** @import { CacheFigure, Draw } from '../chapter.types.js' */

/** Bytes per token of each source layer, one after another up to the sum. @param {Draw<CacheFigure>} d @returns {Node[]} */
export function ledger(d) {
  const { data, t, state, width } = d;
  const narrow = width < 520;
  const [left, row, top] = [narrow ? 66 : 150, 34, 6];
  const wide = width - left - (narrow ? 8 : 76);
  const sum = data.ledger.reduce((all, line) => all + line.perToken, 0) || 1;
  const on = plot({
    width,
    height: top + (data.ledger.length + 1) * row + 20,
    label: t('ch.6a.ledgerLabel', { list: data.ledger.map((line) => num(line.perToken)).join(' + '), sum: num(sum) }),
  });
  /** @type {{ box: [number, number, number, number], text: string }[]} */
  const cells = [];
  const names = ['ch.6a.kCodes', 'ch.6a.kScales', 'ch.6a.kKey', 'ch.6a.kKeyScale'];
  const looks = ['ch-byte-codes', 'ch-byte-scales', 'ch-byte-key', 'ch-byte-keyscale'];
  let from = 0;
  data.ledger.forEach((line, r) => {
    const y = top + r * row;
    const whole = line.parts.reduce((all, part_) => all + part_, 0) || 1;
    let x = left + (from / sum) * wide;
    on.svg.append(
      label(2, y + 13, t('ch.layer', { layer: line.layer }), 'ch-label ch-strong'),
      label(narrow ? 2 : 62, narrow ? y + 27 : y + 13, t('ch.6a.ratio', { ratio: line.ratio }), 'ch-label'),
      s('path', { d: `M${left} ${y + 9}H${x}`, class: 'ch-dotted' }),
    );
    line.parts.forEach((amount, i) => {
      const w = (line.perToken / sum) * wide * (amount / whole);
      on.svg.append(s('rect', { x, y, width: Math.max(0.5, w - 0.75), height: 19, class: looks[i] ?? '' }));
      cells.push({
        box: [x, y, w, 19],
        text: t('ch.6a.part', {
          layer: line.layer,
          name: t(names[i] ?? ''),
          bytes: grouped(amount),
          entries: line.entries,
          per: num((line.perToken * amount) / whole),
        }),
      });
      x += w;
    });
    from += line.perToken;
    // The last bar ends at the right edge: its number stands in front of it.
    on.svg.append(
      narrow && r === data.ledger.length - 1
        ? label(left + ((from - line.perToken) / sum) * wide - 6, y + 27, num(line.perToken), 'ch-label ch-end ch-strong')
        : label(x + 6, y + 14, num(line.perToken), 'ch-label ch-strong'),
    );
    if (r < data.ledger.length - 1) on.svg.append(s('path', { d: `M${x} ${y + 19}v${row - 19}`, class: 'ch-dotted' }));
  });
  const y = top + data.ledger.length * row + 4;
  on.svg.append(
    s('path', { d: `M${left} ${y - 6}h${wide}`, class: 'ch-line-strong' }),
    s('rect', { x: left, y: y + 2, width: wide, height: 19, class: 'ch-soft-on' }),
    label(2, y + 16, t('ch.6a.sum'), 'ch-label ch-strong'),
    label(left + 8, y + 16, `${data.ledger.map((line) => num(line.perToken)).join(' + ')} = ${num(sum)}`, 'ch-label ch-strong'),
  );
  if (!narrow) on.svg.append(label(left + wide + 6, y + 16, num(sum), 'ch-label ch-strong'));
  const reader = probe(on, {
    count: cells.length,
    columns: 4,
    key: '6a-part',
    state,
    label: t('ch.6a.ledgerRead'),
    hit: (x, at) => cells.findIndex(({ box }) => x >= box[0] && x < box[0] + box[2] && at >= box[1] - 4 && at < box[1] + 26),
    box: (i) => cells[i]?.box ?? [0, 0, 0, 0],
    text: (i) => cells[i]?.text ?? '',
  });
  return [
    on.root,
    reader.readout,
    el(
      'p',
      { class: 'ch-muted ch-num' },
      t('ch.6a.counted', { bytes: grouped(data.bytes), tokens: data.tokens, rings: grouped(data.rings), open: grouped(data.open) }),
    ),
  ];
}
