"""The folder of a trained network: everything that is needed to use it, and to train it again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from archir.diagnostics.errors import fail, listed
from archir.ir.graph import Graph
from archir.ir.serial import from_json, to_json
from archir.recipes import plugins
from archir.runs import Run, hashes, manifest
from archir.utils.files import read_bytes, write_atomic

NETWORK, ARCHITECTURE, WEIGHTS, TRAINING = "network.json", "architecture.json", "weights.safetensors", "training.json"
BEST, CHECKPOINT = "best.json", "checkpoint.json"
_FILES = (NETWORK, ARCHITECTURE, WEIGHTS, TRAINING)


@dataclass(frozen=True)
class Trained:
    """The network of a folder, its architecture as JSON, and the recipe of the search that found it, if one did.

    `images` is what is known of those that it was trained on: `source`, `seed`, `mean`, `std`, `classes`, `scales`. It
    is empty if an older archir left the folder.
    """

    graph: Graph
    architecture: str
    images: Mapping[str, Any]
    recipe: str = ""

    @property
    def metadata(self) -> dict[str, str]:
        """What a model that is made of it says of itself."""
        labels = {"labels": json.dumps(self.images["classes"])} if self.images.get("classes") else {}
        return {"architecture": self.architecture} | labels | ({"recipe": self.recipe} if self.recipe else {})


def begin(folder: Path, graph: Graph, architecture: str, resume: bool) -> None:
    """Put the network into a folder. Raises ArchError: A1204 (another one is there, or one that is not resumed), A1205
    (what is there was changed)."""
    path = folder / NETWORK
    text = json.dumps(to_json(graph))
    known: Mapping[str, Any] = {}
    if path.exists():
        if not resume:
            hint = "go on with --resume, or name another folder"
            raise fail("A1204", f"{folder} holds a network already", None, hint)
        known = hashes.read(folder)
        if known:
            hashes.require(folder, [NETWORK, ARCHITECTURE])
        if _text(path) != text:
            raise fail("A1204", f"{folder} holds another network: it cannot be resumed with this one")
    elif taken := [name for name in (*_FILES, BEST, hashes.NAME, CHECKPOINT) if (folder / name).exists()]:
        text = f"{folder} holds {listed(taken, 4)}, and no network that was trained here"
        raise fail("A1204", text, None, "name another folder")
    if not known:
        write_atomic(path, text.encode())
        write_atomic(folder / ARCHITECTURE, architecture.encode())
        hashes.write(folder, [NETWORK, ARCHITECTURE])


def go_on(folder: Path) -> None:
    """Training begins, and nothing refuses it any more: until it is finished, the folder is of no finished one."""
    hashes.write(folder, [NETWORK, ARCHITECTURE])
    (folder / TRAINING).unlink(missing_ok=True)


def withdraw(folder: Path) -> None:
    """Remove what `begin` put into a folder if nothing has come of it, so that it can be begun again."""
    begun = (NETWORK, ARCHITECTURE, hashes.NAME)
    if {one.name for one in folder.iterdir()} <= {*begun}:
        for name in begun:
            (folder / name).unlink(missing_ok=True)
        folder.rmdir()


def finish(folder: Path, facts: Mapping[str, Any]) -> None:
    """Write down what training came to, and the hashes of all."""
    write_atomic(folder / TRAINING, (json.dumps(facts, indent=1) + "\n").encode())
    hashes.write(folder, _FILES)


def open_run(folder: Path) -> Trained:
    """The network of a folder: that of a training, or the last one of a search.

    Its weights are in `weights.safetensors`. Raises ArchError (A1205, A18xx) for what is no such folder.
    """
    if (folder / manifest.NAME).exists():
        return _searched(Run.open(folder))
    if lacking := _lacking(folder):
        raise fail("A1205", *lacking)
    hashes.require(folder, _FILES)
    try:
        data, record = json.loads(_text(folder / NETWORK)), json.loads(_text(folder / TRAINING))
    except (ValueError, RecursionError) as error:
        raise fail("A1205", f"{folder} is no folder of a finished training: {error}") from None
    images = record.get("images", {}) if isinstance(record, dict) else {}
    return Trained(from_json(data), _text(folder / ARCHITECTURE), images)


def weights_of(path: Path) -> Path:
    """The file of weights that a path names: itself, or that of a training or a search. Raises ArchError (A1205)."""
    if not path.is_dir():
        return path
    open_run(path)
    return path / WEIGHTS


def _text(path: Path) -> str:
    """What a file of a training holds. Raises ArchError (A1205)."""
    try:
        return read_bytes(path, hashes.MOST_BYTES).decode()
    except (OSError, ValueError) as error:
        raise fail("A1205", f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from None


def _lacking(folder: Path) -> tuple[str, None, str | None] | None:
    """Why a folder is none of a finished training, and what may help."""
    if not folder.is_dir():
        return f"there is no folder {folder}", None, None
    if not (folder / NETWORK).exists():
        inside = sorted([*folder.glob(f"*/{manifest.NAME}"), *folder.glob(f"*/{NETWORK}")])
        hint = f"name a run, such as {inside[0].parent}" if inside else "`archir train` and `archir search` leave one"
        return f"{folder} is no folder of a training: it has no {NETWORK}", None, hint
    above = folder.resolve().parent.parent  # of RUN/networks/NAME
    if (above / manifest.NAME).exists():
        return f"{folder} is one network of a run", None, f"name the run, {folder.parent.parent}"
    if not (folder / TRAINING).exists() or TRAINING not in hashes.read(folder):
        return f"the training in {folder} was not finished", None, "go on with the command that began it, and --resume"
    return None


def _searched(run: Run) -> Trained:
    """The last network that was trained in a search, and its architecture, if it is one of a space."""
    files = run.files.manifest.files
    if NETWORK not in files:
        raise fail("A1804", *_untrained(run))
    graph = from_json(json.loads(run.content(NETWORK)))
    phase = json.loads(run.content("summary.json"))["network"]["phase"]
    splits = f"phases/{phase}/splits.json"
    images = json.loads(run.content(splits)).get("images", {}) if splits in files else {}
    return Trained(graph, run.content(BEST).decode() if BEST in files else "{}", images, run.title)


def _untrained(run: Run) -> tuple[str, None, str]:
    """Why a search has no network, and what gives one."""
    if not run.finished:
        text = f"the search in {run.folder} has no network yet: it was stopped, or is still running"
        return text, None, f"resume it: `{plugins.resuming(run)}`"
    hint = 'add a phase with `strategy = "train"` to the recipe'
    if BEST in run.files.manifest.files:
        hint += f", or train what it found: `archir train SPACE --arch {run.folder / BEST}`"
    return f"the search in {run.folder} trained no network", None, hint
