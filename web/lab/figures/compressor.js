// 3B: two tokens become one entry, each channel with its own weights.

import { el, fixed } from '../dom.js';
import { keys } from './colour.js';
import { empty, part, stack, tokenAt } from './common.js';
import { strips } from './strips.js';

/** @import { CompressorFigure, Draw } from '../chapter.types.js' */

/**
 * @param {Draw<CompressorFigure>} d
 * @returns {{ body: Node, finding: string }}
 */
export function compressor(d) {
  const { data, lab, t, state, width } = d;
  const reads = t(`ch.3b.role.${data.role}`, { layer: data.layer, source: data.source });
  if (data.entry === null) return { finding: `${reads} ${t('ch.3b.open', { ratio: data.ratio })}`, body: empty(t('ch.3b.none')) };
  const channels = data.pooled.length;
  const first = data.weights[0] ?? [];
  const prefer = first.filter((w) => w > 0.5).length;
  const undecided = first.filter((w) => w > 0.4 && w < 0.6).length;
  const pooled = data.ratio > 1;
  const finding = `${reads} ${
    pooled
      ? t('ch.3b.finding', {
          entry: data.entry,
          first: data.tokens[0] ?? 0,
          second: data.tokens.at(-1) ?? 0,
          prefer,
          channels,
          undecided,
          low: fixed(Math.min(...first)),
          high: fixed(Math.max(...first)),
        })
      : t('ch.3b.findingOne', { entry: data.entry, first: data.tokens[0] ?? 0 })
  }`;
  const chips = el(
    'ol',
    { class: 'ch-chips', 'aria-label': t('ch.3b.tokens') },
    ...data.tokens.map((position) => el('li', {}, el('b', {}, tokenAt(lab, position)), el('span', { class: 'ch-muted ch-num' }, `p = ${position}`))),
    el(
      'li',
      { class: 'ch-into' },
      el('b', {}, t('ch.3b.entry', { entry: data.entry })),
      el('span', { class: 'ch-muted ch-num' }, t('ch.3b.channels', { channels })),
    ),
  );
  /** @type {import('./strips.js').Strip[]} */
  const rows = [];
  if (pooled) rows.push({ name: t('ch.3b.weights'), kind: 'split', values: data.weights, height: 64 });
  data.tokens.forEach((position, i) => rows.push({ name: `a, p = ${position}`, kind: 'signed', values: [data.values[i] ?? []], height: 22 }));
  rows.push({ name: t('ch.3b.pooled'), kind: 'signed', values: [data.pooled], height: 30 });
  const view = strips({ host: d.host, width, rows, label: t('ch.3b.label', { entry: data.entry }), key: '3b', state, t });
  return {
    finding,
    body: stack(
      chips,
      part(t('ch.3b.strips'), t('ch.3b.stripsAbout')),
      view,
      pooled &&
        keys(
          data.tokens.map(
            (position, i) =>
              /** @type {[string, string]} */ ([
                i % 2 ? 'ch-k-b' : 'ch-k-a',
                t('ch.3b.share', { position, token: tokenAt(lab, position), where: t(i === 0 ? 'ch.3b.upper' : 'ch.3b.lower') }),
              ]),
          ),
        ),
    ),
  };
}
