// Token labels as the core writes them: “text” with escapes, bytes as hex when they are no text by themselves, or a name such as BOS.

/** @typedef {{ kind: 'text'|'bytes'|'special', show: string, bytes: number[]|null }} Label */

const ESCAPES = /** @type {Record<string, string>} */ ({ n: '\n', r: '\r', t: '\t', 0: '\0' });
/** Space, tab, newlines and other control characters as signs one can see. @param {string} text */
const visible = (text) => text
  .replace(/ /g, '\u2423')
  .replace(/\n/g, '\u21b5')
  .replace(/\t/g, '\u21e5')
  .replace(/[\0-\x1f\x7f]/g, (control) => `\\x${control.charCodeAt(0).toString(16).padStart(2, '0')}`);

/** @param {string} label @returns {Label} */
export function parseLabel(label) {
  const quoted = /^“([\s\S]*)”$/.exec(label);
  if (quoted) {
    const text = quoted[1].replace(/\\(?:u\{([0-9a-f]+)\}|(.))/gi, (_, code, sign) => (code ? String.fromCodePoint(parseInt(code, 16)) : ESCAPES[sign] ?? sign));
    return { kind: 'text', show: visible(text), bytes: [...new TextEncoder().encode(text)] };
  }
  if (/^[0-9A-F]{2}( [0-9A-F]{2})*$/.test(label)) return { kind: 'bytes', show: label, bytes: label.split(' ').map((pair) => parseInt(pair, 16)) };
  return { kind: 'special', show: label, bytes: null };
}

/** `E1 BB 99`. @param {number[]} bytes */
export const hex = (bytes) => bytes.map((byte) => byte.toString(16).toUpperCase().padStart(2, '0')).join(' ');

/**
 * What a token is, in one line: id, bytes, position.
 * @param {(key: string, values?: Record<string, string|number>) => string} t
 * @param {{ position: number, id: number, label: string }} token
 */
export function tokenFacts(t, token) {
  const { bytes } = parseLabel(token.label);
  const about = bytes ? t('strip.bytes', { bytes: hex(bytes) }) : t('strip.noBytes');
  return t('strip.facts', { label: token.label, id: token.id, bytes: about, position: token.position });
}
