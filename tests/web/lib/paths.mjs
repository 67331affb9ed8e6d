// Where things are. `cargo xtask` says so in the environment; the defaults are for running `node --test` by hand.
import { fileURLToPath } from 'node:url';

export const fromRoot = (path) => fileURLToPath(new URL(`../../../${path}`, import.meta.url));

export const WEB = fromRoot('web');
export const DIST = process.env.FLASH890_DIST ?? fromRoot('dist');
export const BROWSER = process.env.FLASH890_BROWSER ?? '/usr/bin/chromium';
export const SCREENSHOTS = process.env.FLASH890_SCREENSHOTS ?? fromRoot('target/web-screenshots');
/** The native program, for comparisons with what the page computes. */
export const PROGRAM = process.env.FLASH890_PROGRAM ?? fromRoot('target/release/flash890');
