// The tensor that a symbol or a name opened: a panel with its heat map, read from the engine.

import { el, refocus } from './dom.js';
import { heatmap } from './heatmap.js';

/** @import { Context, Tensor, View } from './chapter.types.js' */

/** Names like `4a.query` are tensors of the run; `ids` or `kv` are not. @param {string} name */
export const isTap = (name) => /^\d[a-d]\./.test(name);

/** The layer whose tensor a chapter speaks of. @param {Context} context @param {string} tap */
function layerOf({ chapter, lab }, tap) {
  const figure = chapter.figure;
  if (chapter.code === '6B' && tap === '2a.streams') return Number.MAX_SAFE_INTEGER;
  if (figure?.block === '3B' && (tap.startsWith('3b.') || tap.startsWith('2a.'))) return figure.source;
  if (figure?.block === '3C' && tap.startsWith('3c.') && tap !== '3c.window_kv') return figure.indexSource ?? lab.layer;
  if (figure?.block === '6A' || figure?.block === '1B') return figure.layer;
  return lab.layer;
}

/** @param {View} view @param {string} tap */
export async function openTensor(view, tap) {
  const { context } = view;
  const show = (/** @type {Tensor | null} */ tensor, /** @type {string} */ message) => {
    if (view.context.chapter.code !== context.chapter.code) return;
    view.open = { tap, tensor, message };
    drawHeat(view);
  };
  if (!context.engine) return show(null, context.t('ch.needsEngine'));
  show(view.open?.tap === tap ? view.open.tensor : null, context.t('ch.loading'));
  try {
    const wanted = layerOf(context, tap);
    const layers = (await context.engine.taps())
      .filter((found) => found.tap === tap)
      .map((found) => found.layer)
      .sort((a, b) => a - b);
    const layer = layers.filter((l) => l <= wanted).at(-1) ?? layers[0];
    if (layer === undefined) return show(null, context.t('ch.noTensor', { name: tap }));
    context.onTensor?.({ tap, layer });
    show(await context.engine.tensor({ tap, layer }), '');
  } catch (error) {
    show(null, context.t('ch.failed', { message: error instanceof Error ? error.message : String(error) }));
  }
}

/** @param {View} view */
export function drawHeat(view) {
  const {
    context: { chapter, lab, t },
    parts,
    open: found,
  } = view;
  const host = parts.heat;
  if (!host) return;
  if (!found) return host.replaceChildren();
  const focused = host.contains(document.activeElement) ? document.activeElement?.getAttribute('data-key') : null;
  const state = view.states.get(chapter.code) ?? {};
  const close = el(
    'button',
    {
      type: 'button',
      class: 'ch-small',
      'data-key': 'heat-close',
      onclick: () => {
        view.open = null;
        drawHeat(view);
        if (parts.heat?.parentElement) refocus(parts.heat.parentElement, view.opener);
      },
    },
    t('ch.close'),
  );
  const tensor = found.tensor;
  const shape = tensor ? ` [${tensor.shape.join(', ')}]` : '';
  const where = tensor ? t('ch.tensorAt', { layer: tensor.layer, source: t(`ch.source.${tensor.source}`) }) : '';
  const mark = tensor && tensor.shape.length > 1 && tensor.shape[0] === lab.tokens.length ? lab.followed : undefined;
  host.replaceChildren(
    el(
      'div',
      { class: 'ch-panel', role: 'group', tabindex: -1, 'data-key': 'heat-panel', 'aria-label': found.tap },
      el(
        'div',
        { class: 'ch-section-head' },
        el('code', {}, found.tap),
        el('span', { class: 'ch-shape ch-num' }, shape),
        el('span', { class: 'ch-muted' }, where),
        close,
      ),
      el('p', { class: 'ch-muted', role: 'status' }, found.message),
      tensor && heatmap(tensor, { host, width: (host.parentElement?.clientWidth ?? 0) - 34, t, state, ...(mark === undefined ? {} : { mark }) }),
    ),
  );
  if (focused) refocus(host, focused);
}
