// A page with a chat in it, as a newspaper would embed it, and the hands and eyes of its reader.
import { open } from './browser.mjs';
import { serve } from './server.mjs';

/** The policy of a strict page that lets the chat reach one server. @param {string} [origin] */
export const strict = (origin = '') => `default-src 'self'; script-src 'self' 'wasm-unsafe-eval'; worker-src 'self'; style-src 'self'; connect-src 'self' ${origin}`;

/** An article around a chat. @param {string} chat @param {{ head?: string, lang?: string }} [more] */
export const article = (chat, { head = '', lang = 'en' } = {}) =>
  `<!doctype html><html lang="${lang}"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1"><title>An article</title>
  <link rel="icon" href="lab/icon.svg">${head}<script type="module" src="flash-chat.js"></script></head><body><main><h1>An article</h1>
  ${'<p>Some paragraphs of an article, long enough to fill a page and to be read before anyone asks a question about it.</p>'.repeat(12)}
  ${chat}</main></body></html>`;

/**
 * Serves the built page with `host.html` in it, and opens that.
 * @param {import('playwright-core').Browser} browser
 * @param {string} html
 * @param {{ policy?: string|null, files?: object, context?: object }} [options]
 */
export async function visit(browser, html, { policy = null, files = {}, context = {} } = {}) {
  const page = (body, type = 'text/html; charset=utf-8') => ({ status: 200, type, body });
  const server = await serve({ policy, faults: { 'host.html': page(html), ...files } });
  const { page: tab, problems: all } = await open(browser, `${server.url}host.html`, context);
  tab.setDefaultTimeout(30_000);
  await tab.waitForFunction(() => customElements.get('flash-chat'));
  const close = async () => {
    await tab.context().close();
    await server.close();
  };
  // A connection that the chat ends itself, by a stop or after the last event, is no problem.
  const problems = () => all.filter((problem) => !/chat\/completions net::ERR_ABORTED/.test(problem));
  return { page: tab, problems, server, close, chat: hands(tab) };
}

/** What a reader does and sees. @param {import('playwright-core').Page} page @param {string} [which] */
export function hands(page, which = 'flash-chat') {
  const root = page.locator(which);
  const at = (selector, options) => root.locator(selector, options);
  return {
    at,
    field: at('.composer .input'),
    answers: at('.message.assistant'),
    questions: at('.message.user'),
    open: async () => {
      await at('.launcher').click();
      await at('.composer').waitFor();
    },
    ask: async (text) => {
      // In the flow of a page something that looks like a field stands there first.
      if (await at('.facade').isVisible()) await at('.facade .field').click();
      await at('.composer .input').fill(text);
      await at('.composer .input').press('Enter');
    },
    /** Waits until nothing is being answered, and returns the last answer's text. */
    answer: async () => {
      await page.waitForFunction((which) => document.querySelector(which).shadowRoot.querySelector('.log')?.getAttribute('aria-busy') === 'false', which);
      const last = at('.message.assistant .content').last();
      return (await last.count()) ? last.innerText() : '';
    },
    state: () => root.evaluate((node) => node.state),
    messages: () => root.evaluate((node) => node.messages),
  };
}
