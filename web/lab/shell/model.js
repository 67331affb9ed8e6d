// Which model the page opens: the lab's own, nano, which lies beside the page, or a checkpoint at an address. What a checkpoint needs is said before
// it is fetched.

import { el, grouped } from '../dom.js';
import { bytes, need } from './page.js';

/** @typedef {import('./state.js').Store} Store */
/** @typedef {import('./i18n.js').I18n} I18n */
/** @typedef {import('./session.js').Session} Session */
/** @typedef {import('../../engine.js').Plan} Plan */

/** The small trained checkpoint that comes with the page, from the page's address. */
const NANO = 'nano/';

/** The address in the page's own address: `?model=…`. @returns {string|null} */
export const addressOf = () => new URLSearchParams(location.search).get('model')?.trim() || null;

/** Writes the choice into the page's address, so that it can be passed on. @param {string|null} address */
function note(address) {
  const url = new URL(location.href);
  if (address) url.searchParams.set('model', address);
  else url.searchParams.delete('model');
  history.replaceState(history.state, '', url);
}

/**
 * The select in the header and the form for an address.
 * @param {{ store: Store, i18n: I18n, session: Session, open: (address: string|null) => void }} page
 */
export function modelView({ store, i18n, session, open }) {
  const { t } = i18n;
  const select = /** @type {HTMLSelectElement} */ (need('model'));
  const form = /** @type {HTMLFormElement} */ (need('source'));
  const field = /** @type {HTMLInputElement} */ (need('address'));
  const kept = need('kept');
  const show = () => {
    form.hidden = select.value !== 'address';
  };
  const first = addressOf();
  if (first !== null && first.replace(/^\.\/|\/$/g, '') === NANO.slice(0, -1)) select.value = 'nano';
  else if (first !== null) {
    select.value = 'address';
    field.value = first;
  }
  show();
  select.addEventListener('change', () => {
    show();
    if (select.value === 'address') return field.focus();
    const address = select.value === 'nano' ? NANO : null;
    if (addressOf() === address) return;
    note(address);
    open(address);
  });
  form.addEventListener('submit', (event) => {
    event.preventDefault();
    const address = field.value.trim();
    if (!address) return field.focus();
    note(address);
    open(address);
  });
  const clear = el('button', { type: 'button', 'data-action': 'clear-store', onclick: () => session.clearStored() }, t('model.clear'));
  store.show(['stored'], ({ stored }) => {
    kept.hidden = stored === 0;
    clear.textContent = t('model.clear');
    kept.replaceChildren(t('model.kept', { bytes: bytes(stored) }), ' ', clear);
  });
}

/** What a checkpoint needs, in sentences. @param {Plan} plan @param {I18n} i18n */
export function verdict(plan, { t }) {
  const said = [t('plan.size', { tensors: grouped(plan.tensors), bytes: bytes(plan.bytes), fetch: bytes(plan.fetch) })];
  said.push(t('plan.memory', { resident: bytes(plan.resident), memory: bytes(plan.memory) }));
  if (plan.slots !== null) said.push(t('plan.slots', { slots: grouped(plan.slots), experts: grouped(plan.experts), expert: bytes(plan.expert) }));
  said.push(t('plan.tables', { tables: bytes(plan.tables) }));
  if (!plan.kept) said.push(t('plan.notKept'));
  else if (plan.kept.bytes > 0) said.push(t('plan.kept', { bytes: bytes(plan.kept.bytes) }));
  if (plan.kept && plan.kept.room < plan.fetch) said.push(t('plan.noRoom', { room: bytes(plan.kept.room) }));
  return said.join(' ');
}

/**
 * The question before a download, as a banner.
 * @param {{ plan: Plan, answer: (yes: boolean) => void }} asked
 * @param {I18n} i18n
 */
export function question({ plan, answer }, i18n) {
  const { t } = i18n;
  return el('div', { class: 'banner ask', role: 'alertdialog', 'aria-label': t('plan.title'), 'data-ask': 'model' },
    el('b', {}, t('plan.title')),
    el('p', {}, verdict(plan, i18n)),
    el('button', { type: 'button', 'data-action': 'fetch', onclick: () => answer(true) }, t('plan.yes', { fetch: bytes(plan.fetch) })),
    el('button', { type: 'button', onclick: () => answer(false) }, t('plan.no')));
}
