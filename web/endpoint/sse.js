// Server-sent events out of bytes that may be cut anywhere: inside a line, a line end, or a character.

/** @typedef {{ event: string, data: string }} ServerEvent */

/** Characters of one event that are still read; more is no answer but a fault. */
const MAX_EVENT = 8_000_000;

/**
 * The events of an answer, in order. Comments, which servers send to keep a connection open, are passed over; so is an event that the connection
 * cuts off, as the standard has it.
 * @param {Response} response
 * @returns {AsyncGenerator<ServerEvent>}
 */
export async function* events(response) {
  const reader = response.body?.getReader();
  if (!reader) return;
  const parser = new Parser();
  let isOver = false;
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      for (const event of parser.push(value)) {
        isOver ||= event.data === '[DONE]';
        yield event;
      }
    }
  } finally {
    // Whoever leaves early does not need the rest. After the last event there is none, and reading on to the end keeps the connection for the next one.
    if (isOver) void drain(reader);
    else reader.cancel().catch(() => {});
  }
}

/** @param {ReadableStreamDefaultReader<Uint8Array>} reader */
async function drain(reader) {
  try {
    while (!(await reader.read()).done);
  } catch {
    // Nothing is waited for any more.
  }
}

/** The state between two pieces of an event stream. */
export class Parser {
  // Keeps the bytes of a character that is not complete yet, and drops a byte order mark at the start.
  #decoder = new TextDecoder();
  #rest = '';
  #event = '';
  /** @type {string[]} */
  #data = [];
  #size = 0;

  /**
   * The events that are complete with these bytes.
   * @param {Uint8Array} bytes
   * @returns {ServerEvent[]}
   */
  push(bytes) {
    this.#rest += this.#decoder.decode(bytes, { stream: true });
    if (this.#rest.length > MAX_EVENT) throw new RangeError(`a line of more than ${MAX_EVENT} characters`);
    const complete = [];
    for (;;) {
      const end = this.#rest.search(/[\r\n]/);
      // A carriage return at the very end may be half of a line end.
      if (end < 0 || (this.#rest[end] === '\r' && end === this.#rest.length - 1)) return complete;
      const line = this.#rest.slice(0, end);
      this.#rest = this.#rest.slice(end + (this.#rest.startsWith('\r\n', end) ? 2 : 1));
      const event = this.#take(line);
      if (event) complete.push(event);
    }
  }

  /** @param {string} line @returns {ServerEvent|null} the event that an empty line ends */
  #take(line) {
    if (line === '') {
      const event = this.#data.length ? { event: this.#event || 'message', data: this.#data.join('\n') } : null;
      this.#event = '';
      this.#data = [];
      this.#size = 0;
      return event;
    }
    const colon = line.indexOf(':');
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? '' : line.slice(colon + 1).replace(/^ /, '');
    if (field === 'event') this.#event = value;
    if (field === 'data') {
      this.#size += value.length;
      if (this.#size > MAX_EVENT) throw new RangeError(`an event of more than ${MAX_EVENT} characters`);
      this.#data.push(value);
    }
    return null;
  }
}
