// The attributes of `<flash-chat>` as properties of the same name.

// Where there is no browser, importing this must do no harm: there the class is never used.
const Base = /** @type {typeof HTMLElement} */ (globalThis.HTMLElement ?? class {});

export class Attributes extends Base {
  // Texts; `null` where there is none.
  get model() {
    return this.getAttribute('model');
  }

  set model(value) {
    put(this, 'model', value);
  }

  get endpoint() {
    return this.getAttribute('endpoint');
  }

  set endpoint(value) {
    put(this, 'endpoint', value);
  }

  get theme() {
    return this.getAttribute('theme');
  }

  set theme(value) {
    put(this, 'theme', value);
  }

  get label() {
    return this.getAttribute('label');
  }

  set label(value) {
    put(this, 'label', value);
  }

  get placeholder() {
    return this.getAttribute('placeholder');
  }

  set placeholder(value) {
    put(this, 'placeholder', value);
  }

  get system() {
    return this.getAttribute('system');
  }

  set system(value) {
    put(this, 'system', value);
  }

  // Whether they are there.
  get open() {
    return this.inline || this.hasAttribute('open');
  }

  set open(isOpen) {
    this.toggleAttribute('open', isOpen);
  }

  get inline() {
    return this.hasAttribute('inline');
  }

  set inline(isInline) {
    this.toggleAttribute('inline', isInline);
  }

  get autoLoad() {
    return this.hasAttribute('auto-load');
  }

  set autoLoad(isEarly) {
    this.toggleAttribute('auto-load', isEarly);
  }
}

/**
 * Sets a text that is an attribute, or removes it.
 * @param {Element} element
 * @param {string} name
 * @param {string|null|undefined} value
 */
function put(element, name, value) {
  if (value === null || value === undefined) element.removeAttribute(name);
  else element.setAttribute(name, value);
}
