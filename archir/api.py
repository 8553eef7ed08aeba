"""The Python side of every command."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import archir.ops  # noqa: F401  (declares the operations)
from archir import backends
from archir.base.errors import ArchError, Diagnostic, fail, suggest
from archir.base.files import require_writable
from archir.base.work import bounded
from archir.ir.graph import Graph
from archir.ir.text.printer import print_graph
from archir.language.elaboration.context import Limits
from archir.language.elaboration.elaborate import elaborate, survey
from archir.language.elaboration.files import Loader, read, split
from archir.language.elaboration.recursion import keeping
from archir.language.syntax.format import canonical
from archir.passes.block import block as passes_block
from archir.passes.cost import Cost, cost
from archir.passes.equivalence.canonical import canonical_hash

if TYPE_CHECKING:
    from archir.backends.speed.figures import Speeds
    from archir.costs.latencies.fill import Bench, Validation, Watch
    from archir.costs.latencies.table import Device, LatencyTable
    from archir.search.lint.subject import Purpose
    from archir.search.spaces.architecture import Architecture, Written
    from archir.search.spaces.diff import Difference
    from archir.search.spaces.space import Space

__all__ = [
    "Cost",
    "architecture",
    "bench",
    "block",
    "canonical_hash",
    "check",
    "compile",
    "cost",
    "diff",
    "export",
    "extract",
    "format",
    "graph",
    "graphs",
    "latency_table",
    "lint",
    "linted",
    "load",
    "loads",
    "measure",
    "print_graph",
    "quantize",
    "resume",
    "run",
    "score",
    "scorer",
    "supernet",
    "train",
    "validate",
]  # fmt: skip


def load(path: str | Path, *, root: Path | None = None, limits: Limits | None = None, **parameters: Any) -> Space:
    """The space of a net: `"space.arch"`, or `"spaces.arch:name"` where a file has several nets.

    `parameters` are the net's. Relative imports stay in `root`, by default the file's folder. Raises ArchError.
    """
    from archir.search.spaces.space import Space

    return Space(graph(path, root=root, limits=limits, parameters=parameters))


def loads(text: str, *, name: str = "<text>", net: str | None = None, **parameters: Any) -> Space:
    """The space of a net of a text, which can import the library but no files. Raises ArchError."""
    from archir.search.spaces.space import Space

    return Space(elaborate(text, name, net=net, parameters=parameters))


def graph(
    path: str | Path,
    *,
    root: Path | None = None,
    limits: Limits | None = None,
    parameters: Mapping[str, Any] | None = None,
) -> Graph:
    """The graph of a net, as `load` finds it; `-` reads standard input. Raises ArchError."""
    file, net = split(str(path))
    text, folder = source(file)
    return elaborate(text, file, folder=folder, root=root, net=net, parameters=parameters, limits=limits)


def source(file: str) -> tuple[str, Path | None]:
    """The text of a file, and the folder that its relative imports start from. Raises ArchError (A0801)."""
    if file == "-":
        return sys.stdin.read(), None
    return read(Path(file)), Path(file).resolve().parent


def check(
    path: str | Path, *, root: Path | None = None, limits: Limits | None = None, **parameters: Any
) -> list[Diagnostic]:
    """Everything that is wrong with a file: every net is elaborated, every architecture of it shape-checked."""
    try:
        graphs(path, root=root, limits=limits, parameters=parameters)
    except ArchError as error:
        return list(error.diagnostics)
    return []


def graphs(
    path: str | Path,
    *,
    root: Path | None = None,
    limits: Limits | None = None,
    parameters: Mapping[str, Any] | None = None,
) -> list[Graph]:
    """The graphs of all nets of a file (or of the one that the path names). Raises ArchError with all problems."""
    file, net = split(str(path))
    return _graphs(*source(file), file, net, root, limits, parameters)


def _graphs(
    text: str, folder: Path | None, file: str, net: str | None, root: Path | None, limits: Limits | None,
    parameters: Mapping[str, Any] | None,
) -> list[Graph]:  # fmt: skip
    with bounded((limits or Limits()).work), keeping():
        return _proved(text, folder, file, net, root, limits, parameters)


def _proved(
    text: str, folder: Path | None, file: str, net: str | None, root: Path | None, limits: Limits | None,
    parameters: Mapping[str, Any] | None,
) -> list[Graph]:  # fmt: skip
    nets, said = ([net], []) if net is not None else survey(text, file, folder=folder, root=root)
    found: list[Graph] = []
    problems: dict[Any, Diagnostic] = {(d.code, str(d.span), d.message): d for d in said}
    for name in nets:
        try:
            made = elaborate(text, file, folder=folder, root=root, net=name, parameters=parameters, limits=limits)
            if made.constraints:
                from archir.search.spaces.space import Space

                space = Space(made)
                space.prove_some()
                if space.bounded:
                    space.prove()
            found.append(made)
        except ArchError as error:
            problems.update({(d.code, str(d.span), d.message): d for d in error.diagnostics})
    if problems:
        raise ArchError(*problems.values())
    return found


def lint(path: str | Path, **options: Any) -> list[Diagnostic]:
    """Warnings of what wrecks searches of a file's nets (see docs/lint.md); options are those of `linted`."""
    return linted(path, **options)[1]


