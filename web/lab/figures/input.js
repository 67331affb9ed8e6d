// 1A: the picture in patches and cells, the cells as tokens with their marks, and the row of the followed token.

import { clamp, el, exact, fixed, largest, num, s } from '../dom.js';
import { keys } from './colour.js';
import { beside, empty, label, part, plot, probe, stack, tokenAt } from './common.js';
import { strips } from './strips.js';

/** @import { Draw, InputFigure, PictureFigure } from '../chapter.types.js' */

/**
 * @param {Draw<InputFigure>} d
 * @returns {{ body: Node, finding: string }}
 */
export function input(d) {
  const { data, lab, t, width } = d;
  const at = lab.followed;
  const finding =
    t('ch.1a.finding', { at, token: tokenAt(lab, at), count: data.row.length, length: num(data.lengths[at] ?? 0) }) +
    (data.picture
      ? ` ${t('ch.1a.findingPicture', { tokens: data.picture.cells[0] * data.picture.cells[1], cols: data.picture.cells[0], rows: data.picture.cells[1] })}`
      : '');
  const picture = data.picture ? pictureParts(d, data.picture) : [empty(t('ch.1a.noPicture'))];
  const row = strips({
    host: d.host,
    width,
    t,
    state: d.state,
    key: '1a-row',
    label: t('ch.1a.rowLabel', { at }),
    rows: [{ name: `x[${at}]`, kind: 'signed', values: [data.row], height: 30 }],
  });
  return { finding, body: stack(...picture, part(t('ch.1a.row', { at, token: tokenAt(lab, at), count: data.row.length })), row, lengths(d)) };
}

/** @param {Draw<InputFigure>} d @param {PictureFigure} picture @returns {Node[]} */
function pictureParts(d, picture) {
  const { t, width } = d;
  const wide = width > 620;
  const room = wide ? Math.floor((width - 28) / 2) : width;
  const left = el('div');
  const right = el('div');
  const cuts = cut(d, picture, room);
  const tokens = layout(d, picture, room, (cell) => cuts.move(cell));
  left.append(
    part(
      t('ch.1a.cut'),
      t('ch.1a.sizes', {
        given: picture.given.join(' × '),
        fitted: picture.fitted.join(' × '),
        patches: picture.patches.join(' × '),
        cells: picture.cells.join(' × '),
      }),
    ),
    ...cuts.nodes,
  );
  right.append(part(t('ch.1a.tokens'), t('ch.1a.count', { count: 2 + picture.cells[1] * (picture.cells[0] + 1) })), ...tokens);
  const source = picture.generated ? [el('p', { class: 'ch-muted' }, t('ch.1a.generated'))] : [];
  return [beside(left, right), ...source];
}

