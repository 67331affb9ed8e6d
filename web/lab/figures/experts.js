// 5A: all experts with score and bias, the chosen ones and the shared one, and the way of the token through the experts of all layers.

import { clamp, exact, fixed, largest, num, range, s } from '../dom.js';
import { keys } from './colour.js';
import { label, part, plot, probe, stack } from './common.js';

/** @import { Draw, ExpertsFigure } from '../chapter.types.js' */

/**
 * @param {Draw<ExpertsFigure>} d
 * @returns {{ body: Node, finding: string }}
 */
export function experts(d) {
  const { data, t } = d;
  const k = data.chosen.length;
  const byScore = range(data.scores.length)
    .sort((a, b) => (data.scores[b] ?? 0) - (data.scores[a] ?? 0))
    .slice(0, k);
  const changed = data.chosen.filter((e) => !byScore.includes(e));
  const finding =
    t('ch.5a.finding', {
      layer: data.layer,
      chosen: data.chosen.join(', '),
      count: data.scores.length,
      weights: data.weights.map((w) => fixed(w)).join(', '),
    }) + ` ${changed.length ? t('ch.5a.findingBias', { list: changed.join(', ') }) : t('ch.5a.findingSame')}`;
  return {
    finding,
    body: stack(
      part(t('ch.5a.dots'), t(data.picture ? 'ch.5a.biasPicture' : 'ch.5a.biasText')),
      ...dots(d),
      part(t('ch.5a.ranking'), t('ch.5a.rankingAbout')),
      ...ranking(d),
      part(t('ch.5a.paths'), t('ch.5a.pathsAbout')),
      ...paths(d),
    ),
  };
}

/** @param {Draw<ExpertsFigure>} d @param {number} e */
function words(d, e) {
  const { data, t } = d;
  const [score, bias] = [data.scores[e] ?? 0, data.bias[e] ?? 0];
  const place = data.chosen.indexOf(e);
  return (
    t('ch.5a.expert', { expert: e, score: exact(score), bias: exact(bias), sum: num(score + bias) }) +
    `; ${place < 0 ? t('ch.5a.notChosen') : t('ch.5a.isChosen', { rank: place + 1, weight: exact(data.weights[place] ?? 0) })}`
  );
}

/** One dot per expert: area is the score, the tick above or below is the bias. @param {Draw<ExpertsFigure>} d @returns {Node[]} */
function dots(d) {
  const { data, t, state, width } = d;
  const count = data.scores.length;
  const shared = 76;
  const few = count <= 32;
  const size = few ? clamp(Math.floor((width - shared) / Math.min(count, 16)), 34, 58) : clamp(Math.floor((width - shared) / 32), 15, 26);
  const per = Math.max(1, Math.min(count, few ? 16 : 32, Math.floor((width - shared) / size)));
  const lines = Math.ceil(count / per);
  const tall = size + 6;
  const on = plot({
    width: shared + per * size,
    height: Math.max(70, lines * tall + 6),
    label: t('ch.5a.dotsLabel', { count, chosen: data.chosen.join(', ') }),
  });
  const [most, mostBias] = [largest(data.scores) || 1, largest(data.bias) || 1];
  const r = size / 2 - (few ? 6 : 3);
  /** @param {number} e @returns {[number, number]} */
  const spot = (e) => [shared + (e % per) * size + size / 2, Math.floor(e / per) * tall + tall / 2 + 2];
  for (const e of range(count)) {
    const [cx, cy] = spot(e);
    const place = data.chosen.indexOf(e);
    const score = Math.sqrt(Math.max(0, data.scores[e] ?? 0) / most) * r;
    const bias = ((data.bias[e] ?? 0) / mostBias) * (size * 0.3);
    on.svg.append(
      s('circle', { cx, cy, r: Math.max(0.8, score), class: place >= 0 ? 'ch-fill-a' : 'ch-dot-off' }),
      s('path', { d: `M${cx + size / 2 - 0.5} ${cy}v${-bias}`, class: bias < 0 ? 'ch-bias-neg' : 'ch-bias-pos' }),
    );
    if (place >= 0) {
      on.svg.append(s('circle', { cx, cy, r: r + 1.2, class: 'ch-ring' }));
      on.svg.append(few ? label(cx, cy + 5, String(e), 'ch-mid ch-on-fill') : label(cx, cy + 4, String(place + 1), 'ch-mid ch-on-fill ch-tiny'));
    } else if (few) on.svg.append(label(cx, cy + 5, String(e), 'ch-mid ch-label'));
  }
  on.svg.append(
    s('rect', { x: 12, y: 10, width: 34, height: 34, rx: 4, class: 'ch-fill-c' }),
    label(29, 58, t('ch.5a.shared'), 'ch-label ch-mid ch-tiny'),
    label(29, 71, t('ch.5a.always'), 'ch-label ch-mid ch-tiny'),
  );
  const reader = probe(on, {
    count,
    columns: per,
    key: '5a-expert',
    state,
    start: data.chosen[0] ?? 0,
    label: t('ch.5a.read'),
    hit: (x, y) => {
      const [c, line] = [Math.floor((x - shared) / size), Math.floor((y - 2) / tall)];
      return c < 0 || c >= per || line < 0 ? -1 : line * per + c;
    },
    box: (e) => [spot(e)[0] - size / 2 + 1, spot(e)[1] - size / 2 + 1, size - 2, size - 2],
    text: (e) => words(d, e),
  });
  return [
    on.root,
    reader.readout,
    keys([
      ['ch-k-a ch-k-round', t('ch.5a.kChosen')],
      ['ch-k-off ch-k-round', t('ch.5a.kOther')],
      ['ch-k-up', t('ch.5a.kUp')],
      ['ch-k-down', t('ch.5a.kDown')],
      ['ch-k-c', t('ch.5a.kShared')],
    ]),
  ];
}

