// What tests expect of the page: the few attributes that say where it stands.

/** Waits until the page has heard from its engine, and returns the text in which it says so. */
export async function ready(page, timeout = 60_000) {
  const status = page.locator('[data-ready]').first();
  await status.waitFor({ timeout });
  return { state: await status.getAttribute('data-ready'), text: await status.innerText() };
}

/**
 * Presses "run all checks" and waits for the report.
 * @returns {Promise<{ passed: number, failed: number, failures: string[] }>}
 */
export async function runAllChecks(page, timeout = 600_000) {
  const button = page.locator('[data-action="run-all-checks"]:enabled').first();
  await button.waitFor({ timeout });
  await button.click();
  const report = page.locator('[data-checks="done"]').first();
  await report.waitFor({ state: 'attached', timeout });
  const count = async (name) => Number(await report.getAttribute(`data-${name}`));
  const failures = await page.locator('[data-check="failed"]').allTextContents();
  return { passed: await count('passed'), failed: await count('failed'), failures };
}

/** Waits until the page shows numbers of its own run in place of the recorded ones. */
export async function live(page, timeout = 120_000) {
  await page.locator('[data-action="run-all-checks"]:enabled').waitFor({ timeout });
  const { state, text } = await ready(page);
  if (state !== 'true') throw new Error(text);
}

/** Waits until the page says that it shows this position and this layer of its own run. */
export async function showing(page, { token, layer }, timeout = 60_000) {
  const wanted = [`token ${token} `, new RegExp(`(lớp|layer) ${layer}\\b`)];
  await page.waitForFunction(
    ([token, layer]) => {
      const text = document.getElementById('seen')?.textContent ?? '';
      return text.includes(token) && new RegExp(layer).test(text) && !/^(Recorded|Bản ghi)/.test(text);
    },
    [wanted[0], wanted[1].source],
    { timeout },
  );
}

/** Opens the chapter of a block by its address. */
export async function chapter(page, code) {
  await page.evaluate((hash) => {
    location.hash = hash;
  }, code.toLowerCase());
  await page.locator('#chapter .ch-code', { hasText: code }).waitFor();
}

export const CODES = ['1A', '1B', '2A', '3A', '3B', '3C', '4A', '6A', '5A', '6B'];
