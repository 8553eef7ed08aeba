"""The torch backend: graphs as `nn.Module`s, trained, and written as standalone Python."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from archir import __version__
from archir.backends.calls import Calls
from archir.backends.certificates import Verified
from archir.backends.naming import Names
from archir.backends.ranges import ranged_inputs
from archir.backends.samples import Interface, Samples
from archir.data.inputs import inputs_of
from archir.diagnostics.errors import Diagnostic, fail
from archir.ir.graph import Graph
from archir.ir.types import TensorType
from archir.language.decompiler.imported import Imported
from archir.language.decompiler.spelling import snake
from archir.passes.expose import expose
from archir.recipes.plugins import import_named
from archir.spaces.architecture import Architecture
from archir.utils.files import drafts
from archir.utils.settings import Settings as Checked
from archir.utils.settings import parsed
from archir_torch.data import Split, about, load, minibatch
from archir_torch.export import package
from archir_torch.export.certificate import certify, look
from archir_torch.export.source.emit import emit, emit_block
from archir_torch.importing import entry, proof
from archir_torch.lowering import module as modules
from archir_torch.lowering import weights
from archir_torch.lowering.devices import device_of
from archir_torch.lowering.devices import threads as limited
from archir_torch.lowering.module import Network
from archir_torch.measuring.judge import samples
from archir_torch.measuring.latency import TorchBench, bench
from archir_torch.measuring.speed import TorchRuns
from archir_torch.objectives.task import prepared
from archir_torch.proxies import PROXIES
from archir_torch.proxies.untrained import trial
from archir_torch.search.single import Progress, Result, Settings, fit, objective_of
from archir_torch.supernet import Sharing, SuperNetwork, extract
from archir_torch.training import distributed
from archir_torch.training.loop import Watch

Arrays = Mapping[str, NDArray[Any]]


class TorchBackend:
    """What `archir.backends.get("torch")` gives."""

    name = "torch"

    def supports(self, graph: Graph) -> list[Diagnostic]:
        """What of a graph cannot be lowered, with places."""
        return modules.supports(graph)

    def lower(self, graph: Graph, *, seed: int = 0) -> Network:
        """The module of a graph without choices, its weights drawn with a seed. Raises ArchError (A0901, A0904)."""
        return modules.lower(graph, generator=torch.Generator().manual_seed(seed))

    def supernet(self, graph: Graph, *, seed: int = 0, sharing: Sharing = "heads") -> SuperNetwork:
        """A space with shared weights, drawn with a seed. `sharing="leading"`: smaller attentions have the first
        channels, not the first ones of each head. Raises ArchError (A0904)."""
        return SuperNetwork(graph, torch.Generator().manual_seed(seed), sharing == "heads")

    def extract(self, model: SuperNetwork, architecture: Architecture) -> Network:
        """An architecture's own network, with copies of its weights."""
        return extract(model, architecture)

    def emit(self, graph: Graph) -> str:
        """A graph without choices as a Python file that imports torch alone."""
        return emit(graph)

    def emit_block(self, graph: Graph, name: str) -> str:
        """One block of a graph without choices, `name` or `name@scope`, as a Python file that imports torch alone."""
        return emit_block(graph, name)

    def package(
        self,
        graph: Graph,
        path: Path,
        module: Network,
        form: package.Form,
        *,
        metadata: Mapping[str, str] | None = None,
        deployed: bool = True,
    ) -> package.Report:
        """Write a network as a package of torch, compare it with the module, and write its certificate beside it.

        It is what `archir.passes.deploy` makes of the network, unless `deployed` says otherwise. What was there before
        stays if the package cannot be made, or computes something else. Raises ArchError (A0907, A0913).
        """
        inputs = ranged_inputs(graph)
        facts = {"net": graph.name, "archir": __version__, **(metadata or {})}
        written = package.deployed(graph, self.arrays(module)) if deployed else module
        reference = self.runner(module)
        with drafts(path) as draft:
            package.write(written, inputs, draft, form, facts)
            report = package.compare(draft, form, reference, inputs, [*graph.outputs])
            certify(draft, report, reference, inputs, facts)
        return replace(report, files=(path,))

    def look(self, path: Path, devices: Sequence[str] = ("cpu",), *, trust: str | None = None) -> Verified:
        """Compare a package with its certificate. It is loaded, which runs code in it, only if `trust` is its SHA-256.

        Raises ArchError (A0913 to A0920).
        """
        return look(path, devices, trust)

    def imported(
        self, module: nn.Module, example: Any, *, name: str | None = None, partial: bool = False, seed: int = 0
    ) -> Imported:
        """A module's graph and weights, or if it is `partial` those of its largest part that can be had, compared with
        it on random inputs. Raises ArchError (A3201 to A3203)."""
        from archir_torch.importing import capture  # torch.export takes a while to load

        generator = torch.Generator().manual_seed(seed)
        check = (lambda part: proof.prove_part(part, generator)) if partial else None
        found = capture.imported(module, example, name or snake(type(module).__name__), check)
        if not found.problems:
            self.compare(module, found.graph, found.weights, example, seed=seed)
        return found

    def followed(
        self, calls: Calls, reference: Callable[[Arrays, Mapping[str, TensorType], Sequence[str]], Arrays], *,
        fixed: bool = False, seed: int = 0, partial: bool = False,
    ) -> Imported:  # fmt: skip
        """The graph and weights of a network that another backend read from a file, or if it is `partial` those of its
        largest part that can be had, compared with what the file gives (see `archir_torch.importing.calls`).

        Raises ArchError (A0916, A3201 to A3203).
        """
        from archir_torch.importing.calls import following

        return following.followed(calls, reference, fixed, seed, partial)

    def compare(
        self, module: nn.Module, graph: Graph, weights: Mapping[str, NDArray[Any]], example: Any, *, seed: int = 0
    ) -> float:
        """How far a graph with these weights is from a module on random inputs, relative to its largest output.

        Raises ArchError (A3203) where that is more than rounding.
        """
        generator = torch.Generator().manual_seed(seed)
        return proof.prove(module, proof.network(graph, weights), graph, example, generator)

    def read(self, path: Path) -> dict[str, NDArray[Any]]:
        """The arrays of a safetensors file. Raises ArchError (A0905)."""
        return {name: tensor.numpy() for name, tensor in weights.read_weights(path)[0].items()}

    def called(
        self, name: str, arguments: Mapping[str, Any], inputs: Sequence[str], state: Path | None = None
    ) -> tuple[nn.Module, Any]:
        """The module that `package.module:callable` gives for arguments, and an example of inputs such as `3x32x32`.

        `state` is a state dict that is loaded into it. Raises ArchError (A3101, A3102, A3205).
        """
        return entry.called(name, arguments, state), entry.example(inputs)

    def save(
        self, module: nn.Module, path: Path, metadata: Mapping[str, str] | None = None, *, scope: str = ""
    ) -> None:
        """Write a module's weights as safetensors: all of them, or those of the block at a scope."""
        weights.save_weights(module, path, metadata, scope=scope)

    def load(self, module: nn.Module, path: Path, names: Names | None = None) -> dict[str, str]:
        """Load weights into a module, by names that a map may say; their metadata. Raises ArchError (A0902, A0905)."""
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
        names: Names | None = None,
        threads: int | None = None,
    ) -> tuple[Network, Result]:
        """Train a graph without choices; the module, and what was measured.

        `data` is what `archir_torch.data.load` takes, `settings` the fields of `archir_torch.search.single.Settings`,
        `device` by default a GPU where there is one. Of several processes under `torchrun`, the first one writes the
        folder, which all of them see. `start` is a file of weights to begin with, whose `names` a map may
        say; `threads` are those of the CPU. Raises ArchError (A11xx, A0902, A2220).
        """
        chosen = parsed(Settings, settings or {})
        import_named(data, chosen.objective)
        objective = objective_of(chosen)
        device = device_of(device)
        loaded = load(data, inputs_of(graph), seed=chosen.seed, labelled=objective.compares != "numbers")
        seen = prepared(objective, graph, loaded, chosen.seed)
        trained = expose(graph, {**graph.outputs, **seen.outputs}) if set(seen.outputs) - set(graph.outputs) else graph
        module = self.lower(trained, seed=chosen.seed)
        if start is not None:
            self.load(module, start, names)
        with distributed.joined(device) as own, limited(threads):
            result = fit(
                module, loaded, chosen, objective=objective, names=tuple(trained.outputs), folder=folder, resume=resume,
                device=own, progress=progress,
            )  # fmt: skip
        if trained is not graph:
            whole, module = module.state_dict(), self.lower(graph)
            module.load_state_dict({name: whole[name] for name in module.state_dict()})
        return module.cpu(), replace(result, images=about(data, chosen.seed, loaded))

    def search(
        self,
        recipe: Path | None,
        folder: Path,
        *,
        resume: bool = False,
        fall_back: bool = False,
        overrides: Mapping[str, str] | None = None,
        device: str | None = None,
        watch: Watch | None = None,
        executor: str | None = None,
    ) -> Mapping[str, Any]:
        """Run a recipe in a folder, or go on with the run that is there; a summary of what it came to.

        `overrides` replace settings of the recipe: `{"data.source": "digits", "search.training.epochs": "2"}`;
        `executor` replaces those of phases that score candidates (see `archir.search.executors`). Raises ArchError
        (A11xx, A18xx, A22xx, and whatever is wrong with a space); `Interrupted` when it was stopped.
        """
        from archir_torch.search import run  # compiling needs none of it

        return run.execute(
            recipe, folder, resume=resume, fall_back=fall_back, overrides=overrides or {},
            device=device_of(device), watch=watch, executor=executor,
        )  # fmt: skip

    def check_recipe(
        self, recipe: Path, *, overrides: Mapping[str, str] | None = None, device: str | None = None,
        executor: str | None = None, trust_code: bool = False,
    ) -> Mapping[str, Any]:  # fmt: skip
        """What each phase of a recipe would do, after all that `search` checks before it trains. Raises ArchError.

        The modules that it names are imported only with `trust_code`."""
        from archir_torch.search import run  # compiling needs none of it

        return run.checked(recipe, overrides or {}, device_of(device), executor, trust_code)

    def recipe_kinds(self) -> Mapping[str, Mapping[str, type[Checked]]]:
        """The settings of all strategies and objectives by name: the `options` of one, what stands beside `kind` of
        the other."""
        self.complete()
        from archir_torch.objectives import OBJECTIVES
        from archir_torch.search.job import STRATEGIES

        return {
            "strategy": {name: kind.options for name, kind in STRATEGIES.items()},
            "objective": {name: kind.model for name, kind in OBJECTIVES.items()},
        }

    def samples(
        self, source: Any, interface: Interface, *, objective: Mapping[str, Any] | None = None, training: int = 256,
        seed: int = 0, judged: bool = True,
    ) -> Samples:  # fmt: skip
        """The samples of a source as arrays: so many that are trained on, drawn by the seed, a few that are held out,
        and what an objective measures on all of these, if it is to be `judged`: by default
        classification, of labels.

        `source` and `seed` are those of `archir_torch.data.load`. Raises ArchError (A1108, A1116, A11xx, A19xx).
        """
        return samples(source, interface, objective=objective, training=training, seed=seed, judged=judged)

    def complete(self) -> None:
        """Import all that registers something, for whoever lists it."""
        from archir_torch.search import run  # noqa: F401

    @property
    def proxies(self) -> list[str]:
        """The names of the zero-cost proxies."""
        return sorted(PROXIES)

    def scorer(
        self, names: Sequence[str], *, seed: int = 0, data: str = "digits", batch: int = 64, device: str = "cpu"
    ) -> Callable[[Graph], dict[str, float]]:
        """A function from a graph without choices to its scores by zero-cost proxies; see `search.proxies`.

        The seed draws weights and minibatch: the same images for all networks whose inputs are as large. Raises
        ArchError (A1110) if there is no such proxy; the function does as `archir_torch.data.minibatch` and proxies do.
        """
        device = device_of(device)
        for name in names:
            if name not in PROXIES:
                raise fail("A1110", f"there is no proxy `{name}`", None, PROXIES.hint(name))
        batches: dict[Any, Split] = {}

        def scores(graph: Graph) -> dict[str, float]:
            wanted = inputs_of(graph)
            size = tuple((one.name, one.type) for one in wanted)
            if size not in batches:
                batches[size] = minibatch(data, wanted, batch, seed=seed).to(device)
            untrained = trial(graph, batches[size], seed)
            found = {name: PROXIES[name](untrained) for name in names}
            for name, score in found.items():
                if not score < inf:
                    raise fail("A1111", f"`{name}` of `{graph.name}` is beyond floating-point numbers: {score}")
            return found

        return scores

    def devices(self) -> list[tuple[str, str, str]]:
        """For `archir doctor`: what torch can run on."""
        if not torch.cuda.is_available():
            return [("torch devices", f"CPU, {torch.get_num_threads()} threads", "")]
        names = ", ".join(torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count()))
        return [("torch devices", f"{names}; CUDA {torch.version.cuda}", "")]

    def runs(
        self, network: Graph, *, device: str = "cpu", batch: int = 1, threads: int = 1, compiled: bool = False
    ) -> TorchRuns:
        """A network without choices made ready to be measured (see `archir.backends.speed`)."""
        return TorchRuns(network, device, batch, threads, compiled)

    def bench(self, device: str, batch: int, threads: int | None = None) -> AbstractContextManager[TorchBench]:
        """`cpu` or `cuda`, made ready for timing; the default is torch's own number of threads."""
        return bench(device, batch, threads)

    def arrays(self, module: nn.Module) -> dict[str, NDArray[Any]]:
        """A module's weights as arrays by state-dict name."""
        return {name: tensor.detach().cpu().numpy() for name, tensor in module.state_dict().items()}

    def runner(self, module: Network) -> Callable[[Arrays], dict[str, NDArray[Any]]]:
        """The module in evaluation mode as a function of named arrays, of any sizes where some may be open."""

        def run(inputs: Arrays) -> dict[str, NDArray[Any]]:
            if missing := [name for name in module.input_names if name not in inputs]:
                raise TypeError(f"the network takes {', '.join(module.input_names)}; there is no `{missing[0]}`")
            training, open_sizes = module.training, module.open_sizes
            module.eval()
            module.open_sizes = True
            try:
                with torch.no_grad():
                    found = module(*(torch.from_numpy(np.asarray(inputs[name])) for name in module.input_names))
            finally:
                module.train(training)
                module.open_sizes = open_sizes
            outputs = found if isinstance(found, dict) else {module.output_names[0]: found}
            return {name: tensor.detach().cpu().numpy() for name, tensor in outputs.items()}

        return run


BACKEND = TorchBackend()
