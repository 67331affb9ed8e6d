// Channel strips: rows of hundreds of numbers as colour, one shared window into them that zooms.

import { clamp, el, exact, largest } from '../dom.js';
import { ink, legend, scale } from './colour.js';
import { label, plot, probe, stack } from './common.js';

/** @import { Translate } from '../chapter.types.js' */
/** @typedef {import('./colour.js').Scale} Scale */
/**
 * @typedef {object} Strip
 * @property {string} name written before the row
 * @property {number[][]} values one list, or for `split` the shares that fill the height
 * @property {'signed' | 'weight' | 'split'} kind
 * @property {number} [height] CSS pixels
 */

/**
 * @param {{ host: HTMLElement, width: number, rows: Strip[], label: string, key: string, state: Record<string, number>, t: Translate,
 *   channel?: string }} of
 */
export function strips(of) {
  const { t, state, key } = of;
  const count = Math.max(0, ...of.rows.map((row) => row.values[0]?.length ?? 0));
  const stage = el('div');
  const view = () => {
    const size = clamp(state[`${key}-size`] || count, Math.min(8, count), count);
    return { size, from: clamp(state[`${key}-from`] ?? 0, 0, count - size) };
  };
  const zoom = (/** @type {number} */ by) => {
    const { size, from } = view();
    const read = state[`${key}-at`] ?? 0;
    const at = (read % Math.max(1, size)) + from;
    const next = clamp(Math.round(size * by), Math.min(8, count), count);
    state[`${key}-size`] = next;
    state[`${key}-from`] = clamp(at - Math.floor(next / 2), 0, count - next);
    state[`${key}-at`] = Math.floor(read / Math.max(1, size)) * next + at - (state[`${key}-from`] ?? 0);
    paint();
  };
  const pan = (/** @type {number} */ by) => {
    const { size, from } = view();
    state[`${key}-from`] = clamp(from + Math.round(by * size), 0, count - size);
    paint();
  };
  const button = (/** @type {string} */ sign, /** @type {string} */ name, /** @type {() => void} */ act) =>
    el('button', { type: 'button', class: 'ch-small', 'aria-label': t(name), title: t(name), 'data-key': `${key}-${name}`, onclick: act }, sign);
  const shown = el('span', { class: 'ch-num ch-muted' });
  const tools =
    count > 16 &&
    el(
      'div',
      { class: 'ch-tools' },
      button('−', 'ch.zoomOut', () => zoom(2)),
      button('+', 'ch.zoomIn', () => zoom(0.5)),
      button('‹', 'ch.panLeft', () => pan(-0.5)),
      button('›', 'ch.panRight', () => pan(0.5)),
      shown,
    );

  /** @type {Scale[]} */
  const scales = of.rows.map((row) =>
    scale(
      of.host,
      row.kind === 'signed' ? 'signed' : 'weight',
      row.kind === 'signed' ? largest(of.rows.filter((other) => other.kind === 'signed').flatMap((other) => other.values[0] ?? [])) : 1,
    ),
  );

  const split = [ink(of.host, 'a'), ink(of.host, 'b')];

  function paint() {
    const { size, from } = view();
    shown.textContent = t('ch.channels', { from, to: from + size - 1, count });
    const left = Math.min(124, of.width * 0.28, Math.max(...of.rows.map((row) => row.name.length)) * 7 + 14);
    const wide = of.width - left - 2;
    const tops = of.rows.map((_, i) => of.rows.slice(0, i).reduce((sum, row) => sum + (row.height ?? 22) + 6, 2));
    const height = (tops.at(-1) ?? 0) + (of.rows.at(-1)?.height ?? 22) + 3;
    const on = plot({ width: of.width, height, label: of.label, canvas: true });
    const { pen } = on;
    const cell = wide / size;
    for (const [i, row] of of.rows.entries()) {
      const [top, tall] = [tops[i] ?? 0, row.height ?? 22];
      for (let c = 0; pen && c < size; c += 1) {
        const x = left + c * cell;
        const w = cell > 4 ? cell - 0.5 : cell + 0.4;
        if (row.kind === 'split') {
          let y = top;
          row.values.forEach((values, n) => {
            pen.fillStyle = split[n % 2] ?? '';
            const h = (values[from + c] ?? 0) * tall;
            pen.fillRect(x, y, w, h);
            y += h;
          });
        } else {
          pen.fillStyle = scales[i]?.at(row.values[0]?.[from + c] ?? 0) ?? '';
          pen.fillRect(x, top, w, tall);
        }
      }
      on.svg.append(label(0, top + tall / 2 + 4, row.name));
    }
    const reader = probe(on, {
      count: of.rows.length * size,
      columns: size,
      label: of.label,
      key: `${key}-at`,
      state,
      hit: (x, y) => {
        const row = tops.findIndex((top, i) => y >= top - 3 && y < top + (of.rows[i]?.height ?? 22) + 3);
        const c = Math.floor((x - left) / cell);
        return row < 0 || c < 0 || c >= size ? -1 : row * size + c;
      },
      box: (at) => {
        const row = Math.floor(at / size);
        return [left + (at % size) * cell, tops[row] ?? 0, cell, of.rows[row]?.height ?? 22];
      },
      text: (at) => {
        const row = of.rows[Math.floor(at / size)];
        const channel = from + (at % size);
        const values = row?.values.map((list) => exact(list[channel] ?? 0)).join(' + ') ?? '';
        return `${row?.name}, ${of.channel ?? t('ch.channel')} ${channel}: ${values}`;
      },
    });
    stage.replaceChildren(on.root, reader.readout);
  }
  paint();
  /** @type {Map<string, Node>} */
  const legends = new Map();
  of.rows.forEach((row, i) => {
    const found = scales[i];
    if (row.kind !== 'split' && found) legends.set(row.kind, legend(found, t(row.kind === 'signed' ? 'ch.signed' : 'ch.weightScale')));
  });
  return stack(stage, el('div', { class: 'ch-under' }, ...legends.values(), tools));
}