/** The picture with patch and cell lines. @param {Draw<InputFigure>} d @param {PictureFigure} picture @param {number} room */
function cut(d, picture, room) {
  const { t, state } = d;
  const [columns, rows] = picture.cells;
  const [wide, tall] = picture.fitted;
  const width = Math.min(room, (340 * wide) / Math.max(1, tall));
  const by = width / Math.max(1, wide);
  const height = tall * by;
  const on = plot({ width, height, canvas: true, label: t('ch.1a.cutLabel', { columns, rows }) });
  const bytes = Uint8Array.from(atob(picture.rgb), (c) => c.charCodeAt(0));
  const [tw, th] = picture.thumb;
  const small = el('canvas', { width: tw, height: th });
  const image = new ImageData(Math.max(1, tw), Math.max(1, th));
  for (let i = 0; i < tw * th; i += 1) {
    for (let c = 0; c < 3; c += 1) image.data[4 * i + c] = bytes[3 * i + c] ?? 0;
    image.data[4 * i + 3] = 255;
  }
  small.getContext('2d')?.putImageData(image, 0, 0);
  on.pen?.drawImage(small, 0, 0, on.width, on.height);
  const lines = (/** @type {number} */ step, /** @type {string} */ name) => {
    let path = '';
    for (let x = step * by; x < on.width - 0.5; x += step * by) path += `M${x} 0V${on.height}`;
    for (let y = step * by; y < on.height - 0.5; y += step * by) path += `M0 ${y}H${on.width}`;
    return s('path', { d: path, class: name });
  };
  // Patches finer than six pixels would only grey the picture.
  if (picture.patch * by >= 6) on.svg.append(lines(picture.patch, 'ch-cut-patch'));
  const cell = picture.patch * picture.merge * by;
  if (cell >= 24) on.svg.append(lines(picture.patch * picture.merge, 'ch-cut-cell under'));
  on.svg.append(lines(picture.patch * picture.merge, cell >= 24 ? 'ch-cut-cell' : 'ch-cut-cell fine'));
  const reader = probe(on, {
    count: columns * rows,
    columns,
    key: '1a-cell',
    state,
    label: t('ch.1a.cellLabel'),
    hit: (x, y) => clamp(Math.floor(y / cell), 0, rows - 1) * columns + clamp(Math.floor(x / cell), 0, columns - 1),
    box: (i) => [
      (i % columns) * cell,
      Math.floor(i / columns) * cell,
      Math.min(cell, on.width - (i % columns) * cell),
      Math.min(cell, on.height - Math.floor(i / columns) * cell),
    ],
    text: (i) =>
      t('ch.1a.cell', {
        row: Math.floor(i / columns),
        column: i % columns,
        patches: picture.merge ** 2,
        position: position(picture, i),
        merge: picture.merge,
      }),
    pick: (i) => d.onToken(position(picture, i)),
  });
  return { nodes: [on.root, reader.readout], move: reader.move };
}

/** Position in the prompt of a cell. @param {PictureFigure} picture @param {number} cell */
const position = (picture, cell) => picture.start + 1 + Math.floor(cell / picture.cells[0]) * (picture.cells[0] + 1) + (cell % picture.cells[0]);

/**
 * START, rows of cells with NEW_LINE, END.
 * @param {Draw<InputFigure>} d @param {PictureFigure} picture @param {number} room
 * @param {(cell: number) => void} read shows the same cell in the picture
 */
function layout(d, picture, room, read) {
  const { t, state, lab } = d;
  const [columns, rows] = picture.cells;
  const size = clamp(Math.floor(room / (columns + 2)), 7, 30);
  const count = 2 + rows * (columns + 1);
  const on = plot({
    width: Math.min(room, size * (columns + 1) + 2),
    height: size * (rows + 2) + 2,
    label: t('ch.1a.layoutLabel', { rows, columns, count }),
  });
  /** @param {number} i @returns {[number, number, string]} column, row, kind */
  const place = (i) => {
    if (i === 0) return [0, 0, 'start'];
    if (i === count - 1) return [0, rows + 1, 'end'];
    const c = (i - 1) % (columns + 1);
    return [c, 1 + Math.floor((i - 1) / (columns + 1)), c === columns ? 'newline' : 'image'];
  };
  /** @type {Record<string, string>} */
  const letters = { start: 'S', newline: '↵', end: 'E', image: '' };
  for (let i = 0; i < count; i += 1) {
    const [c, r, kind] = place(i);
    on.svg.append(
      s('rect', {
        x: c * size + 1.5,
        y: r * size + 1.5,
        width: size - 2,
        height: size - 2,
        rx: 2,
        class: `ch-tok ch-tok-${kind}${picture.start + i === lab.followed ? ' ch-tok-on' : ''}`,
      }),
    );
    if (size >= 11 && letters[kind])
      on.svg.append(label(c * size + size / 2 + 0.5, r * size + size / 2 + 5, letters[kind] ?? '', 'ch-mid ch-tok-text'));
  }
  const reader = probe(on, {
    count,
    columns: columns + 1,
    key: '1a-token',
    state,
    label: t('ch.1a.tokenLabel'),
    start: lab.followed >= picture.start && lab.followed < picture.start + count ? lab.followed - picture.start : 1,
    hit: (x, y) => {
      const [c, r] = [Math.floor(x / size), Math.floor(y / size)];
      if (r === 0) return c === 0 ? 0 : -1;
      if (r === rows + 1) return c === 0 ? count - 1 : -1;
      return c > columns || r > rows + 1 ? -1 : 1 + (r - 1) * (columns + 1) + c;
    },
    box: (i) => [place(i)[0] * size + 1.5, place(i)[1] * size + 1.5, size - 2, size - 2],
    text: (i) =>
      t('ch.1a.token', {
        position: picture.start + i,
        kind: { start: 'START', end: 'END', newline: 'NEW_LINE', image: 'IMAGE' }[place(i)[2]] ?? '',
        length: exact(d.data.lengths[picture.start + i] ?? 0),
      }),
    change: (i) => {
      const [c, r, kind] = place(i);
      if (kind === 'image') read((r - 1) * columns + c);
    },
    pick: (i) => d.onToken(picture.start + i),
  });
  return [
    on.root,
    reader.readout,
    keys([
      ['ch-k-start', 'S START'],
      ['ch-k-image', 'IMAGE'],
      ['ch-k-newline', '↵ NEW_LINE'],
      ['ch-k-end', 'E END'],
      ['ch-k-on', t('ch.followed')],
    ]),
  ];
}

