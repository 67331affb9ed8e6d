/** The worker that owns the wasm core. Placeholder: loads the core, checks the build, and says its version. */
import { buildOf, requireOneBuild } from './build.js';
import init, { BUILD as GLUE_BUILD, version } from './flash890.js';

const BUILD = '@FLASH890_BUILD@';

/**
 * Loads the core that belongs to these scripts.
 * @param {string} engineBuild build id of engine.js
 */
async function load(engineBuild) {
  const url = new URL('./flash890_bg.wasm', import.meta.url);
  const response = await fetch(url);
  const type = response.headers.get('content-type') ?? 'no type';
  if (!response.ok || type.startsWith('text/html')) {
    throw new Error(`Needed WebAssembly from ${url.href}, found status ${response.status}, ${type}.`);
  }
  // Compiled from bytes, since a static server need not know the type application/wasm, which streaming asks for.
  const module = await WebAssembly.compile(await response.arrayBuffer());
  requireOneBuild({
    'engine.js': engineBuild,
    'worker.js': BUILD,
    'flash890.js': GLUE_BUILD,
    'flash890_bg.wasm': buildOf(module),
  });
  await init({ module_or_path: module });
}

self.onmessage = async ({ data }) => {
  try {
    await load(data.build);
    self.postMessage({ build: BUILD, version: version() });
  } catch (error) {
    self.postMessage({ error: error instanceof Error ? error.message : String(error) });
  }
};
