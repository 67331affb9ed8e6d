// Measurements that a chapter starts in the engine: GPU against CPU reference, time per token, FP4 caches against f32 caches.

import { el, num } from './dom.js';
import { sign } from './checks.js';
import { tableView } from './table.js';

/** @import { Candidate, Context, KvComparison, ParityRow, Table, Text, Timings } from './chapter.types.js' */

/** @param {string} text @returns {Text} */
const same = (text) => ({ vi: text, en: text });

/**
 * A button, a status line and a place for the result. What it showed comes back when the chapter is drawn again for the same run.
 * @param {Context} context
 * @param {Map<string, Node>} kept results of this run
 * @param {{ key: string, name: string, about: string, run: () => Promise<Node> }} of
 */
function action(context, kept, of) {
  const { t, engine } = context;
  const status = el('span', { class: 'ch-muted', role: 'status' }, engine ? '' : t('ch.needsEngine'));
  const place = el('div', { class: 'ch-result' }, kept.get(of.key) ?? null);
  const button = el('button', { type: 'button', 'data-key': `act-${of.key}`, disabled: !engine }, of.name);
  button.addEventListener('click', async () => {
    button.disabled = true;
    status.textContent = t('ch.running');
    try {
      const result = await of.run();
      kept.set(of.key, result);
      place.replaceChildren(result);
      status.textContent = '';
    } catch (error) {
      status.textContent = t('ch.failed', { message: error instanceof Error ? error.message : String(error) });
    } finally {
      button.disabled = false;
    }
  });
  return el('div', { class: 'ch-action' }, el('p', { class: 'ch-about' }, of.about), el('div', { class: 'ch-row' }, button, status), place);
}

/** Per tap, the worst layer. @param {ParityRow[]} rows @param {Context} context */
function parityResult(rows, context) {
  const { t, lang, source } = context;
  const found = rows.filter((row) => row.tap.startsWith(`${context.chapter.code.toLowerCase()}.`));
  if (!found.length) return el('p', { class: 'ch-empty' }, t('ch.parity.none'));
  const taps = [...new Set(found.map((row) => row.tap))];
  const failed = found.filter((row) => !row.passed).length;
  /** @type {Table} */
  const table = {
    title: same(t('ch.parity.title')),
    badge: 'gpu',
    columns: ['ch.parity.tap', 'ch.parity.layers', 'ch.parity.worst', 'ch.parity.layer', 'ch.parity.limit', 'ch.parity.verdict'].map((key) =>
      same(t(key)),
    ),
    rows: taps.map((tap) => {
      const of = found.filter((row) => row.tap === tap);
      const worst = of.reduce((a, b) => (b.nmse / b.limit > a.nmse / a.limit ? b : a));
      return [same(tap), of.length, worst.nmse, worst.layer, worst.limit, same(t(of.every((row) => row.passed) ? 'ch.pass' : 'ch.fail'))];
    }),
  };
  return el(
    'div',
    {},
    el(
      'p',
      { class: failed ? 'ch-fail' : 'ch-pass' },
      el('span', { class: 'ch-verdict' }, sign(failed === 0), t(failed ? 'ch.fail' : 'ch.pass')),
      ' ',
      t('ch.parity.sum', { count: found.length, failed }),
    ),
    tableView(table, { lang, t, source, key: 'parity' }),
  );
}

/** @param {Timings} found @param {Context} context */
function timingsResult(found, context) {
  const { t, lang, source } = context;
  const perToken = found.prefill.tokens > 0 ? found.prefill.p50 / found.prefill.tokens : NaN;
  /** @type {Table} */
  const table = {
    title: same(t('ch.times.title', { unit: found.unit })),
    badge: source === 'cpu' ? 'cpu-reference' : 'gpu',
    columns: ['ch.times.what', 'ch.times.tokens', 'p50', 'p95', 'p99', 'ch.times.per'].map((key) => same(key.startsWith('ch.') ? t(key) : key)),
    rows: [
      [same('prefill'), found.prefill.tokens, found.prefill.p50, found.prefill.p95, found.prefill.p99, perToken],
      [same('decode'), 1, found.decode.p50, found.decode.p95, found.decode.p99, found.decode.p50],
    ],
  };
  return el(
    'div',
    {},
    el(
      'p',
      {},
      t('ch.times.sum', { prefill: num(perToken), decode: num(found.decode.p50), ratio: num(found.decode.p50 / perToken), unit: found.unit }),
    ),
    tableView(table, { lang, t, source, key: 'times' }),
    el('ul', { class: 'ch-notes' }, ...found.conditions.map((text) => el('li', {}, text[lang]))),
  );
}

