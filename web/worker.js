// The worker that owns the wasm core and the GPU. It answers one call after the other; the protocol is the table in engine.js.

import { buildOf, requireOneBuild } from './build.js';
import init, { BUILD as GLUE_BUILD, Chat, Desk, Opened, clearStore, storedBytes } from './flash890.js';

const BUILD = '@FLASH890_BUILD@';
const WASM = new URL('./flash890_bg.wasm', import.meta.url);

/** @type {Desk|null} */
let desk = null;
/** The conversation on the same weights, from its first request on. @type {Chat|null} */
let chat = null;
/** A checkpoint by its address, between `plan` and `open`. @type {Opened|null} */
let source = null;
/** Whether all of it is in memory already. */
let isWhole = false;
/** The core is loaded once. @type {Promise<void>|null} */
let core = null;
/** The core's memory, which grows and never shrinks. @type {WebAssembly.Memory|null} */
let memory = null;
/** The part of a checkpoint that is read now. */
let reading = '';
/** Calls wait for the one before. @type {Promise<void>} */
let queue = Promise.resolve();

/** @param {string} event @param {any} detail */
function tell(event, detail) {
  if (event === 'reading') reading = detail.part;
  else postMessage({ event, detail });
}

/** @param {string} kind @param {string} message */
const problem = (kind, message) => Object.assign(new Error(message), { kind });

/**
 * Fetches and starts the core; says which address gave what, if it is not the core of these scripts.
 * @param {string} engineBuild build id of engine.js
 */
async function load(engineBuild) {
  let response;
  try {
    response = await fetch(WASM);
  } catch (error) {
    throw problem('network', `${WASM.href}: ${error}`);
  }
  if (!response.ok) throw problem('network', `${WASM.href}: HTTP ${response.status}`);
  const total = Number(response.headers.get('content-length')) || 0;
  tell('progress', { stage: 'core', done: 0, total });
  const bytes = await response.arrayBuffer();
  tell('progress', { stage: 'core', done: bytes.byteLength, total: bytes.byteLength });
  const magic = new Uint8Array(bytes, 0, Math.min(4, bytes.byteLength));
  if (String.fromCharCode(...magic) !== '\0asm') {
    const type = response.headers.get('content-type') ?? 'no content type';
    throw problem('network', `${WASM.href}: needed a WebAssembly module, found ${type}, ${bytes.byteLength} bytes`);
  }
  let module;
  try {
    // Compiled from bytes, since a static server need not know the type application/wasm, which streaming asks for.
    module = await WebAssembly.compile(bytes);
  } catch (error) {
    const message = String(error);
    // Browsers differ in the class of this error; all name the directive or the policy.
    if (/unsafe-eval|Content Security Policy|blocked by CSP/i.test(message)) throw problem('csp', message);
    throw problem('integrity', `${WASM.href}: ${message}`);
  }
  try {
    requireOneBuild({ 'engine.js': engineBuild, 'worker.js': BUILD, 'flash890.js': GLUE_BUILD, 'flash890_bg.wasm': buildOf(module) });
  } catch (/** @type {any} */ error) {
    throw problem('integrity', error.message);
  }
  memory = (await init({ module_or_path: module })).memory;
}

/** Holds a lock for as long as this worker lives, so that the page learns of its end. @param {string} lock */
function hold(lock) {
  void navigator.locks.request(lock, () => {
    tell('alive', {});
    return new Promise(() => {});
  });
}

/** What the browser says about its adapter, or `null`: no WebGPU, or no adapter. */
async function adapterName() {
  const info = (await /** @type {any} */ (navigator).gpu?.requestAdapter({ powerPreference: 'high-performance' }))?.info;
  if (!info) return null;
  const name = info.description || [info.vendor, info.architecture, info.device].filter(Boolean).join(' ');
  return name ? `${name}, WebGPU` : 'WebGPU';
}

/** Loads the core, unless an earlier call has. @param {string} build @param {string|null} lock */
function start(build, lock) {
  if (!core && lock) hold(lock);
  core ??= load(build);
  return core;
}