/** The best by score plus bias: the score as a bar, the bias as a step on or back. @param {Draw<ExpertsFigure>} d @returns {Node[]} */
function ranking(d) {
  const { data, t, state, width } = d;
  const k = data.chosen.length;
  const sum = (/** @type {number} */ e) => (data.scores[e] ?? 0) + (data.bias[e] ?? 0);
  const order = range(data.scores.length)
    .sort((a, b) => sum(b) - sum(a))
    .slice(0, Math.max(k + 4, Math.min(16, data.scores.length)));
  const [left, row, top] = [44, 20, 4];
  const wide = width - left - 120;
  const most = Math.max(...order.map((e) => Math.max(data.scores[e] ?? 0, sum(e))), 1e-9);
  const low = Math.min(0, ...order.map(sum));
  const x = (/** @type {number} */ value) => left + ((value - low) / (most - low)) * wide;
  const on = plot({
    width,
    height: top + order.length * row + 14,
    label: t('ch.5a.rankingLabel', {
      list: order
        .slice(0, k)
        .map((e) => `${e}: ${num(sum(e))}`)
        .join(', '),
    }),
  });
  order.forEach((e, i) => {
    const y = top + i * row + (i >= k ? 10 : 0);
    const place = data.chosen.indexOf(e);
    const score = data.scores[e] ?? 0;
    on.svg.append(
      label(left - 8, y + 13, String(e), place >= 0 ? 'ch-label ch-end ch-strong' : 'ch-label ch-end'),
      s('rect', { x: x(0), y: y + 3, width: Math.max(0.5, x(score) - x(0)), height: 12, class: place >= 0 ? 'ch-fill-a' : 'ch-bar-off' }),
      s('path', { d: `M${x(score)} ${y + 9}H${x(sum(e))}`, class: sum(e) < score ? 'ch-bias-neg ch-thick' : 'ch-bias-pos ch-thick' }),
      s('path', { d: `M${x(sum(e))} ${y + 2}v14`, class: 'ch-line-strong' }),
      label(
        width - 2,
        y + 13,
        place >= 0 ? `w ${fixed(data.weights[place] ?? 0, 3)}` : t('ch.5a.out'),
        place >= 0 ? 'ch-label ch-end ch-strong' : 'ch-label ch-end',
      ),
    );
  });
  on.svg.append(s('path', { d: `M0 ${top + k * row + 4}H${width}`, class: 'ch-dotted' }));
  const reader = probe(on, {
    count: order.length,
    key: '5a-rank',
    state,
    label: t('ch.5a.rankingRead'),
    hit: (_, y) => {
      const i = Math.floor((y - top) / row);
      return i < k ? i : Math.floor((y - top - 10) / row);
    },
    box: (i) => [left - 34, top + i * row + (i >= k ? 10 : 0), width - left + 32, row - 1],
    text: (i) => words(d, order[i] ?? 0),
  });
  return [on.root, reader.readout];
}

