// What can go wrong with a server, as errors that say what was asked and what came.

import { EngineError } from '../errors.js';

/** Characters of an answer that an error quotes. */
const QUOTED = 200;

/**
 * Listens for the page's policy while something is fetched: a refusal is an event of the document, the fetch itself fails like any other.
 * @param {URL} url
 * @returns {{ end: () => void, refusal: () => Promise<string|null> }}
 */
export function policy({ origin }) {
  const { document } = globalThis;
  /** @type {string|null} */
  let refusal = null;
  const hear = (/** @type {SecurityPolicyViolationEvent} */ { blockedURI, effectiveDirective }) => {
    if (blockedURI.startsWith(origin)) refusal = `the page's ${effectiveDirective} does not allow ${origin}`;
  };
  document?.addEventListener('securitypolicyviolation', hear);
  return {
    end: () => document?.removeEventListener('securitypolicyviolation', hear),
    // The event may come after the failure.
    refusal: () => new Promise((done) => setTimeout(() => done(refusal))),
  };
}

/**
 * No answer at all. Browsers do not say why, for the page's own good.
 * @param {URL} url
 * @param {unknown} error
 * @param {string|null} refusal of the page's policy
 */
export function notStarted(url, error, refusal) {
  const message = String(error);
  if (refusal) return new EngineError('csp', refusal, { url: url.href, cause: error });
  const why = globalThis.navigator?.onLine === false ? 'this device is offline' : message;
  return new EngineError('network', `${url.href}: no answer (${why})`, { url: url.href, cause: error });
}

/**
 * An answer with a status that is not of success.
 * @param {Response} response
 */
export async function refused(response) {
  const { status, url } = response;
  const said = await beginning(response);
  let text = said;
  try {
    const value = JSON.parse(said);
    text = value.error?.message ?? value.message ?? value.detail ?? said;
  } catch {
    // Not JSON, or more of it than is quoted; then the beginning says enough.
  }
  const message = `${url}: HTTP ${status}${text ? `: ${String(text).slice(0, QUOTED)}` : ''}`;
  return new EngineError(kindOf(status), message, { status, url, retryAfter: wait(response.headers.get('retry-after')) });
}

/**
 * An answer of another kind than was asked for, such as the page of a login or of a proxy.
 * @param {Response} response
 */
export async function wrongType(response) {
  const { status, url } = response;
  const type = response.headers.get('content-type') ?? 'no content type';
  const message = `${url}: needed an answer of a chat completion, found ${type}: ${await beginning(response)}`;
  return new EngineError('endpoint', message, { status, url });
}

/**
 * An error that the server tells inside an answer that began well.
 * @param {any} error
 * @param {string} url
 */
export function reported(error, url) {
  const code = Number(error?.status ?? error?.code);
  const status = code >= 400 && code < 600 ? code : undefined;
  const text = typeof error === 'string' ? error : error?.message ?? JSON.stringify(error);
  return new EngineError(status ? kindOf(status) : 'server', `${url}: ${String(text).slice(0, QUOTED)}`, { status, url });
}

/**
 * An answer that broke off, or whose pieces make no sense.
 * @param {string} url
 * @param {string} why
 */
export const cut = (url, why) => new EngineError('endpoint', `${url}: the answer broke off (${why})`, { url });

/** @param {number} status */
function kindOf(status) {
  if (status === 401 || status === 403) return 'auth';
  if (status === 429) return 'rate';
  if (status >= 500) return 'server';
  // A wrong path or model; everything else below 500 says that the request is not one that this server takes.
  return status === 404 || status === 405 ? 'endpoint' : 'usage';
}

/**
 * Seconds to wait, of a header that gives them or a date.
 * @param {string|null} header
 * @returns {number|undefined}
 */
function wait(header) {
  if (!header) return undefined;
  const seconds = /^\d+$/.test(header) ? Number(header) : Math.ceil((Date.parse(header) - Date.now()) / 1000);
  return Number.isFinite(seconds) ? Math.max(0, seconds) : undefined;
}

/** The beginning of a body, in one line. @param {Response} response */
async function beginning(response) {
  const text = await response.text().catch(() => '');
  return text.slice(0, 4_000).replace(/\s+/g, ' ').trim().slice(0, 1_000);
}
