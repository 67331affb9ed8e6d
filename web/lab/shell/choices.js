// Choices in the header: language, light or dark, and the line that says what computes.

import { el } from '../dom.js';
import { need, recall, remember } from './page.js';

/** @typedef {import('./state.js').Store} Store */
/** @typedef {import('./i18n.js').I18n} I18n */

/** Light, dark, or what the machine prefers, on `<html data-theme>`. */
export function themeChoice() {
  const select = /** @type {HTMLSelectElement} */ (need('theme'));
  const dark = matchMedia('(prefers-color-scheme: dark)');
  const apply = () => {
    const theme = select.value === 'auto' ? (dark.matches ? 'dark' : 'light') : select.value;
    document.documentElement.dataset.theme = theme;
  };
  const kept = recall('theme');
  select.value = kept === 'light' || kept === 'dark' ? kept : 'auto';
  select.addEventListener('change', () => {
    remember('theme', select.value);
    apply();
  });
  dark.addEventListener('change', apply);
  apply();
}

/** @param {I18n} i18n */
export function languageChoice(i18n) {
  const select = /** @type {HTMLSelectElement} */ (need('lang'));
  select.value = i18n.lang;
  select.addEventListener('change', () => i18n.use(select.value));
}

/** What computes, and which model. @param {{ store: Store, i18n: I18n }} page */
export function adapterView({ store, i18n }) {
  const { t, pick } = i18n;
  const line = need('adapter');
  store.show(['info', 'live'], ({ info, live }) => {
    const about = (info?.model.about ?? []).map(pick).join(' · ');
    const name = !info ? '' : live ? `${t(`source.${info.backend}`)}${info.adapter ? `: ${info.adapter}` : ''}` : t('source.recorded');
    line.replaceChildren(...(info ? [el('b', {}, name), ` · ${live && info.software ? `${t('adapter.software')} · ` : ''}${about}`] : [t('adapter.none')]));
    // For tests and for whoever drives the page: present as soon as an engine has answered. Failure is marked on its banner.
    if (live) line.dataset.ready = 'true';
    else delete line.dataset.ready;
    line.title = info ? [name, pick(info.sentence), pick(info.reason), ...info.model.about.map(pick), info.build].filter(Boolean).join('\n') : '';
  });
}
