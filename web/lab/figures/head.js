// 6B: the ten best tokens, and the draft with confidence and verdicts.

import { clamp, el, exact, fixed, num, s } from '../dom.js';
import { sign } from '../checks.js';
import { empty, label, part, plot, probe, stack } from './common.js';

/** @import { Draw, DraftToken, HeadFigure } from '../chapter.types.js' */

/**
 * @param {Draw<HeadFigure>} d
 * @returns {{ body: Node, finding: string }}
 */
export function head(d) {
  const { data, lab, t } = d;
  const best = data.top[0];
  const finding =
    (best ? t('ch.6b.finding', { token: best.label, id: best.id, probability: fixed(100 * best.probability, 2), at: lab.followed }) : '') +
    (data.draft ? ` ${t('ch.6b.findingDraft', { accepted: data.draft.accepted, count: data.draft.tokens.length })}` : ` ${t('ch.6b.noDraft')}`);
  return {
    finding,
    body: stack(part(t('ch.6b.top')), ...top(d), part(t('ch.6b.draft'), t('ch.6b.draftAbout')), data.draft ? draft(d) : empty(t('ch.6b.noDraft'))),
  };
}

/** @param {Draw<HeadFigure>} d @returns {Node[]} */
function top(d) {
  const { data, t, state, width } = d;
  const [left, row] = [Math.min(130, width * 0.3), 24];
  const wide = width - left - 150;
  const most = Math.max(...data.top.map((candidate) => candidate.probability), 1e-12);
  const on = plot({
    width,
    height: data.top.length * row + 4,
    label: t('ch.6b.topLabel', { list: data.top.map((c) => `${c.label} ${fixed(100 * c.probability, 2)} %`).join(', ') }),
  });
  data.top.forEach((candidate, i) => {
    const y = i * row + 2;
    const w = Math.max(0.75, (candidate.probability / most) * wide);
    const cut = [...candidate.label].length > 14 ? `${[...candidate.label].slice(0, 13).join('')}…` : candidate.label;
    on.svg.append(
      label(left - 8, y + 15, cut, i ? 'ch-label ch-end ch-token' : 'ch-label ch-end ch-token ch-strong'),
      s('rect', { x: left, y: y + 3, width: w, height: 16, class: i ? 'ch-fill-a ch-faint' : 'ch-fill-a' }),
      label(left + w + 6, y + 15, `${fixed(100 * candidate.probability, 2)} %`, 'ch-label ch-strong'),
      label(width - 2, y + 15, fixed(candidate.logit, 3), 'ch-label ch-end'),
    );
  });
  const reader = probe(on, {
    count: data.top.length,
    key: '6b-top',
    state,
    label: t('ch.6b.topRead'),
    hit: (_, y) => Math.floor((y - 2) / row),
    box: (i) => [1, i * row + 3, width - 3, row - 2],
    text: (i) => {
      const candidate = data.top[i];
      return candidate
        ? t('ch.6b.candidate', {
            rank: i + 1,
            token: candidate.label,
            id: candidate.id,
            probability: exact(candidate.probability),
            logit: exact(candidate.logit),
          })
        : '';
    },
  });
  return [on.root, reader.readout, el('p', { class: 'ch-muted ch-small-text' }, t('ch.6b.columns'))];
}

/** @param {Draw<HeadFigure>} d */
function draft(d) {
  const { data, t } = d;
  const found = data.draft;
  if (!found) return el('p');
  const cards = found.tokens.map((token, i) => card(d, token, i, found.accepted));
  const rolled = Math.max(0, found.tokens.length - found.accepted);
  return el(
    'div',
    { class: 'ch-stack' },
    el(
      'ol',
      { class: 'ch-draft', 'aria-label': t('ch.6b.draft') },
      el(
        'li',
        { class: 'ch-draft-anchor' },
        el('span', { class: 'ch-muted' }, t('ch.6b.anchor')),
        el('b', { class: 'ch-token' }, found.anchor.label),
        el('span', { class: 'ch-muted ch-num' }, `id ${found.anchor.id}`),
        el('span', { class: 'ch-muted ch-num' }, `${fixed(100 * found.anchor.probability, 2)} %`),
      ),
      ...cards,
    ),
    el('p', { class: 'ch-num' }, t(rolled ? 'ch.6b.rolledSum' : 'ch.6b.allKept', { accepted: found.accepted, rolled, made: found.accepted + 1 })),
  );
}

/** Four digits, all of them on focus or hover. @param {Node} bar @param {number} value */
function confidence(bar, value) {
  const text = el('span', {}, num(value));
  const show = (/** @type {boolean} */ all) => () => {
    text.textContent = all ? exact(value) : num(value);
  };
  return el(
    'span',
    {
      class: 'ch-confidence-row ch-num',
      tabindex: 0,
      onfocus: show(true),
      onblur: show(false),
      onpointerenter: show(true),
      onpointerleave: show(false),
    },
    bar,
    text,
  );
}

/** @param {Draw<HeadFigure>} d @param {DraftToken} token @param {number} i @param {number} accepted */
function card(d, token, i, accepted) {
  const { t } = d;
  const fate = i < accepted ? 'accepted' : i === accepted && !token.agrees ? 'rejected' : 'rolled';
  const bar = el('span', { class: 'ch-confidence' }, el('span', {}));
  if (bar.firstElementChild instanceof HTMLElement) bar.firstElementChild.style.setProperty('width', `${100 * clamp(token.confidence, 0, 1)}%`);
  const changed = token.withoutMarkov !== token.label;
  return el(
    'li',
    { class: `ch-draft-${fate}` },
    el('span', { class: 'ch-muted ch-num' }, t('ch.6b.place', { i: i + 1 })),
    el('b', { class: 'ch-token' }, token.label),
    el('span', { class: 'ch-muted ch-num' }, `id ${token.id}`),
    confidence(bar, token.confidence),
    el('span', { class: 'ch-verdict' }, sign(fate === 'accepted'), t(`ch.6b.${fate}`)),
    el('span', { class: 'ch-muted' }, t('ch.6b.main', { token: token.main })),
    el('span', { class: 'ch-muted' }, changed ? t('ch.6b.without', { token: token.withoutMarkov }) : t('ch.6b.sameWithout')),
  );
}
