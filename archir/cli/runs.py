"""The folder of a trained network: everything that is needed to use it, and to train it again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from archir.errors import fail
from archir.files import sha256, write_atomic
from archir.ir.graph import Graph
from archir.ir.serial import from_json, to_json
from archir.runs import Run, manifest

NETWORK, ARCHITECTURE, WEIGHTS, TRAINING = "network.json", "architecture.json", "weights.safetensors", "training.json"
BEST = "best.json"


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


def open_run(folder: Path) -> tuple[Graph, str]:
    """The network of a folder and its architecture as JSON: that of a training, or the last one of a search.

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
    return from_json(data), architecture


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


def _searched(run: Run) -> tuple[Graph, str]:
    """The last network that was trained in a search, and its architecture, if it is one of a space."""
    graph = from_json(json.loads(run.content(NETWORK)))
    return graph, run.content(BEST).decode() if BEST in run.files.manifest.files else "{}"


def images_of(folder: Path) -> dict[str, Any]:
    """What is known of the images that a folder's network was trained on: `source`, `seed`, `mean`, `std`, `classes`.

    Raises ArchError (A1205) if the folder does not say, since an older archir left it.
    """
    if (folder / manifest.NAME).exists():
        searched = Run.open(folder)
        phase = json.loads(searched.content("summary.json"))["network"]["phase"]
        record = json.loads(searched.content(f"phases/{phase}/splits.json"))
    else:
        record = json.loads((folder / TRAINING).read_text("utf-8"))
    if "images" not in record:
        raise fail("A1205", f"{folder} does not tell how its images were normalised: it was left by an older archir")
    found: dict[str, Any] = record["images"]
    return found
