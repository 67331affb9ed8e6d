// Builders for HTML and SVG. Nothing here parses markup: every string becomes a text node or an attribute.

const SVG = 'http://www.w3.org/2000/svg';

/** @typedef {Node | string | number | null | undefined | false} Kid */
/** @typedef {Record<string, string | number | boolean | null | undefined | ((event: any) => void)>} Attributes */

/**
 * @param {Element} node
 * @param {Attributes} attributes `on…` adds a listener, `false` and `null` leave the attribute out
 * @param {Kid[]} kids
 */
function fill(node, attributes, kids) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === 'function') node.addEventListener(name.slice(2), value);
    else if (value === true) node.setAttribute(name, '');
    else if (value !== false && value !== null && value !== undefined) node.setAttribute(name, String(value));
  }
  for (const kid of kids) {
    if (kid === null || kid === undefined || kid === false) continue;
    node.append(kid instanceof Node ? kid : String(kid));
  }
}

/**
 * An HTML element.
 * @template {keyof HTMLElementTagNameMap} K
 * @param {K} tag
 * @param {Attributes} [attributes]
 * @param {...Kid} kids
 * @returns {HTMLElementTagNameMap[K]}
 */
export function el(tag, attributes = {}, ...kids) {
  const node = document.createElement(tag);
  fill(node, attributes, kids);
  return node;
}

/**
 * An SVG element.
 * @template {keyof SVGElementTagNameMap} K
 * @param {K} tag
 * @param {Attributes} [attributes]
 * @param {...Kid} kids
 * @returns {SVGElementTagNameMap[K]}
 */
export function s(tag, attributes = {}, ...kids) {
  const node = document.createElementNS(SVG, tag);
  fill(node, attributes, kids);
  return node;
}
