// The small picture in each box of the diagram: the strip of numbers that the block made for the chosen token, from the figure of its chapter.

import { s } from '../dom.js';
import { parseLabel } from './labels.js';

/** @typedef {{ key: string, values: Record<string, string|number> }} Fact */
/** @typedef {{ nodes: SVGElement[], fact: Fact|null }} Thumb */
/** @typedef {(figure: any, width: number, height: number) => Thumb} Draw */

/** @param {number} value */
const round = (value) => Math.round(value * 100) / 100;
/** @param {number} x @param {number} y @param {number} w @param {number} hgt */
const rect = (x, y, w, hgt) => `M${round(x)} ${round(y)}h${round(w)}v${round(hgt)}h${round(-w)}z`;
/** @param {string} name @param {string} d */
const path = (name, d) => s('path', { class: name, d });

/** Room for a label before a bar. */
const LABEL = 24;
/** @param {string|number} text @param {number} y */
const word = (text, y) => s('text', { x: 0, y: round(y) }, text);

/** At most `most` values: the one of largest size of each stretch, so that peaks stay. @param {number[]} values @param {number} most */
function thin(values, most) {
  if (values.length <= most) return values;
  return Array.from({ length: most }, (_, index) => {
    const part = values.slice(Math.floor((index * values.length) / most), Math.floor(((index + 1) * values.length) / most));
    return part.reduce((best, value) => (Math.abs(value) > Math.abs(best) ? value : best), 0);
  });
}

/** Bars from the bottom, scaled to the largest. @param {number[]} values @param {number} width @param {number} height @param {number} [top] */
function bars(values, width, height, top = Math.max(...values, 1e-9)) {
  const step = width / values.length;
  return values.map((value, index) => {
    const tall = Math.max(0.75, (Math.max(0, value) / top) * height);
    return rect(index * step, height - tall, Math.max(0.6, step - (step > 3 ? 1 : 0.2)), tall);
  });
}

/** Signed values around a middle line: above is positive. @param {number[]} values @param {number} width @param {number} height */
function signed(values, width, height) {
  const list = thin(values, 72);
  const most = Math.max(...list.map(Math.abs), 1e-9);
  const step = width / list.length;
  let [plus, minus] = ['', ''];
  list.forEach((value, index) => {
    const tall = (Math.abs(value) / most) * (height / 2);
    if (value >= 0) plus += rect(index * step, height / 2 - tall, Math.max(0.6, step - 0.4), tall);
    else minus += rect(index * step, height / 2, Math.max(0.6, step - 0.4), tall);
  });
  return [path('base', rect(0, height / 2 - 0.4, width, 0.8)), path('plus', plus), path('minus', minus)];
}

/** Splits drawn bars in those of a set and the others. @param {string[]} drawn @param {(index: number) => boolean} chosen */
const split = (drawn, chosen) => [
  path('pale', drawn.filter((_, index) => !chosen(index)).join('')), path('ink', drawn.filter((_, index) => chosen(index)).join('')),
];

/** Mean over rows. @param {number[][]} rows */
const mean = (rows) => (rows[0] ?? []).map((_, column) => rows.reduce((sum, row) => sum + (row[column] ?? 0), 0) / rows.length);

