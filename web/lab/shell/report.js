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

  /** A part for something that did not come to its end. @returns {Part} */
  function broken() {
    const { kind, message } = store.state.problem ?? { kind: 'internal', message: '' };
    return { code: '!', name: both(t('report.broken')), lines: [{ what: both(t(`error.${kind}`)), passed: false, numbers: both(message) }] };
  }

  /**
   * One measurement as a part of the report.
   * @template T
   * @param {string} key
   * @param {(engine: import('../../engine.js').Engine) => Promise<T>} call
   * @param {(result: T) => Part[]} tell
   */
  async function part(key, call, tell) {
    if (!session.engine) return [];
    const result = await session.ask(key, call);
    return result === null ? [broken()] : tell(result);
  }

  /** The measurements that are not part of a chapter. @returns {Promise<Part[]>} */
  async function measure() {
    const parity = await part('busy.parity', (engine) => engine.parity(), ({ rows }) => (rows ? [{
      code: 'GPU', name: both(t('report.parity')),
      lines: rows.map((row) => ({ what: both(t('report.tap', { tap: row.tap, layer: row.layer })), passed: row.passed, numbers: both(`NMSE ${num(row.nmse)} ≤ ${num(row.limit)}`) })),
    }] : []));
    const kv = await part('busy.compareKv', (engine) => engine.compareKv(), (found) => [{
      code: 'KV', name: both(t('report.kv')),
      lines: [{
        what: both(t(found.argmaxSame ? 'report.kvSame' : 'report.kvOther')), passed: Number.isFinite(found.nmse),
        numbers: both(t('report.kvNumbers', { nmse: num(found.nmse), logit: num(found.maxLogit) })),
      }],
    }]);
    /** @param {string} what @param {{ p50: number, p95: number, p99: number }} of @returns {Line} */
    const time = (what, of) => ({
      what: both(what), passed: [of.p50, of.p95, of.p99].every((ms) => ms > 0), numbers: both(`p50 ${num(of.p50)} · p95 ${num(of.p95)} · p99 ${num(of.p99)} ms`),
    });
    const times = await part('busy.timings', (engine) => engine.timings(), ({ prefill, decode, conditions }) => [{
      code: 'ms', name: both(`${t('report.times')}: ${conditions.map(pick).join('; ')}`),
      lines: [time(t('report.prefill', { tokens: prefill.tokens }), prefill), time(t('report.decode'), decode)],
    }]);
    return [...parity, ...kv, ...times];
  }

  /** @returns {Promise<Report|null>} */
  async function make() {
    if (session.engine) await session.look({}, true);
    const { lab, info, source, problem } = store.state;
    if (!lab) return null;
    const chapters = lab.chapters.map((chapter) => ({ code: chapter.code, name: chapter.name, lines: chapter.checks }));
    const parts = session.engine && problem ? [broken()] : [...chapters, ...await measure()];
    const lines = parts.flatMap((one) => one.lines);
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
      `flash890 lab · ${of.date}`, `${t('report.build')}: ${of.build}`, `${t('report.source')}: ${[t(`source.${of.source}`), of.adapter].filter(Boolean).join(' · ')}`, of.browser,
      `${t('report.prompt')}: ${of.prompt}${of.picture ? ` + ${of.picture}` : ''} (${of.tokens} token)`,
      t('report.at', { token: of.followed, layer: of.layer }), t('report.sum', { passed: of.passed, failed: of.failed }),
    ];
    const body = of.parts.flatMap((one) => ['', `${one.code}  ${pick(one.name)}`,
      ...one.lines.map((line) => `  ${t(line.passed ? 'report.pass' : 'report.fail').padEnd(9)} ${pick(line.what)}\n            ${pick(line.numbers)}`)]);
    return [...head, ...body, ''].join('\n');
  }

  /** @param {string} name @param {string} type @param {string} content */
  function save(name, type, content) {
    const url = URL.createObjectURL(new Blob([content], { type }));
    el('a', { href: url, download: name }).click();
    setTimeout(() => URL.revokeObjectURL(url), 10_000);
  }

  /** @param {Line} line */
  const row = (line) => el('li', { 'data-check': line.passed ? 'passed' : 'failed' }, el('span', { class: line.passed ? 'pass' : 'fail' }, t(line.passed ? 'report.pass' : 'report.fail')), el('span', {}, pick(line.what)), el('small', {}, pick(line.numbers)));

  function draw() {
    const done = report;
    if (done) Object.assign(dialog.dataset, { checks: 'done', passed: done.passed, failed: done.failed });
    else delete dialog.dataset.checks;
    const sum = done ? t('report.sum', { passed: done.passed, failed: done.failed }) : t(running ? 'report.running' : 'report.none');
    dialog.replaceChildren(
      el('header', {}, el('h2', { id: 'report-title' }, t('report.title')), el('span', { role: 'status', class: done ? (done.failed ? 'fail' : 'pass') : '' }, sum)),
      el('div', { class: 'body', tabindex: 0, role: 'group', 'aria-labelledby': 'report-title' },
        el('p', {}, done ? [t(`source.${done.source}`), done.adapter, t('report.at', { token: done.followed, layer: done.layer })].filter(Boolean).join(' · ') : t('report.about')),
        ...(done?.parts ?? []).flatMap((one) => [el('h3', {}, `${one.code} · ${pick(one.name)}`), el('ul', {}, ...one.lines.map(row))])),
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
  const button = /** @type {HTMLButtonElement} */ (need('checks-open'));
  // Without an engine the checks of the recording can be read; while one starts, its first run is waited for.
  store.show(['lab', 'live', 'problem', 'source'], (state) => {
    button.disabled = !state.lab || (state.live ? state.source === 'recorded' : !state.problem);
  });
  // A report of another prompt or place is no longer about what is shown.
  store.show(['lab'], () => {
    if (!dialog.open) report = null;
  });
  i18n.addEventListener('change', () => dialog.open && draw());
}
