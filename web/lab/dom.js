// Small builders for HTML, SVG and numbers.

import { el } from '../dom.js';

export { el };
export { s } from '../dom.js';

/** An exponent in raised digits. @param {number} exponent */
export function superscript(exponent) {
  const digits = '⁰¹²³⁴⁵⁶⁷⁸⁹';
  const text = [...String(Math.abs(exponent))].map((d) => digits[Number(d)]).join('');
  return exponent < 0 ? `⁻${text}` : text;
}

/**
 * A number with at most four significant digits; whole numbers below a million in full.
 * @param {number} value
 */
export function num(value) {
  if (!Number.isFinite(value)) return String(value);
  if (value === 0) return '0';
  const size = Math.abs(value);
  if (Number.isInteger(value) && size < 1e6) return minus(String(value));
  if (size >= 1e6 || size < 1e-4) {
    const [digits = '', exponent = '0'] = value.toExponential(3).split('e');
    return minus(`${digits.replace(/\.?0+$/, '')} × 10${superscript(Number(exponent))}`);
  }
  return minus(value.toPrecision(4));
}

/**
 * Short form for a picture's labels: `decimals` places, no exponent.
 * @param {number} value
 * @param {number} [decimals]
 */
export const fixed = (value, decimals = 2) => minus((Math.abs(value) < 0.5 * 10 ** -decimals ? 0 : value).toFixed(decimals));

/** The shortest digits that are this f32 and no other: `0.1`, not `0.10000000149011612`. @param {number} value */
export function exact32(value) {
  for (let digits = 6; digits < 9; digits += 1) {
    const short = Number(value.toPrecision(digits));
    if (Math.fround(short) === value) return exact(short);
  }
  return exact(Number(value.toPrecision(9)));
}

/** All digits of a number. @param {number} value */
export const exact = (value) => minus(Number.isInteger(value) ? grouped(value) : String(value));

const INDEX = /(?<![\p{L}\d])(\p{L}{1,2}|rope|bias)_(?:\{([^}]+)\}|([\p{L}\d]+))/gu;

/**
 * A text in which `W_kv` and `v_{k+1}` are written with their indices below the line.
 * @param {string} text
 * @returns {(string|Node)[]}
 */
export function indexed(text) {
  /** @type {(string|Node)[]} */
  const parts = [];
  let from = 0;
  for (const found of text.matchAll(INDEX)) {
    parts.push(text.slice(from, found.index), found[1] ?? '', el('sub', {}, found[2] ?? found[3] ?? ''));
    from = found.index + found[0].length;
  }
  return [...parts, text.slice(from)];
}

/** Whole number with narrow spaces between thousands. @param {number} value */
export function grouped(value) {
  const text = String(Math.abs(value));
  const cut = text.length < 5 ? text : text.replace(/\B(?=(\d{3})+$)/g, '\u202f');
  return value < 0 ? `-${cut}` : cut;
}

/** Hyphen to minus sign. @param {string} text */
const minus = (text) => text.replace(/^-/, '−');

/** @param {number} value @param {number} low @param {number} high */
export const clamp = (value, low, high) => Math.min(high, Math.max(low, value));

/** @param {ArrayLike<number>} values */
export function largest(values) {
  let max = 0;
  for (let i = 0; i < values.length; i += 1) max = Math.max(max, Math.abs(values[i] ?? 0));
  return max;
}

/** `0 … n - 1` @param {number} n */
export const range = (n) => Array.from({ length: n }, (_, i) => i);

/**
 * Focuses the element with this key, if it is there, without scrolling.
 * @param {HTMLElement} host
 * @param {string} key value of `data-key`
 */
export function refocus(host, key) {
  const node = host.querySelector(`[data-key="${CSS.escape(key)}"]`);
  if (node instanceof HTMLElement) node.focus({ preventScroll: true });
}
