// The two languages of the page. Sentences live in i18n/*.json by key; content that the core sends comes in both languages already.

import { recall, remember } from './page.js';

/** @typedef {import('../../engine.js').Text} Text */
/** @typedef {'vi'|'en'} Lang */

const FILES = ['', 'chapter.'];

/** Nested files are flattened to dotted keys. @param {any} tree @param {string} prefix @param {Map<string, string>} into */
function flatten(tree, prefix, into) {
  for (const [key, value] of Object.entries(tree ?? {})) {
    if (typeof value === 'string') into.set(prefix + key, value);
    else flatten(value, `${prefix}${key}.`, into);
  }
}

/** @param {Lang} lang @returns {Promise<Map<string, string>>} */
async function load(lang) {
  const map = new Map();
  await Promise.all(FILES.map(async (part) => {
    const url = new URL(`../../i18n/${part}${lang}.json`, import.meta.url);
    try {
      const response = await fetch(url);
      if (!response.ok) throw new Error(`HTTP ${response.status}`);
      flatten(await response.json(), '', map);
    } catch (error) {
      console.error(`${url.href}: ${error}`);
    }
  }));
  return map;
}

/** Sentences by key, in the language of the moment. */
export class I18n extends EventTarget {
  /** @type {Lang} */
  lang = 'vi';
  /** @type {Record<Lang, Map<string, string>>} */
  #words = { vi: new Map(), en: new Map() };

  /** Both languages are loaded at once, so that switching is immediate. */
  static async load() {
    const i18n = new I18n();
    const [vi, en] = await Promise.all([load('vi'), load('en')]);
    i18n.#words = { vi, en };
    const kept = recall('lang');
    const wished = (navigator.languages ?? [navigator.language]).map((tag) => tag.slice(0, 2).toLowerCase());
    const first = wished.find((tag) => tag === 'vi' || tag === 'en');
    i18n.lang = /** @type {Lang} */ (kept === 'vi' || kept === 'en' ? kept : first ?? 'en');
    i18n.#apply();
    return i18n;
  }

  /** @param {string} lang */
  use(lang) {
    if (lang !== 'vi' && lang !== 'en') return;
    this.lang = lang;
    remember('lang', lang);
    this.#apply();
    this.dispatchEvent(new Event('change'));
  }

  /**
   * The sentence of a key, with `{name}` replaced. A key that is missing shows itself, so that it is found.
   * @param {string} key
   * @param {Record<string, string|number>} [values]
   */
  t = (key, values = {}) => {
    const sentence = this.#words[this.lang].get(key) ?? key;
    return sentence.replace(/\{(\w+)\}/g, (whole, name) => (name in values ? String(values[name]) : whole));
  };

  /** Whether there is a sentence for this key. @param {string} key */
  has(key) {
    return this.#words[this.lang].has(key);
  }

  /** The text in the language of the moment. @param {Text|null|undefined} text */
  pick = (text) => text?.[this.lang] ?? '';

  /** Fills the skeleton: `data-t` is text, `data-t-label` an accessible name. */
  #apply() {
    document.documentElement.lang = this.lang;
    for (const element of document.querySelectorAll('[data-t]')) element.textContent = this.t(/** @type {string} */ (element.getAttribute('data-t')));
    for (const element of document.querySelectorAll('[data-t-label]')) {
      element.setAttribute('aria-label', this.t(/** @type {string} */ (element.getAttribute('data-t-label'))));
    }
  }
}
