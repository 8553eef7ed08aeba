"""What phases came to, as files of a run."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

from archir.ir.serial import from_json, to_json
from archir.recipes.job import Outcome, Tensor
from archir.recipes.supernet import SupernetRecord
from archir.runs import Run
from archir.runs.phase import SUPERNET, WEIGHTS
from archir.spaces.space import Space


def outcome_files(phase: str, outcome: Outcome[Any], weights: bytes) -> dict[str, str | bytes]:
    """An outcome as files; its weights are in them as the backend that trained wrote them."""
    base = f"phases/{phase}/"
    found: dict[str, str | bytes] = {f"{base}{WEIGHTS}": weights}
    if outcome.architecture is not None:
        found[f"{base}architecture.json"] = outcome.architecture.to_json()
    if outcome.alphas is not None:
        alphas = {"logits": outcome.alphas, "history": outcome.history}
        found[f"{base}alphas.json"] = json.dumps(alphas) + "\n"
    if outcome.supernet is not None:
        found[f"{base}{SUPERNET}"] = json.dumps(asdict(outcome.supernet)) + "\n"
    if outcome.network is not None:
        found[f"{base}network.json"] = json.dumps(to_json(outcome.network)) + "\n"
    return {**found, **{base + name: content for name, content in outcome.files.items()}}


def read_outcome(
    run: Run, phase: str, space: Space, weights: Callable[[bytes], Mapping[str, Tensor]]
) -> Outcome[Tensor]:
    """The outcome of a phase that is done; `weights` reads what the backend wrote."""
    base = f"phases/{phase}/"

    def content(file: str) -> bytes | None:
        return run.content(base + file) if base + file in run.files.manifest.files else None

    labels, alphas, network = content("architecture.json"), content("alphas.json"), content("network.json")
    supernet = content(SUPERNET)
    known = json.loads(alphas) if alphas is not None else {"logits": None, "history": {}}
    return Outcome(
        architecture=space.architecture(json.loads(labels)["choices"]) if labels is not None else None,
        alphas=known["logits"],
        history=known["history"],
        network=from_json(json.loads(network)) if network is not None else None,
        weights=weights(content(WEIGHTS) or b""),
        supernet=SupernetRecord(**json.loads(supernet)) if supernet is not None else None,
    )
