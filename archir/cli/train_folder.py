"""Training folder: every file needed to use the trained network and to resume its training."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from archir.data.metadata import training_data_metadata
from archir.diagnostics.errors import describe_error, fail, join_names
from archir.diagnostics.hints import suggest_file
from archir.ir.graph import Graph
from archir.ir.serial import from_json, to_json
from archir.recipes import plugins
from archir.runs import Run, hashes, manifest
from archir.runs.folder import ARCHITECTURE, BEST, NETWORK, SPLITS, SUMMARY, WEIGHTS
from archir.runs.hashes import TRAINING
from archir.utils.files import read_bytes, write_atomic

CHECKPOINT = "checkpoint.json"
_FILES = (NETWORK, ARCHITECTURE, WEIGHTS, TRAINING)


@dataclass(frozen=True)
class TrainedNetwork:
    """Network of a training folder, its architecture as JSON, and the recipe of the search that found it, or "".

    `images` describes the training data: `source`, `seed`, `mean`, `std`, `classes`, `scales`, `resizing`. It is empty
    if an older version of archir wrote the folder.
    """

    graph: Graph
    architecture: str
    images: Mapping[str, Any]
    recipe: str = ""

    @property
    def metadata(self) -> dict[str, str]:
        """Metadata for a model exported from this network: architecture, training data and recipe."""
        recipe = {"recipe": self.recipe} if self.recipe else {}
        return {"architecture": self.architecture} | training_data_metadata(self.images) | recipe


def begin(folder: Path, graph: Graph, architecture: str, resume: bool) -> None:
    """Write the network and its architecture to a training folder; with `resume`, check that they are already there.

    Raises ArchError: A1204 (the folder holds another network, or any network without `resume`), A1205 (its files were
    changed).
    """
    path = folder / NETWORK
    text = json.dumps(to_json(graph))
    recorded_hashes: Mapping[str, Any] = {}
    if path.exists():
        if not resume:
            hint = "continue with --resume, or name another folder"
            raise fail("A1204", f"{folder} already holds a network", None, hint)
        recorded_hashes = hashes.read(folder)
        if recorded_hashes:
            hashes.require_unchanged(folder, [NETWORK, ARCHITECTURE])
        if _read_text(path) != text:
            raise fail("A1204", f"{folder} holds a different network: training cannot be resumed with this one")
    elif leftovers := [name for name in (*_FILES, BEST, hashes.NAME, CHECKPOINT) if (folder / name).exists()]:
        text = f"{folder} already contains {join_names(leftovers, 4)}, but no trained network"
        raise fail("A1204", text, None, "name another folder")
    if not recorded_hashes:
        write_atomic(path, text.encode())
        write_atomic(folder / ARCHITECTURE, architecture.encode())
        hashes.write(folder, [NETWORK, ARCHITECTURE])


def mark_unfinished(folder: Path) -> None:
    """Mark the training in a folder as unfinished by removing its recorded results.

    Call it once all checks have passed.
    """
    hashes.write(folder, [NETWORK, ARCHITECTURE])
    (folder / TRAINING).unlink(missing_ok=True)


def discard(folder: Path) -> None:
    """Remove the files that `begin` wrote if the folder has no others, so that the command can be repeated."""
    initial_files = (NETWORK, ARCHITECTURE, hashes.NAME)
    if {file.name for file in folder.iterdir()} <= {*initial_files}:
        for name in initial_files:
            (folder / name).unlink(missing_ok=True)
        folder.rmdir()


def finish(folder: Path, facts: Mapping[str, Any]) -> None:
    """Write the results of a finished training, and the hashes of all files of the folder."""
    write_atomic(folder / TRAINING, (json.dumps(facts, indent=1) + "\n").encode())
    hashes.write(folder, _FILES)


def open_run(folder: Path) -> TrainedNetwork:
    """Return the network of a training folder, or the last network trained by the search in a run folder.

    Its weights are in `weights.safetensors`. Raises ArchError (A1205, A18xx) if the folder holds no such network.
    """
    if (folder / manifest.NAME).exists():
        return _search_network(Run.open(folder))
    if problem := _training_error(folder):
        raise fail("A1205", *problem)
    hashes.require_unchanged(folder, _FILES)
    try:
        data, record = json.loads(_read_text(folder / NETWORK)), json.loads(_read_text(folder / TRAINING))
    except (ValueError, RecursionError) as error:
        raise fail("A1205", f"{folder} is not the folder of a finished training: {error}") from None
    images = record.get("images", {}) if isinstance(record, dict) else {}
    return TrainedNetwork(from_json(data), _read_text(folder / ARCHITECTURE), images)


def weights_of(path: Path) -> Path:
    """Return the path of a weights file.

    A file path is returned unchanged; for a training or search folder, it is the weights file inside. Raises ArchError
    (A1205) if the folder holds no trained network.
    """
    if not path.is_dir():
        return path
    open_run(path)
    return path / WEIGHTS


def _read_text(path: Path) -> str:
    """Return the text of a file in a training folder. Raises ArchError (A1205) if it cannot be read."""
    try:
        return read_bytes(path, hashes.MAX_BYTES).decode()
    except (OSError, ValueError) as error:
        raise fail("A1205", f"cannot read {path}: {describe_error(error)}") from None


def _training_error(folder: Path) -> tuple[str, None, str | None] | None:
    """Return the arguments (message, None, hint) of the error if a folder holds no finished training.

    Returns None if it does.
    """
    if not folder.is_dir():
        return f"there is no folder {folder}", None, suggest_file(folder)
    if not (folder / NETWORK).exists():
        runs_inside = sorted([*folder.glob(f"*/{manifest.NAME}"), *folder.glob(f"*/{NETWORK}")])
        hint = (
            f"name a run, such as {runs_inside[0].parent}"
            if runs_inside
            else "`archir train` and `archir search` write one"
        )
        return f"{folder} is not a training folder: it has no {NETWORK}", None, hint
    grandparent = folder.resolve().parent.parent  # of RUN/networks/NAME
    if (grandparent / manifest.NAME).exists():
        return f"{folder} is only one network of a run", None, f"name the run instead: {folder.parent.parent}"
    if not (folder / TRAINING).exists() or TRAINING not in hashes.read(folder):
        return f"the training in {folder} is not finished", None, "repeat the command that started it, with --resume"
    return None


def _search_network(run: Run) -> TrainedNetwork:
    """Return the network that a search trained last, with its architecture if the network belongs to a space."""
    files = run.entries
    if NETWORK not in files:
        raise fail("A1804", *_untrained_error(run))
    graph = from_json(json.loads(run.content(NETWORK)))
    phase = json.loads(run.content(SUMMARY))["network"]["phase"]
    splits = f"phases/{phase}/{SPLITS}"
    images = json.loads(run.content(splits)).get("images", {}) if splits in files else {}
    return TrainedNetwork(graph, run.content(BEST).decode() if BEST in files else "{}", images, run.title)


def _untrained_error(run: Run) -> tuple[str, None, str]:
    """Return the arguments (message, None, hint) of the error for a search that has not trained a network."""
    if not run.finished:
        text = f"the search in {run.folder} has no network yet: it was stopped, or is still running"
        return text, None, f"resume it: `{plugins.resume_command(run)}`"
    hint = 'add a phase with `strategy = "train"` to the recipe'
    if BEST in run.entries:
        hint += f", or train its best architecture: `archir train SPACE --arch {run.folder / BEST}`"
    return f"the search in {run.folder} trained no network", None, hint
