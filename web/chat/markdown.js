// Markdown as it grows. A parser makes tokens; what becomes of a token is the table below, and nothing of an answer is ever parsed as HTML.
//
// Loaded when a chat is opened, so that a page on which nobody asks anything pays nothing for it.

import { el } from '../dom.js';
import MarkdownIt from './vendor/markdown-it.js';

/** @typedef {import('./vendor/markdown-it.js').Token} Token */
/** @typedef {{ more: (rows: number) => string, code: (text: string, lang: string) => Node }} Extras */
/** @typedef {{ source: string, tokens: Token[] }} Block */

/** Characters of an answer that are still read as Markdown; a longer one is shown as it came. */
const MAX_TEXT = 100_000;
/** Tokens inside tokens, and elements of one block, that are still built; a hostile answer has more. */
const MAX_DEPTH = 24;
const MAX_ELEMENTS = 4_000;
/** Rows of a table that are shown. */
const MAX_ROWS = 200;
/** Where a link may lead. */
const SCHEMES = ['http:', 'https:', 'mailto:'];

/** Elements by the token that opens them. What is not here becomes text. @type {Record<string, keyof HTMLElementTagNameMap>} */
const ELEMENTS = {
  paragraph: 'p', bullet_list: 'ul', ordered_list: 'ol', list_item: 'li', strong: 'strong', em: 'em', s: 'del',
  table: 'table', thead: 'thead', tbody: 'tbody', tr: 'tr', th: 'th', td: 'td',
};

// HTML in an answer stays text, and a line end in it is meant as one.
const parser = new MarkdownIt({ html: false, linkify: true, breaks: true, maxNesting: MAX_DEPTH });
parser.linkify.set({ fuzzyLink: false, fuzzyEmail: false });

/** Shows a growing text in an element. Blocks that did not change keep their nodes, and with them a selection in them. */
export class Markdown {
  /** @type {HTMLElement} */
  #host;
  /** @type {Extras} */
  #extras;
  /** @type {string[]} What the blocks in the host were made of. */
  #shown = [];

  /** @param {HTMLElement} host an element for this text alone @param {Extras} extras */
  constructor(host, extras) {
    this.#host = host;
    this.#extras = extras;
  }

  /** @param {string} text @param {{ isGrowing: boolean }} how whether more of it is to come */
  update(text, { isGrowing }) {
    const blocks = read(isGrowing ? mended(text) : text);
    let same = 0;
    while (same < blocks.length && blocks[same]?.source === this.#shown[same]) same += 1;
    while (this.#host.childNodes.length > same) this.#host.lastChild?.remove();
    for (const { source, tokens } of blocks.slice(same)) {
      this.#host.append(tokens.length ? new Builder(this.#extras).build(tokens) : el('p', { class: 'plain' }, source));
    }
    this.#shown = blocks.map(({ source }) => source);
  }
}

/** The blocks of a text, each with its own lines; one without tokens is shown as it is. @param {string} text @returns {Block[]} */
function read(text) {
  if (text.length > MAX_TEXT) return [{ source: text, tokens: [] }];
  const env = /** @type {{ references?: Record<string, unknown> }} */ ({});
  const tokens = parser.parse(text, env);
  const lines = text.split('\n');
  // A link may be defined below where it is used.
  const defined = Object.keys(env.references ?? {}).join();
  /** @type {Block[]} */
  const blocks = [];
  for (const token of tokens) {
    if (token.level === 0 && token.nesting >= 0 && token.map) blocks.push({ source: `${defined}\n${lines.slice(...token.map).join('\n')}`, tokens: [] });
    blocks.at(-1)?.tokens.push(token);
  }
  return blocks;
}

/**
 * A text that goes on, with what its last paragraph has opened closed for now: so no markup is seen that will be gone with the next word.
 * @param {string} text
 */
export function mended(text) {
  const fences = text.match(/^ {0,3}(```|~~~)/gm)?.length ?? 0;
  if (fences % 2) return text;
  const start = text.lastIndexOf('\n\n') + 1;
  // What ends in the middle of a marker or of a link's address is shown without it.
  let tail = text.slice(start).replace(/(?<=\S\s*)[*`~]+$/, (marks) => (isClosing(text.slice(start), marks) ? marks : ''));
  tail = tail.replace(/!?\[([^\]\n]*)(\](\([^)\s]*)?)?$/, '$1');
  const spans = tail.replace(/^\s*[*+-] /gm, '');
  const count = (/** @type {RegExp} */ mark) => spans.match(mark)?.length ?? 0;
  if (count(/`/g) % 2) return `${text.slice(0, start)}${tail}\``;
  const strong = count(/\*\*/g) % 2 ? '**' : '';
  const emphasis = count(/(?<!\*)\*(?![*\s])|(?<![*\s])\*(?!\*)/g) % 2 ? '*' : '';
  return `${text.slice(0, start)}${strong || emphasis ? tail.trimEnd() : tail}${emphasis}${strong}`;
}

/** Whether marks at the end of a paragraph close what the same marks opened. @param {string} paragraph @param {string} marks */
const isClosing = (paragraph, marks) => paragraph.split(marks).length % 2 === 1;

/** Builds the node of one block. */
class Builder {
  #left = MAX_ELEMENTS;
  /** Rows of the table that is being built, and those that it lacks. */
  #rows = 0;
  #missing = 0;
  /** At the start of a list entry, where a box to tick may stand. */
  #isEntry = false;
  /** Elements that are open; the first holds the block. @type {(Element|DocumentFragment)[]} */
  #open = [document.createDocumentFragment()];
  /** @type {Extras} */
  #extras;

  /** @param {Extras} extras */
  constructor(extras) {
    this.#extras = extras;
  }

  /** @param {Token[]} tokens @returns {Node} */
  build(tokens) {
    this.#all(tokens);
    const [block] = this.#open;
    return block?.childNodes.length === 1 && block.firstChild ? block.firstChild : el('div', {}, block);
  }

  /** @param {Token[]} tokens */
  #all(tokens) {
    for (let at = 0; at < tokens.length; at += 1) {
      const token = /** @type {Token} */ (tokens[at]);
      if (token.type === 'tr_open' && !this.#takesRow()) {
        while (tokens[at]?.type !== 'tr_close') at += 1;
      } else if (token.nesting > 0) this.#begin(token);
      else if (token.nesting < 0) this.#end(token);
      else this.#leaf(token);
    }
  }

  /** Counts one more row of the table; whether there is still room for it. */
  #takesRow() {
    this.#rows += 1;
    const hasRoom = this.#rows <= MAX_ROWS && this.#left >= 0;
    if (!hasRoom) this.#missing += 1;
    return hasRoom;
  }

  /** Adds to the element that is open. @param {Node|string} node */
  #add(node) {
    this.#left -= 1;
    this.#open.at(-1)?.append(node);
  }

