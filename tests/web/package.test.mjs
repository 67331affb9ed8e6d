// The npm package: what is in it, and that a program, a bundler, a type checker and a plain page can use it.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { launch, open } from './lib/browser.mjs';
import { hands } from './lib/chat.mjs';
import { stub } from './lib/endpoint.mjs';
import { DIST, fromRoot } from './lib/paths.mjs';
import { serve } from './lib/server.mjs';
import { LIMIT, pack } from './pack.mjs';

/** A project that has the package installed. */
const PROJECT = fromRoot('target/npm-test');
const PACKAGE = fromRoot('target/npm/flash890');

let browser;
let api;
let packed;
before(async () => {
  [browser, api] = await Promise.all([launch({ webgpu: false }), stub(() => ({ text: 'From the package.' }))]);
  packed = pack(PACKAGE);
  rmSync(PROJECT, { recursive: true, force: true });
  mkdirSync(join(PROJECT, 'node_modules'), { recursive: true });
  symlinkSync(PACKAGE, join(PROJECT, 'node_modules/flash890'), 'junction');
  writeFileSync(join(PROJECT, 'package.json'), '{ "name": "user", "type": "module", "private": true }');
});
after(async () => {
  await browser?.close();
  await api?.close();
});

test('scripts, wasm, types, the small model and licences, within the limit', () => {
  const { files, bytes } = packed;
  assert.ok(bytes <= LIMIT, `${bytes} bytes`);
  for (const file of ['package.json', 'README.md', 'LICENSE', 'flash-chat.js', 'engine.js', 'endpoint.js', 'worker.js', 'flash890.js', 'flash890_bg.wasm', 'chat/vendor/markdown-it.LICENSE', 'types/engine.d.ts']) {
    assert.ok(files.includes(file), `${file} is missing`);
  }
  const strangers = files.filter((file) => !/\.(js|d\.ts|wasm|json|md|safetensors|LICENSE)$/.test(file) && file !== 'LICENSE');
  assert.deepEqual(strangers, []);
  assert.deepEqual(files.filter((file) => file.startsWith('lab/') && file !== 'lab/dom.js'), [], 'nothing of the lab page');
  const { dependencies, exports } = JSON.parse(readFileSync(join(PACKAGE, 'package.json'), 'utf8'));
  assert.equal(dependencies, undefined);
  for (const name of ['.', './chat', './endpoint']) for (const file of Object.values(exports[name])) assert.ok(files.includes(file.slice(2)), file);
});

test('a program imports all of it without a browser, and asks a server', () => {
  const script = `
    const before = Object.keys(globalThis).length;
    const { FlashChat } = await import('flash890/chat');
    const { Engine, EngineError } = await import('flash890');
    const { Endpoint } = await import('flash890/endpoint');
    if (Object.keys(globalThis).length !== before) throw new Error('something was put into the global object');
    const engines = [await Endpoint.open({ endpoint: '${api.url}' }), await Engine.open({ endpoint: '${api.url}', model: 'stub-1' })];
    for (const engine of engines) {
      const { choices } = await engine.chat.completions.create({ messages: [{ role: 'user', content: 'a' }] });
      console.log(choices[0].message.content, typeof FlashChat, typeof EngineError);
    }`;
  // In another process, so that the server here can answer.
  return import('node:child_process').then(({ execFile }) => new Promise((resolve, reject) => {
    execFile('node', ['--input-type=module', '--eval', script], { cwd: PROJECT, timeout: 60_000 }, (error, stdout, stderr) => {
      if (error) return reject(new Error(stderr));
      assert.equal(stdout, 'From the package. function function\n'.repeat(2));
      resolve();
    });
  }));
});

