// Line drawings of 20 × 20, in the colour of the text around them.

import { s } from '../dom.js';

const PATHS = {
  chat: 'M3 5.5A2.5 2.5 0 0 1 5.5 3h9A2.5 2.5 0 0 1 17 5.5v6a2.5 2.5 0 0 1-2.5 2.5H9l-4 3.2V14A2.5 2.5 0 0 1 3 11.5z',
  close: 'M5 5l10 10M15 5L5 15',
  reset: 'M4.5 10a5.5 5.5 0 1 0 1.8-4.1M4.4 3.4v3.2h3.2',
  send: 'M10 16V4.5M5 9l5-5 5 5',
  stop: 'M6 6h8v8H6z',
  picture: 'M3.5 4.5h13v11h-13zM3.8 13.2l3.7-3.6 3 2.8 2.4-2.2 3.4 3.2M12.6 7.6h.01',
  down: 'M10 4v11.5M5 11l5 5 5-5',
  copy: 'M7.5 7.5h8v8h-8zM4.5 12.5v-8h8',
  done: 'M4.5 10.5l3.5 3.5 7.5-8',
  edit: 'M4 16l.8-3.4L13 4.4l2.6 2.6-8.2 8.2zM11.6 5.8l2.6 2.6',
  warning: 'M10 3.5l7 12.5H3zM10 8.4v3.4M10 13.9h.01',
};

/** @param {keyof typeof PATHS} name */
export const icon = (name) => s('svg', { viewBox: '0 0 20 20', 'aria-hidden': 'true', focusable: 'false' }, s('path', { d: PATHS[name] }));