/**
 * Tells the page five times a second how many bytes of a checkpoint have come, while `work` goes on.
 * @template T
 * @param {Opened|null} model
 * @param {() => Promise<T>} work
 */
async function counted(model, work) {
  if (!model) return work();
  const counter = model.meter();
  const say = () => tell('progress', { stage: 'bytes', done: counter.done(), total: counter.total(), part: reading });
  const timer = setInterval(say, 200);
  try {
    return await work();
  } finally {
    clearInterval(timer);
    say();
    counter.free();
  }
}

/** @type {Record<string, (params: any) => any>} */
const methods = {
  async plan({ model, memory, keep, build, lock }) {
    await start(build, lock);
    source = await Opened.open(model, memory ?? 0, tell, keep);
    const plan = JSON.parse(source.plan());
    // A small checkpoint has come whole: there is nothing more to count.
    isWhole = plan.fetch === 0 && plan.kept === null;
    return plan;
  },
  async open({ backend, build, lock }) {
    await start(build, lock);
    const [model, options] = [source, JSON.stringify({ backend, adapter: await adapterName() })];
    source = null;
    desk = await counted(isWhole ? null : model, () => Desk.open(options, tell, model ?? undefined));
    return { ...JSON.parse(desk.info()), build: BUILD };
  },
  async run({ text, picture, ...rest }) {
    const own = picture && typeof picture === 'object' ? new Uint8Array(picture.bytes) : undefined;
    const request = JSON.stringify({ text, picture: own ? 'own' : (picture ?? null), ...rest });
    return JSON.parse(await opened().run(request, own));
  },
  report: async (where) => JSON.parse(await opened().report(JSON.stringify(where))),
  taps: () => JSON.parse(opened().taps()),
  tensor: ({ tap, layer }) => opened().tensor(tap, layer),
  step: async (how) => JSON.parse(await opened().step(JSON.stringify(how))),
  compareKv: async () => JSON.parse(await opened().compareKv()),
  parity: async () => JSON.parse(await opened().parity()),
  timings: async () => JSON.parse(await opened().timings()),
  chatBegin: async ({ request }) => JSON.parse(await (await speaking()).begin(JSON.stringify(request))),
  chatNext: async () => JSON.parse(await talking().next()),
  chatStop: () => chat?.stop(),
  chatSave: ({ compact }) => talking().save(compact),
  chatLoad: async ({ file }) => ({ tokens: await (await speaking()).load(new Uint8Array(file)) }),
  loseDevice: () => opened().loseDevice(),
  slots: () => JSON.parse(opened().slots()),
  heap: () => memory?.buffer.byteLength ?? 0,
  stored: () => storedBytes(),
  async clearStored() {
    desk?.discardKept();
    return clearStore();
  },
};

/** The conversation, which begins with its first request. */
async function speaking() {
  if (!chat) {
    chat = opened().chat();
    await chat.warmUp();
  }
  return chat;
}

function talking() {
  if (!chat) throw problem('usage', 'nothing was asked yet');
  return chat;
}

function opened() {
  if (!desk) throw problem('usage', 'the engine is not open');
  return desk;
}

/** @param {MessageEvent<{ id: number, method: string, params: any }>} event */
async function answer({ data: { id, method, params } }) {
  try {
    if (!Object.hasOwn(methods, method)) throw problem('usage', `there is no method ${method}`);
    const result = await methods[method](params);
    postMessage({ id, result });
  } catch (/** @type {any} */ error) {
    // A trap of the core leaves its memory in an unknown state: nothing can be asked of this worker any more.
    if (error instanceof WebAssembly.RuntimeError) {
      tell('died', { message: `the core stopped: ${error.message}` });
      return;
    }
    postMessage({ id, error: { kind: error?.kind ?? 'internal', reason: error?.reason, message: error?.message ?? String(error) } });
  }
}

onmessage = (event) => {
  queue = queue.then(() => answer(event));
};
