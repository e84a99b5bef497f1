"""Train on raw tensors: what a user sees of each hazard. Each trial has a process of its own, for a card's context is
lost at the first assert."""

from __future__ import annotations

import json
import math
import os
import re
import sys
import traceback
from pathlib import Path
from typing import Any

import numpy as np

STEPS = 4
PATHS = re.compile(r"(/[\w.+-]+)+/(?=[\w.+-]+\.(?:py|cu|h|cpp))")
MODELS = {"forms": "layoutlmv3", "forms_ids": "layoutlmv3", "chats": "llama", "tokens": "tokens"}


def trials(place: Path, device: str, parallel: int, only: str = "") -> dict[str, Any]:
    """Run every trial in float32 and bfloat16, beside clean records and alone; the table with what came of them."""
    import torch  # noqa: F401 - imported once, before the processes part
    import transformers  # noqa: F401

    _warm()
    table = json.loads((place / "hazards.json").read_text())
    logs = place / "logs"
    logs.mkdir(exist_ok=True)
    wanted = [
        (name, facts, dtype, alone)
        for name, facts in table.items()
        if "trial" in facts and only in name
        for dtype in ("float32", "bfloat16")
        for alone in (False, True)
    ]
    running: dict[int, tuple[str, str, bool, Path]] = {}
    results: dict[tuple[str, str, bool], str] = {}
    queue = list(wanted)
    while queue or running:
        while queue and len(running) < parallel:
            name, facts, dtype, alone = queue.pop(0)
            log = logs / f"{facts['trial'].removesuffix('.npz')}-{dtype}-{'alone' if alone else 'eight'}.log"
            child = os.fork()
            if child == 0:
                _child(place, facts, dtype, alone, device, log)
            running[child] = (name, dtype, alone, log)
        child, status = os.wait()
        name, dtype, alone, log = running.pop(child)
        results[name, dtype, alone] = _outcome(log, status)
    for (name, dtype, alone), outcome in results.items():
        table[name].setdefault("gpu", {})[f"{dtype} {'alone' if alone else 'in a batch of 8'}"] = outcome
    return table


def _warm() -> None:
    """Load the model code before the processes part: each of them would otherwise do it again."""
    from transformers.models.layoutlmv3 import modeling_layoutlmv3  # noqa: F401
    from transformers.models.llama import modeling_llama  # noqa: F401


def _child(place: Path, facts: dict[str, Any], dtype: str, alone: bool, device: str, log: Path) -> None:
    """One trial; its stdout and stderr go to the log, its last line says what came of it."""
    handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(handle, 1)
    os.dup2(handle, 2)
    try:
        outcome = _train(place, facts, dtype, alone, device)
        print(f"OUTCOME {outcome}", flush=True)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


def _train(place: Path, facts: dict[str, Any], dtype: str, alone: bool, device: str) -> str:
    import torch
    import transformers

    torch.manual_seed(0)
    layout = facts["schema"].startswith("forms")
    config = json.loads((place / "models" / MODELS[facts["schema"]] / "config.json").read_text())
    plain = transformers.AutoConfig.for_model(**config, **({"num_labels": 7} if layout else {}))
    kind = transformers.AutoModelForTokenClassification if layout else transformers.AutoModelForCausalLM
    model = kind.from_config(plain, dtype=getattr(torch, dtype)).to(device).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    batch = {}
    for name, values in np.load(place / "trials" / facts["trial"]).items():
        tensor = torch.from_numpy(values[:1] if alone else values)
        if name == "pixel_values":
            tensor = ((tensor.float() / 255 - 0.5) / 0.5).to(getattr(torch, dtype))
        batch[name] = tensor.to(device)
    for _ in range(STEPS):
        loss = model(**batch).loss
        loss.backward()
        bad = [p.grad for p in model.parameters() if p.grad is not None and not bool(p.grad.isfinite().all())]
        if not math.isfinite(loss.item()):
            return "NaN loss" + (", non-finite gradients" if bad else "")
        if bad:
            return "finite loss, non-finite gradients"
        optimizer.step()
        optimizer.zero_grad()
    return "silent"


def _outcome(log: Path, status: int) -> str:
    """What the log says: the outcome, or the error with the assert that only stderr shows."""
    text = log.read_text(errors="replace")
    if match := re.search(r"^OUTCOME (.+)$", text, re.M):
        return match[1]
    error = next(
        (line for line in reversed(text.splitlines()) if re.match(r"[\w.]*(Error|Exception)\b", line)), ""
    )
    error = re.sub(r"\s+", " ", PATHS.sub("", error)).removeprefix("torch.")
    asserts = sorted(set(re.findall(r"Assertion `(.+?)` failed", text)))
    return (
        f"crash: {error[:110]}"
        + (f" [stderr: {asserts[0][:80]}]" if asserts else "")
        + (f" (signal {status & 127})" if status & 127 else "")
    )
