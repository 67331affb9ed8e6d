// 2A: four streams as ribbons as wide as the mixing weights.

import { clamp, exact, fixed, num, range, s } from '../dom.js';
import { keys } from './colour.js';
import { choices, label, part, plot, probe, stack } from './common.js';
import { sinkhorn } from './sinkhorn.js';

/** @import { Draw, MixFigure, StreamsFigure } from '../chapter.types.js' */

/**
 * @param {Draw<StreamsFigure>} d
 * @returns {{ body: Node, finding: string }}
 */
export function streams(d) {
  const { data, t, state } = d;
  const chosen = clamp(state['2a-which'] ?? 0, 0, 1);
  const mix = chosen ? data.ffn : data.attn;
  const control = choices({
    label: t('ch.2a.which'),
    key: '2a-which',
    options: [t('ch.2a.attn'), t('ch.2a.ffn')],
    chosen,
    choose: (which) => {
      state['2a-which'] = which;
      d.again();
    },
  });
  const sides = Math.sqrt(mix.comb.length);
  const strongest = mix.comb.reduce((best, value, i) => (value > (mix.comb[best] ?? 0) ? i : best), 0);
  const finding = t('ch.2a.finding', {
    layer: data.layer,
    part: t(chosen ? 'ch.2a.ffn' : 'ch.2a.attn'),
    from: Math.floor(strongest / sides),
    to: strongest % sides,
    weight: fixed(mix.comb[strongest] ?? 0),
    error: num(mix.rowError.at(-1) ?? 0),
    steps: mix.sinkhorn.length - 1,
  });
  return {
    finding,
    body: stack(
      control,
      part(t('ch.2a.ribbons'), t('ch.2a.ribbonsAbout')),
      ...ribbons(d, mix, chosen === 1),
      part(t('ch.2a.sinkhorn'), t('ch.2a.sinkhornAbout')),
      sinkhorn(d, mix),
    ),
  };
}

/** @param {Draw<StreamsFigure>} d @param {MixFigure} mix @param {boolean} ffn @returns {Node[]} */
function ribbons(d, mix, ffn) {
  const { data, t, state, width } = d;
  const h = mix.post.length;
  const narrow = width < 520;
  const [left, right] = [narrow ? 74 : 150, width - (narrow ? 92 : 168)];
  const [lane, gap] = [34, 14];
  const top = 22;
  const y = (/** @type {number} */ i) => top + i * (lane + gap);
  const yOut = y(h) + 8;
  const thick = (/** @type {number} */ w) => Math.max(0.75, w * lane);
  const on = plot({
    width,
    height: yOut + 40,
    label: t('ch.2a.ribbonsLabel', { list: mix.comb.map((w, i) => `${Math.floor(i / h)}→${i % h} ${fixed(w)}`).join(', ') }),
  });
  const middle = (left + right) / 2;
  /** @type {[number, number, number, number][]} */
  const boxes = [];
  const filled = new Array(h).fill(0);
  for (const i of range(h)) {
    let from = 0;
    for (const j of range(h)) {
      const w = thick(mix.comb[i * h + j] ?? 0);
      const [y0, y1] = [y(i) + from + w / 2, y(j) + filled[j] + w / 2];
      on.svg.append(
        s('path', { d: `M${left} ${y0}C${middle} ${y0} ${middle} ${y1} ${right} ${y1}`, 'stroke-width': w, class: `ch-ribbon ch-lane${i % 4}` }),
      );
      boxes.push([left + (right - left) * 0.9 - 5, y1 - w / 2 + 0, 10, w]);
      from += w;
      filled[j] += w;
    }
  }
  const after = narrow ? right + 8 : right + 10;
  for (const i of range(h)) {
    on.svg.append(
      s('rect', { x: left - 6, y: y(i), width: 6, height: lane, class: `ch-lane-end ch-lane${i % 4}` }),
      s('rect', { x: right, y: y(i), width: 6, height: lane, class: 'ch-lane-out' }),
      label(left - 14, y(i) + 15, `h${'₀₁₂₃₄₅₆₇'[i] ?? i}`, 'ch-label ch-end ch-strong'),
      label(left - 14, y(i) + 30, ffn ? '' : narrow ? fixed(data.before[i] ?? 0, 1) : `‖h‖ ${fixed(data.before[i] ?? 0, 1)}`, 'ch-label ch-end'),
      label(after, y(i) + 15, `h′${'₀₁₂₃₄₅₆₇'[i] ?? i}${narrow || !ffn ? '' : ` ‖h′‖ ${fixed(data.after[i] ?? 0, 1)}`}`, 'ch-label ch-strong'),
      label(after, y(i) + 30, `+ ${fixed(mix.post[i] ?? 0)} y`, 'ch-label'),
    );
    const [bus, end] = [right + 6 + (narrow ? 80 : 150), right + (narrow ? 70 : 120)];
    const thickness = Math.max(0.75, clamp((mix.post[i] ?? 0) / 2, 0, 1) * 9);
    on.svg.append(
      s('path', { d: `M${bus} ${yOut + 16}V${y(i) + 26}`, class: 'ch-post' }),
      s('path', { d: `M${bus} ${y(i) + 26}H${end + 6}`, 'stroke-width': thickness, class: 'ch-post' }),
      s('path', { d: `M${end} ${y(i) + 26}l8 ${-thickness / 2 - 3}v${thickness + 6}z`, class: 'ch-head' }),
    );
  }
  on.svg.append(
    label(left - 6, 12, t('ch.2a.in'), 'ch-label'),
    label(right + 6, 12, t('ch.2a.out'), 'ch-label ch-end'),
    label(width - 2, yOut + 30, narrow ? 'y' : t('ch.2a.y'), 'ch-label ch-end'),
  );
  const bar = Math.min(120, (right - left) / h - 10);
  on.svg.append(label(2, yOut + 30, narrow ? 'pre' : t('ch.2a.pre'), 'ch-label'));
  range(h).forEach((i) => {
    const x = left + i * (bar + 8);
    if (x + bar > width - 60) return;
    on.svg.append(
      s('rect', { x, y: yOut + 20, width: bar, height: 10, class: 'ch-soft' }),
      s('rect', { x, y: yOut + 20, width: clamp(mix.pre[i] ?? 0, 0, 1) * bar, height: 10, class: `ch-lane-end ch-lane${i % 4}` }),
      label(x, yOut + 16, fixed(mix.pre[i] ?? 0), 'ch-label'),
    );
  });
  const reader = probe(on, {
    count: h * h,
    columns: h,
    key: '2a-ribbon',
    state,
    label: t('ch.2a.ribbonsRead'),
    hit: (x, at) => {
      const found = boxes.map(([, by, , bh]) => Math.abs(by + bh / 2 - at));
      return x < left ? -1 : found.indexOf(Math.min(...found));
    },
    box: (i) => boxes[i] ?? [0, 0, 0, 0],
    text: (i) => {
      const [from, to] = [Math.floor(i / h), i % h];
      return t('ch.2a.ribbon', { from, to, weight: exact(mix.comb[i] ?? 0), post: exact(mix.post[to] ?? 0), pre: exact(mix.pre[from] ?? 0) });
    },
  });
  return [on.root, reader.readout, keys(range(h).map((i) => /** @type {[string, string]} */ ([`ch-k-lane${i % 4}`, t('ch.stream', { c: i })])))];
}
