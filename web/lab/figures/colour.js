// Colour scales: sequential for weights, diverging and centred on zero for signed numbers. Both change in lightness as well as in hue, so that
// they can be read without seeing colour, and both always come with a legend.

import { el, num } from '../dom.js';

/** @typedef {{ kind: 'signed' | 'weight', max: number, at: (value: number) => string, rgb: (value: number) => [number, number, number] }} Scale */

/** @param {string} hex */
function parse(hex) {
  const digits = hex.trim().replace('#', '');
  const full = digits.length === 3 ? [...digits].map((d) => d + d).join('') : digits;
  return [0, 2, 4].map((i) => Number.parseInt(full.slice(i, i + 2), 16) || 0);
}

/**
 * The value of a colour variable of the page's theme.
 * @param {Element} host
 * @param {string} name
 */
export const ink = (host, name) => getComputedStyle(host).getPropertyValue(`--ch-${name}`).trim() || '#888888';

/**
 * Linear between the theme's stops.
 * @param {Element} host where the theme's variables are read
 * @param {'signed' | 'weight'} kind
 * @param {number} max magnitude at the end of the scale
 * @returns {Scale}
 */
export function scale(host, kind, max) {
  const names = kind === 'signed' ? ['neg', 'neg-soft', 'mid', 'pos-soft', 'pos'] : ['seq0', 'seq1', 'seq2', 'seq3'];
  const stops = names.map((name) => parse(ink(host, name)));
  const top = max > 0 ? max : 1;
  /** @param {number} value @returns {[number, number, number]} */
  const rgb = (value) => {
    const share = kind === 'signed' ? (value / top + 1) / 2 : value / top;
    const place = Math.min(1, Math.max(0, Number.isFinite(share) ? share : 0)) * (stops.length - 1);
    const low = Math.min(stops.length - 2, Math.floor(place));
    const [a, b] = [stops[low] ?? [0, 0, 0], stops[low + 1] ?? [0, 0, 0]];
    const mix = (/** @type {number} */ i) => Math.round((a[i] ?? 0) + ((b[i] ?? 0) - (a[i] ?? 0)) * (place - low));
    return [mix(0), mix(1), mix(2)];
  };
  return { kind, max: top, rgb, at: (value) => `rgb(${rgb(value).join(' ')})` };
}

/**
 * Black or white, whichever is easier to read on this colour.
 * @param {[number, number, number]} rgb
 */
export function textOn([r, g, b]) {
  const part = (/** @type {number} */ v) => (v / 255 <= 0.04045 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4);
  return 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b) > 0.179 ? '#101418' : '#ffffff';
}

/**
 * A strip with the scale's ends and middle.
 * @param {Scale} of
 * @param {string} name what is shown
 */
export function legend(of, name) {
  const canvas = el('canvas', { class: 'ch-ramp', width: 96, height: 8, 'aria-hidden': 'true' });
  const pen = canvas.getContext('2d');
  for (let x = 0; pen && x < 96; x += 1) {
    const share = x / 95;
    pen.fillStyle = of.at(of.kind === 'signed' ? (2 * share - 1) * of.max : share * of.max);
    pen.fillRect(x, 0, 1, 8);
  }
  const low = of.kind === 'signed' ? num(-of.max) : '0';
  const middle = of.kind === 'signed' && el('span', { class: 'ch-zero' }, '0');
  return el(
    'div',
    { class: 'ch-legend' },
    el('span', {}, name),
    el('span', { class: 'ch-num' }, low),
    el('span', { class: 'ch-ramp-box' }, canvas, middle),
    el('span', { class: 'ch-num' }, num(of.max)),
  );
}

/**
 * Legend of marks: a small sample of each and what it stands for.
 * @param {[string, string][]} marks class of the sample, text
 */
export function keys(marks) {
  return el(
    'ul',
    { class: 'ch-keys' },
    ...marks.map(([name, text]) => el('li', {}, el('span', { class: `ch-key ${name}`, 'aria-hidden': 'true' }), text)),
  );
}
