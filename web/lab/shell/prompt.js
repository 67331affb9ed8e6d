// The prompt: a text with its limit, a picture, and Run.

import { el, grouped } from '../dom.js';
import { need } from './page.js';
import { fileOf, read } from './picture.js';

/** @typedef {import('./state.js').Store} Store */
/** @typedef {import('./i18n.js').I18n} I18n */
/** @typedef {import('../../engine.js').Picture} Picture */

/** The sentence of the recorded run. */
const FIRST = 'Bộ nhớ KV chỉ cần 890 byte';

/**
 * @param {{ store: Store, i18n: I18n, run: (prompt: { text: string, picture: Picture }) => void }} page
 * @returns {{ read: () => { text: string, picture: Picture } }}
 */
export function promptView({ store, i18n, run }) {
  const { t } = i18n;
  const form = /** @type {HTMLFormElement} */ (need('prompt'));
  const text = /** @type {HTMLTextAreaElement} */ (need('text'));
  const button = /** @type {HTMLButtonElement} */ (need('run'));
  const [counter, refusal, slot] = [need('counter'), need('refusal'), need('picture')];
  /** @type {{ own: import('./picture.js').Own, preview: HTMLCanvasElement }|null} */
  let own = null;
  let chosen = 'none';
  /** @type {import('./picture.js').Refusal|null} */
  let refused = null;
  text.value = FIRST;

  const limit = () => store.state.info?.limits.characters ?? 4000;
  const length = () => [...text.value].length;

  function judge() {
    const [count, most] = [length(), limit()];
    counter.textContent = `${grouped(count)} / ${grouped(most)}`;
    counter.classList.toggle('over', count > most);
    text.setAttribute('aria-invalid', String(count > most));
    const sentence = count > most ? t('prompt.tooLong', { count: grouped(count), limit: grouped(most), over: grouped(count - most) })
      : refused ? t(refused.key, refused.values) : '';
    if (refusal.textContent !== sentence) refusal.textContent = sentence;
    button.disabled = count > most || !store.state.live;
  }

  function grow() {
    text.style.height = 'auto';
    text.style.height = `${Math.min(160, text.scrollHeight + 2)}px`;
  }

  const file = el('input', { type: 'file', accept: 'image/*', hidden: true, onchange: () => take(file.files?.[0] ?? null) });

  /** @param {File|null} given */
  async function take(given) {
    if (!given) return;
    const result = await read(given);
    refused = 'refusal' in result ? result.refusal : null;
    if ('own' in result) {
      own = result;
      chosen = 'own';
    }
    file.value = '';
    draw();
    judge();
  }

  /** @param {string} choice */
  function choose(choice) {
    chosen = choice;
    refused = null;
    draw();
    judge();
  }

  function draw() {
    const options = ['none', 'disc', 'grid', ...(own ? ['own'] : [])];
    const select = el('select', { 'aria-label': t('picture.label'), onchange: () => choose(select.value) },
      ...options.map((name) => el('option', { value: name }, name === 'own' ? own?.own.name : t(`picture.${name}`))));
    select.value = chosen;
    slot.replaceChildren(
      ...(own && chosen === 'own' ? [own.preview] : []),
      select,
      el('button', { type: 'button', title: t('picture.ways'), onclick: () => file.click() }, t('picture.open')),
      file,
    );
  }

  /** @returns {{ text: string, picture: Picture }} */
  const prompt = () => ({ text: text.value, picture: chosen === 'disc' || chosen === 'grid' ? chosen : chosen === 'own' && own ? own.own : null });

  form.addEventListener('submit', (event) => {
    event.preventDefault();
    if (button.disabled) return;
    refused = null;
    judge();
    run(prompt());
  });
  text.addEventListener('keydown', (event) => {
    if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    form.requestSubmit();
  });
  text.addEventListener('input', () => {
    grow();
    judge();
  });
  addEventListener('paste', (event) => {
    const given = fileOf(event.clipboardData);
    if (!given) return;
    event.preventDefault();
    take(given);
  });
  addEventListener('dragover', (event) => {
    event.preventDefault();
    document.body.classList.add('drag');
  });
  addEventListener('dragleave', (event) => {
    if (!event.relatedTarget) document.body.classList.remove('drag');
  });
  addEventListener('drop', (event) => {
    event.preventDefault();
    document.body.classList.remove('drag');
    take(fileOf(event.dataTransfer));
  });
  store.show(['info', 'live'], judge);
  i18n.addEventListener('change', () => {
    draw();
    judge();
  });
  draw();
  return { read: prompt };
}
