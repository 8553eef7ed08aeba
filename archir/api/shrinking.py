"""Shrinking of trained networks to a cost budget, with a comparison of the network before and after."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from archir import backends
from archir.api.loading import graph
from archir.api.lowering import quantize
from archir.api.measurement import bench
from archir.api.opening import Opened, open_network
from archir.diagnostics.errors import ArchError, LimitError
from archir.ir.serial import from_json
from archir.language.elaboration.files import split_net
from archir.language.elastic.choice_values import KINDS, without_last_kind
from archir.recipes.run_report import BEFORE_AND_AFTER

if TYPE_CHECKING:
    from archir.runs.folder import Content
    from archir_torch.training.loop import Callback  # noqa: TID251  (a type, never imported)

__all__ = ["shrink"]

TARGETS = ("torch", "onnxruntime-cpu")
"""Benchmark targets on which the networks before and after shrinking are measured."""
_SECONDS = 1.0
"""Seconds of measurement per network and target."""


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
    progress: Callback | None = None,
    said: Callable[[str], None] = lambda text: None,
) -> dict[str, Any]:
    """Shrink a trained network to a cost budget, in a new folder, and compare it with the original.

    Channels are sorted by importance. The space's shared weights are refitted, or trained with the full network as
    teacher. Architectures within the budget are scored with these weights, and the best one is trained further. At the
    end, both networks are measured in torch and onnxruntime.

    Args:
        net: An .arch file with a single network.
        weights: The safetensors file with its weights.
        budget: Bounds such as `"macs <= 0.5x"`, joined by `and`.
        folder: Folder of the run; if the same run was already started there, it is continued.
        space: A file whose largest architecture is the network; by default, `open_network` makes one.
        choose: The kinds of numbers that `open_network` turns into choices.
        settings: Fields of `archir.reuse.shrinking.Plan`.
        device: As for `run`.
        int8: Quantise both networks as well.
        progress: As for `run`.
        said: Function that is called with a message for every step of the measurement.

    Returns:
        Measures, costs and sizes of three networks: `before`, `after`, and `cut`, the small network before further
        training.

    Raises:
        ArchError: A2224 (the network is not the space's largest architecture), A0902 (the weights do not fit the
            network), and errors in the files, the data or the budget.

    Examples:
        >>> from safetensors.torch import save_file
        >>> module, _ = archir.train(archir.load("fixed.arch").graph, settings={"epochs": 1})
        >>> save_file(module.state_dict(), "full.safetensors")
        >>> settings = {"epochs": 1, "trials": 4}
        >>> budget = "macs <= 0.6x"
        >>> networks = archir.shrink("fixed.arch", "full.safetensors", budget, "half", settings=settings, int8=False)
        >>> networks["after"]["macs"] <= 0.6 * networks["before"]["macs"]
        True
    """
    from archir.recipes.results import rewrite_report
    from archir.reuse import shrinking
    from archir.runs import Run, manifest
    from archir.runs.folder import NETWORK
    from archir.utils.settings import parse_settings

    path, plan = Path(folder), parse_settings(shrinking.Plan, settings or {})
    torch = backends.get("torch")
    with TemporaryDirectory() as draft_folder, TemporaryDirectory() as space_folder:
        if space is None:
            space = _open_in(net, choose, Path(space_folder), said)
        recipe = shrinking.prepare(Path(net), Path(space), Path(weights), budget, plan, Path(draft_folder))
        torch.load(torch.lower(graph(net)), Path(weights))  # raises if the weights do not fit
        is_started = (path / manifest.NAME).exists() and shrinking.is_run_of(Run.open(path), recipe, Path(weights))
        summary = torch.search(
            None if is_started else recipe, path, resume=is_started, device=device, executor=None, progress=progress
        )
    names = {"before": shrinking.FULL, "after": shrinking.TUNED}
    comparison = {role: {**summary["networks"][name]} for role, name in names.items()}
    comparison["cut"] = {**summary["networks"][shrinking.CUT]}
    said("measuring both networks")
    networks = {role: path / "networks" / name for role, name in names.items()}
    graphs = {
        role: from_json(json.loads((network_folder / NETWORK).read_bytes()))
        for role, network_folder in networks.items()
    }
    for speed in bench(graphs, on=TARGETS, seconds=_SECONDS).measurements:
        comparison[speed.subject.name][f"milliseconds, {speed.subject.on}"] = speed.latency.percentile(50) / 1e6
    with TemporaryDirectory() as draft_folder:
        for role, network_folder in networks.items():
            model = network_folder / "model.onnx"
            comparison[role]["bytes"] = model.stat().st_size
            if int8:
                said(f"int8 of the network {role}")
                comparison[role] |= _int8_results(model, Path(draft_folder) / f"{role}.onnx", plan.data)
        files: dict[str, Content] = {f"int8/{file.name}": file for file in Path(draft_folder).iterdir()}
        with Run.resume(path) as run:
            run.write(files | {BEFORE_AND_AFTER: json.dumps(comparison, indent=1) + "\n"})
            rewrite_report(run)
    return comparison


def _open_in(net: str | Path, choose: str, folder: Path, said: Callable[[str], None]) -> str:
    """Write the elastic space of a network to `folder`, with copies of the files it imports; return `FILE:NET`."""
    from archir.recipes.spaces import files_of

    result, opens = _searchable(net, choose)
    file, _ = split_net(str(net))
    for name, text in files_of(Path(file).name, Path(file).resolve().parent).items():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, "utf-8")
    (folder / Path(file).name).write_text(result.text, "utf-8")
    said(f"opened {opens} of {file}: {len(result.space.choices)} choices")
    return f"{folder / Path(file).name}:{result.space.name}"


def _searchable(net: str | Path, choose: str) -> tuple[Opened, str]:
    """Return an elastic space of a network whose costs can be computed exactly, and the kinds of its choices.

    As long as the decision diagrams of its choices are too large (A1602), the least important kind is removed from
    `choose`.
    """
    from archir.spaces.completion import largest

    while True:
        elastic = open_network(net, choose)
        try:
            largest(elastic.space)
        except LimitError:
            reduced = without_last_kind(choose)
            if reduced is None:
                raise
            choose = reduced
        else:
            return elastic, choose


def _int8_results(model: Path, output: Path, data: str) -> dict[str, Any]:
    """Quantise a network and return its size and measures; if it cannot be quantised, return the error message."""
    try:
        quantised = quantize(model, output, data=data, max_loss=100)
    except ArchError as error:
        return {"int8": error.diagnostics[0].message}
    return {"int8_bytes": quantised.bytes_after, **{f"int8_{name}": value for name, value in quantised.after.items()}}
