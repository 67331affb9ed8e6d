// The form of the demo page: what is chosen becomes attributes of the chat.

const chat = /** @type {HTMLElement} */ (document.getElementById('live'));
const form = /** @type {HTMLFormElement} */ (document.getElementById('source'));

form.addEventListener('submit', (event) => {
  event.preventDefault();
  const chosen = new FormData(form);
  const endpoint = String(chosen.get('endpoint') ?? '');
  chat.toggleAttribute('endpoint', endpoint !== '');
  if (endpoint) chat.setAttribute('endpoint', endpoint);
  // Without an address the model is a folder.
  const model = String(chosen.get('model') ?? '');
  if (endpoint && !model) chat.removeAttribute('model');
  else chat.setAttribute('model', endpoint ? model : 'nano/');
  chat.setAttribute('label', endpoint ? model || 'Chat' : 'Nano');
  for (const name of ['lang', 'theme']) chat.setAttribute(name, String(chosen.get(name)));
  chat.scrollIntoView({ block: 'center' });
});
