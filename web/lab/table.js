// A table of the lab: at most four significant digits in a cell, all of them when the cell is pointed at or focused, and a copy as CSV.

import { el, exact, indexed, num } from './dom.js';

/** @import { Cell, Lang, Source, Table, Translate } from './chapter.types.js' */

/**
 * Where a number comes from.
 * @param {string} badge `gpu`, `cpu-reference`, `config` or `checkpoint`
 * @param {Source} source
 * @param {Translate} t
 */
export function badgeOf(badge, source, t) {
  const measured = badge === 'gpu' || badge === 'cpu-reference';
  const name = badge === 'gpu' && source !== 'recorded' ? 'ch.badge.gpu' : badge === 'gpu' ? 'ch.badge.gpuThen' : `ch.badge.${badge}`;
  return el(
    'span',
    { class: `ch-badge ch-badge-${measured && source === 'recorded' ? 'recorded' : badge}` },
    measured && source === 'recorded' ? `${t('ch.badge.recorded')} · ${t(name)}` : t(name),
  );
}

/** @param {Cell} cell @param {Lang} lang */
const plain = (cell, lang) => (cell === null ? '' : typeof cell === 'number' ? String(cell) : cell[lang]);

/** @param {Table} table @param {Lang} lang */
export function csv(table, lang) {
  const quote = (/** @type {string} */ text) => (/[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  const lines = [table.columns.map((column) => column[lang]), ...table.rows.map((row) => row.map((cell) => plain(cell, lang)))];
  return lines.map((line) => line.map(quote).join(',')).join('\r\n');
}

/** @param {string} text */
async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // No permission or no secure context: the old way, from a text area.
    const area = el('textarea', { class: 'ch-offscreen' }, text);
    document.body.append(area);
    area.select();
    const done = document.execCommand('copy');
    area.remove();
    return done;
  }
}

/**
 * @param {Table} table
 * @param {{ lang: Lang, t: Translate, source: Source, key: string }} of `key` is unique in the chapter
 */
export function tableView(table, of) {
  const { lang, t } = of;
  const id = `ch-table-${of.key}`;
  const readout = el('span', { class: 'ch-exact ch-num', 'aria-live': 'polite' });
  const button = el('button', { type: 'button', class: 'ch-small', 'data-key': `csv-${of.key}`, 'aria-describedby': id }, t('ch.csv'));
  button.addEventListener('click', async () => {
    button.textContent = (await copy(csv(table, lang))) ? t('ch.copied') : t('ch.notCopied');
    setTimeout(() => {
      button.textContent = t('ch.csv');
    }, 1600);
  });

  const numeric = table.columns.map((_, c) => {
    const cells = table.rows.map((row) => row[c] ?? null).filter((cell) => cell !== null);
    return cells.some((cell) => typeof cell === 'number');
  });
  const grid = el('table', { role: 'grid', 'aria-labelledby': id, class: 'ch-table' });
  const head = el(
    'tr',
    {},
    ...table.columns.map((column, c) =>
      column[lang] ? el('th', { scope: 'col', class: numeric[c] ? 'ch-right' : '' }, ...indexed(column[lang])) : el('td', { class: 'ch-nohead' }),
    ),
  );
  const body = el('tbody');
  for (const row of table.rows) {
    const gap = row.slice(1).every((cell) => cell === null) && row.length > 1;
    body.append(el('tr', { class: gap ? 'ch-gap' : '' }, ...table.columns.map((_, c) => cellView(row[c] ?? null, gap, numeric[c] ?? false, lang))));
  }
  grid.append(el('thead', {}, head), body);
  roam(grid, (text) => {
    readout.textContent = text;
  });

  return el(
    'section',
    { class: 'ch-table-box', 'aria-labelledby': id },
    el('div', { class: 'ch-table-head' }, el('h4', { id }, table.title[lang]), badgeOf(table.badge, of.source, t), readout, button),
    el('div', { class: 'ch-scroll' }, grid),
  );
}

/** @param {Cell} cell @param {boolean} gap @param {boolean} numeric @param {Lang} lang */
function cellView(cell, gap, numeric, lang) {
  if (cell === null) return el('td', { tabindex: -1, class: numeric ? 'ch-right ch-null' : 'ch-null' }, gap ? '' : '–');
  if (typeof cell === 'number') {
    return el('td', { tabindex: -1, class: 'ch-right ch-num', 'data-exact': exact(cell) }, num(cell));
  }
  return el('td', { tabindex: -1, class: numeric && /^[\d.,\s–…-]*$/.test(cell[lang]) ? 'ch-right ch-num' : '' }, cell[lang]);
}

/**
 * One tab stop for the whole table, arrow keys inside it.
 * @param {HTMLTableElement} grid
 * @param {(text: string) => void} say
 */
function roam(grid, say) {
  const cells = () => [...grid.querySelectorAll('tbody tr')].map((row) => /** @type {HTMLElement[]} */ ([...row.children]));
  cells()[0]?.[0]?.setAttribute('tabindex', '0');
  const exactOf = (/** @type {EventTarget | null} */ target) => {
    const cell = target instanceof Element ? target.closest('td') : null;
    const text = cell?.getAttribute('data-exact') ?? '';
    say(text && text !== cell?.textContent ? `= ${text}` : '');
  };
  grid.addEventListener('pointerover', (event) => exactOf(event.target));
  grid.addEventListener('pointerleave', () => say(''));
  grid.addEventListener('focusin', (event) => exactOf(event.target));
  grid.addEventListener('click', (event) => {
    const cell = event.target instanceof Element ? event.target.closest('td') : null;
    if (cell instanceof HTMLElement) to(cell);
  });
  const to = (/** @type {HTMLElement | undefined} */ cell) => {
    if (!cell) return;
    for (const old of grid.querySelectorAll('[tabindex="0"]')) old.setAttribute('tabindex', '-1');
    cell.setAttribute('tabindex', '0');
    cell.focus();
  };
  grid.addEventListener('keydown', (event) => {
    const all = cells();
    const r = all.findIndex((row) => row.includes(/** @type {HTMLElement} */ (event.target)));
    const c = all[r]?.indexOf(/** @type {HTMLElement} */ (event.target)) ?? -1;
    /** @type {Record<string, HTMLElement | undefined>} */
    const next = {
      ArrowLeft: all[r]?.[c - 1],
      ArrowRight: all[r]?.[c + 1],
      ArrowUp: all[r - 1]?.[c],
      ArrowDown: all[r + 1]?.[c],
      Home: all[r]?.[0],
      End: all[r]?.at(-1),
    };
    if (!(event.key in next)) return;
    event.preventDefault();
    to(next[event.key]);
  });
}
