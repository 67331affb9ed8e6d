// A server that speaks the OpenAI chat protocol and answers what a test wants, also in the ways in which real servers fail.
import { createServer } from 'node:http';

/** Chunks of an answer as a server sends them. @param {string[]} pieces */
export const sse = (pieces, { finish = 'stop', done = true, usage = { prompt_tokens: 5, completion_tokens: pieces.length, total_tokens: 5 + pieces.length } } = {}) => {
  const chunk = (choices, more = {}) => `data: ${JSON.stringify({ id: 'a', object: 'chat.completion.chunk', created: 1, model: 'stub-1', choices, ...more })}\n\n`;
  const choice = (delta, finish_reason = null) => [{ index: 0, delta, finish_reason }];
  return [
    chunk(choice({ role: 'assistant', content: '' })),
    ...pieces.map((content) => chunk(choice({ content }))),
    finish ? chunk(choice({}, finish)) : '',
    finish && usage ? chunk([], { usage }) : '',
    done ? 'data: [DONE]\n\n' : '',
  ].join('');
};

/** Words of a text with the spaces behind them. */
export const words = (text) => text.match(/\S+\s*|\s+/g) ?? [];

/**
 * Starts the server. `answer` decides per request; what it may return:
 *
 * - `text` or `pieces`: streamed, in TCP pieces of `cut` bytes, `pause` milliseconds apart; `head` first without a pause
 * - `raw`: these bytes as the event stream; `status`, `type`, `headers`, `body`: an answer of another kind
 * - `hangUp`: the connection ends in the middle, without the end of the answer
 *
 * @param {(request: { messages: any[], [more: string]: any }, count: number) => object} answer
 * @returns {Promise<{ url: string, requests: any[], answer: Function, aborted: number, close: () => Promise<void> }>} `answer` may be changed
 */
export async function stub(answer = () => ({ text: 'Hello' })) {
  const state = { requests: [], answer, aborted: 0 };
  const server = createServer(async (request, response) => {
    const cors = { 'Access-Control-Allow-Origin': '*', 'Access-Control-Allow-Headers': '*', 'Access-Control-Expose-Headers': 'Retry-After' };
    if (request.method === 'OPTIONS') return response.writeHead(204, cors).end();
    if (request.url.endsWith('/models')) return response.writeHead(200, { ...cors, 'Content-Type': 'application/json' }).end('{"data":[{"id":"stub-1"}]}');
    let text = '';
    for await (const part of request) text += part;
    const body = JSON.parse(text);
    state.requests.push({ ...body, headers: request.headers });
    const told = await state.answer(body, state.requests.length);
    if (told.wait) await new Promise((done) => setTimeout(done, told.wait));
    if (told.status || told.body !== undefined) {
      return response.writeHead(told.status ?? 200, { ...cors, 'Content-Type': told.type ?? 'application/json', ...told.headers }).end(told.body ?? '');
    }
    if (!body.stream) {
      const message = { role: 'assistant', content: told.text };
      const completion = { id: 'a', object: 'chat.completion', created: 1, model: 'stub-1', choices: [{ index: 0, message, finish_reason: 'stop' }], usage: { prompt_tokens: 5, completion_tokens: 1, total_tokens: 6 } };
      return response.writeHead(200, { ...cors, 'Content-Type': 'application/json' }).end(JSON.stringify(completion));
    }
    response.writeHead(200, { ...cors, 'Content-Type': 'text/event-stream; charset=utf-8', 'Cache-Control': 'no-store' });
    let isOpen = true;
    response.on('close', () => {
      isOpen = false;
      if (!response.writableFinished) state.aborted += 1;
    });
    const bytes = Buffer.from(told.raw ?? sse(told.pieces ?? words(told.text), told.hangUp ? { finish: null, done: false } : told));
    const cut = told.cut ?? (told.pause ? 220 : bytes.length);
    for (let at = 0; at < bytes.length && isOpen; at += cut) {
      response.write(bytes.subarray(at, at + cut));
      await new Promise((done) => setTimeout(done, told.pause ?? 0));
    }
    // What was sent has to arrive first: a reset throws away what nobody has read.
    if (told.hangUp === 'reset') setTimeout(() => response.destroy(), 200);
    else response.end();
  });
  await new Promise((done) => server.listen(0, '127.0.0.1', done));
  const close = () => {
    server.closeAllConnections();
    return new Promise((done) => server.close(done));
  };
  return Object.assign(state, { url: `http://127.0.0.1:${server.address().port}/v1`, origin: `http://127.0.0.1:${server.address().port}`, close });
}
