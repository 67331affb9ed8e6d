// Where the ten boxes and their arrows lie: four columns in the course's reading order. Pure geometry, so that it can be read at a glance.
//
//   2A > 3A    4A    6B
//   ^    v     ^ \    ^
//   1B   3B    |  \   |
//   ^    v     v   \  |
//   1A   3C >  6A   > 5A

/** @typedef {{ code: string, column: number, x: number, y: number, width: number, height: number }} Box */
/**
 * @typedef {{ from: string, to: string, path: string, tip: [number, number, 'up'|'down'|'right'], tensors: string[], label?: string,
 *   at?: [number, number] }} Arrow  `tensors`: what moves along it, by tap name
 */

export const SIZE = { width: 628, height: 528 };
const BOX = 130;
const GUTTER = (SIZE.width - 8 - 4 * BOX) / 3;
const TOP = 26;
const BOTTOM = SIZE.height - 3;

/** Left edge of a column. @param {number} column */
const left = (column) => 4 + (column - 1) * (BOX + GUTTER);

/**
 * Boxes of one column, from the top.
 * @param {number} column
 * @param {string[]} codes
 * @param {number} gap
 * @returns {Box[]}
 */
function stack(column, codes, gap) {
  const height = (BOTTOM - TOP - gap * (codes.length - 1)) / codes.length;
  return codes.map((code, index) => ({ code, column, x: left(column), y: TOP + index * (height + gap), width: BOX, height }));
}

/** @type {Box[]} */
export const BOXES = [...stack(1, ['2A', '1B', '1A'], 28), ...stack(2, ['3A', '3B', '3C'], 28), ...stack(3, ['4A', '6A'], 56), ...stack(4, ['6B', '5A'], 56)];

/** Top left corners of the column names. @type {{ column: number, x: number }[]} */
export const COLUMNS = [1, 2, 3, 4].map((column) => ({ column, x: left(column) }));

/** @param {string} code @returns {Box} */
export const boxOf = (code) => /** @type {Box} */ (BOXES.find((box) => box.code === code));

/**
 * A straight arrow within a column.
 * @param {string} from @param {string} to @param {string[]} tensors @param {number} [shift] @param {string} [label]
 * @returns {Arrow}
 */
function along(from, to, tensors, shift = 0, label) {
  const [a, b] = [boxOf(from), boxOf(to)];
  const x = a.x + BOX / 2 + shift;
  const up = b.y < a.y;
  const [start, end] = up ? [a.y - 2, b.y + b.height + 3] : [a.y + a.height + 2, b.y - 3];
  const path = `M${x} ${start}V${up ? end + 7 : end - 7}`;
  const middle = (start + end) / 2 + 4;
  return { from, to, path, tip: [x, end, up ? 'up' : 'down'], tensors, ...(label ? { label, at: /** @type {[number, number]} */ ([x, middle]) } : {}) };
}

/**
 * An arrow through the gutter to the next column.
 * @param {string} from @param {string} to @param {string[]} tensors @param {number} leave @param {number} enter  heights within the boxes, 0 to 1
 * @returns {Arrow}
 */
function across(from, to, tensors, leave, enter) {
  const [a, b] = [boxOf(from), boxOf(to)];
  const [x1, x2] = [a.x + BOX + 2, b.x - 3];
  const [y1, y2] = [a.y + a.height * leave, b.y + b.height * enter];
  const bend = (x1 + x2) / 2 - 2;
  const path = Math.abs(y1 - y2) < 1 ? `M${x1} ${y1}H${x2 - 7}` : `M${x1} ${y1}H${bend}V${y2}H${x2 - 7}`;
  return { from, to, path, tip: [x2, y2, 'right'], tensors };
}

/** @type {Arrow[]} */
export const ARROWS = [
  along('1A', '1B', ['1a.embedding']),
  along('1B', '2A', ['1b.gate', '1a.embedding']),
  across('2A', '3A', ['2a.streams'], 0.5, 0.5),
  along('3A', '3B', ['2a.attn_input']),
  along('3B', '3C', ['3b.latent']),
  across('3C', '4A', ['3c.topk_ids', '3c.window_kv'], 0.5, 0.5),
  along('4A', '6A', ['3b.latent'], -22, 'map.store'),
  along('6A', '4A', ['6a.compressed_kv'], 22, 'map.load'),
  across('4A', '5A', ['4a.out'], 0.5, 0.5),
  along('5A', '6B', ['2a.streams']),
];

/** A triangle at the end of an arrow. @param {[number, number, 'up'|'down'|'right']} tip @param {number} width of the line */
export function head([x, y, way], width) {
  const half = 3.5 + width * 0.8;
  const long = 8 + width;
  if (way === 'right') return `M${x} ${y}l${-long} ${-half}v${2 * half}z`;
  return way === 'up' ? `M${x} ${y}l${-half} ${long}h${2 * half}z` : `M${x} ${y}l${-half} ${-long}h${2 * half}z`;
}

/** Width of an arrow that moves so many bytes. @param {number} bytes */
export const widthOf = (bytes) => (bytes > 0 ? Math.max(1.25, Math.min(6, 1.1 * Math.log10(bytes) - 2)) : 1.25);
