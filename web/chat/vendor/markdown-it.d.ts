// What the chat uses of markdown-it. The parser itself comes from npm, at the version of tests/web/package.json, when the page is built.

export type Token = {
  type: string;
  nesting: -1 | 0 | 1;
  level: number;
  hidden: boolean;
  content: string;
  info: string;
  tag: string;
  map: [number, number] | null;
  children: Token[] | null;
  attrGet(name: string): string | null;
};

export default class MarkdownIt {
  constructor(options: { html: boolean; linkify: boolean; breaks: boolean; maxNesting: number });
  linkify: { set(options: { fuzzyLink: boolean; fuzzyEmail: boolean }): void };
  parse(text: string, env: { references?: Record<string, unknown> }): Token[];
}
