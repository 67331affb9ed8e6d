// Makes the npm package out of the built page: `node tests/web/pack.mjs [folder]`. What goes in is what its three entries reach, and nothing else.
import { execFileSync } from 'node:child_process';
import { appendFileSync, cpSync, existsSync, mkdirSync, readFileSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join, posix, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { DIST, fromRoot } from './lib/paths.mjs';

/** What a page or program may import, by its name in the package. */
const ENTRIES = { '.': 'engine.js', './chat': 'flash-chat.js', './endpoint': 'endpoint.js' };
/** Reached by an address rather than by an import. */
const BESIDE = ['flash890_bg.wasm', 'chat/vendor/markdown-it.LICENSE'];
/** Bytes of the package: the core is a good third of it, nano most of the rest. */
export const LIMIT = 20_000_000;

/** Addresses of other files in a script: imports of all kinds, and `new URL('…', import.meta.url)`. @param {string} text */
const references = (text) =>
  [/\b(?:from|import)\s*['"](\.[^'"]+)['"]/g, /\bimport\(\s*['"](\.[^'"]+)['"]\s*\)/g, /new URL\(\s*['"](\.[^'"]+)['"],\s*import\.meta\.url\)/g]
    .flatMap((pattern) => [...text.matchAll(pattern)].map(([, target]) => target));

/** The scripts that the entries reach, as paths in the built page. */
function reached() {
  const found = new Set(Object.values(ENTRIES));
  for (const file of found) {
    if (!file.endsWith('.js')) continue;
    // Comments hold imports too, in examples and in types.
    const text = readFileSync(join(DIST, file), 'utf8').replace(/^\s*(?:\/\/|\/?\*).*$/gm, '');
    for (const target of references(text)) {
      const path = posix.join(posix.dirname(file), target);
      if (existsSync(join(DIST, path))) found.add(path);
    }
  }
  return [...found, ...BESIDE];
}

/** @param {string} folder @returns {string[]} */
const list = (folder) =>
  readdirSync(folder, { withFileTypes: true }).flatMap((entry) => (entry.isDirectory() ? list(join(folder, entry.name)) : [join(folder, entry.name)]));

/** Types from the comments of the scripts. @param {string} out */
function types(out) {
  const tsc = createRequire(import.meta.url).resolve('typescript/bin/tsc');
  execFileSync('node', [tsc, '--project', fileURLToPath(new URL('tsconfig.package.json', import.meta.url)), '--outDir', join(out, 'types')], { stdio: 'inherit' });
  // What a script cannot say: the element by its tag.
  appendFileSync(join(out, 'types/flash-chat.d.ts'), "declare global {\n  interface HTMLElementTagNameMap {\n    'flash-chat': FlashChat;\n  }\n}\n");
  mkdirSync(join(out, 'types/chat/vendor'), { recursive: true });
  cpSync(fromRoot('web/chat/vendor/markdown-it.d.ts'), join(out, 'types/chat/vendor/markdown-it.d.ts'));
}

/** package.json, with name, version and licence of the crate. @param {string} out */
function manifest(out) {
  const cargo = readFileSync(fromRoot('Cargo.toml'), 'utf8');
  const field = (/** @type {string} */ name) => cargo.match(new RegExp(`^${name} = "([^"]+)"`, 'm'))?.[1];
  const at = (/** @type {string} */ file) => ({ types: `./types/${file.replace(/\.js$/, '.d.ts')}`, default: `./${file}` });
  return {
    name: field('name'),
    version: field('version'),
    license: field('license'),
    description: 'DeepSeek-V4.1-Flash in a page: a chat element, a local engine on WebGPU or WebAssembly, and a client of OpenAI-compatible servers.',
    type: 'module',
    exports: { ...Object.fromEntries(Object.entries(ENTRIES).map(([name, file]) => [name, at(file)])), './nano/*': './nano/*', './package.json': './package.json' },
    sideEffects: ['./flash-chat.js', './worker.js'],
    files: readdirSync(out).filter((name) => name !== 'package.json').sort(),
  };
}

/**
 * Makes the package.
 * @param {string} out
 * @returns {{ files: string[], bytes: number }}
 */
export function pack(out) {
  rmSync(out, { recursive: true, force: true });
  for (const file of reached()) {
    mkdirSync(dirname(join(out, file)), { recursive: true });
    cpSync(join(DIST, file), join(out, file));
  }
  if (existsSync(join(DIST, 'nano'))) cpSync(join(DIST, 'nano'), join(out, 'nano'), { recursive: true });
  types(out);
  cpSync(fromRoot('LICENSE'), join(out, 'LICENSE'));
  cpSync(fileURLToPath(new URL('package.md', import.meta.url)), join(out, 'README.md'));
  writeFileSync(join(out, 'package.json'), `${JSON.stringify(manifest(out), null, 2)}\n`);
  const files = list(out);
  return { files: files.map((file) => relative(out, file)), bytes: files.reduce((sum, file) => sum + statSync(file).size, 0) };
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const out = process.argv[2] ?? fromRoot('target/npm/flash890');
  const { files, bytes } = pack(out);
  if (bytes > LIMIT) throw new Error(`${bytes} bytes, at most ${LIMIT} go into the package`);
  console.log(`${out}: ${files.length} files, ${(bytes / 1e6).toFixed(1)} MB`);
}
