// What the page's own thread did, by the browser's trace: time of its processor, not of the clock, so that other work on this machine does not count.

/** Everything that the page's thread ran as one piece while `act` went on, longest first. */
export async function tasksDuring(browser, page, act) {
  await browser.startTracing(page, { categories: ['toplevel', '__metadata', 'blink.user_timing'] });
  let trace;
  try {
    await act();
    // Tells which process is the page's.
    await page.evaluate(() => performance.mark('flash890 traced'));
  } finally {
    trace = JSON.parse((await browser.stopTracing()).toString());
  }
  const { traceEvents } = trace;
  const mark = traceEvents.find(({ name }) => name === 'flash890 traced');
  if (!mark) throw new Error('the trace has no mark of the page');
  const own = traceEvents.filter(({ pid, tid, ph, name }) => pid === mark.pid && tid === mark.tid && ph === 'X' && name === 'ThreadControllerImpl::RunTask');
  return own.map(({ tdur = 0, dur = 0 }) => ({ processor: tdur / 1000, clock: dur / 1000 })).sort((a, b) => b.processor - a.processor);
}