/** @type {Record<string, Draw>} */
const DRAW = {
  '1A': (figure, width, height) => ({ nodes: signed(figure.row, width, height), fact: { key: 'fact.1a', values: { n: figure.lengths.length, dim: figure.row.length } } }),

  '1B': (figure, width, height) => {
    const layers = figure.gates;
    const gap = 12;
    const each = (width - gap * (layers.length - 1)) / Math.max(1, layers.length);
    const nodes = layers.map((/** @type {any} */ layer, /** @type {number} */ index) => {
      const group = s('g', { transform: `translate(${round(index * (each + gap))} 0)` }, path('base', rect(0, height - 0.8, each, 0.8)));
      group.append(path(layer.layer === figure.layer ? 'ink' : 'pale', bars(layer.gates, each, height, 1).join('')));
      return group;
    });
    return { nodes, fact: { key: figure.blocked ? 'fact.1bBlocked' : 'fact.1b', values: { layer: figure.layer, rows: figure.rows.length } } };
  },

  '2A': (figure, width, height) => {
    const side = Math.sqrt(figure.attn.comb.length);
    const cell = Math.min(height / side, 16);
    const nodes = figure.attn.comb.map((/** @type {number} */ weight, /** @type {number} */ index) => {
      const [row, column] = [Math.floor(index / side), index % side];
      return s('rect', { class: 'ink', x: round(column * cell), y: round(row * cell), width: cell - 1, height: cell - 1, opacity: Math.max(0.06, Math.min(1, weight)).toFixed(2) });
    });
    const x = side * cell + 14;
    const ribbons = bars(figure.after, width - x, height).join('');
    return { nodes: [...nodes, s('g', { transform: `translate(${x} 0)` }, path('ink', ribbons))], fact: { key: 'fact.2a', values: { streams: figure.before.length, steps: figure.attn.sinkhorn.length - 1 } } };
  },

  '3A': (figure, width, height) => {
    const shares = figure.first.map((/** @type {number} */ first) => figure.positions - first);
    const drawn = bars(shares, width, height, figure.positions);
    const cut = round((figure.decoder / figure.first.length) * width - 0.3);
    return {
      nodes: [...split(drawn, (layer) => layer < figure.decoder), s('line', { class: 'cut', x1: cut, x2: cut, y1: 0, y2: height })],
      fact: { key: 'fact.3a', values: { tail: figure.tail, n: figure.positions } },
    };
  },

  '3B': (figure, width, height) => {
    if (figure.weights.length < 2) return { nodes: signed(figure.pooled, width, height), fact: { key: 'fact.3b', values: { source: figure.source, ratio: figure.ratio } } };
    const first = thin(figure.weights[0], 64);
    const step = width / first.length;
    const lower = first.map((weight, index) => rect(index * step, height * (1 - weight), Math.max(0.6, step - 0.4), height * weight)).join('');
    return { nodes: [path('pale', rect(0, 0, width, height)), path('ink', lower)], fact: { key: 'fact.3b', values: { source: figure.source, ratio: figure.ratio } } };
  },

  '3C': (figure, width, height) => {
    const visible = figure.scores.slice(-80);
    const shift = figure.scores.length - visible.length;
    const known = visible.filter((/** @type {number|null} */ score) => score !== null);
    const low = Math.min(0, ...known);
    const values = visible.map((/** @type {number|null} */ score) => (score === null ? 0 : score - low));
    const chosen = new Set(figure.chosen);
    if (values.length === 0) return ring(figure, width, height);
    return { nodes: split(bars(values, width, height), (index) => chosen.has(index + shift)), fact: { key: 'fact.3c', values: { chosen: chosen.size, n: figure.scores.length } } };
  },

  '4A': (figure, width, height) => {
    const weights = mean(figure.weights);
    const sink = weights.pop() ?? 0;
    const shown = weights.slice(-70);
    const room = width - 14;
    const top = Math.max(...shown, sink, 1e-9);
    const own = figure.window.length - (weights.length - shown.length);
    return {
      nodes: [...split(bars(shown, room, height, top), (index) => index >= own), path('minus', rect(width - 8, height - (sink / top) * height, 8, (sink / top) * height))],
      fact: { key: 'fact.4a', values: { heads: figure.weights.length, window: figure.window.length, entries: figure.entries.length } },
    };
  },

  '6A': (figure, width, height) => {
    const most = Math.max(...figure.ledger.map((/** @type {any} */ line) => line.perToken), 1);
    const step = Math.min(26, height / Math.max(1, figure.ledger.length));
    const nodes = figure.ledger.flatMap((/** @type {any} */ line, /** @type {number} */ index) => {
      const all = line.parts.reduce((/** @type {number} */ sum, /** @type {number} */ part) => sum + part, 0) || 1;
      const long = (line.perToken / most) * (width - LABEL);
      const codes = long * ((line.parts[0] + line.parts[1]) / all);
      const [y, thick] = [index * step, step - 6];
      return [word(line.layer, y + thick / 2 + 4), path('ink', rect(LABEL, y, codes, thick)), path('pale', rect(LABEL + codes, y, long - codes, thick))];
    });
    return { nodes, fact: { key: 'fact.6a', values: { bytes: round(figure.perToken) } } };
  },

  '5A': (figure, width, height) => {
    const count = figure.scores.length;
    const columns = Math.ceil(Math.sqrt((count * width) / height));
    const cell = Math.min(width / columns, height / Math.ceil(count / columns));
    const chosen = new Set(figure.chosen);
    const most = Math.max(...figure.scores, 1e-9);
    const dots = figure.scores.map((/** @type {number} */ score, /** @type {number} */ index) => {
      const radius = chosen.has(index) ? cell * 0.42 : cell * (0.12 + 0.2 * (score / most));
      return s('circle', {
        class: chosen.has(index) ? 'ink' : 'pale', cx: round(((index % columns) + 0.5) * cell), cy: round((Math.floor(index / columns) + 0.5) * cell), r: round(radius),
      });
    });
    return { nodes: dots, fact: { key: 'fact.5a', values: { chosen: figure.chosen.length, n: count } } };
  },

  '6B': (figure, width, height) => {
    const top = figure.top.slice(0, Math.max(1, Math.floor(height / 17)));
    const step = height / Math.max(1, top.length);
    const most = Math.max(...top.map((/** @type {any} */ item) => item.probability), 1e-9);
    const room = width - LABEL - 4;
    const drawn = top.map((/** @type {any} */ item, /** @type {number} */ index) => rect(LABEL + 4, index * step, Math.max(1, (item.probability / most) * room), step - 6));
    const words = top.map((/** @type {any} */ item, /** @type {number} */ index) => word([...parseLabel(item.label).show].slice(0, 3).join(''), index * step + (step - 6) / 2 + 4));
    const best = figure.top[0];
    return { nodes: [...words, ...split(drawn, (index) => index === 0)], fact: best ? { key: 'fact.6b', values: { token: best.label, percent: (best.probability * 100).toFixed(1) } } : null };
  },
};

