// The formula of each block in MathML. A symbol made with `tap` names the tensor that holds its values; the chapter links the two.

/** @import { Translate } from './chapter.types.js' */

const MATH = 'http://www.w3.org/1998/Math/MathML';
/** @typedef {Node | string | number} Part */

/** @param {string} tag @param {...Node} kids */
function node(tag, ...kids) {
  const made = document.createElementNS(MATH, tag);
  made.append(...kids);
  return made;
}

/**
 * A letter is an identifier, digits are a number, a name is upright, words are text, the rest are operators.
 * @param {Part} part
 * @returns {Node}
 */
function leaf(part) {
  if (part instanceof Node) return part;
  const text = String(part);
  const word = /^\p{L}[\p{L}\p{N}_′, ]*$/u.test(text) && text !== 'mod';
  const tag = /^[\d.]+$/.test(text) ? 'mn' : !word ? 'mo' : /[^\w′,]|, /.test(text) && text.length > 1 ? 'mtext' : 'mi';
  const made = node(tag);
  if (tag === 'mi' && text.length > 1) made.setAttribute('mathvariant', 'normal');
  made.textContent = text;
  return made;
}

/** @param {...Part} parts */
const row = (...parts) => node('mrow', ...parts.map(leaf));
/** @param {Part} base @param {...Part} index */
const sub = (base, ...index) => node('msub', leaf(base), row(...index));
/** @param {Part} base @param {Part} index @param {Part} power */
const both = (base, index, power) => node('msubsup', leaf(base), leaf(index), leaf(power));
/** @param {Part} top @param {Part} bottom */
const frac = (top, bottom) => node('mfrac', leaf(top), leaf(bottom));
/** @param {...Part} parts */
const root = (...parts) => node('msqrt', row(...parts));
/** @param {...Part} under */
const sum = (...under) => node('munder', leaf('∑'), row(...under));
/** @param {Part} name @param {...Part} of */
const call = (name, ...of) => row(name, '(', ...of, ')');
/** @param {Part} name @param {...Part} index */
const at = (name, ...index) => row(name, '[', ...index, ']');

/** Words beside a fraction, with a little room before them. @param {string} text */
function words(text) {
  const made = node('mtext');
  made.textContent = `\u2009${text}`;
  return made;
}

/** A symbol that stands for a tensor. @param {string} name @param {...Part} parts */
function tap(name, ...parts) {
  const made = row(...parts);
  made.setAttribute('data-tap', name);
  return made;
}

/**
 * @param {Translate} t
 * @returns {Record<string, { math: Part[], note?: string }[]>} lines of formula by block
 */