/** @param {KvComparison} found @param {Context} context */
function kvResult(found, context) {
  const { t, lang, source } = context;
  const place = (/** @type {Candidate[]} */ list, /** @type {number} */ id) => list.findIndex((candidate) => candidate.id === id);
  /** @type {Table} */
  const table = {
    title: same(t('ch.kv.title')),
    badge: source === 'cpu' ? 'cpu-reference' : 'gpu',
    columns: ['ch.kv.rank', 'id', 'token', 'ch.kv.fp4', 'ch.kv.f32', 'ch.kv.change', 'ch.kv.rank32'].map((key) =>
      same(key.startsWith('ch.') ? t(key) : key),
    ),
    rows: found.before.map((candidate, rank) => {
      const other = found.after[place(found.after, candidate.id)];
      return [
        rank + 1,
        candidate.id,
        same(candidate.label),
        candidate.logit,
        other?.logit ?? null,
        other ? other.logit - candidate.logit : null,
        other ? place(found.after, candidate.id) + 1 : null,
      ];
    }),
  };
  return el(
    'div',
    {},
    el(
      'p',
      { class: found.argmaxSame ? 'ch-pass' : 'ch-fail' },
      el('span', { class: 'ch-verdict' }, sign(found.argmaxSame), t(found.argmaxSame ? 'ch.kv.same' : 'ch.kv.differs')),
      ' ',
      t('ch.kv.sum', { max: num(found.maxLogit), nmse: num(found.nmse) }),
    ),
    tableView(table, { lang, t, source, key: 'kv' }),
  );
}

/**
 * The switch FP4 / f32 of 6A: on f32 the logits of both are shown side by side.
 * @param {Context} context
 * @param {Map<string, Node>} kept
 */
function kvSwitch(context, kept) {
  const { t, engine } = context;
  const status = el('span', { class: 'ch-muted', role: 'status' }, engine ? '' : t('ch.needsEngine'));
  const place = el('div', { class: 'ch-result' }, kept.get('kv') ?? null);
  const buttons = ['FP4', 'f32'].map((name, i) =>
    el(
      'button',
      {
        type: 'button',
        disabled: !engine,
        'aria-pressed': String((i === 1) === kept.has('kv')),
        'data-key': `kv-${name}`,
        onclick: async () => {
          buttons.forEach((button, j) => button.setAttribute('aria-pressed', String(i === j)));
          if (i === 0 || !engine) {
            kept.delete('kv');
            place.replaceChildren();
            status.textContent = t('ch.kv.isFp4');
            return;
          }
          status.textContent = t('ch.running');
          try {
            const result = kvResult(await engine.compareKv(), context);
            kept.set('kv', result);
            place.replaceChildren(result);
            status.textContent = t('ch.kv.isF32');
          } catch (error) {
            status.textContent = t('ch.failed', { message: error instanceof Error ? error.message : String(error) });
            buttons.forEach((button, j) => button.setAttribute('aria-pressed', String(j === 0)));
          }
        },
      },
      name,
    ),
  );
  return el(
    'div',
    { class: 'ch-action' },
    el('p', { class: 'ch-about' }, t('ch.kv.about')),
    el('div', { class: 'ch-row' }, el('div', { class: 'ch-choices', role: 'group', 'aria-label': t('ch.kv.switch') }, ...buttons), status),
    place,
  );
}

/**
 * @param {Context} context
 * @param {Map<string, Node>} kept
 * @returns {Node[]}
 */
export function actionsView(context, kept) {
  const { chapter, engine, t } = context;
  const views = [];
  if (chapter.code === '6A') views.push(kvSwitch(context, kept));
  if (chapter.code === '3A') {
    views.push(
      action(context, kept, {
        key: 'times',
        name: t('ch.times.run'),
        about: t('ch.times.about'),
        run: async () => (engine ? timingsResult(await engine.timings(), context) : el('p')),
      }),
    );
  }
  views.push(
    action(context, kept, {
      key: 'parity',
      name: t('ch.parity.run'),
      about: t('ch.parity.about'),
      run: async () => {
        const rows = (await engine?.parity())?.rows;
        return rows ? parityResult(rows, context) : el('p', { class: 'ch-empty' }, t('ch.parity.cpu'));
      },
    }),
  );
  return [el('h3', {}, t('ch.measure')), ...views];
}
