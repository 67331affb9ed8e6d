// Checkpoints on the test server: files answered by ranges, which misbehave when told to.
import { execFileSync } from 'node:child_process';
import { mkdtempSync, openSync, readSync, readdirSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PROGRAM } from './paths.mjs';

/**
 * A checkpoint that the native program made.
 * @param {string[]} args of `make-tiny`
 */
export function made(...args) {
  const folder = mkdtempSync(join(tmpdir(), 'flash890-model-'));
  execFileSync(PROGRAM, ['make-tiny', '--out', folder, ...args], { stdio: 'ignore' });
  return { folder, remove: () => rmSync(folder, { recursive: true, force: true }) };
}

/** The files of a folder, read piece by piece. */
export function folderFiles(folder) {
  const lengths = new Map(readdirSync(folder).map((name) => [name, statSync(join(folder, name)).size]));
  const open = new Map();
  const read = (name, start, end) => {
    if (!open.has(name)) open.set(name, openSync(join(folder, name)));
    const bytes = Buffer.alloc(end - start);
    readSync(open.get(name), bytes, 0, bytes.length, start);
    return bytes;
  };
  return { lengths, read };
}

/**
 * A checkpoint at a path of the test server.
 * @param {{ lengths: Map<string, number>, read: (name: string, start: number, end: number) => Buffer }} files
 */
export function model(files) {
  return {
    files,
    /** What was asked for: `{ name, start, end }`, without a range `start` is undefined. */
    seen: [],
    /** By name: `{ status }`, `{ page: true }`, `{ whole: true }`, `{ compressed: true }`, `{ tag }`. */
    faults: {},
    /** Milliseconds of pause after every 64 KiB. */
    drip: 0,
    /** Parts of shards that were sent to their end. */
    sent: 0,
    /** Bytes of shards that were asked for, the beginnings that opening reads left out. */
    fetched() {
      const parts = this.seen.filter(({ name, start }) => name.endsWith('.safetensors') && start !== undefined);
      return parts.filter(({ start, end }) => start > 0 || end > 16384).reduce((sum, { start, end }) => sum + end - start, 0);
    },
  };
}

/** Answers one request for a file of a model. */
export async function answer(model, name, request, response) {
  const { files, faults, seen } = model;
  const fault = faults[name] ?? {};
  const [, first, last] = /^bytes=(\d+)-(\d+)$/.exec(request.headers.range ?? '') ?? [];
  const length = files.lengths.get(name);
  const range = first === undefined || fault.whole ? null : { start: Number(first), end: Math.min(Number(last) + 1, length ?? 0) };
  seen.push({ name, ...(first === undefined ? {} : { start: Number(first), end: Math.min(Number(last) + 1, length ?? 0) }) });
  if (fault.page) return response.writeHead(200, { 'Content-Type': 'text/html' }).end('<!doctype html><title>Sign in</title>');
  if (fault.status || length === undefined) return response.writeHead(fault.status ?? 404, { 'Content-Type': 'text/plain' }).end('no');
  const { start, end } = range ?? { start: 0, end: length };
  response.writeHead(range ? 206 : 200, {
    'Content-Type': name.endsWith('.json') ? 'application/json' : 'application/octet-stream',
    'Content-Length': end - start,
    ETag: `"${fault.tag ?? 'first'}"`,
    'Cache-Control': 'no-cache',
    ...(range ? { 'Content-Range': `bytes ${start}-${end - 1}/${length}` } : {}),
    ...(fault.compressed ? { 'Content-Encoding': 'br' } : {}),
  });
  response.setMaxListeners(0);
  for (let at = start; at < end && !response.destroyed; at += 65536) {
    const more = response.write(files.read(name, at, Math.min(at + 65536, end)));
    if (!more) await new Promise((done) => response.once('drain', done).once('close', done));
    if (model.drip) await new Promise((done) => setTimeout(done, model.drip));
  }
  if (range && (start > 0 || end > 16384) && !response.destroyed) model.sent += 1;
  return response.end();
}
