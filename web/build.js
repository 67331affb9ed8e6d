/**
 * One build id in the wasm core, its glue and the scripts that talk to it, so that files of two builds refuse to work together: a cache
 * between server and page keeps some files longer than others.
 *
 * A script that takes part says `const BUILD = '@FLASH890_BUILD@'`. `cargo xtask lab` puts the id there, adds `export const BUILD` to the
 * glue flash890.js, and gives flash890_bg.wasm a section of this name. The shaders are inside the wasm file.
 */
const SECTION = 'flash890.build';

/**
 * The build id of a compiled core; `null` when it was never stamped.
 * @param {WebAssembly.Module} module
 * @returns {string | null}
 */
export function buildOf(module) {
  const [section] = WebAssembly.Module.customSections(module, SECTION);
  return section ? new TextDecoder().decode(section) : null;
}

/**
 * Throws when the parts do not all have the same id.
 * @param {Record<string, string | null>} parts file name to build id
 */
export function requireOneBuild(parts) {
  const ids = Object.entries(parts);
  if (ids.some(([, id]) => !id || id !== ids[0][1])) {
    const list = ids.map(([name, id]) => `${name} ${id ?? 'without id'}`).join(', ');
    throw new Error(`Files of different builds: ${list}. Reload the page without its cache.`);
  }
}
