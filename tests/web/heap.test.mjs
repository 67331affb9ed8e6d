// A checkpoint that is larger than what may lie in memory: the core's memory stays within what is resident by plan and a little more.
import assert from 'node:assert/strict';
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { launch } from './lib/browser.mjs';
import { EMPTY, engine } from './lib/engine.mjs';
import { folderFiles, made, model } from './lib/models.mjs';
import { serve } from './lib/server.mjs';

const MIB = 1 << 20;
let browser;
let server;
let large;
const models = {};
before(async () => {
  // The lab's model with more and wider experts: a few seconds to write, and several times what the tab is given.
  const tiny = made();
  const config = JSON.parse(readFileSync(join(tiny.folder, 'config.json'), 'utf8'));
  tiny.remove();
  const text = config.text_config ?? config;
  Object.assign(text, { n_routed_experts: 64, moe_intermediate_size: 448 });
  const file = join(tmpdir(), `flash890-config-${process.pid}.json`);
  writeFileSync(file, JSON.stringify(config));
  large = made('--config', file, '--shards', '6');
  rmSync(file);
  models['large/'] = model(folderFiles(large.folder));
  [browser, server] = await Promise.all([launch(), serve({ faults: EMPTY, models })]);
});
after(async () => {
  await browser?.close();
  await server?.close();
  large?.remove();
});

const MEMORY = 48 * MIB;

/** Asserts that the core's memory is within the plan; code, tables and activations of a run of a few tokens are in it, too. */
function within({ plan, heap }) {
  assert.ok(plan.loaded > 2.5 * MEMORY && plan.resident <= MEMORY && plan.slots < plan.experts, JSON.stringify(plan));
  assert.ok(heap < plan.resident + 64 * MIB, `${heap / MIB} MiB of memory, ${plan.resident / MIB} MiB resident, ${plan.loaded / MIB} MiB in all`);
}

test('on the processor the core holds what is resident by plan, and little more', async () => {
  const { page } = await engine(browser, server, 'cpu', { model: 'large/', keep: false, memory: MEMORY });
  const seen = await page.evaluate(async () => {
    await window.engine.run({ text: 'Bộ', kv: 'released' });
    await window.engine.step({ temperature: 0 });
    return { plan: window.engine.plan, heap: await window.engine.heap(), slots: await window.engine.slots() };
  });
  within(seen);
  assert.ok(seen.slots.misses > 0 && seen.slots.bytes > 0, JSON.stringify(seen.slots));
  await page.context().close();
});

test('weights on their way to the GPU leave nothing in the core', async () => {
  const { page, info } = await engine(browser, server, 'gpu', { model: 'large/', keep: false, memory: MEMORY });
  assert.equal(info.backend, 'gpu');
  within(await page.evaluate(async () => ({ plan: window.engine.plan, heap: await window.engine.heap() })));
  await page.context().close();
});