def linted(
    path: str | Path,
    *,
    purpose: Purpose | None = None,
    root: Path | None = None,
    limits: Limits | None = None,
    parameters: Mapping[str, Any] | None = None,
) -> tuple[list[Graph], list[Diagnostic]]:
    """The graphs of a file's nets, and warnings about them. Raises ArchError where there are errors.

    `purpose` is `"differentiable"` or `"shared"`, if the space is to be searched so.
    """
    from archir.search.lint.lint import lint

    file, net = split(str(path))
    text, folder = source(file)
    found = _graphs(text, folder, file, net, root, limits, parameters)
    module = Loader(root if root is not None else folder).load(text, file, folder)
    return found, lint(module, found, purpose)


def architecture(path: str | Path) -> Written:
    """An architecture file as it is written; `-` reads standard input. Raises ArchError."""
    from archir.search.spaces.architecture import read_architecture

    return read_architecture(source(str(path))[0], str(path))


def diff(one: Space | Architecture | Written, other: Space | Architecture | Written) -> list[Difference]:
    """What differs between two spaces, or between two architectures: nothing, if they are the same."""
    from archir.search.spaces.diff import diff_architectures, diff_spaces
    from archir.search.spaces.space import Space

    if isinstance(one, Space) and isinstance(other, Space):
        return diff_spaces(one, other)
    if isinstance(one, Space) or isinstance(other, Space):
        raise TypeError("a space and an architecture cannot be compared")
    return diff_architectures(one, other)


def format(text: str, name: str = "<text>") -> str:
    """A text in the canonical layout: the same tokens and comments, other blanks and line breaks. Raises ArchError."""
    return canonical(text, name)


def compile(graph: Graph, to: str = "torch", **options: Any) -> Any:
    """A graph without choices lowered by a backend: for `torch` an `nn.Module`. Raises ArchError."""
    return backends.get(to).lower(graph, **options)


def block(graph: Graph, name: str) -> Graph:
    """One block of a network as a network of its own: `"hoga"`, or `"hoga@scope"` where its calls differ.

    Its inputs and outputs are what the block reads and gives. Raises ArchError (A0901, A0906).
    """
    return passes_block(graph, name)


def train(graph: Graph, **options: Any) -> Any:
    """Train a network on labelled images: the module and what was measured.

    Options are `data`, `settings`, `folder`, `resume`, `device` and `progress`; see `archir_torch.TorchBackend.train`.
    """
    return backends.get("torch").train(graph, **options)


def run(recipe: str | Path, folder: str | Path, **options: Any) -> Mapping[str, Any]:
    """Run a recipe in a new folder; a summary of what it came to, which the folder has as `summary.json`, too.

    Options are `overrides`, `device`, `executor` and `watch`; see `archir_torch.TorchBackend.search`. Raises ArchError.
    """
    found: Mapping[str, Any] = backends.get("torch").search(Path(recipe), Path(folder), **options)
    return found


def resume(folder: str | Path, **options: Any) -> Mapping[str, Any]:
    """Go on with a search that was stopped, exactly where it was; a summary of what it came to. Raises ArchError."""
    found: Mapping[str, Any] = backends.get("torch").search(None, Path(folder), resume=True, **options)
    return found


def supernet(space: Space, **options: Any) -> Any:
    """A space as one `nn.Module` with shared weights: `model(x, architecture)`. Raises ArchError.

    Options are `seed` and `sharing`; see `archir_torch.TorchBackend.supernet`.
    """
    return backends.get("torch").supernet(space.graph, **options)


def extract(model: Any, architecture: Architecture) -> Any:
    """An architecture's own module with copies of the weights that it has in a supernet."""
    return backends.get("torch").extract(model, architecture)


def score(graph: Graph, proxy: str, **options: Any) -> float:
    """The score of an untrained network by a zero-cost proxy, such as `naswot` or `synflow`; more is better.

    Options are `seed`, `data`, `batch` and `device`. `scorer` is for many networks. Raises ArchError (A1110, A1111).
    """
    return scorer([proxy], **options)(graph)[proxy]


def scorer(proxies: Sequence[str], **options: Any) -> Callable[[Graph], dict[str, float]]:
    """A function from a network to its scores by name, on the same minibatch for all networks of one input size."""
    made: Callable[[Graph], dict[str, float]] = backends.get("torch").scorer(proxies, **options)
    return made


def export(graph: Graph, path: str | Path, module: Any, **options: Any) -> Any:
    """Write a network with a module's weights to an ONNX file, and verify it; the verification's report.

    Options are those of the onnx backend's `write`: `opset`, `verify`, `metadata`. Raises ArchError.
    """
    torch = backends.get("torch")
    return backends.get("onnx").write(
        graph, Path(path), torch.arrays(module), reference=torch.runner(module), **options
    )


