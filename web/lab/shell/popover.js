// The pop-over of a box: what the block receives, does and returns, with shapes. Opens on hover, focus or a long press; stays while the pointer is on it.

import { el } from '../dom.js';
import { need, shapeText } from './page.js';
import { chapterOf } from './state.js';

/** @typedef {import('./state.js').Store} Store */
/** @typedef {import('./i18n.js').I18n} I18n */
/** @typedef {import('../../engine.js').TensorRef} TensorRef */

const [WAIT, LINGER, PRESS] = [140, 220, 500];

/** @param {{ store: Store, i18n: I18n }} page */
export function popoverView({ store, i18n }) {
  const { t, pick } = i18n;
  const [host, map] = [need('popover'), need('map')];
  let timer = 0;
  /** @type {Element|null} */
  let anchor = null;

  /** @param {string} title @param {TensorRef[]} tensors */
  const list = (title, tensors) => [
    el('h4', {}, title),
    el('ul', {}, ...tensors.map((tensor) => el('li', {}, el('code', {}, tensor.name), el('span', { class: 'shape' }, shapeText(tensor.shape)), el('span', { class: 'about' }, pick(tensor.about))))),
  ];

  /** @param {Element} box */
  function open(box) {
    clearTimeout(timer);
    const chapter = chapterOf(store.state, /** @type {HTMLElement} */ (/** @type {unknown} */ (box)).dataset.code ?? '');
    if (!chapter || !store.state.overlay) return close();
    if (anchor !== box) anchor?.removeAttribute('aria-describedby');
    anchor = box;
    host.replaceChildren(
      el('h3', {}, `${chapter.code} · ${pick(chapter.name)}`),
      el('p', {}, pick(chapter.look_for)),
      ...list(t('pop.receives'), chapter.inputs),
      el('h4', {}, t('pop.does')), el('p', {}, pick(chapter.happens)),
      ...list(t('pop.returns'), chapter.outputs),
      el('p', { class: 'more' }, t('pop.more')));
    host.hidden = false;
    box.setAttribute('aria-describedby', host.id);
    place(box);
  }

  /** Beside the box, on the side with room; never outside the window. @param {Element} box */
  function place(box) {
    const at = box.getBoundingClientRect();
    const own = host.getBoundingClientRect();
    const [wide, tall] = [document.documentElement.clientWidth, document.documentElement.clientHeight];
    const right = at.right + 10 + own.width <= wide - 8;
    const x = right ? at.right + 10 : at.left - own.width - 10;
    host.style.left = `${Math.max(8, Math.min(wide - own.width - 8, x))}px`;
    host.style.top = `${Math.max(8, Math.min(tall - own.height - 8, at.top))}px`;
  }

  function close() {
    clearTimeout(timer);
    anchor?.removeAttribute('aria-describedby');
    anchor = null;
    host.hidden = true;
  }

  /** @param {Event} event */
  const boxAt = (event) => /** @type {Element} */ (event.target).closest?.('.box') ?? null;
  /** @param {() => void} what @param {number} wait */
  const later = (what, wait) => {
    clearTimeout(timer);
    timer = window.setTimeout(what, wait);
  };

  map.addEventListener('pointerover', (event) => {
    const box = boxAt(event);
    if (box && event.pointerType === 'mouse') later(() => open(box), anchor ? 40 : WAIT);
  });
  map.addEventListener('pointerout', (event) => {
    if (event.pointerType === 'mouse' && boxAt(event)) later(close, LINGER);
  });
  map.addEventListener('pointerdown', (event) => {
    const box = boxAt(event);
    if (event.pointerType === 'mouse' || !box) return close();
    later(() => open(box), PRESS);
  });
  map.addEventListener('contextmenu', (event) => {
    if (anchor && /** @type {PointerEvent} */ (event).pointerType === 'touch') event.preventDefault();
  });
  for (const type of ['pointerup', 'pointercancel']) map.addEventListener(type, () => host.hidden && clearTimeout(timer));
  map.addEventListener('focusin', (event) => {
    const box = boxAt(event);
    if (box?.matches(':focus-visible')) open(box);
  });
  map.addEventListener('focusout', () => later(close, 60));
  host.addEventListener('pointerenter', () => clearTimeout(timer));
  host.addEventListener('pointerleave', () => later(close, LINGER));
  addEventListener('keydown', (event) => {
    if (event.key === 'Escape' && !host.hidden) close();
  });
  addEventListener('pointerdown', (event) => {
    if (!host.hidden && !host.contains(/** @type {Node} */ (event.target)) && !boxAt(event)) close();
  });
  need('map-scroll').addEventListener('scroll', close, { passive: true });
  store.show(['lab', 'overlay'], (state) => {
    if (host.hidden) return;
    const code = /** @type {HTMLElement|null} */ (anchor)?.dataset.code;
    const again = state.overlay && code ? map.querySelector(`[data-code="${code}"]`) : null;
    if (again) open(again);
    else close();
  });
  i18n.addEventListener('change', close);
}