function lines(t) {
  const x = () => tap('2a.attn_input', 'x');
  const h = (/** @type {Part} */ i) => tap('2a.streams', sub('h', i));
  return {
    '1A': [
      { math: [tap('1a.embedding', sub('x', 'p')), '=', at('E', tap('ids', sub('id', 'p')))], note: t('ch.f.text') },
      { math: [tap('1a.embedding', sub('x', 'p')), '=', sub('W', 2), call('gelu', sub('W', 1), call(sub('unfold', '3×3'), call('ViT',
          tap('patches', 'patches'))), '+', sub('b', 1)), '+', sub('b', 2)], note: 'IMAGE' },
      { math: [t('ch.f.picture'), '=', 'START', ',', t('ch.f.rows'), '×', '(', t('ch.f.cols'), '×', 'IMAGE', ',', 'NEW_LINE', ')', ',', 'END'] },
    ],
    '1B': [
      { math: [sub('v', 'n'), '=', node('munder', leaf('⨁'), row('k', '<', 'n')), tap('ids', sub('t', 'k')), '·', sub('m', 'k')],
          note: t('ch.f.hash') },
      { math: [tap('1b.row_ids', 'row'), '=', sub('v', 'n'), 'mod', at('prime', 'n', ',', 'head'), '+', at('offset', 'n', ',', 'head')] },
      { math: [tap('1b.gate', sub('g', 'c')), '=', call('sigmoid', call('sign', 'd'), root('|', 'd', '|'))], note: t('ch.f.gate') },
      { math: [sub('h', 'c'), '←', sub('h', 'c'), '+', tap('1b.gate', sub('g', 'c')), '·', tap('engram.embed', 'value')], note: t('ch.f.gate0') },
    ],
    '2A': [
      { math: ['m', '=', frac(row('W', '·', '[', h(0), '…', h(3), ']'), call('rms', 'h'))], note: t('ch.f.mixes') },
      { math: [tap('2a.attn_pre', 'pre'), '=', call('sigmoid', sub('m', '0..4'), sub('a', 0), '+', 'b'), '+', 'ε'] },
      { math: [tap('2a.attn_post', 'post'), '=', 2, '·', call('sigmoid', sub('m', '4..8'), sub('a', 1), '+', 'b')] },
      { math: [tap('2a.attn_comb', 'comb'), '=', call('sinkhorn', sub('m', '8..24'), sub('a', 2), '+', 'b')], note: t('ch.f.comb') },
      { math: [x(), '=', sum('c'), at('pre′', 'c'), h('c')], note: t('ch.f.pre') },
      { math: [tap('2a.streams', both('h', 'j', '′')), '=', at(tap('2a.attn_post', 'post'), 'j'), '·', 'y', '+', sum('i'), at(tap('2a.attn_comb',
          'comb'), 'i', ',', 'j'), h('i')] },
    ],
    '3A': [
      { math: ['prefill', ':', call('encoder', tap('2a.streams', sub('h', '0..n'))), '→', sub('KV', 'source'), '→', call('decoder', tap('3a.rows',
          t('ch.f.tail')))] },
      { math: ['decode', ':', call('encoder', tap('2a.streams', sub('h', 'n'))), '→', sub('KV', 'source'), '→', call('decoder', sub('h', 'n'))] },
    ],
    '3B': [
      { math: [sub('a', 't'), '=', sub('W', 'kv'), tap('2a.attn_input', sub('x', 't')), ',', sub('g', 't'), '=', sub('W', 'gate'),
          tap('2a.attn_input', sub('x', 't'))], note: t('ch.f.channel') },
      { math: ['w', '=', frac(call('exp', sub('g', '2j')), row(call('exp', sub('g', '2j')), '+', call('exp', sub('g', '2j+1'))))],
          note: t('ch.f.ratio', { ratio: 2 }) },
      { math: [tap('3b.latent', sub('latent', 'j')), '=', call('rms_norm', 'w', sub('a', '2j'), '+', '(', 1, '−', 'w', ')', sub('a', '2j+1'))],
          note: t('ch.f.ratio', { ratio: 2 }) },
      { math: [tap('3b.latent', sub('latent', 't')), '=', call('rms_norm', sub('W', 'kv'), tap('2a.attn_input', sub('x', 't')))],
          note: t('ch.f.ratio', { ratio: 1 }) },
    ],
    '3C': [
      { math: [tap('3c.window_kv', call('window', 'p')), '=', call('max', 0, ',', 'p', '−', 'w', '+', 1), '…', 'p', ',', call('slot', 'p'), '=',
          'p', 'mod', 'w'] },
      { math: [tap('3c.index_scores', at('s', 'j')), '=', sum('h'), call('relu', sub('q', 'h'), '·', tap('6a.index_keys', sub('ik', 'j'))),
          sub('w', 'h')], note: t('ch.f.visible') },
      { math: [tap('3c.candidate_blocks', 'pool'), '=', t('ch.f.pool')] },
      { math: [tap('3c.topk_ids', 'chosen'), '=', call('topk', at('s', 'j'), ':', 'j', '∈', tap('3c.candidate_blocks', 'pool'))] },
    ],
    '4A': [
      { math: ['qr', '=', call('rms_norm', sub('W', 'qa'), x()), ',', tap('4a.query', 'q'), '=', sub('rope', 'p'), '(', sub('W', 'qb'), 'qr', ')'],
          note: t('ch.f.nonorm') },
      { math: [tap('4a.weights', sub('w', 'i')), '=', frac(call('exp', tap('4a.query', 'q'), '·', tap('kv', sub('kv', 'i')), '/', root('d')),
          row(sum('j'), call('exp', tap('4a.query', 'q'), '·', tap('kv', sub('kv', 'j')), '/', root('d')), '+', call('exp', 'sink')))] },
      { math: [tap('4a.heads', 'o'), '=', both('rope', 'p', '−1'), '(', sum('i'), tap('4a.weights', sub('w', 'i')), tap('kv', sub('kv', 'i')), ')'] },
      { math: [tap('4a.out', 'y'), '=', sub('W', 'ob'), '[', sub('W', 'oa,0'), tap('4a.heads', sub('o', 0)), ',', sub('W', 'oa,1'), tap('4a.heads',
          sub('o', 1)), ',', '…', ']'], note: t('ch.f.groups') },
    ],
    '6A': [
      { math: [tap('6a.compressed_kv', 'entry'), '=', frac('d', 2), words(t('ch.f.codes')), '+', frac('d', 16), words('scales'), ',',
          tap('6a.index_keys', 'key'), '=', frac('k', 2), words(t('ch.f.codes')), '+', frac('k', 32), words('scales')] },
      { math: [t('ch.f.perToken'), '=', sum(t('ch.f.sources')), frac(row(tap('6a.compressed_kv', 'entry'), '+', tap('6a.index_keys', 'key')),
          t('ch.f.ratioWord'))] },
      { math: ['(', 256, '+', 32, '+', 64, '+', 4, ')', '×', '(', frac(1, 2), '+', frac(1, 2), '+', frac(1, 2), '+', 1, ')', '=', 356, '×', 2.5,
          '=', 890], note: t('ch.f.release') },
    ],
    '5A': [
      { math: [tap('5a.router_scores', sub('s', 'e')), '=', root('softplus', '(', at(sub('W', 'g'), 'e'), '·', tap('2a.ffn_input', 'x'), ')')] },
      { math: [tap('5a.expert_ids', 'chosen'), '=', call('topk', tap('5a.router_scores', sub('s', 'e')), '+', sub('bias', 'e'))],
          note: t('ch.f.bias') },
      { math: [tap('5a.expert_weights', sub('w', 'e')), '=', frac(row(1.5, sub('s', 'e')), row(sum('chosen'), 's'))] },
      { math: [sub('a', 'e'), '=', call('silu', call('min', 'g', ',', 10)), '·', call('clamp', 'u', ',', '±', 10)], note: t('ch.f.swiglu') },
      { math: [tap('5a.out', 'y'), '=', sum('chosen'), sub('W', 2), '(', tap('5a.expert_weights', sub('w', 'e')), sub('a', 'e'), ')', '+',
          call('shared', tap('2a.ffn_input', 'x'))] },
    ],
    '6B': [
      { math: [tap('6b.logits', 'logits'), '=', sub('W', 'head'), call('rms_norm', sum('c'), at('pre', 'c'), h('c'))] },
      { math: [tap('draft.ids', sub('draft', 'i')), '=', call('argmax', sub('W', 'head'), call('rms_norm', sub('x', 'i')), '+', sub('M', 'head'),
          sub('M', 'embed'), '[', sub('draft', 'i−1'), ']')] },
      { math: [sub('conf', 'i'), '=', call('sigmoid', sub('W', 'c'), '[', sub('x', 'i'), ',', sub('M', 'embed'), '[', sub('draft', 'i−1'), ']',
          ']')] },
    ],
  };
}

/**
 * The formula of a block, line by line.
 * @param {string} code
 * @param {Translate} t
 * @returns {{ math: Element, note: string }[]} `[data-tap]` marks the symbols that stand for tensors
 */
export function formula(code, t) {
  return (lines(t)[code] ?? []).map(({ math, note }) => {
    const made = node('math', row(...math));
    made.setAttribute('display', 'inline');
    made.setAttribute('displaystyle', 'true');
    return { math: /** @type {Element} */ (made), note: note ?? '' };
  });
}
