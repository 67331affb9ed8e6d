// "Run all checks": the checks of the ten chapters on a fresh run, GPU against CPU reference at every tap, times, FP4 against f32 caches.
// The result is shown and can be kept as JSON or as text.

import { el, num } from '../dom.js';
import { need } from './page.js';

/** @typedef {import('./state.js').Store} Store */
/** @typedef {import('./i18n.js').I18n} I18n */
/** @typedef {import('./session.js').Session} Session */
/** @typedef {import('../../engine.js').Text} Text */
/** @typedef {{ what: Text, passed: boolean, numbers: Text }} Line */
/** @typedef {{ code: string, name: Text, lines: Line[] }} Part */
/**
 * @typedef {{ date: string, build: string, source: string, adapter: string, browser: string, prompt: string, picture: string|null, tokens: number,
 *   followed: number, layer: number, passed: number, failed: number, parts: Part[] }} Report
 */

/** @param {string} text @returns {Text} */
const both = (text) => ({ vi: text, en: text });

/** @param {{ store: Store, i18n: I18n, session: Session }} page */
export function reportView({ store, i18n, session }) {
  const { t, pick } = i18n;
  const dialog = /** @type {HTMLDialogElement} */ (need('report'));
  /** @type {Report|null} */
  let report = null;
  let running = false;

  /** The lines of the measurements that are not part of a chapter. @returns {Promise<Part[]>} */
  async function measure() {
    const parts = [];
    const parity = await session.ask('busy.parity', (engine) => engine.parity());
    if (parity?.rows) {
      const lines = parity.rows.map((row) => ({ what: both(t('report.tap', { tap: row.tap, layer: row.layer })), passed: row.passed, numbers: both(`NMSE ${num(row.nmse)} ≤ ${num(row.limit)}`) }));
      parts.push({ code: 'GPU', name: both(t('report.parity')), lines });
    }
    const kv = await session.ask('busy.compareKv', (engine) => engine.compareKv());
    if (kv) {
      const numbers = both(t('report.kvNumbers', { nmse: num(kv.nmse), logit: num(kv.maxLogit) }));
      parts.push({ code: 'KV', name: both(t('report.kv')), lines: [{ what: both(t(kv.argmaxSame ? 'report.kvSame' : 'report.kvOther')), passed: Number.isFinite(kv.nmse), numbers }] });
    }
    const times = await session.ask('busy.timings', (engine) => engine.timings());
    if (times) {
      /** @param {{ p50: number, p95: number, p99: number }} of */
      const numbers = (of) => both(`p50 ${num(of.p50)} · p95 ${num(of.p95)} · p99 ${num(of.p99)} ms`);
      const finite = [times.prefill, times.decode].every((of) => [of.p50, of.p95, of.p99].every(Number.isFinite));
      parts.push({ code: 'ms', name: both(`${t('report.times')}: ${times.conditions.map(pick).join('; ')}`), lines: [
        { what: both(t('report.prefill', { tokens: times.prefill.tokens })), passed: finite, numbers: numbers(times.prefill) },
        { what: both(t('report.decode')), passed: finite, numbers: numbers(times.decode) },
      ] });
    }
    return parts;
  }

  /** @returns {Promise<Report|null>} */
  async function make() {
    if (session.engine) await session.look({}, true);
    const { lab, info, source, problem } = store.state;
    if (!lab || (session.engine && problem)) return null;
    const parts = lab.chapters.map((chapter) => ({ code: chapter.code, name: chapter.name, lines: chapter.checks })).concat(await measure());
    const lines = parts.flatMap((part) => part.lines);
    const picture = session.request?.picture;
    return {
      date: new Date().toISOString(), build: info?.build ?? '', source, adapter: info?.adapter ?? '', browser: navigator.userAgent,
      prompt: session.request?.text ?? '', picture: typeof picture === 'object' ? picture?.name ?? null : picture ?? null,
      tokens: lab.tokens.length, followed: lab.followed, layer: lab.layer,
      passed: lines.filter((line) => line.passed).length, failed: lines.filter((line) => !line.passed).length, parts,
    };
  }

  /** The report as text, in the language of the page. @param {Report} of */
  function text(of) {
    const head = [
      `flash890 lab · ${of.date}`, `${t('report.build')}: ${of.build}`, `${t('report.source')}: ${t(`source.${of.source}`)} · ${of.adapter}`, of.browser,
      `${t('report.prompt')}: ${of.prompt}${of.picture ? ` + ${of.picture}` : ''} (${of.tokens} token)`,
      t('report.at', { token: of.followed, layer: of.layer }), t('report.sum', { passed: of.passed, failed: of.failed }),
    ];
    const body = of.parts.flatMap((part) => ['', `${part.code}  ${pick(part.name)}`,
      ...part.lines.map((line) => `  ${t(line.passed ? 'report.pass' : 'report.fail').padEnd(6)} ${pick(line.what)}\n         ${pick(line.numbers)}`)]);
    return [...head, ...body, ''].join('\n');
  }

  /** @param {string} name @param {string} type @param {string} content */
  function save(name, type, content) {
    const url = URL.createObjectURL(new Blob([content], { type }));
    el('a', { href: url, download: name }).click();
    setTimeout(() => URL.revokeObjectURL(url), 10_000);
  }

  /** @param {Line} line */
  const row = (line) => el('li', {}, el('span', { class: line.passed ? 'pass' : 'fail' }, t(line.passed ? 'report.pass' : 'report.fail')), el('span', {}, pick(line.what)), el('small', {}, pick(line.numbers)));

  function draw() {
    const done = report;
    const sum = done ? t('report.sum', { passed: done.passed, failed: done.failed }) : t(running ? 'report.running' : 'report.none');
    dialog.replaceChildren(
      el('header', {}, el('h2', { id: 'report-title' }, t('report.title')), el('span', { role: 'status', class: done ? (done.failed ? 'fail' : 'pass') : '' }, sum)),
      el('div', { class: 'body', tabindex: 0, role: 'group', 'aria-labelledby': 'report-title' },
        el('p', {}, done ? `${t(`source.${done.source}`)} · ${done.adapter} · ${t('report.at', { token: done.followed, layer: done.layer })}` : t('report.about')),
        ...(done?.parts ?? []).flatMap((part) => [el('h3', {}, `${part.code} · ${pick(part.name)}`), el('ul', {}, ...part.lines.map(row))])),
      el('footer', {},
        el('button', { type: 'button', class: 'primary', disabled: running, onclick: start }, t('report.again')),
        el('button', { type: 'button', disabled: !done, onclick: () => done && save('flash890-report.json', 'application/json', JSON.stringify(done, null, 1)) }, t('report.json')),
        el('button', { type: 'button', disabled: !done, onclick: () => done && save('flash890-report.txt', 'text/plain;charset=utf-8', text(done)) }, t('report.text')),
        el('button', { type: 'button', onclick: () => dialog.close() }, t('report.close'))));
  }

  async function start() {
    if (running) return;
    running = true;
    report = null;
    draw();
    report = await make();
    running = false;
    draw();
  }

  need('checks-open').addEventListener('click', () => {
    draw();
    dialog.showModal();
    if (!report) start();
  });
  // A report of another prompt or place is no longer about what is shown.
  store.show(['lab'], () => {
    if (!dialog.open) report = null;
  });
  i18n.addEventListener('change', () => dialog.open && draw());
  return { make };
}
