// The checks of a chapter: each a sentence, a verdict in words and shape, and the numbers behind it.

import { el, indexed, s } from './dom.js';

/** @import { Check, Context } from './chapter.types.js' */

/** A tick or a cross, so that the verdict does not hang on colour. @param {boolean} passed */
export function sign(passed) {
  const path = passed ? 'M2.5 7.5l3 3 6-7' : 'M3 3l8 8M11 3l-8 8';
  return s('svg', { class: 'ch-sign', viewBox: '0 0 14 14', width: 14, height: 14, 'aria-hidden': 'true' }, s('path', { d: path }));
}

/** @param {Check} check @param {Context} context */
function line(check, context) {
  const { lang, t } = context;
  return el(
    'li',
    { class: check.passed ? 'ch-pass' : 'ch-fail' },
    el('span', { class: 'ch-verdict' }, sign(check.passed), t(check.passed ? 'ch.pass' : 'ch.fail')),
    el('span', { class: 'ch-what' }, ...indexed(check.what[lang])),
    el('span', { class: 'ch-numbers ch-num' }, check.numbers[lang]),
  );
}

/**
 * @param {Context} context
 * @returns {Node[]}
 */
export function checksView(context) {
  const { chapter, t, engine, onRunChecks } = context;
  const passed = chapter.checks.filter((check) => check.passed).length;
  const status = el('span', { class: 'ch-muted', role: 'status' });
  const button = el('button', { type: 'button', 'data-key': 'run-checks', disabled: !engine || !onRunChecks }, t('ch.runChecks'));
  button.addEventListener('click', async () => {
    button.disabled = true;
    status.textContent = t('ch.running');
    try {
      await onRunChecks?.(chapter.code);
      status.textContent = t('ch.ranAgain');
    } catch (error) {
      status.textContent = error instanceof Error ? error.message : String(error);
    } finally {
      button.disabled = false;
    }
  });
  if (!engine) status.textContent = t('ch.needsEngine');
  return [
    el(
      'div',
      { class: 'ch-section-head' },
      el('h3', {}, t('ch.checks')),
      el('span', { class: 'ch-num ch-muted' }, t('ch.passedOf', { passed, count: chapter.checks.length })),
      button,
      status,
    ),
    chapter.checks.length
      ? el('ul', { class: 'ch-checks' }, ...chapter.checks.map((check) => line(check, context)))
      : el('p', { class: 'ch-empty' }, t('ch.noChecks')),
  ];
}