def quantize(
    path: str | Path,
    output: str | Path,
    *,
    data: str = "digits",
    calibration: int = 256,
    seed: int = 0,
    mode: Literal["auto", "static", "dynamic"] = "auto",
    keep: Sequence[str] = (),
    max_loss: float = 1.0,
) -> Any:
    """Write an ONNX model of float32 in int8, with a certificate and a report beside it; the report.

    `calibration` images of the data that the network was trained on, drawn by the seed, give the ranges of activations,
    those that are held out the accuracy. As many layers stay in float as it takes to lose at most `max_loss` points on
    half of them, the others being what is reported, and those whose names match one of `keep`. Raises ArchError
    (A0809, A0916, A11xx, A28xx).
    """
    if Path(path).resolve() == Path(output).resolve():
        raise fail("A0809", f"cannot write {output}: it is the model that is read", None, "name another file")
    require_writable(Path(output))
    onnx = backends.get("onnx")
    size = onnx.image_size(Path(path))
    images = backends.get("torch").images(data, size, training=calibration, seed=seed)
    return onnx.quantize(Path(path), Path(output), images, mode=mode, keep=keep, max_loss=max_loss)


BENCHES = {
    "cpu": ("torch", "cpu"), "cuda": ("torch", "cuda"),
    "onnxruntime-cpu": ("onnx", "cpu"), "onnxruntime-cuda": ("onnx", "cuda"),
}  # fmt: skip
"""The devices of latency tables: which backend has them, and how it calls them."""


def bench(
    space: Space | Graph,
    path: str | Path,
    *,
    device: Device = "cpu",
    batch: int = 1,
    threads: int | None = None,
    resume: bool = False,
    watch: Watch | None = None,
) -> LatencyTable:
    """Time every operation of a space on a device, once; the table of them, which is written to `path`, too.

    With `resume`, a table that is there is gone on with, with its number of threads if none is given. Raises ArchError
    (A1501, A1503, A1505, A1506).
    """
    from archir.costs.latencies import fill as benches
    from archir.costs.latencies.workloads import workloads

    known = None
    if Path(path).exists():
        if not resume:
            raise fail("A1506", f"{path} is there already", None, "go on with it: --resume; or name another file")
        known = latency_table(path)
        threads = threads or known.threads
    todo = workloads(space if isinstance(space, Graph) else space.graph)
    with _bench(device, batch, threads) as ready:
        if known is not None:
            benches.belongs(known, device, batch, ready)
        table = known or benches.start(device, batch, ready)
        benches.fill(table, todo, ready, save=lambda one: one.write(path), watch=watch or benches.unwatched)
    return table


def validate(
    table: LatencyTable, space: Space, n: int = 20, *, seed: int = 0, watch: Watch | None = None
) -> Validation:
    """Measure `n` random architectures whole, on the table's device, against its sums. Raises ArchError."""
    from archir.costs.latencies import fill as benches

    rng = random.Random(seed)
    networks = [space.specialize(space.sample(rng)) for _ in range(n)]
    with _bench(table.device, table.batch, table.threads) as ready:
        return benches.validate(table, networks, ready, watch=watch or benches.unwatched)


def measure(
    networks: Graph | str | Path | Mapping[str, Graph | Path],
    *,
    on: Sequence[str] = (),
    batches: Sequence[int] = (1,),
    threads: int | None = None,
    seconds: float = 2.0,
    watch: Watch | None = None,
) -> Speeds:
    """Measure whole networks, side by side: graphs without choices, and ONNX files; several have names.

    `on` are `torch`, `torch-compile`, `onnxruntime-cpu`, `torch-cuda`, `torch-compile-cuda`, `onnxruntime-cuda` and
    `tensorrt`; by default, all of them that are there. Each is measured for so many seconds, at each batch size. Raises
    ArchError (A1505, A1508, and what backends do).
    """
    from archir.backends.speed.subjects import speeds
    from archir.costs.latencies.fill import unwatched

    if isinstance(networks, Graph):
        networks = {networks.name: networks}
    elif isinstance(networks, str | Path):
        networks = {str(networks): Path(networks)}
    return speeds(networks, on, batches, threads, seconds, watch or unwatched)


def latency_table(path: str | Path) -> LatencyTable:
    """The latency table of a file. Raises ArchError (A1501)."""
    from archir.costs.latencies.table import LatencyTable

    return LatencyTable.read(path)


def _bench(device: str, batch: int, threads: int | None) -> AbstractContextManager[Bench]:
    if device not in BENCHES:
        hint = suggest(device, BENCHES) or f"devices are {', '.join(BENCHES)}"
        raise fail("A1505", f"there is no device `{device}`", None, hint)
    backend, kind = BENCHES[device]
    ready: AbstractContextManager[Bench] = backends.get(backend).bench(kind, batch, threads)
    return ready
