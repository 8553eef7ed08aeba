"""Stores and reads the outcomes of phases as files of a run."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

from archir.ir.serial import from_json, to_json
from archir.recipes.job import Outcome, Tensor
from archir.recipes.supernet import SupernetRecord
from archir.runs import Run
from archir.runs.folder import SUPERNET, WEIGHTS
from archir.spaces.space import Space


def outcome_files(phase: str, outcome: Outcome[Any], weights: bytes) -> dict[str, str | bytes]:
    """Convert an outcome to files by name; `weights` are already serialised by the training backend."""
    base = f"phases/{phase}/"
    files: dict[str, str | bytes] = {f"{base}{WEIGHTS}": weights}
    if outcome.architecture is not None:
        files[f"{base}architecture.json"] = outcome.architecture.to_json()
    if outcome.alphas is not None:
        alphas = {"logits": outcome.alphas, "history": outcome.history}
        files[f"{base}alphas.json"] = json.dumps(alphas) + "\n"
    if outcome.supernet is not None:
        files[f"{base}{SUPERNET}"] = json.dumps(asdict(outcome.supernet)) + "\n"
    if outcome.network is not None:
        files[f"{base}network.json"] = json.dumps(to_json(outcome.network)) + "\n"
    return {**files, **{base + name: content for name, content in outcome.files.items()}}


def read_outcome(
    run: Run, phase: str, space: Space, weights: Callable[[bytes], Mapping[str, Tensor]]
) -> Outcome[Tensor]:
    """Read the outcome of a finished phase; `weights` deserialises the backend's weights file."""
    base = f"phases/{phase}/"

    def content(file: str) -> bytes | None:
        """Return the content of a file of the phase; None if it does not exist."""
        return run.content(base + file) if base + file in run.entries else None

    labels, alphas, network = content("architecture.json"), content("alphas.json"), content("network.json")
    supernet = content(SUPERNET)
    stored = json.loads(alphas) if alphas is not None else {"logits": None, "history": {}}
    return Outcome(
        architecture=space.architecture(json.loads(labels)["choices"]) if labels is not None else None,
        alphas=stored["logits"],
        history=stored["history"],
        network=from_json(json.loads(network)) if network is not None else None,
        weights=weights(content(WEIGHTS) or b""),
        supernet=SupernetRecord(**json.loads(supernet)) if supernet is not None else None,
    )
