// A real browser: Chromium, Chrome or Edge without a display, with WebGPU on its software adapter.
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { chromium } from 'playwright-core';
import { BROWSER, SCREENSHOTS } from './paths.mjs';

const QUIET = [
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
  '--no-first-run',
  '--disable-quic',
];
const WEBGPU = ['--enable-unsafe-webgpu', '--use-webgpu-adapter=swiftshader'];
const NO_WEBGPU = ['--disable-features=WebGPU,WebGPUService', '--disable-blink-features=WebGPU'];

/**
 * Starts the browser.
 * @param {object} [options]
 * @param {boolean} [options.webgpu] with WebGPU, on the software adapter that any machine has
 */
export function launch({ webgpu = true } = {}) {
  // Containers run as root, where the sandbox of Chromium cannot; the only pages here are our own.
  const sandbox = process.platform === 'linux' && process.getuid() === 0 ? ['--no-sandbox'] : [];
  const args = [...sandbox, ...QUIET, ...(webgpu ? WEBGPU : NO_WEBGPU)];
  return chromium.launch({ executablePath: BROWSER, args, headless: true });
}

/**
 * Opens a page in a fresh profile and keeps what went wrong on it.
 * @param {import('playwright-core').Browser} browser
 * @param {string} url
 * @param {import('playwright-core').BrowserContextOptions} [options] such as `colorScheme`, `locale`, `viewport`
 * @returns {Promise<{ page: import('playwright-core').Page, problems: string[] }>} `problems` grows: errors on the console
 *   (the policy's and the workers' too), errors nobody caught, requests that failed
 */
export async function open(browser, url, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, ...options });
  const page = await context.newPage();
  const problems = [];
  page.on('console', (message) => {
    if (message.type() === 'error') problems.push(`console: ${message.text()} (${message.location().url})`);
  });
  page.on('pageerror', (error) => problems.push(`not caught: ${error.message}`));
  page.on('requestfailed', (request) => problems.push(`failed: ${request.url()} ${request.failure()?.errorText}`));
  await page.goto(url);
  return { page, problems };
}

/** Keeps a picture of the page, for people to look at. */
export async function screenshot(page, name) {
  mkdirSync(SCREENSHOTS, { recursive: true });
  await page.screenshot({ path: join(SCREENSHOTS, `${name}.png`), fullPage: true });
}
