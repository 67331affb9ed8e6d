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
