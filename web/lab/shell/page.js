// Small helpers of the shell: the page's skeleton, settings that may be forbidden, rows of buttons, units.

import { s } from '../dom.js';

/** A single-path icon of 16 units. @param {string} d */
export const icon = (d) => s('svg', { viewBox: '0 0 16 16', 'aria-hidden': 'true' }, s('path', { d }));

/** The element of the page's skeleton with this id. @param {string} id @returns {HTMLElement} */
export function need(id) {
  const element = document.getElementById(id);
  if (!element) throw new Error(`index.html has no element #${id}`);
  return element;
}

/** Reads a setting; a browser may forbid storage altogether. @param {string} key @returns {string|null} */
export function recall(key) {
  try {
    return localStorage.getItem(`flash890.${key}`);
  } catch {
    return null;
  }
}

/** @param {string} key @param {string} value */
export function remember(key, value) {
  try {
    localStorage.setItem(`flash890.${key}`, value);
  } catch {
    // Not kept: the page works the same, only for this visit.
  }
}

/** Bytes in the unit that fits. @param {number} value */
export function bytes(value) {
  const units = ['B', 'kB', 'MB', 'GB'];
  let unit = 0;
  let scaled = value;
  while (scaled >= 1000 && unit < units.length - 1) {
    scaled /= 1000;
    unit += 1;
  }
  return `${unit === 0 ? scaled : scaled.toPrecision(3)} ${units[unit]}`;
}

/** `[23, 4, 64]`. @param {number[]} shape */
export const shapeText = (shape) => `[${shape.join(', ')}]`;

/** Lets the browser draw and answer before the next piece of work. */
export const pause = () => new Promise((resolve) => setTimeout(resolve, 0));

/**
 * Moves along a row of buttons with the arrow keys, Home and End.
 * @param {HTMLElement} row
 * @param {() => HTMLElement[]} items
 * @param {(item: HTMLElement) => void} choose  called with the item that was moved to
 */
export function arrows(row, items, choose) {
  row.addEventListener('keydown', (event) => {
    const list = items();
    const at = list.indexOf(/** @type {HTMLElement} */ (document.activeElement));
    const to = /** @type {Record<string, number>} */ ({ ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: list.length - 1 })[event.key];
    if (at < 0 || to === undefined || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    const item = list[Math.max(0, Math.min(list.length - 1, to))];
    item?.focus();
    if (item) choose(item);
  });
}

/**
 * Brings an item of a sideways scrolling row into view without moving the page.
 * @param {HTMLElement} scroller
 * @param {HTMLElement} item
 */
export function reveal(scroller, item) {
  const outer = scroller.getBoundingClientRect();
  const inner = item.getBoundingClientRect();
  if (inner.left < outer.left) scroller.scrollLeft += inner.left - outer.left - 24;
  else if (inner.right > outer.right) scroller.scrollLeft += inner.right - outer.right + 24;
}
