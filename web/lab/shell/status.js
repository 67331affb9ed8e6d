// The status line: what happens now, what it took, the bytes of the KV cache. And the banners above: backend, recording, trouble with a next step.

import { el, grouped, num } from '../dom.js';
import { question } from './model.js';
import { bytes, need } from './page.js';
import { chapterOf } from './state.js';

/** @typedef {import('./state.js').Store} Store */
/** @typedef {import('./state.js').State} State */
/** @typedef {import('./i18n.js').I18n} I18n */

/**
 * Global KV bytes as a product: `19 936 B = 890 × 22 + 356`. An odd number of tokens leaves a group open, whose entry is not written yet.
 * @param {number} bytes
 * @param {number} each  bytes per token that the config gives
 * @param {number} tokens
 */
export function ledger(bytes, each, tokens) {
  const whole = Math.min(tokens, Math.floor(bytes / each));
  const rest = bytes - each * whole;
  return `${grouped(bytes)} B = ${num(each)} × ${whole}${Math.abs(rest) < 1e-6 ? '' : ` + ${num(rest)}`}`;
}

/** Three digits, as much as a time on one machine is worth. @param {number} value */
const short = (value) => String(Number(value.toPrecision(3)));

/** Bytes read in so many milliseconds, per second: `1.24 GB/s`. @param {number} read @param {number} ms */
const rateOf = (read, ms) => `${short(read / ms / 1e6)} GB/s`;

/** @param {{ store: Store, i18n: I18n }} page */
export function statusView({ store, i18n }) {
  const { t } = i18n;
  const [now, figures, bar] = [need('now'), need('figures'), need('bar')];

  /** What is fetched, how much of it is here, and how quickly it comes. @param {import('./state.js').Busy} busy */
  function fetching({ part = '', done, total, rate = 0 }) {
    const layer = /^layer (\d+)$/.exec(part);
    const name = layer ? t('part.layer', { layer: layer[1] }) : i18n.has(`part.${part}`) ? t(`part.${part}`) : part;
    return t('stage.bytes', { part: name, done: bytes(done), total: bytes(total), percent: total > 0 ? Math.floor((100 * done) / total) : 0, rate: bytes(rate) });
  }

  /** @param {State} state */
  function sentence(state) {
    const { busy } = state;
    if (state.lost !== null) return t('now.lost');
    if (busy) {
      if (busy.stage === 'bytes') return `${t(busy.key)} · ${fetching(busy)}`;
      const stage = busy.stage ? (i18n.has(`stage.${busy.stage}`) ? t(`stage.${busy.stage}`) : busy.stage) : '';
      const part = busy.total > 0 ? ` ${Math.round((100 * busy.done) / busy.total)} %` : '';
      return `${t(busy.key)}${stage ? ` · ${stage}${part}` : ''}`;
    }
    if (state.problem) return t('now.problem');
    if (state.news === 'recovered') return t('now.recovered');
    if (state.live && state.lab && state.source !== 'recorded') return t('now.ready', { seconds: ((state.elapsed ?? 0) / 1000).toFixed(2), passed: state.lab.passed, failed: state.lab.failed });
    return state.lab ? t('now.recorded') : t('now.empty');
  }

  store.show(['busy', 'problem', 'lost', 'news', 'lab', 'live', 'source', 'elapsed'], (state) => {
    const text = sentence(state);
    if (now.textContent !== text) now.textContent = text;
    const { busy } = state;
    bar.hidden = !busy;
    bar.classList.toggle('unknown', !!busy && busy.total === 0);
    bar.style.setProperty('--done', String(busy && busy.total > 0 ? Math.min(1, busy.done / busy.total) : 0));
  });

  store.show(['steps', 'lab', 'source', 'info'], (state) => {
    const cache = chapterOf(state, '6A')?.figure;
    const step = state.steps.at(-1);
    /** @type {Node[]} */
    const items = [];
    /** @param {string} name @param {string} value @param {string|null} [about] */
    const item = (name, value, about = null) => items.push(el('span', { title: about, 'data-figure': name.split('.')[1] }, `${t(name)} `, el('b', {}, value)));
    if (step) {
      const times = state.steps.slice(-16).map((one) => one.seconds * 1000).sort((a, b) => a - b);
      const middle = times[Math.floor(times.length / 2)];
      item('figures.step', `${short(middle)} ms`);
      const read = state.info?.tokenBytes ?? 0;
      if (read > 0 && middle > 0) item('figures.rate', rateOf(read, middle), t('figures.rate.about', { bytes: bytes(read) }));
      if (step.dispatches !== null) item('figures.dispatches', grouped(step.dispatches));
    }
    if (cache) item('figures.kv', step ? ledger(step.kvBytes, cache.perToken, step.position + 1) : ledger(cache.bytes, cache.perToken, cache.tokens));
    figures.replaceChildren(...items);
  });
}

/** A reason as a sentence: with a capital and a full stop. @param {string} text */
const sentenceOf = (text) => text.replace(/^\p{Ll}/u, (letter) => letter.toUpperCase()).replace(/[^.!?]$/, '$&.');

/** @param {{ store: Store, i18n: I18n, again: () => void }} page */
export function bannersView({ store, i18n, again }) {
  const { t, pick } = i18n;
  const host = need('banners');

  /** A short message is shown, a long one folds. @param {string} message */
  function details(message) {
    if (!message) return null;
    return message.length > 300 ? el('details', {}, el('summary', {}, t('banner.details')), el('pre', {}, message)) : el('pre', {}, message);
  }

  /** @param {'warn'|'bad'} tone @param {string} title @param {string} text @param {...(Node|null)} more */
  const banner = (tone, title, text, ...more) => el('div', { class: `banner ${tone}`, role: tone === 'bad' ? 'alert' : null }, el('b', {}, title), el('p', {}, text), ...more);

  store.show(['problem', 'lost', 'news', 'info', 'live', 'busy', 'asked', 'notice'], (state) => {
    const items = [];
    if (state.asked) items.push(question(state.asked, i18n));
    if (state.lost !== null) items.push(banner('warn', t('banner.lost'), t('banner.lostText'), details(state.lost)));
    else if (state.problem) {
      const { kind, message, reason } = state.problem;
      const name = reason && i18n.has(`error.${reason}`) ? reason : kind;
      const retry = el('button', { type: 'button', onclick: again }, t('banner.again'));
      const next = `${t(`error.${name}.next`)}${state.live || !state.lab ? '' : ` ${t('banner.recordingStays')}`}`;
      const notice = banner('bad', t(`error.${name}`), next, retry, details(`${kind}: ${message}`));
      if (!state.live) notice.dataset.ready = 'failed';
      items.push(notice);
    }
    if (state.live && state.info?.backend === 'cpu') items.push(banner('warn', t('banner.cpu'), sentenceOf(pick(state.info.reason))));
    if (state.notice) items.push(banner('warn', t('notice.title'), t(`notice.${state.notice.what}`), details(state.notice.message)));
    const key = JSON.stringify([i18n.lang, state.asked?.plan, state.notice, state.lost, state.problem, state.live, state.info?.backend, state.info?.reason]);
    if (key === host.dataset.key) return;
    host.dataset.key = key;
    host.replaceChildren(...items);
  });
}