/** A ring of slots, for a layer that has the window alone. @type {Draw} */
function ring(figure, width, height) {
  const [cx, cy, r] = [width / 2, height / 2, height / 2 - 3];
  const used = figure.slots.filter((/** @type {number|null} */ slot) => slot !== null).length;
  const part = Math.min(0.9999, used / Math.max(1, figure.slots.length)) * 2 * Math.PI;
  const end = `${round(cx + r * Math.sin(part))} ${round(cy - r * Math.cos(part))}`;
  const arc = s('path', { class: 'wire', d: `M${cx} ${cy - r}A${r} ${r} 0 ${part > Math.PI ? 1 : 0} 1 ${end}`, 'stroke-width': 6 });
  return { nodes: [s('circle', { class: 'wire', cx, cy, r, opacity: 0.3 }), arc], fact: { key: 'fact.3cRing', values: { used, slots: figure.slots.length } } };
}

/**
 * The thumbnail of a block. A figure that is missing or not as expected leaves an empty frame: the map never fails because of a picture.
 * @param {string} code
 * @param {any} figure
 * @param {number} width
 * @param {number} height
 * @returns {Thumb}
 */
export function thumb(code, figure, width, height) {
  try {
    if (figure) return DRAW[code](figure, width, height);
  } catch (error) {
    console.error(`thumbnail of ${code}`, error);
  }
  return { nodes: [s('rect', { class: 'none', x: 0.5, y: 0.5, width: width - 1, height: height - 1, rx: 3 })], fact: null };
}
