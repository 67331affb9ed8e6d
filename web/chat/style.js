// How the panel looks. What a page may change are the variables of looks.js and the parts.

/** @type {string} */
export const PANEL = `
.header { display: flex; align-items: center; gap: 4px; min-height: 56px; padding: 8px 8px 8px 16px; border-bottom: 1px solid var(--line); }
.brand { flex: 1; min-width: 0; display: flex; align-items: center; gap: 10px; }
.avatar {
  display: grid; place-items: center; width: 30px; height: 30px; border-radius: 50%; overflow: hidden; background: var(--accent); color:
  var(--accent-text); flex: none;
}
.avatar svg { width: 17px; height: 17px; }
.title { margin: 0; font-size: 15px; font-weight: 650; line-height: 1.3; overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
.tool {
  display: grid; place-items: center; width: 40px; height: 40px; padding: 0; border: 0; border-radius: 10px; background: none; color:
  var(--muted); flex: none;
}
.tool:hover:not(:disabled) { background: var(--sunken); color: var(--text); }

.middle { position: relative; flex: 1; min-height: 0; display: flex; }
.log {
  flex: 1; min-width: 0; overflow: auto; overscroll-behavior: contain; padding: 20px max(16px, (100% - 760px) / 2) 8px; outline-offset:
  -3px; display: flex; flex-direction: column; gap: 16px; scrollbar-width: thin; scrollbar-color: var(--line) transparent;
}
.latest {
  position: absolute; bottom: 10px; inset-inline-start: calc(50% - 18px); display: grid; place-items: center; width: 36px; height: 36px;
  padding: 0; border: 1px solid var(--line); border-radius: 50%; background: var(--ground); box-shadow: 0 2px 8px rgb(15 20 25 / 0.16);
}
.empty { margin: auto 0; padding: 8px 0 16px; }
.empty p { margin: 0; font-size: 19px; line-height: 1.35; font-weight: 600; letter-spacing: -0.01em; text-wrap: balance; }
.suggestions { display: flex; flex-direction: column; gap: 8px; align-items: flex-start; margin-top: 18px; }
.suggestion { padding: 8px 14px; min-height: 38px; border: 1px solid var(--line); border-radius: 12px; background: none; text-align: start; }
.suggestion:hover { background: var(--sunken); }

.message { min-width: 0; overflow-wrap: anywhere; }
.user { display: flex; flex-direction: column; align-items: flex-end; }
.user .said { display: flex; flex-direction: row-reverse; align-items: flex-end; gap: 4px; max-width: 100%; }
.user .bubble {
  min-width: 0; max-width: 82%; padding: 9px 14px; border-radius: 16px 16px 4px 16px; background: var(--sunken); white-space: pre-wrap;
}
.pictures { display: flex; flex-wrap: wrap; gap: 6px; justify-content: flex-end; margin-bottom: 6px; }
.thumb { display: block; width: 96px; height: 96px; border-radius: 12px; border: 1px solid var(--line); background: var(--sunken); }
.actions { display: flex; gap: 2px; min-height: 32px; margin-top: 2px; color: var(--muted); }
.assistant .actions { margin-inline-start: -7px; }
.user .actions { margin: 0 0 4px; flex: none; }
.user .said > .actions:only-child { margin: 0; }
.action { display: grid; place-items: center; width: 32px; height: 32px; padding: 0; border: 0; border-radius: 8px; background: none; }
.action:hover { background: var(--sunken); color: var(--text); }
.action svg { width: 16px; height: 16px; }
@media (hover: hover) and (pointer: fine) {
  .actions { opacity: 0; transition: opacity 0.12s; }
  .message:hover .actions, .message:focus-within .actions, .message.last .actions { opacity: 1; }
}
.note { margin: 6px 0 0; color: var(--muted); font-size: 13px; }
.waiting { display: flex; gap: 5px; align-items: center; height: 23px; }
.waiting i { width: 6px; height: 6px; border-radius: 50%; background: var(--muted); animation: pulse 1.2s infinite ease-in-out; }
.waiting i:nth-child(2) { animation-delay: 0.15s; }
.waiting i:nth-child(3) { animation-delay: 0.3s; }
@keyframes pulse { 0%, 70%, 100% { opacity: 0.25; } 35% { opacity: 1; } }

.edit { width: 100%; display: flex; flex-direction: column; gap: 8px; }
.edit textarea {
  width: 100%; min-height: 64px; padding: 9px 13px; border: 1px solid var(--edge); border-radius: 12px; background: var(--ground); color:
  var(--text); font: inherit; font-size: 16px; resize: vertical;
}
.row { display: flex; flex-wrap: wrap; gap: 8px; align-items: center; }
.edit .row { justify-content: flex-end; }
.edit .note { flex: 1; min-width: 10em; margin: 0; }
.button {
  min-height: 36px; padding: 5px 14px; border: 1px solid var(--edge); border-radius: 10px; background: none; font-size: 14px; font-weight:
  550;
}
.button:hover { background: var(--sunken); }
.button.primary { border-color: var(--accent); background: var(--accent); color: var(--accent-text); }
.button.primary:hover { filter: brightness(1.15); }

.content > * { margin: 0 0 10px; }
.content > :last-child { margin-bottom: 0; }
.content .plain { white-space: pre-wrap; }
.content a { color: var(--link); text-decoration: underline; text-underline-offset: 2px; text-decoration-thickness: 1px; }
.content .h { font-weight: 650; line-height: 1.3; margin-top: 16px; }
.content > .h:first-child { margin-top: 0; }
.content .h1 { font-size: 18px; }
.content .h2 { font-size: 16.5px; }
.content ul, .content ol { padding-inline-start: 1.5em; }
.content li > * { margin: 0; }
.content li + li { margin-top: 3px; }
.content li > ul, .content li > ol { margin-top: 3px; }
.content li.task { list-style: none; margin-inline-start: -1.3em; }
.content blockquote { padding-inline-start: 12px; border-inline-start: 3px solid var(--line); color: var(--muted); }
.content blockquote > * { margin: 0 0 6px; }
.content hr { border: 0; border-top: 1px solid var(--line); margin: 14px 0; }
.content code { font: 0.88em/1.5 var(--mono); background: var(--sunken); border-radius: 5px; padding: 1px 5px; }
.content .code { border: 1px solid var(--line); border-radius: 10px; overflow: hidden; }
.content .code > div {
  display: flex; align-items: center; justify-content: space-between; min-height: 34px; padding-inline: 12px 3px; border-bottom: 1px solid
  var(--line); background: var(--sunken); color: var(--muted); font: 12px var(--mono);
}
.content pre { margin: 0; padding: 10px 12px; overflow: auto; max-height: 420px; }
.content pre code { display: block; padding: 0; background: none; border-radius: 0; font-size: 13px; white-space: pre; overflow-wrap: normal; }
.content .scroll { overflow: auto; max-height: 420px; border: 1px solid var(--line); border-radius: 10px; }
.content table { border-collapse: collapse; font-size: 14px; min-width: 100%; overflow-wrap: normal; }
.content th, .content td {
  padding: 6px 12px; border-bottom: 1px solid var(--line); text-align: start; vertical-align: top; min-width: 4em; max-width: 24em;
}
.content tr:last-child td { border-bottom: 0; }
.content th { font-weight: 600; background: var(--sunken); }
.content .centre { text-align: center; }
.content .end { text-align: end; }

.trouble { display: flex; gap: 10px; padding: 12px 14px; border-radius: 12px; background: var(--bad-soft); }
.content:not([hidden]) + .trouble { margin-top: 10px; }
.trouble > svg { color: var(--bad); margin-top: 1px; }
.trouble p { margin: 0 0 8px; }
.trouble details { margin-top: 8px; font-size: 13px; color: var(--muted); }
.trouble summary { cursor: pointer; }
.trouble summary + p { margin: 4px 0 0; font: 12px/1.45 var(--mono); overflow-wrap: anywhere; max-height: 9em; overflow: auto; }

.notice { margin: 4px max(12px, (100% - 768px) / 2) 8px; padding: 12px 14px; border-radius: 12px; background: var(--sunken); font-size: 14px; }
.notice p { margin: 0 0 10px; }
.notice > .trouble { padding: 0; background: none; }
.notice.loading p { margin-bottom: 8px; font-variant-numeric: tabular-nums; }
.bar { height: 4px; border-radius: 2px; background: var(--line); overflow: hidden; }
.bar > div { height: 100%; width: calc(var(--done, 0) * 100%); background: var(--accent); border-radius: 2px; transition: width 0.2s; }

.composer { margin: 0 max(12px, (100% - 768px) / 2); border: 1px solid var(--edge); border-radius: 16px; background: var(--ground); }
.composer:focus-within { border-color: var(--focus); box-shadow: 0 0 0 1px var(--focus); }
.line { display: flex; align-items: flex-end; padding: 4px; }
.input {
  flex: 1; min-width: 0; max-height: 152px; margin: 0; padding: 8px 6px; border: 0; background: none; color: var(--text); font: inherit;
  font-size: 16px; line-height: 24px; resize: none; outline: none; overflow-y: auto; field-sizing: content;
}
.input::placeholder { color: var(--muted); opacity: 1; }
.go {
  display: grid; place-items: center; width: 40px; height: 40px; padding: 0; border: 0; border-radius: 12px; background: var(--accent);
  color: var(--accent-text); flex: none;
}
.go:hover:not(:disabled) { filter: brightness(1.15); }
.go:disabled { background: var(--sunken); color: var(--muted); opacity: 1; }
.go.stop svg { fill: currentColor; }
.attachments { display: flex; flex-wrap: wrap; gap: 8px; padding: 10px 10px 4px; }
.attachment { position: relative; }
.attachment canvas { display: block; width: 56px; height: 56px; border-radius: 10px; border: 1px solid var(--line); }
.detach {
  position: absolute; top: -8px; inset-inline-end: -8px; display: grid; place-items: center; width: 24px; height: 24px; padding: 0; border:
  2px solid var(--ground); border-radius: 50%; background: var(--text); color: var(--ground);
}
.detach svg { width: 12px; height: 12px; stroke-width: 2.4; }
.refusal { margin: 0; padding: 8px 14px 4px; color: var(--bad); font-size: 13.5px; }
.dropping {
  position: absolute; inset: 8px; z-index: 2; display: grid; place-items: center; border: 2px dashed var(--edge); border-radius: 12px;
  background: var(--ground); font-weight: 600; opacity: 0.94; pointer-events: none;
}

.footer {
  display: flex; flex-wrap: wrap; justify-content: center; align-items: center; gap: 0 10px; margin: 0; padding: 4px 12px 6px; min-height:
  34px; color: var(--muted); font-size: 12.5px; text-align: center;
}
.footer .who { overflow-wrap: anywhere; }
.footer button { min-height: 26px; padding: 0 2px; border: 0; background: none; text-decoration: underline; text-underline-offset: 2px; }
.about {
  position: absolute; inset: auto max(12px, (100% - 768px) / 2) 12px; z-index: 1; max-height: calc(100% - 24px); overflow: auto; padding:
  16px; border: 1px solid var(--line); border-radius: 12px; background: var(--ground); box-shadow: 0 8px 28px rgb(15 20 25 / 0.2);
  font-size: 14px;
}
.about p { margin: 0 0 10px; }
.about .name { font-weight: 650; font-size: 15px; }
`;
