// The chat for any page: one script tag, then `<flash-chat></flash-chat>`. What it can be told is the table in chat/element.js.
//
// Imported where there is no browser, this defines nothing and touches nothing.

import { FlashChat } from './chat/element.js';

export { FlashChat };
export { EngineError } from './errors.js';

if (globalThis.customElements && !customElements.get('flash-chat')) customElements.define('flash-chat', FlashChat);
