// Texts in two languages, sizes, and errors as sentences with a next step.

import en from '../i18n/chat.en.js';
import vi from '../i18n/chat.vi.js';

/** @typedef {keyof typeof en} Key */
/** @typedef {'vi'|'en'} Lang */
/** @typedef {(key: Key, values?: Record<string, string|number>) => string} Say */

const TEXTS = { vi, en };

/** Reasons of `EngineError` that only whoever runs the page can do something about. */
const AMISS = ['not-found', 'status', 'web-page', 'no-ranges', 'not-a-checkpoint', 'contract'];

/** The language of a place in a page: its own, that of what is around it, or the reader's. @param {Element} element @returns {Lang} */
export function languageOf(element) {
  const stated = element.closest('[lang]')?.getAttribute('lang') || navigator.language;
  return /^vi\b/i.test(stated) ? 'vi' : 'en';
}

/** @param {Lang} lang @returns {Say} */
export function speaker(lang) {
  return (key, values = {}) => TEXTS[lang][key].replace(/\{(\w+)\}/g, (whole, name) => String(values[name] ?? whole));
}

/** Bytes for people: `11.7 MB`, `510 GB`. @param {number} bytes @param {Lang} lang */
export function sizeText(bytes, lang) {
  const [unit, power] = bytes >= 1e9 ? ['GB', 1e9] : bytes >= 1e6 ? ['MB', 1e6] : ['kB', 1e3];
  const value = bytes / power;
  return `${value.toLocaleString(lang, { maximumFractionDigits: value < 100 ? 1 : 0 })}\u00a0${unit}`;
}

/**
 * What to tell about an error.
 * @param {Say} say
 * @param {import('../errors.js').EngineError} error
 * @param {string} host whom to name
 */
export function sentence(say, error, host) {
  const { kind, reason, retryAfter } = error;
  if (kind === 'network' && !navigator.onLine) return say('error.offline');
  if (kind === 'rate' && retryAfter) return say('error.rateSeconds', { host, seconds: retryAfter });
  if (kind === 'endpoint' && error.message.includes('broke off')) return say('error.cut', { host });
  // The address is not that of a checkpoint, or its server is not fit for one.
  if (reason && AMISS.includes(reason)) return say('error.files');
  const key = `error.${kind}`;
  return say(key in en ? /** @type {Key} */ (key) : 'error.internal', { host });
}
