"""The recipe: `python -m nano train --hours 2`. It can be stopped at any time and goes on where it was."""

import math
import time
from pathlib import Path

import numpy as np
import torch

from . import checkpoint, losses, setup
from . import tokenizer as bpe
from .batches import Encoder, blurred, stream, to
from .data.dialogues import Source
from .master import Master, all_values
from .model.experts import Experts
from .model.network import Network
from .seeing import learn_to_see

SEED = 890
PEAK, FLOOR, WARM_UP, DECAY = 2e-3, 2e-5, 100, 0.02
# Share of the time for the backbone; drafts and index scores get the rest.
BACKBONE = 0.7
# Share of a phase before the network sees rounded weights: rounding is what training ends with.
ROUGH = 0.4
# Places in a batch.
TOKENS = 2000
# Steps of the vision tower's start (see seeing.py).
SEEING = 1000
SAVE_SECONDS, LOG_STEPS, MEASURE_STEPS = 300, 20, 20


def rate_at(step: int, steps: int, peak: float = PEAK) -> float:
    """Linear warm-up, cosine decay."""
    warm = min(WARM_UP, steps // 10)
    if step < warm:
        return peak * (step + 1) / warm
    part = min((step - warm) / max(steps - warm, 1), 1.0)
    return FLOOR + (peak - FLOOR) * 0.5 * (1 + math.cos(math.pi * part))


class Trainer:
    """One phase after the other. The number of steps is fixed when the first steps have been timed, and kept when training goes on."""

    def __init__(self, folder: Path, hours: float, steps: int | None, device: str, tokens: int, again: float | None = None):
        self.folder, self.hours, self.device, self.tokens = folder, hours, device, tokens
        folder.mkdir(parents=True, exist_ok=True)
        torch.manual_seed(SEED)
        self.source = Source()
        # What has learnt with one tokenizer goes on with it, also when the knowledge has grown since.
        kept = folder / "model" / "tokenizer.json" if self.state_file.exists() else None
        self.c, self.tokenizer, self.tables = setup.make(self.source, SEED, kept)
        self.encoder = Encoder(self.tokenizer, self.c, self.tables)
        self.network = Network(self.c).to(device)
        self.seed = SEED
        self.phase, self.step, self.seconds, self.sees = "backbone", 0, 0.0, False
        self.steps = {"backbone": int(steps * BACKBONE), "drafts": steps - int(steps * BACKBONE)} if steps else {}
        self.peak = {"backbone": PEAK, "drafts": PEAK}
        self.resumed: dict | None = None
        planned = self.steps
        if self.state_file.exists():
            self._restore()
        if self.phase == "done" and again:
            self.phase, self.step, self.steps, self.peak["backbone"] = "backbone", 0, planned, again
            self.seed += 1000

    @property
    def state_file(self) -> Path:
        return self.folder / "training.pt"

    def _restore(self) -> None:
        state = torch.load(self.state_file, map_location=self.device, weights_only=True)
        self.network.load_state_dict(state["network"])
        self.phase, self.step, self.seconds, self.steps = state["phase"], state["step"], state["seconds"], state["steps"]
        self.resumed, self.sees = state["master"], state.get("sees", False)
        self.peak, self.seed = state.get("peak", self.peak), state.get("seed", self.seed)
        print(f"goes on at step {self.step} of {self.steps.get(self.phase, '?')} ({self.phase})")

    def _save(self, master: Master | None) -> None:
        state = {
            "network": self.network.state_dict(), "phase": self.phase, "step": self.step, "seconds": self.seconds, "steps": self.steps,
            "sees": self.sees, "peak": self.peak, "seed": self.seed, "master": master.state() if master else None,
        }
        part = self.state_file.with_suffix(".part")
        torch.save(state, part)
        part.replace(self.state_file)

    def run(self) -> None:
        if self.phase == "done":
            print(f"{self.folder} is trained already")
        for phase in ("backbone", "drafts"):
            if self.phase == phase:
                master = self._run_phase()
                self.phase, self.step = {"backbone": "drafts", "drafts": "done"}[phase], 0
                self._save(None)
                self.export(master)

    def _run_phase(self) -> Master:
        master = Master(self.network, self.phase, DECAY)
        if self.resumed:
            master.restore(self.resumed)
            self.resumed = None
        if not self.sees:
            master.load(quantise=False)
            learn_to_see(self.network, SEEING, np.random.default_rng(SEED))
            master.take()
            self.sees = True
        rng = np.random.default_rng([self.seed, self.step])
        # A run that goes on draws fresh conversations; one that is not stopped always draws the same.
        batches = stream(self.source, self.encoder, self.seed + 1 + self.step + (0 if self.phase == "backbone" else 10**6), self.tokens)
        begin, saved, window = time.monotonic(), time.monotonic(), []
        while self.step < self.steps.get(self.phase, 10**9):
            self.step += 1
            window.append(self._one(master, next(batches), rng))
            if self.phase not in self.steps and self.step == MEASURE_STEPS:
                self._plan((time.monotonic() - begin) / MEASURE_STEPS)
            if self.step % LOG_STEPS == 0:
                self._log(window, time.monotonic() - begin)
                window.clear()
            if time.monotonic() - saved > SAVE_SECONDS:
                saved = time.monotonic()
                self._save(master)
                self.export(master)
        self.seconds += time.monotonic() - begin
        master.load()
        return master

    def _plan(self, seconds: float) -> None:
        """Fixes the steps of this phase from the time of the first ones."""
        share = BACKBONE if self.phase == "backbone" else 1 - BACKBONE
        # Rounded weights and saving make later steps a little slower.
        self.steps[self.phase] = int(self.hours * 3600 * share / (1.1 * seconds))
        print(f"{self.phase}: {self.steps[self.phase]} steps of about {seconds:.2f} s")

    def _one(self, master: Master, examples, rng: np.random.Generator) -> tuple[float, ...]:
        total = self.steps.get(self.phase, 10**9)
        rough = self.step < ROUGH * total
        master.load(quantise=not rough)
        self.network.train()
        if self.phase == "backbone":
            examples = blurred(examples, rng)
        examples = to(examples, self.device)
        if self.phase == "backbone":
            loss, first = losses.answers(self.network, examples, quantise=True)
            second = 0.0
        else:
            loss, first, second = losses.drafts(self.network, examples, rng)
        loss.backward()
        norm = master.step(rate_at(self.step, total, self.peak[self.phase]))
        speed = 1e-3 if self.step < 0.8 * total else 0.0
        for module in self.network.modules():
            if isinstance(module, Experts):
                module.balance(speed)
        return float(loss.detach()), first, second, norm

    def _log(self, window: list[tuple[float, ...]], seconds: float) -> None:
        loss, first, second, norm = np.array(window).mean(0)
        names = ("right", "") if self.phase == "backbone" else ("accepted", f"  index loss {second:.3f}")
        line = f"{self.phase} {self.step}/{self.steps.get(self.phase, '?')}  loss {loss:.4f}  {names[0]} {first:.4f}{names[1]}"
        rate = rate_at(self.step, self.steps.get(self.phase, 10**9), self.peak[self.phase])
        print(f"{line}  gradient {norm:.2f}  rate {rate:.1e}  {seconds:.0f} s", flush=True)

    def export(self, master: Master) -> None:
        """The checkpoint as it is now, complete and in the released layout."""
        values = all_values(self.network, master)
        size = checkpoint.write(self.folder / "model", self.c, values, bpe.to_json(self.tokenizer), self.tables.to_json(self.c))
        print(f"wrote {self.folder / 'model'}, {size:,} bytes", flush=True)
