// The lab page: wires state, session and views. The recorded run is shown first; the engine starts at the same time and replaces it.

import { renderChapter } from './chapter.js';
import { el } from './dom.js';
import { adapterView, languageChoice, themeChoice } from './shell/choices.js';
import { diagramView, toolsView } from './shell/diagram.js';
import { I18n } from './shell/i18n.js';
import { addressOf, modelView } from './shell/model.js';
import { need, pause } from './shell/page.js';
import { popoverView } from './shell/popover.js';
import { promptView } from './shell/prompt.js';
import { reportView } from './shell/report.js';
import { follow } from './shell/route.js';
import { rulerView } from './shell/ruler.js';
import { Session } from './shell/session.js';
import { chapterOf, Store } from './shell/state.js';
import { bannersView, statusView } from './shell/status.js';
import { stepsView } from './shell/steps.js';
import { stripView } from './shell/strip.js';
import { crumbsView, walkView } from './shell/walk.js';

/** @typedef {import('./shell/state.js').State} State */

/** The chapter of the chosen block. @param {{ store: Store, i18n: I18n, session: Session }} page */
function chapterView({ store, i18n, session }) {
  const [host, pane] = [need('chapter'), need('chapter-pane')];
  let shown = '';
  /** The chapters that hold a tensor, so that the map shows where it is used. @param {State} state @param {string} tap */
  const holders = (state, tap) => (state.lab?.chapters ?? []).filter((one) => [...one.inputs, ...one.outputs].some((tensor) => tensor.name === tap)).map((one) => one.code);
  store.show(['lab', 'block', 'live', 'source'], (state) => {
    const chapter = chapterOf(state, state.block);
    if (!chapter || !state.lab || !state.info) {
      if (!shown) host.replaceChildren(el('p', { class: 'placeholder' }, i18n.t('chapter.none')));
      return;
    }
    renderChapter(host, /** @type {any} */ ({
      chapter, lab: state.lab, info: state.info, lang: i18n.lang, t: i18n.t, engine: session.engine, source: state.source,
      onTensor: (/** @type {{ tap: string }} */ { tap }) => store.set({ holding: holders(store.state, tap) }),
      onToken: (/** @type {number} */ token) => session.look({ token }),
      onRunChecks: () => session.look({}, true),
    }));
    document.title = `${state.block} · flash890 lab`;
    // Another chapter begins at its top; new numbers in the same chapter leave the page where it is.
    if (shown !== state.block) {
      pane.scrollTop = 0;
      if (shown && pane.getBoundingClientRect().top < 0) pane.scrollIntoView();
      store.set({ holding: [] });
    }
    shown = state.block;
  });
  store.show(['busy'], ({ busy }) => host.setAttribute('aria-busy', String(busy?.key === 'busy.run' || busy?.key === 'busy.look')));
}

async function begin() {
  themeChoice();
  const store = new Store();
  const session = new Session(store);
  const look = (/** @type {{ token?: number|null, layer?: number|null }} */ where) => session.look(where);
  follow(store, look);
  session.recording();
  const i18n = await I18n.load();
  const page = { store, i18n, session };
  languageChoice(i18n);
  const prompt = promptView({ ...page, run: (what) => session.run(what) });

  const wish = new URLSearchParams(location.search).get('backend');
  const backend = wish === 'gpu' || wish === 'cpu' ? wish : 'auto';
  async function start() {
    const model = addressOf();
    if (await session.open({ backend, ...(model ? { model } : {}) })) await session.run(prompt.read());
  }
  const again = () => (store.state.live ? (session.request ? session.look({}, true) : session.run(prompt.read())) : start());

  adapterView(page);
  modelView({ ...page, open: () => start() });
  bannersView({ ...page, again });
  stripView({ ...page, look });
  stepsView(page);
  rulerView({ ...page, look });
  await pause();
  toolsView(page);
  diagramView(page);
  popoverView(page);
  await pause();
  crumbsView(page);
  walkView(page);
  statusView(page);
  reportView(page);
  chapterView(page);
  i18n.addEventListener('change', () => void store.refresh());
  await start();
}

begin();
