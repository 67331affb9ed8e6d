// Deep links: #3b, #3b/t5, #3b/t5/l20. A change of block is a step in the history; walking along tokens and layers is not.

import { tokenOf } from './state.js';

/** @typedef {import('./state.js').Store} Store */

export const ORDER = ['1A', '1B', '2A', '3A', '3B', '3C', '4A', '6A', '5A', '6B'];

/** @param {string} hash @returns {{ block: string|null, token: number|null, layer: number|null }} */
export function parse(hash) {
  const route = { block: /** @type {string|null} */ (null), token: /** @type {number|null} */ (null), layer: /** @type {number|null} */ (null) };
  for (const part of hash.replace(/^#/, '').split('/')) {
    const code = part.toUpperCase();
    if (ORDER.includes(code)) route.block = code;
    const axis = /^([tl])(\d{1,6})$/.exec(part);
    if (axis) route[axis[1] === 't' ? 'token' : 'layer'] = Number(axis[2]);
  }
  return route;
}

/** @param {{ block: string, token: number|null, layer: number }} route */
export const format = ({ block, token, layer }) => `#${block.toLowerCase()}${token === null ? '' : `/t${token}`}/l${layer}`;

/**
 * Keeps address and state together.
 * @param {Store} store
 * @param {(where: { token: number|null, layer: number|null }) => void} look  asks for another token or layer
 */
export function follow(store, look) {
  const apply = () => {
    const route = parse(location.hash);
    if (route.block) store.set({ block: route.block });
    if (route.token !== null || route.layer !== null) look(route);
  };
  const first = parse(location.hash);
  let shown = first.block ?? store.state.block;
  store.set({ block: shown, ...(first.layer === null ? {} : { layer: first.layer }), ...(first.token === null ? {} : { token: first.token }) });
  addEventListener('popstate', () => {
    shown = parse(location.hash).block ?? shown;
    apply();
  });
  store.show(['block', 'token', 'layer', 'lab'], (state) => {
    if (!state.lab) return;
    const hash = format({ block: state.block, token: tokenOf(state), layer: state.layer });
    if (hash === location.hash) return;
    const step = state.block !== shown;
    shown = state.block;
    history[step ? 'pushState' : 'replaceState'](null, '', hash);
  });
}
