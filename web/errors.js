// The one kind of error that engine, endpoint and widget throw. In a file of its own, so that a page can catch it without loading an engine.

/**
 * | kind                                                | what happened                                                            |
 * |-----------------------------------------------------|--------------------------------------------------------------------------|
 * | `usage`, `prompt`, `picture`                        | the request makes no sense, or cannot be taken as it is                  |
 * | `integrity`, `gpu`, `does-not-fit`, `io`, `internal`| of the local engine: files, adapter, memory                              |
 * | `worker`, `csp`                                     | the worker ended; the page's policy forbids what is needed               |
 * | `consent`                                           | nobody agreed to fetch that much                                         |
 * | `network`                                           | no answer: offline, a wrong host, or a server that does not allow pages  |
 * | `auth`, `rate`, `server`, `endpoint`                | of a server: 401 or 403; 429; 5xx; an answer that is not what was asked  |
 *
 * @typedef {'usage'|'prompt'|'picture'|'integrity'|'gpu'|'does-not-fit'|'io'|'internal'|'worker'|'csp'|'network'|'consent'|'auth'|'rate'|'server'|'endpoint'} Kind
 */

/** Something that went wrong, with the kind of thing it was. */
export class EngineError extends Error {
  /**
   * @param {Kind|string} kind see {@link Kind}
   * @param {string} message
   * @param {{ reason?: string, status?: number, url?: string, retryAfter?: number, cause?: unknown }} [more] what exactly is wrong with a checkpoint at an
   *   address (`Error::reason` of crate/error.rs); HTTP status, address, and the seconds that a server asks to wait
   */
  constructor(kind, message, { reason, status, url, retryAfter, cause } = {}) {
    super(message, cause === undefined ? undefined : { cause });
    this.name = 'EngineError';
    this.kind = kind;
    this.reason = reason;
    this.status = status;
    this.url = url;
    this.retryAfter = retryAfter;
  }
}
