"""The folder of a trained network: everything that is needed to use it, and to train it again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from archir.errors import fail
from archir.files import sha256, write_atomic
from archir.ir.graph import Graph
from archir.ir.serial import from_json, to_json
from archir.runs import Run, manifest

NETWORK, ARCHITECTURE, WEIGHTS, TRAINING = "network.json", "architecture.json", "weights.safetensors", "training.json"
BEST = "best.json"


@dataclass(frozen=True)
class Trained:
    """The network of a folder, its architecture as JSON, and the recipe of the search that found it, if one did.

    `images` is what is known of those that it was trained on: `source`, `seed`, `mean`, `std`, `classes`. It is empty
    if an older archir left the folder.
    """

    graph: Graph
    architecture: str
    images: Mapping[str, Any]
    recipe: str = ""

    @property
    def metadata(self) -> dict[str, str]:
        """What a model that is made of it says of itself."""
        labels = {"labels": json.dumps(self.images["classes"])} if self.images else {}
        return {"architecture": self.architecture} | labels | ({"recipe": self.recipe} if self.recipe else {})


def begin(folder: Path, graph: Graph, architecture: str, resume: bool) -> None:
    """Put the network into a folder. Raises ArchError (A1204) if another one is there, or one that is not resumed."""
    path = folder / NETWORK
    text = json.dumps(to_json(graph))
    if path.exists():
        if not resume:
            hint = "go on with --resume, or name another folder"
            raise fail("A1204", f"{folder} holds a network already", None, hint)
        if path.read_text("utf-8") != text:
            raise fail("A1204", f"{folder} holds another network: it cannot be resumed with this one")
    write_atomic(path, text.encode())
    write_atomic(folder / ARCHITECTURE, architecture.encode())


def withdraw(folder: Path) -> None:
    """Remove what `begin` put into a folder if nothing has come of it, so that it can be begun again."""
    if {one.name for one in folder.iterdir()} <= {NETWORK, ARCHITECTURE}:
        for name in (NETWORK, ARCHITECTURE):
            (folder / name).unlink(missing_ok=True)
        folder.rmdir()


def finish(folder: Path, facts: Mapping[str, Any]) -> None:
    """Write down what training came to, with the hash of the weights."""
    record = {**facts, "weights_sha256": sha256(folder / WEIGHTS)}
    write_atomic(folder / TRAINING, (json.dumps(record, indent=1) + "\n").encode())


def open_run(folder: Path) -> Trained:
    """The network of a folder: that of a training, or the last one of a search.

    Its weights are in `weights.safetensors`. Raises ArchError (A1205, A18xx) for what is no such folder.
    """
    if (folder / manifest.NAME).exists():
        return _searched(Run.open(folder))
    if lacking := _lacking(folder):
        raise fail("A1205", *lacking)
    try:
        data = json.loads((folder / NETWORK).read_text("utf-8"))
        architecture = (folder / ARCHITECTURE).read_text("utf-8")
        record = json.loads((folder / TRAINING).read_text("utf-8"))
        wanted = record["weights_sha256"]
        found = sha256(folder / WEIGHTS)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise fail("A1205", f"{folder} is no folder of a finished training: {error}") from None
    if wanted != found:
        raise fail("A1205", f"{folder / WEIGHTS} was changed after training: its SHA-256 differs")
    return Trained(from_json(data), architecture, record.get("images", {}))


def _lacking(folder: Path) -> tuple[str, None, str | None] | None:
    """Why a folder is none of a finished training, and what may help."""
    if not folder.is_dir():
        return f"there is no folder {folder}", None, None
    if not (folder / NETWORK).exists():
        inside = sorted([*folder.glob(f"*/{manifest.NAME}"), *folder.glob(f"*/{NETWORK}")])
        hint = f"name a run, such as {inside[0].parent}" if inside else "`archir train` and `archir search` leave one"
        return f"{folder} is no folder of a training: it has no {NETWORK}", None, hint
    if not (folder / TRAINING).exists():
        return f"the training in {folder} was not finished", None, "go on with `archir train --resume`"
    return None


def _searched(run: Run) -> Trained:
    """The last network that was trained in a search, and its architecture, if it is one of a space."""
    files = run.files.manifest.files
    graph = from_json(json.loads(run.content(NETWORK)))
    phase = json.loads(run.content("summary.json"))["network"]["phase"]
    splits = f"phases/{phase}/splits.json"
    images = json.loads(run.content(splits)).get("images", {}) if splits in files else {}
    return Trained(graph, run.content(BEST).decode() if BEST in files else "{}", images, run.title)
