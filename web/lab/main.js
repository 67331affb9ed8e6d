/** Placeholder of the page: says which core answers. */
import { open } from '../engine.js';

const line = /** @type {HTMLElement} */ (document.querySelector('#core'));
try {
  const { version, build } = await open();
  line.textContent = `flash890 ${version}, build ${build}`;
  line.dataset.ready = 'true';
} catch (error) {
  line.textContent = error instanceof Error ? error.message : String(error);
  line.dataset.ready = 'failed';
}

const button = /** @type {HTMLButtonElement} */ (document.querySelector('[data-action="run-all-checks"]'));
button.disabled = false;
button.addEventListener('click', () => {
  const passed = line.dataset.ready === 'true';
  const report = document.createElement('p');
  report.dataset.check = passed ? 'passed' : 'failed';
  report.textContent = `the core answers: ${line.textContent}`;
  button.after(report);
  const main = /** @type {HTMLElement} */ (document.querySelector('main'));
  Object.assign(main.dataset, { checks: 'done', passed: passed ? '1' : '0', failed: passed ? '0' : '1' });
});