/** Chosen experts of every layer. @param {Draw<ExpertsFigure>} d @returns {Node[]} */
function paths(d) {
  const { data, t, state, width } = d;
  const layers = data.paths.length;
  const count = Math.max(data.scores.length, ...data.paths.flat().map((e) => e + 1));
  const k = Math.max(0, ...data.paths.map((list) => list.length));
  const [left, top, tall] = [40, 8, clamp(count * 20, 140, 300)];
  const step = (width - left - 10) / Math.max(1, layers);
  const x = (/** @type {number} */ l) => left + (l + 0.5) * step;
  const y = (/** @type {number} */ e) => top + ((e + 0.5) / count) * tall;
  const on = plot({ width, height: top + tall + 26, label: t('ch.5a.pathsLabel', { layers, k }) });
  on.svg.append(s('rect', { x: x(data.layer) - step / 2, y: top, width: step, height: tall, class: 'ch-soft-on' }));
  for (const e of [0, Math.floor(count / 2), count - 1])
    on.svg.append(label(left - 8, y(e) + 4, String(e), 'ch-label ch-end'), s('path', { d: `M${left} ${y(e)}H${width - 10}`, class: 'ch-grid' }));
  // Ranks are joined, best to best: a line says nothing but where the eye should go next.
  for (const rank of range(k).reverse()) {
    const line = data.paths
      .map((list, l) => (list[rank] === undefined ? '' : `${l && data.paths[l - 1]?.[rank] !== undefined ? 'L' : 'M'}${x(l)} ${y(list[rank] ?? 0)}`))
      .join('');
    on.svg.append(s('path', { d: line, class: rank ? 'ch-path' : 'ch-path first' }));
  }
  data.paths.forEach((list, l) =>
    list.forEach((e, rank) =>
      on.svg.append(s('circle', { cx: x(l), cy: y(e), r: clamp(step / 3, 1.6, 4) * (rank ? 0.8 : 1.15), class: rank ? 'ch-dot' : 'ch-dot-on' })),
    ),
  );
  const every = step < 10 ? 10 : 5;
  for (const l of range(layers))
    if (l % every === 0 || l === layers - 1)
      on.svg.append(label(x(l), top + tall + 14, String(l), l === data.layer ? 'ch-label ch-mid ch-strong' : 'ch-label ch-mid'));
  const reader = probe(on, {
    count: layers * Math.max(1, k),
    columns: k || 1,
    key: '5a-path',
    state,
    start: data.layer * k,
    label: t('ch.5a.pathsRead'),
    hit: (at, height) => {
      const l = clamp(Math.floor((at - left) / step), 0, layers - 1);
      const list = data.paths[l] ?? [];
      return at < left || !list.length
        ? -1
        : l * k + list.reduce((best, e, i) => (Math.abs(y(e) - height) < Math.abs(y(list[best] ?? 0) - height) ? i : best), 0);
    },
    box: (i) => [x(Math.floor(i / k)) - 5, y(data.paths[Math.floor(i / k)]?.[i % k] ?? 0) - 5, 10, 10],
    text: (i) => t('ch.5a.path', { layer: Math.floor(i / k), rank: (i % k) + 1, expert: data.paths[Math.floor(i / k)]?.[i % k] ?? '–' }),
  });
  return [
    on.root,
    reader.readout,
    keys([
      ['ch-k-path1', t('ch.5a.kFirst')],
      ['ch-k-path2', t('ch.5a.kRest')],
    ]),
  ];
}
