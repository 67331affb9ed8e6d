/** Client of the worker. Placeholder: opens it and passes on what it says. */
const BUILD = '@FLASH890_BUILD@';

/** @returns {Promise<{ build: string, version: string }>} */
export function open() {
  const worker = new Worker(new URL('./worker.js', import.meta.url), { type: 'module' });
  return new Promise((resolve, reject) => {
    worker.onmessage = ({ data }) => (data.error ? reject(new Error(data.error)) : resolve(data));
    worker.onerror = (event) => reject(new Error(event.message || 'worker.js could not be loaded'));
    worker.postMessage({ build: BUILD });
  });
}
