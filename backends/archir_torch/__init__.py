"""The torch backend: lowers graphs to `nn.Module`s, trains and searches them, exports standalone Python."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from archir import __version__
from archir.backends.calls import Calls
from archir.backends.certificates import Verification
from archir.backends.input_ranges import ranged_inputs
from archir.backends.samples import Interface, Samples
from archir.backends.weight_names import NameMap
from archir.diagnostics.errors import Diagnostic, fail
from archir.ir.graph import Graph
from archir.ir.types import TensorType
from archir.passes.expose import expose
from archir.spaces.architecture import Architecture
from archir.utils.files import staged_output
from archir.utils.settings import Settings as Checked
from archir.utils.settings import parse_settings
from archir_torch.lowering import module as modules
from archir_torch.lowering import weights
from archir_torch.lowering.devices import resolve_device
from archir_torch.lowering.devices import torch_threads as limited
from archir_torch.lowering.module import Network

if TYPE_CHECKING:  # what only some methods need is imported by them: a command loads what it runs
    from archir.language.decompiler.imported import Imported
    from archir_torch.data import Split
    from archir_torch.export.package import PackageFormat
    from archir_torch.export.package import Report as PackageReport
    from archir_torch.measuring.latency import TorchBench
    from archir_torch.measuring.speed import TorchRuns
    from archir_torch.search.single import Progress, Result
    from archir_torch.supernet import SharedChannels, SuperNetwork
    from archir_torch.training.loop import Callback

Arrays = Mapping[str, NDArray[Any]]
"""Arrays by name."""


class TorchBackend:
    """The torch backend, as returned by `archir.backends.get("torch")`."""

    name = "torch"

    def supports(self, graph: Graph) -> list[Diagnostic]:
        """Return a diagnostic for each node of a graph that cannot be lowered to torch."""
        return modules.supports(graph)

    def lower(self, graph: Graph, *, seed: int = 0) -> Network:
        """Lower a graph without choices to a module with random weights generated from a seed.

        Raises ArchError (A0901, A0904).
        """
        return modules.lower(graph, generator=torch.Generator().manual_seed(seed))

    def supernet(self, graph: Graph, *, seed: int = 0, sharing: SharedChannels = "heads") -> SuperNetwork:
        """Create a supernet, which is a module for a whole space with shared weights, initialised from a seed.

        `sharing` selects which channels of the full attention a narrower attention uses: with "heads", the first
        channels of each head; with "leading", the first channels over all heads. Raises ArchError (A0904).
        """
        from archir_torch.supernet import SuperNetwork

        return SuperNetwork(graph, torch.Generator().manual_seed(seed), sharing == "heads")

    def extract(self, model: SuperNetwork, architecture: Architecture) -> Network:
        """Return the module of one architecture, with copies of the supernet's weights."""
        from archir_torch.supernet import extract

        return extract(model, architecture)

    def emit(self, graph: Graph) -> str:
        """Return the source of a Python file, importing only torch, for a graph without choices."""
        from archir_torch.export.source.emit import emit

        return emit(graph)

    def emit_block(self, graph: Graph, name: str) -> str:
        """Return the source of a Python file, importing only torch, for one block of a graph without choices.

        `name` is the block's name, or `name@scope` to select one of its calls.
        """
        from archir_torch.export.source.emit import emit_block

        return emit_block(graph, name)

    def package(
        self,
        graph: Graph,
        path: Path,
        module: Network,
        form: PackageFormat,
        *,
        metadata: Mapping[str, str] | None = None,
        deployed: bool = True,
    ) -> PackageReport:
        """Export a network as a torch package, compare it with the module, and write its certificate beside it.

        The network is first transformed by `archir.passes.deploy`, unless `deployed` is False. An existing file at the
        path is kept if the package cannot be created or its outputs differ. Raises ArchError (A0907, A0913).
        """
        from archir_torch.export import package
        from archir_torch.export.certificate import certify

        inputs = ranged_inputs(graph)
        facts = {"net": graph.name, "archir": __version__, **(metadata or {})}
        exported = package.deployed_module(graph, self.arrays(module)) if deployed else module
        reference = self.runner(module)
        with staged_output(path) as draft:
            package.write(exported, inputs, draft, form, facts)
            report = package.compare(draft, form, reference, inputs, [*graph.outputs])
            certify(draft, report, reference, inputs, facts)
        return replace(report, files=(path,))

    def verify(self, path: Path, devices: Sequence[str] = ("cpu",), *, trust: str | None = None) -> Verification:
        """Verify a package against its certificate.

        The package is loaded, which runs code in it, only if its SHA-256 is `trust`. Raises ArchError (A0913 to A0920).
        """
        from archir_torch.export.certificate import verify_package

        return verify_package(path, devices, trust)

    def import_module(
        self, module: nn.Module, example: Any, *, name: str | None = None, partial: bool = False, seed: int = 0
    ) -> Imported:
        """Import a torch module: return its graph and weights, after comparing them with the module.

        With `partial`, only the largest part of the module that archir supports is imported. Raises ArchError (A3201 to
        A3203).
        """
        from archir.language.decompiler.spelling import snake
        from archir_torch.importing import capture, proof  # torch.export takes a while to load

        generator = torch.Generator().manual_seed(seed)
        check = (lambda part: proof.require_part_equal(part, generator)) if partial else None
        result = capture.import_module(module, example, name or snake(type(module).__name__), check)
        if not result.problems:
            self.compare(module, result.graph, result.weights, example, seed=seed)
        return result

    def import_calls(
        self, calls: Calls, reference: Callable[[Arrays, Mapping[str, TensorType], Sequence[str]], Arrays], *,
        fixed: bool = False, seed: int = 0, partial: bool = False,
    ) -> Imported:  # fmt: skip
        """Import a network that another backend read from a file as operator calls: return its graph and weights.

        The imported network is compared with `reference`, which computes the file's outputs (see
        `archir_torch.importing.calls`). With `partial`, only the largest part that archir supports is imported. Raises
        ArchError (A0916, A3201 to A3203).
        """
        from archir_torch.importing.calls import importer

        return importer.import_calls(calls, reference, fixed, seed, partial)

    def compare(
        self, module: nn.Module, graph: Graph, weights: Mapping[str, NDArray[Any]], example: Any, *, seed: int = 0
    ) -> float:
        """Return the largest difference between a module and a graph with the given weights, on random inputs.

        The difference is relative to the largest magnitude of an output. Raises ArchError (A3203) if it exceeds
        rounding errors.
        """
        from archir_torch.importing import proof

        generator = torch.Generator().manual_seed(seed)
        return proof.require_equal(module, proof.network(graph, weights), graph, example, generator)

    def read_arrays(self, path: Path) -> dict[str, NDArray[Any]]:
        """Read the arrays of a safetensors file by name. Raises ArchError (A0905) if the file is invalid."""
        return {name: tensor.numpy() for name, tensor in weights.read_weights(path)[0].items()}

    def load_module(
        self, name: str, arguments: Mapping[str, Any], inputs: Sequence[str], state: Path | None = None
    ) -> tuple[nn.Module, Any]:
        """Create a torch module by calling `package.module:callable` with `arguments`, and example inputs for it.

        `inputs` are specifications such as `3x32x32`; `state` is a file with a state dict to load into the module.
        Raises ArchError (A3101, A3102, A3205).
        """
        from archir_torch.importing import entry

        return entry.create_module(name, arguments, state), entry.example_inputs(inputs)

    def save(
        self, module: nn.Module, path: Path, metadata: Mapping[str, str] | None = None, *, scope: str = ""
    ) -> None:
        """Save a module's weights as safetensors: all of them, or only those of the block at `scope`."""
        weights.save_weights(module, path, metadata, scope=scope)

    def load(self, module: nn.Module, path: Path, names: NameMap | None = None) -> dict[str, str]:
        """Load weights from a file into a module; return the file's metadata.

        `names` maps names in the file to names in the module. Raises ArchError (A0902, A0905).
        """
        return weights.load_weights(module, path, names)

    def train(
        self,
        graph: Graph,
        *,
        data: Any = "digits",
        settings: Mapping[str, Any] | None = None,
        folder: Path | None = None,
        resume: bool = False,
        device: str | None = None,
        progress: Progress | None = None,
        start: Path | None = None,
        names: NameMap | None = None,
        threads: int | None = None,
    ) -> tuple[Network, Result]:
        """Train a graph without choices. Returns the module and the measured results.

        `data` is a source for `archir_torch.data.load`; `settings` are the fields of
        `archir_torch.search.single.Settings`. The default `device` is a GPU if there is one. With several processes
        under `torchrun`, the first process writes the output folder, which must be visible to all processes. `start` is
        a file of initial weights, and `names` maps names in that file to names in the network. `threads` is the number
        of CPU threads. Raises ArchError (A11xx, A0902, A2220).
        """
        from archir.data.inputs import inputs_of
        from archir.recipes.plugins import import_named
        from archir_torch.data import describe_data, load
        from archir_torch.objectives.task import prepare_graph
        from archir_torch.search.single import Settings, fit, objective_of
        from archir_torch.training import distributed

        chosen = parse_settings(Settings, settings or {})
        import_named(data, chosen.objective)
        objective = objective_of(chosen)
        device = resolve_device(device)
        loaded = load(
            data, inputs_of(graph), seed=chosen.seed, limit=chosen.limit, labelled=objective.compares != "numbers"
        )
        task = prepare_graph(objective, graph, loaded, chosen.seed)
        exposed = expose(graph, {**graph.outputs, **task.outputs}) if set(task.outputs) - set(graph.outputs) else graph
        module = self.lower(exposed, seed=chosen.seed)
        if start is not None:
            self.load(module, start, names)
        with distributed.process_group(device) as local_device, limited(threads):
            result = fit(
                module, loaded, chosen, objective=objective, names=tuple(exposed.outputs), folder=folder, resume=resume,
                device=local_device, progress=progress,
            )  # fmt: skip
        if exposed is not graph:
            state, module = module.state_dict(), self.lower(graph)
            module.load_state_dict({name: state[name] for name in module.state_dict()})
        return module.cpu(), replace(result, images=describe_data(data, chosen.seed, loaded))

    def search(
        self,
        recipe: Path | None,
        folder: Path,
        *,
        resume: bool = False,
        fall_back: bool = False,
        overrides: Mapping[str, str] | None = None,
        device: str | None = None,
        progress: Callback | None = None,
        executor: str | None = None,
    ) -> Mapping[str, Any]:
        """Run a recipe in a new folder, or resume the run in a folder. Returns a summary of its results.

        `overrides` replace settings of the recipe: `{"data.source": "digits", "search.training.epochs": "2"}`;
        `executor` replaces the executor of all phases that score candidates (see `archir.search.executors`). Raises
        ArchError (A11xx, A18xx, A22xx, and all errors of a space), and `Interrupted` if the search was stopped.
        """
        from archir_torch.search import run  # compiling needs none of it

        return run.execute(
            recipe, folder, resume=resume, fall_back=fall_back, overrides=overrides or {},
            device=resolve_device(device), callback=progress, executor=executor,
        )  # fmt: skip

    def check_recipe(
        self, recipe: Path, *, overrides: Mapping[str, str] | None = None, device: str | None = None,
        executor: str | None = None, trust_code: bool = False,
    ) -> Mapping[str, Any]:  # fmt: skip
        """Run the checks that `search` makes before training, and return what each phase of the recipe would do.

        Modules named by the recipe are imported only with `trust_code`. Raises ArchError if a check fails.
        """
        from archir_torch.search import run  # compiling needs none of it

        return run.dry_run(recipe, overrides or {}, resolve_device(device), executor, trust_code)

    def recipe_kinds(self) -> Mapping[str, Mapping[str, type[Checked]]]:
        """Return the settings classes of all strategies and objectives, by name.

        The settings class of a strategy has the fields of its `options` in a recipe; the settings class of an objective
        has the fields beside `kind`.
        """
        self.complete()
        from archir_torch.objectives import OBJECTIVES
        from archir_torch.search.job import STRATEGIES

        return {
            "strategy": {name: kind.options for name, kind in STRATEGIES.items()},
            "objective": {name: kind.model for name, kind in OBJECTIVES.items()},
        }

    def samples(
        self, source: Any, interface: Interface, *, objective: Mapping[str, Any] | None = None, training: int = 256,
        seed: int = 0, judged: bool = True, pixels: tuple[Sequence[float], Sequence[float]] | None = None,
    ) -> Samples:  # fmt: skip
        """Return samples of a data source as arrays: some training samples, a few held-out ones, and an evaluator.

        `training` is the number of training samples, which are selected by the seed. The evaluator measures an
        objective, by default classification of labels, on all held-out samples; it is omitted if `judged` is False.
        `source`, `seed` and `pixels` are as for `archir_torch.data.load`. Raises ArchError (A0933, A11xx, A19xx).
        """
        from archir_torch.measuring.evaluator import samples

        return samples(
            source, interface, objective=objective, training=training, seed=seed, judged=judged, pixels=pixels
        )

    def complete(self) -> None:
        """Import all modules that register names, such as strategies, so that listings of names are complete."""
        from archir_torch import proxies  # noqa: F401
        from archir_torch.search import run  # noqa: F401

    @property
    def proxies(self) -> list[str]:
        """Names of the available zero-cost proxies, sorted."""
        from archir_torch.proxies import PROXIES

        return sorted(PROXIES)

    def scorer(
        self, names: Sequence[str], *, seed: int = 0, data: str = "digits", batch: int = 64, device: str = "cpu"
    ) -> Callable[[Graph], dict[str, float]]:
        """Return a function that scores a graph without choices by zero-cost proxies (see `search.proxies`).

        The seed determines the weights and the minibatch; networks with the same input shapes get the same images.
        Raises ArchError (A1110) for an unknown proxy; the returned function raises the errors of
        `archir_torch.data.minibatch` and of the proxies.
        """
        from archir.data.inputs import inputs_of
        from archir_torch.data import minibatch
        from archir_torch.proxies import PROXIES
        from archir_torch.proxies.untrained import make_trial

        device = resolve_device(device)
        for name in names:
            if PROXIES.find(name) is None:
                raise fail("A1110", f"there is no proxy `{name}`", None, PROXIES.hint(name))
        batches: dict[Any, Split] = {}

        def scores(graph: Graph) -> dict[str, float]:
            specs = inputs_of(graph)
            input_types = tuple((spec.name, spec.type) for spec in specs)
            if input_types not in batches:
                batches[input_types] = minibatch(data, specs, batch, seed=seed).to(device)
            untrained = make_trial(graph, batches[input_types], seed)
            values = {name: PROXIES[name](untrained) for name in names}
            for name, score in values.items():
                if not score < inf:
                    raise fail("A1111", f"`{name}` of `{graph.name}` is beyond floating-point numbers: {score}")
            return values

        return scores

    def devices(self) -> list[tuple[str, str, str]]:
        """Return the rows of `archir doctor` about the devices that torch can use."""
        if not torch.cuda.is_available():
            return [("torch devices", f"CPU, {torch.get_num_threads()} threads", "")]
        names = ", ".join(torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count()))
        return [("torch devices", f"{names}; CUDA {torch.version.cuda}", "")]

    def runs(
        self, network: Graph, *, device: str = "cpu", batch: int = 1, threads: int = 1, compiled: bool = False
    ) -> TorchRuns:
        """Build a network without choices for benchmarking (see `archir.backends.speed`)."""
        from archir_torch.measuring.speed import TorchRuns

        return TorchRuns(network, device, batch, threads, compiled)

    def bench(self, device: str, batch: int, threads: int | None = None) -> AbstractContextManager[TorchBench]:
        """Return a context manager that sets up `cpu` or `cuda` for timing operations.

        `threads` is the number of CPU threads, by default torch's own.
        """
        from archir_torch.measuring.latency import bench

        return bench(device, batch, threads)

    def arrays(self, module: nn.Module) -> dict[str, NDArray[Any]]:
        """Return a module's weights as arrays, by state-dict name."""
        return {name: tensor.detach().cpu().numpy() for name, tensor in module.state_dict().items()}

    def runner(self, module: Network) -> Callable[[Arrays], dict[str, NDArray[Any]]]:
        """Return a function that runs the module, in evaluation mode, on arrays by name.

        The sizes of dynamic axes may differ between calls.
        """

        def run(inputs: Arrays) -> dict[str, NDArray[Any]]:
            if missing := [name for name in module.input_names if name not in inputs]:
                raise TypeError(f"the network takes {', '.join(module.input_names)}; there is no `{missing[0]}`")
            training, open_sizes = module.training, module.open_sizes
            module.eval()
            module.open_sizes = True
            try:
                with torch.no_grad():
                    result = module(*(torch.from_numpy(np.asarray(inputs[name])) for name in module.input_names))
            finally:
                module.train(training)
                module.open_sizes = open_sizes
            outputs = result if isinstance(result, dict) else {module.output_names[0]: result}
            return {name: tensor.detach().cpu().numpy() for name, tensor in outputs.items()}

        return run


BACKEND = TorchBackend()
"""Single instance of the backend, to which the package's entry point refers."""
