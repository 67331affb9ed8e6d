// A static server that can misbehave in the ways that real ones do.
import { readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { extname, join, normalize, sep } from 'node:path';
import { answer } from './models.mjs';
import { DIST } from './paths.mjs';

/** The strictest policy under which the page must work. */
export const STRICT = "default-src 'self'; script-src 'self' 'wasm-unsafe-eval'; worker-src 'self'; style-src 'self'";

/** The same without leave to compile WebAssembly. */
export const NO_WASM = "default-src 'self'; script-src 'self'; worker-src 'self'; style-src 'self'";

const TYPES = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.json': 'application/json',
  '.wasm': 'application/wasm',
  '.svg': 'image/svg+xml',
  '.png': 'image/png',
};

/**
 * Serves a folder on a free port of 127.0.0.1.
 *
 * @param {object} [options]
 * @param {string} [options.dist] folder to serve
 * @param {string} [options.base] path of the page on the host, such as `/a/b/`
 * @param {string | null} [options.policy] Content-Security-Policy of every answer; `null` for none
 * @param {Record<string, string>} [options.headers] more headers of every answer
 * @param {Record<string, { status?: number, type?: string, body?: string | Buffer, delay?: number }>} [options.faults]
 *   by path from the base, such as `flash890_bg.wasm`: what is answered instead, and after how many milliseconds
 * @param {Record<string, object>} [options.models] by path from the base, such as `tiny/`: checkpoints, as ./models.mjs makes them
 * @returns {Promise<{ url: string, requests: string[], faults: object, close: () => Promise<void> }>} `requests` are the
 *   paths asked for so far; `faults` may be changed while the server runs
 */
export async function serve({ dist = DIST, base = '/', policy = STRICT, headers: more = {}, faults = {}, models = {} } = {}) {
  const requests = [];
  const server = createServer(async (request, response) => {
    const path = decodeURIComponent(new URL(request.url, 'http://localhost').pathname);
    requests.push(path);
    const name = path.startsWith(base) ? path.slice(base.length) || 'index.html' : null;
    const place = Object.keys(models).find((place) => name?.startsWith(place));
    if (place) return void (await answer(models[place], name.slice(place.length), request, response));
    const fault = (name !== null && faults[name]) || {};
    if (fault.delay) await new Promise((done) => setTimeout(done, fault.delay));
    const { status, type, body } = { ...(await file(dist, name)), ...fault };
    const headers = { 'Content-Type': type, 'Cache-Control': 'no-cache', ...more };
    if (policy) headers['Content-Security-Policy'] = policy;
    response.writeHead(status, headers).end(body);
  });
  await new Promise((done) => server.listen(0, '127.0.0.1', done));
  const close = () => {
    server.closeAllConnections();
    return new Promise((done) => server.close(done));
  };
  return { url: `http://127.0.0.1:${server.address().port}${base}`, requests, faults, close };
}

/** The answer for a file of the folder, or for one that is not there. */
async function file(dist, name) {
  const missing = { status: 404, type: 'text/html; charset=utf-8', body: '<p>not found</p>' };
  if (name === null || normalize(name).startsWith(`..${sep}`)) return missing;
  try {
    return { status: 200, type: TYPES[extname(name)] ?? 'application/octet-stream', body: await readFile(join(dist, name)) };
  } catch {
    return missing;
  }
}
