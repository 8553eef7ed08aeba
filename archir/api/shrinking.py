"""Trained networks made smaller, and what came of it, side by side."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from archir import backends
from archir.api.loading import graph
from archir.api.lowering import quantize
from archir.api.measurement import measure
from archir.api.opening import Opened, open_network
from archir.diagnostics.errors import ArchError
from archir.ir.serial import from_json
from archir.language.elaboration.files import split
from archir.language.elastic.ladders import KINDS, fewer

if TYPE_CHECKING:
    from archir.runs.folder import Content
    from archir_torch.training.loop import Watch  # noqa: TID251  (a type, never imported)

__all__ = ["shrink"]

BEFORE_AND_AFTER = "before_and_after.json"
ON = ("torch", "onnxruntime-cpu")
_SECONDS = 1.0


def shrink(
    net: str | Path,
    weights: str | Path,
    budget: str,
    folder: str | Path,
    *,
    space: str | Path | None = None,
    choose: str = ",".join(KINDS),
    settings: Mapping[str, Any] | None = None,
    device: str | None = None,
    int8: bool = True,
    watch: Watch | None = None,
    said: Callable[[str], None] = lambda text: None,
) -> dict[str, Any]:
    """Make a trained network smaller, in a new folder; what it was and what it is, by name: measures, costs, sizes.

    The `net` is an .arch file of one network, `weights` are its safetensors, and the `space` is a file whose largest
    architecture it is; without one, the net is opened, as `choose` says (`open_network`). Channels are ordered by their
    importance, the space's weights are trained with the full network for a teacher, architectures within the `budget`
    (`"macs <= 0.5x"`, or several bounds with `and`) are tried with them, and the best one is trained on. `settings` are
    those of `archir.reuse.shrinking.Plan`. At the end both networks are measured in torch and in onnxruntime,
    and, with `int8`, written in eight bits. A folder in which the same was begun is gone on with. `device` and `watch`
    are those of `run`; `said` is told what is measured.

    Raises ArchError: A2224 (the net is not the largest architecture), A0902 (the weights are not the net's), and what
    is wrong with files, data or the budget.
    """
    from archir.reuse import shrinking
    from archir.runs import Run, manifest
    from archir.utils.settings import parsed

    path, plan = Path(folder), parsed(shrinking.Plan, settings or {})
    torch = backends.get("torch")
    with TemporaryDirectory() as draft, TemporaryDirectory() as made:
        if space is None:
            space = _opened(net, choose, Path(made), said)
        recipe = shrinking.prepare(Path(net), Path(space), Path(weights), budget, plan, Path(draft))
        torch.load(torch.lower(graph(net)), Path(weights))  # raises where they do not fit
        begun = (path / manifest.NAME).exists() and shrinking.begun(Run.open(path), recipe, Path(weights))
        summary = torch.search(None if begun else recipe, path, resume=begun, device=device, executor=None, watch=watch)
    names = {"before": shrinking.FULL, "after": shrinking.TUNED}
    found = {when: {**summary["networks"][name]} for when, name in names.items()}
    found["cut"] = {**summary["networks"][shrinking.CUT]}
    said("measuring both networks")
    networks = {when: path / "networks" / name for when, name in names.items()}
    graphs = {when: from_json(json.loads((one / "network.json").read_bytes())) for when, one in networks.items()}
    for speed in measure(graphs, on=ON, seconds=_SECONDS).found:
        found[speed.subject.name][f"milliseconds, {speed.subject.on}"] = speed.latency.percentile(50) / 1e6
    with TemporaryDirectory() as draft:
        for when, one in networks.items():
            model = one / "model.onnx"
            found[when]["bytes"] = model.stat().st_size
            if int8:
                said(f"int8 of the network {when}")
                found[when] |= _in_int8(model, Path(draft) / f"{when}.onnx", plan.data)
        files: dict[str, Content] = {f"int8/{file.name}": file for file in Path(draft).iterdir()}
        with Run.resume(path) as run:
            run.write(files | {BEFORE_AND_AFTER: json.dumps(found, indent=1) + "\n"})
    return found


def _opened(net: str | Path, choose: str, folder: Path, said: Callable[[str], None]) -> str:
    """The file of a space of a network, with what it imports beside it; with `:NET`."""
    from archir.recipes.spaces import files_of

    found, opens = _searchable(net, choose)
    file, _ = split(str(net))
    for name, text in files_of(Path(file).name, Path(file).resolve().parent).items():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, "utf-8")
    (folder / Path(file).name).write_text(found.text, "utf-8")
    said(f"opened {opens} of {file}: {len(found.space.choices)} choices")
    return f"{folder / Path(file).name}:{found.space.name}"


def _searchable(net: str | Path, choose: str) -> tuple[Opened, str]:
    """A space of a network whose costs are known exactly, and what was opened for it: where that is too much, kinds are
    left, the least important first."""
    from archir.spaces.partial import largest

    while True:
        found = open_network(net, choose)
        try:
            largest(found.space)
        except ArchError as error:
            less = fewer(choose)
            if error.diagnostics[0].code != "A1602" or less is None:
                raise
            choose = less
        else:
            return found, choose


def _in_int8(model: Path, output: Path, data: str) -> dict[str, Any]:
    """What a network is in int8; why it is not, where it cannot be."""
    try:
        made = quantize(model, output, data=data, max_loss=100)
    except ArchError as error:
        return {"int8": error.diagnostics[0].message}
    return {"int8_bytes": made.bytes_after, **{f"int8_{name}": value for name, value in made.after.items()}}
