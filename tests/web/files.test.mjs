// What can be told from the built files alone.
import assert from 'node:assert/strict';
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join, relative, sep } from 'node:path';
import { test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { DIST, WEB } from './lib/paths.mjs';

/** The files under a folder, as paths from it with `/`. */
function list(folder, root = folder) {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name);
    return entry.isDirectory() ? list(path, root) : [relative(root, path).split(sep).join('/')];
  });
}

test('the wasm core is at most 1.2 MB after brotli', () => {
  const { wasm } = JSON.parse(readFileSync(join(DIST, 'build.json'), 'utf8'));
  const { size } = statSync(join(DIST, 'flash890_bg.wasm'));
  // The build id is added to the file after it was measured, and is no more than this.
  assert.ok(size >= wasm.bytes && size < wasm.bytes + 64, `${size} bytes on disk, ${wasm.bytes} in build.json`);
  assert.ok(wasm.brotli > 1_000 && wasm.brotli <= 1_200_000, `${wasm.brotli} bytes after brotli`);
});

test('every file of the page is in the built page', () => {
  const built = new Set(list(DIST));
  const missing = list(WEB).filter((file) => !built.has(file) && !/\.(md|d\.ts)$/.test(file));
  assert.deepEqual(missing, [], 'index.html has no `data-trunk` line that copies these');
});

test('relative imports lead to files', () => {
  const scripts = list(DIST).filter((file) => file.endsWith('.js'));
  for (const script of scripts) {
    const text = readFileSync(join(DIST, script), 'utf8');
    for (const [, target] of text.matchAll(/^(?:import|export)\s(?:[^'";=(]*?\sfrom\s+)?['"]([^'"]+)['"]/gm)) {
      assert.match(target, /^\.\.?\//, `${script} imports ${target}, which is not relative`);
      const url = new URL(target, pathToFileURL(join(DIST, script)));
      assert.ok(statSync(url, { throwIfNoEntry: false })?.isFile(), `${script} imports ${target}, which is not there`);
    }
  }
});

/** Every path to a text in a tree of texts. */
function keys(value, path = '') {
  if (typeof value !== 'object' || value === null) return [path];
  return Object.keys(value).flatMap((key) => keys(value[key], `${path}.${key}`));
}

/** The contents of a language file, JSON or a module whose exports are texts. */
async function contents(file) {
  if (file.endsWith('.json')) return JSON.parse(readFileSync(file, 'utf8'));
  return { ...(await import(pathToFileURL(file))) };
}

test('both languages have the same texts', async () => {
  const folder = join(WEB, 'i18n');
  const files = list(folder).filter((file) => /\.(json|js)$/.test(file));
  const other = (file, from, to) => file.replace(new RegExp(`(^|[/.-])${from}(?=[/.-])`), `$1${to}`);
  const pairs = files.filter((file) => other(file, 'vi', 'en') !== file);
  assert.ok(pairs.length > 0, 'no Vietnamese file in web/i18n');
  for (const vi of pairs) {
    const en = other(vi, 'vi', 'en');
    assert.ok(files.includes(en), `${vi} has no ${en}`);
    const [viKeys, enKeys] = await Promise.all([vi, en].map(async (file) => keys(await contents(join(folder, file))).sort()));
    assert.deepEqual(viKeys, enKeys, `${vi} and ${en} have different keys`);
  }
  const alone = files.filter((file) => other(file, 'en', 'vi') !== file && !files.includes(other(file, 'en', 'vi')));
  assert.deepEqual(alone, [], 'English files without a Vietnamese one');
});
