// How the chat looks before it is used, and what all of it is based on. Constructed style sheets, since a strict policy (`style-src 'self'`) forbids
// style elements.
//
// `all: initial` on the root keeps the page's inherited styles out; what a page may change are the `--flash-chat-*` variables and the parts.

/** @type {string} */
export const BASE = `
*, *::before, *::after { box-sizing: border-box; }
[hidden] { display: none !important; }

/* Where the page says !important, only !important of the shadow tree is stronger. Without a box of its own, the host's opacity, filter or transform do nothing. */
:host { display: contents !important; }
:host([inline]) {
  display: block !important; visibility: visible !important; opacity: 1 !important; transform: none !important; filter: none !important;
  clip-path: none !important; float: none !important;
}
:host([hidden]) { display: none !important; }

.root {
  all: initial;
  color-scheme: inherit;
  --accent: var(--flash-chat-accent, light-dark(#14181c, #e7eaed));
  --accent-text: var(--flash-chat-accent-text, light-dark(#ffffff, #14181c));
  --ground: var(--flash-chat-ground, light-dark(#ffffff, #16191d));
  --sunken: var(--flash-chat-sunken, light-dark(#f1f2f4, #24292f));
  --line: var(--flash-chat-line, light-dark(#dfe2e6, #333a42));
  --edge: var(--flash-chat-edge, light-dark(#7d8690, #7b858f));
  --text: var(--flash-chat-text, light-dark(#14181c, #e7eaed));
  --muted: var(--flash-chat-muted, light-dark(#535c66, #a6afb9));
  --link: var(--flash-chat-link, light-dark(#1f55c0, #92b3ff));
  --bad: var(--flash-chat-bad, light-dark(#a9231b, #ff9a92));
  --bad-soft: var(--flash-chat-bad-soft, light-dark(#fbeeec, #321f1e));
  --focus: var(--flash-chat-focus, light-dark(#1f5fd6, #85b4ff));
  --radius: var(--flash-chat-radius, 14px);
  --mono: var(--flash-chat-mono, ui-monospace, "SF Mono", Menlo, Consolas, "Noto Sans Mono", "DejaVu Sans Mono", monospace);
  display: block;
  color: var(--text);
  font: 15px/1.5 var(--flash-chat-font, system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "Helvetica Neue", Arial, sans-serif);
  -webkit-text-size-adjust: 100%; text-size-adjust: 100%;
  text-align: start;
}
:host([theme="light"]) .root { color-scheme: light; }
:host([theme="dark"]) .root { color-scheme: dark; }

.root.over {
  position: fixed; z-index: var(--flash-chat-z-index, 2147483000);
  inset: auto; inset-inline-end: var(--flash-chat-inset-inline, 20px); bottom: var(--flash-chat-inset-block, 20px);
}
.root.over .panel {
  width: var(--flash-chat-width, 400px); height: var(--flash-chat-height, 640px);
  max-width: calc(100vw - 2 * var(--flash-chat-inset-inline, 20px)); max-height: calc(100dvh - 2 * var(--flash-chat-inset-block, 20px));
  box-shadow: var(--flash-chat-shadow, 0 12px 40px rgb(15 20 25 / 0.18), 0 2px 8px rgb(15 20 25 / 0.08));
}
.root.in .panel { width: 100%; height: var(--flash-chat-height, 560px); }

button { font: inherit; color: inherit; margin: 0; cursor: pointer; touch-action: manipulation; -webkit-tap-highlight-color: transparent; }
button:disabled { cursor: default; opacity: 0.4; }
:focus-visible { outline: 2px solid var(--focus); outline-offset: 2px; }
svg {
  width: 20px; height: 20px; fill: none; stroke: currentColor; stroke-width: 1.6; stroke-linecap: round; stroke-linejoin: round; flex: none;
  display: block;
}
.sr { position: absolute; width: 1px; height: 1px; margin: -1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap; }

.launcher {
  display: flex; align-items: center; gap: 9px; min-height: 48px; padding: 0 20px 0 16px; border: 0; border-radius: 24px;
  background: var(--accent); color: var(--accent-text); font-weight: 600;
  box-shadow: var(--flash-chat-shadow, 0 6px 20px rgb(15 20 25 / 0.22));
}
.launcher:hover { filter: brightness(1.15); }

.panel {
  position: relative; display: flex; flex-direction: column; overflow: hidden;
  border: 1px solid var(--line); border-radius: var(--radius); background: var(--ground);
}

.facade { justify-content: space-between; gap: 16px; padding: 28px 16px 16px; }
.greeting { margin: auto 0; }
.greeting p { margin: 0; font-size: 19px; line-height: 1.35; font-weight: 600; letter-spacing: -0.01em; text-wrap: balance; }
.field {
  display: flex; align-items: center; justify-content: space-between; min-height: 50px; padding: 4px 14px 4px 18px; border: 1px solid
  var(--edge); border-radius: 16px; background: var(--ground); color: var(--muted); font-size: 16px; text-align: start; cursor: text;
}
.lost { margin: 0 0 10px; padding: 10px 14px; border-radius: 12px; background: var(--bad-soft); color: var(--text); max-width: 320px; }

@media (max-width: 560px) {
  .root.over.open { inset: 0; top: var(--view-top, 0); bottom: auto; width: 100%; height: var(--view-height, 100dvh); }
  .root.over .panel { width: 100%; height: 100%; max-width: none; max-height: none; border: 0; border-radius: 0; }
}
@media print { .root.over { display: none; } }
@media (prefers-reduced-motion: reduce) {
  *, *::before, *::after { animation: none !important; transition: none !important; scroll-behavior: auto !important; }
}
@media (forced-colors: active) {
  .launcher, .go, .button, .tool, .action, .suggestion, .user .bubble { border: 1px solid; }
}
`;

/** One style sheet for all chats of a page. @type {Map<string, CSSStyleSheet>} */
const sheets = new Map();

/** The style sheet of a text. @param {string} css */
export function styles(css) {
  const sheet = sheets.get(css) ?? new CSSStyleSheet();
  if (!sheets.has(css)) sheet.replaceSync(css);
  sheets.set(css, sheet);
  return sheet;
}