/** Length of each position's row. @param {Draw<InputFigure>} d */
function lengths(d) {
  const { data, lab, t, state, width } = d;
  const count = data.lengths.length;
  const top = largest(data.lengths) || 1;
  const [left, tall] = [40, 72];
  const wide = width - left - 4;
  const step = wide / Math.max(1, count);
  const on = plot({ width, height: tall + 22, label: t('ch.1a.lengthsLabel', { count, max: num(top) }) });
  let [text, picture] = ['', ''];
  for (let p = 0; p < count; p += 1) {
    const h = ((data.lengths[p] ?? 0) / top) * (tall - 6);
    const bar = `M${left + p * step + (step > 3 ? 0.75 : 0)} ${tall}v${-h}h${step > 3 ? step - 1.5 : step + 0.1}v${h}z`;
    if ((lab.tokens[p]?.kind ?? 'text') === 'text') text += bar;
    else picture += bar;
  }
  on.svg.append(
    s('path', { d: text, class: 'ch-fill-a' }),
    s('path', { d: picture, class: 'ch-fill-b' }),
    s('path', { d: `M${left} ${tall + 0.5}h${wide}`, class: 'ch-line' }),
    label(left - 6, 12, fixed(top, 1), 'ch-label ch-end'),
    label(left - 6, tall, '0', 'ch-label ch-end'),
    s('path', { d: `M${left + (lab.followed + 0.5) * step} ${tall + 3}l4 7h-8z`, class: 'ch-point' }),
    label(clamp(left + (lab.followed + 0.5) * step, left + 8, width - 12), tall + 21, String(lab.followed), 'ch-label ch-mid ch-strong'),
  );
  const reader = probe(on, {
    count,
    key: '1a-length',
    state,
    start: lab.followed,
    label: t('ch.1a.lengthsRead'),
    hit: (x) => (x < left ? -1 : clamp(Math.floor((x - left) / step), 0, count - 1)),
    box: (p) => [left + p * step, 2, step, tall - 2],
    text: (p) => t('ch.1a.length', { position: p, token: tokenAt(lab, p), length: exact(data.lengths[p] ?? 0) }),
    pick: (p) => d.onToken(p),
  });
  return stack(
    part(t('ch.1a.lengths'), t('ch.clickToFollow')),
    on.root,
    reader.readout,
    keys([['ch-k-a', t('ch.1a.textRow')], ...(d.data.picture ? [/** @type {[string, string]} */ (['ch-k-b', t('ch.1a.pictureRow')])] : [])]),
  );
}