  /** @param {Token} token */
  #begin(token) {
    // A paragraph in a tight list is hidden; and past the budget only text is added.
    const node = token.hidden || this.#left < 0 ? null : element(token);
    if (token.type === 'list_item_open') this.#isEntry = true;
    if (token.type === 'table_open') this.#rows = this.#missing = 0;
    if (!node) return void this.#open.push(/** @type {Element} */ (this.#open.at(-1)));
    // What scrolls must be reachable by keyboard.
    this.#add(token.type === 'table_open' ? el('div', { class: 'scroll', tabindex: 0 }, node) : node);
    this.#open.push(node);
  }

  /** @param {Token} token */
  #end(token) {
    this.#open.pop();
    if (token.type === 'table_close' && this.#missing) this.#add(el('p', { class: 'note' }, this.#extras.more(this.#missing)));
  }

  /** @param {Token} token */
  #leaf(token) {
    switch (token.type) {
      case 'inline':
        return this.#all(token.children ?? []);
      case 'text':
        return this.#text(token.content);
      case 'softbreak':
      case 'hardbreak':
        return this.#add(el('br'));
      case 'code_inline':
        return this.#add(el('code', { part: 'code' }, token.content));
      case 'fence':
      case 'code_block':
        return this.#add(this.#extras.code(token.content.replace(/\n$/, ''), (token.info.split(/\s/)[0] ?? '').slice(0, 24)));
      case 'hr':
        return this.#add(el('hr'));
      case 'image':
        // Fetching it would tell its host who reads the answer; so it is a link.
        return this.#add(el('a', linkTo(token.attrGet('src')) ?? {}, token.content || token.attrGet('src')));
      default:
        return this.#text(token.content);
    }
  }

  /** @param {string} text */
  #text(text) {
    const box = this.#isEntry ? /^\[([ xX])\] /.exec(text) : null;
    this.#isEntry = false;
    if (text) this.#add(box ? `${box[1] === ' ' ? '☐' : '☑'} ${text.slice(4)}` : text);
  }
}

/** The element that a token opens; `null` when it is none of those that an answer may have. @param {Token} token */
function element(token) {
  const kind = token.type.replace(/_open$/, '');
  if (kind === 'heading') {
    const size = token.tag === 'h1' || token.tag === 'h2' ? token.tag : 'h3';
    return el('p', { class: `h ${size}`, role: 'heading', 'aria-level': 3, part: 'heading' });
  }
  if (kind === 'link') return el('a', linkTo(token.attrGet('href')) ?? {});
  if (kind === 'ordered_list') return el('ol', { start: token.attrGet('start') });
  if (kind === 'blockquote') return el('blockquote', { part: 'quote' });
  if (kind === 'table') return el('table', { part: 'table' });
  if (kind === 'th' || kind === 'td') {
    const align = token.attrGet('style');
    return el(kind, { scope: kind === 'th' ? 'col' : null, class: align?.endsWith('center') ? 'centre' : align?.endsWith('right') ? 'end' : null });
  }
  const tag = Object.hasOwn(ELEMENTS, kind) ? ELEMENTS[kind] : undefined;
  return tag ? el(tag) : null;
}

/** The attributes of a link; `null` where it leads to something else than a page or a mail address. @param {string|null} href */
function linkTo(href) {
  if (!href || !URL.canParse(href)) return null;
  const { protocol, href: address } = new URL(href);
  if (!SCHEMES.includes(protocol)) return null;
  return { href: address, target: '_blank', rel: 'noopener noreferrer nofollow ugc', part: 'link' };
}