test('the types say what there is, and refuse what there is not', () => {
  writeFileSync(join(PROJECT, 'use.ts'), `
    import { Engine } from 'flash890';
    import 'flash890/chat';
    import { Endpoint } from 'flash890/endpoint';
    const chat = document.createElement('flash-chat');
    chat.options = { temperature: 0 };
    chat.model = 'nano/';
    const answer: string | object = (await chat.send('a')).content;
    const engine = await Endpoint.open({ endpoint: 'https://host/v1' });
    for await (const { choices } of await engine.chat.completions.create({ messages: [{ role: 'user', content: 'a' }], stream: true })) console.log(choices[0].delta.content, answer);
    const { usage } = await (await Engine.open({ model: './nano/' })).chat.completions.create({ messages: [] });
    console.log(usage.total_tokens);
    // @ts-expect-error there is no such role
    void engine.chat.completions.create({ messages: [{ role: 'nobody', content: 'a' }] });
    // @ts-expect-error nor such a method
    chat.shout();
  `);
  const tsc = createRequire(import.meta.url).resolve('typescript/bin/tsc');
  const options = ['--noEmit', '--strict', '--module', 'esnext', '--moduleResolution', 'bundler', '--target', 'es2022', '--lib', 'es2023,dom,dom.iterable,dom.asynciterable'];
  execFileSync('node', [tsc, ...options, 'use.ts'], { cwd: PROJECT, stdio: 'inherit' });
});

/** Opens a page whose chat asks the stub, and expects an answer. */
async function answered(dist, name) {
  const server = await serve({ dist, policy: null });
  try {
    const { page, problems } = await open(browser, `${server.url}${name}`);
    const chat = hands(page);
    await chat.open();
    await chat.ask('Packed?');
    await chat.answers.filter({ hasText: 'From the package.' }).waitFor();
    assert.deepEqual(problems.filter((problem) => !problem.includes('ERR_ABORTED')), []);
    await page.context().close();
    return server.requests;
  } finally {
    await server.close();
  }
}

test('a page with a plain script tag', async () => {
  writeFileSync(join(PROJECT, 'plain.html'), `<!doctype html><html lang="en"><title>a</title><link rel="icon" href="data:,"><script type="module" src="node_modules/flash890/flash-chat.js"></script><flash-chat endpoint="${api.url}" model="m"></flash-chat></html>`);
  await answered(PROJECT, 'plain.html');
});

test('an application made with Vite, with the worker of the local engine', async () => {
  writeFileSync(join(PROJECT, 'index.html'), `<!doctype html><html lang="en"><title>a</title><link rel="icon" href="data:,"><script type="module" src="./main.js"></script><flash-chat endpoint="${api.url}" model="m"></flash-chat></html>`);
  writeFileSync(join(PROJECT, 'main.js'), "import 'flash890/chat';\nimport { Engine } from 'flash890';\nwindow.Engine = Engine;\n");
  const { build } = await import('vite');
  const { output } = [await build({ root: PROJECT, base: './', logLevel: 'error', worker: { format: 'es' }, build: { outDir: 'out', target: 'es2022' } })].flat()[0];
  const names = output.map(({ fileName }) => fileName);
  assert.ok(names.some((name) => /worker.*\.js$/.test(name)), `${names}`);
  assert.ok(names.some((name) => name.endsWith('.wasm')), `${names}`);
  const requests = await answered(join(PROJECT, 'out'), 'index.html');
  assert.ok(!requests.some((path) => /wasm|worker/.test(path)), 'a chat with a server needs neither');

  // The engine of this device, from where the bundler put it: the built-in model opens and says so.
  const server = await serve({ dist: join(PROJECT, 'out'), policy: null });
  try {
    const { page } = await open(browser, server.url);
    const backend = await page.evaluate(async () => {
      const engine = await window.Engine.open({ backend: 'cpu' });
      const { backend } = engine.info;
      engine.close();
      return backend;
    });
    assert.equal(backend, 'cpu');
    await page.context().close();
  } finally {
    await server.close();
  }
});

test('importing from the built page is the same', async () => {
  const { Endpoint } = await import(pathToFileURL(join(DIST, 'endpoint.js')));
  assert.equal((await Endpoint.open({ endpoint: api.url })).model, 'stub-1');
});
