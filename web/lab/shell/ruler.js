// The layer ruler: the depth axis. Letters mark roles, grounds mark encoder and decoder, hatching marks layers that did not run for the chosen token.

import { el } from '../dom.js';
import { arrows, need, reveal } from './page.js';
import { ran, tokenOf } from './state.js';

/** @typedef {import('./state.js').Store} Store */
/** @typedef {import('./state.js').State} State */
/** @typedef {import('../../engine.js').LayerInfo} LayerInfo */
/** @typedef {import('./i18n.js').I18n} I18n */

/**
 * The letters of a layer: e Engram, k source of compressed entries, K source of the global KV (one entry per token), i reindex, t tap for DSpark.
 * @param {LayerInfo} layer
 */
export function letters(layer) {
  const source = layer.kvSource === layer.layer;
  return [layer.engram && 'e', source && (layer.side === 'decoder' ? 'K' : 'k'), layer.role === 'reindex' && 'i', layer.target && 't'].filter((letter) => letter !== false);
}

/** @param {{ store: Store, i18n: I18n, look: (where: { layer: number }) => void }} page */
export function rulerView({ store, i18n, look }) {
  const { t } = i18n;
  const [list, legend] = [need('ruler'), need('legend')];
  let drawn = '';

  /** @param {LayerInfo} layer */
  function name(layer) {
    const parts = [t(`ruler.${layer.side}`), t(`ruler.role.${layer.role}`)];
    if (layer.engram) parts.push(t('ruler.e'));
    if (layer.kvSource !== null) parts.push(layer.kvSource === layer.layer ? t('ruler.source', { ratio: layer.ratio }) : t('ruler.reads', { layer: layer.kvSource }));
    if (layer.indexSource !== null && layer.indexSource !== layer.layer) parts.push(t('ruler.index', { layer: layer.indexSource }));
    if (layer.target) parts.push(t('ruler.t'));
    return t('ruler.layer', { layer: layer.layer, parts: parts.join('; ') });
  }

  /** @param {LayerInfo[]} layers */
  function draw(layers) {
    const items = [];
    for (const layer of layers) {
      if (layer.side === 'decoder' && layers[layer.layer - 1]?.side === 'encoder') items.push(el('li', { class: 'border', 'aria-hidden': 'true' }));
      const text = name(layer);
      items.push(el('li', {}, el('button', {
        type: 'button', class: `lay ${layer.side}`, title: text, 'data-layer': layer.layer, 'data-name': text, onclick: () => look({ layer: layer.layer }),
      }, el('span', {}, layer.layer), ' ', el('i', { class: 'roles' }, ...letters(layer).map((letter) => el('b', { class: letter }, letter))))));
    }
    list.replaceChildren(...items);
    /** @param {string} kind @param {string} key */
    const swatch = (kind, key) => el('span', {}, el('span', { class: `swatch ${kind}` }), t(key));
    legend.replaceChildren(
      swatch('enc', 'ruler.legend.encoder'), swatch('dec', 'ruler.legend.decoder'), swatch('idle', 'ruler.legend.idle'), swatch('have', 'ruler.legend.have'),
      ...['e', 'k', 'K', 'i', 't'].map((letter) => el('span', {}, el('b', {}, letter), t(`ruler.legend.${letter === 'K' ? 'global' : letter}`))),
    );
  }

  const buttons = () => /** @type {HTMLElement[]} */ ([...list.querySelectorAll('button')]);

  /** @param {State} state */
  function mark(state) {
    const have = new Set(state.source === 'recorded' ? state.recorded.map((item) => item.layer) : []);
    legend.classList.toggle('recorded', have.size > 0);
    for (const item of buttons()) {
      const layer = Number(item.dataset.layer);
      const current = layer === state.layer;
      const idle = !ran(state, layer);
      item.classList.toggle('idle', idle);
      item.classList.toggle('have', have.has(layer));
      item.tabIndex = current ? 0 : -1;
      if (current) {
        item.setAttribute('aria-current', 'true');
        reveal(/** @type {HTMLElement} */ (list.parentElement), item);
      } else item.removeAttribute('aria-current');
      const about = item.dataset.name ?? '';
      item.title = idle ? t('ruler.idle', { name: about, token: tokenOf(state) }) : about;
    }
  }

  arrows(list, buttons, (item) => look({ layer: Number(item.dataset.layer) }));
  store.show(['info', 'lab', 'layer', 'token', 'made', 'recorded', 'source'], (state) => {
    const layers = state.info?.model.layers ?? [];
    const key = `${i18n.lang} ${JSON.stringify(layers)}`;
    if (key !== drawn) draw(layers);
    drawn = key;
    mark(state);
  });
}
