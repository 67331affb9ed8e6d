// Opens the page that `cargo xtask lab --check` serves and has it run all its checks. Ends with 0 when all passed.
import { launch, open, screenshot } from './lib/browser.mjs';
import { live, runAllChecks } from './lib/page.mjs';

const browser = await launch();
try {
  const { page, problems } = await open(browser, process.argv[2]);
  const outcome = await checks(page).catch((error) => error);
  await screenshot(page, 'check');
  for (const problem of problems) console.log(`error on the page: ${problem}`);
  if (outcome instanceof Error) {
    console.log(`the checks did not end: ${outcome.message}\nThe page says:\n${await page.locator('body').innerText()}`);
    process.exitCode = 1;
  } else {
    for (const failure of outcome.failures) console.log(`failed: ${failure.trim().replace(/\s+/g, ' ')}`);
    console.log(`${outcome.passed} checks passed, ${outcome.failed} failed`);
    const isSuccess = outcome.passed > 0 && outcome.failed === 0 && problems.length === 0;
    process.exitCode = isSuccess ? 0 : 1;
  }
} finally {
  await browser.close();
}

/** Says how long the first live tables took, which depends on the machine and is no check, and then has everything checked. */
async function checks(page) {
  await live(page);
  const seconds = (await page.evaluate(() => performance.now())) / 1000;
  const adapter = (await page.locator('#adapter b').innerText()).trim();
  console.log(`first live tables after ${seconds.toFixed(1)} s (goal on a software adapter: 6 s); ${adapter}`);
  return runAllChecks(page);
}
