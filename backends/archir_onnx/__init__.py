"""ONNX backend: builds models directly from archir's graph, checks them, and compares them with PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import onnx
import onnxruntime
from numpy.typing import NDArray

from archir.backends.calls import Calls
from archir.backends.certificates import PROVIDERS, Verification, certificate_path
from archir.backends.input_ranges import ranged_inputs
from archir.backends.samples import Interface, Samples
from archir.data.metadata import LABELS, labels_in
from archir.diagnostics.errors import Diagnostic, fail
from archir.ir.graph import Graph
from archir.ir.types import TensorType
from archir.passes.deploy import deploy
from archir.passes.expand import expand
from archir.passes.resize import accepted_image_sizes, resize, token_count, valid_sizes
from archir.utils.files import staged_output
from archir_onnx.files import external
from archir_onnx.files.models import report_path, save
from archir_onnx.lowering.export_options import ExportOptions, make_options
from archir_onnx.lowering.interface import normalize_inputs
from archir_onnx.lowering.model import build, supports
from archir_onnx.running.sessions import available_providers, missing_requirement, provider_error

if TYPE_CHECKING:  # what only some methods need is imported by them: a command loads what it runs
    from archir_onnx.measuring.latency import OnnxBench
    from archir_onnx.measuring.speed import OnnxRuns
    from archir_onnx.quantization import Mode, Quantised
    from archir_onnx.verification.verify import Report

Arrays = Mapping[str, NDArray[Any]]


class OnnxBackend:
    """The ONNX backend, as returned by `archir.backends.get("onnx")`."""

    name = "onnx"

    def supports(self, graph: Graph) -> list[Diagnostic]:
        """Return a diagnostic, with its source position, for everything in a graph that cannot be lowered to ONNX."""
        return supports(graph)

    def problems(self, **options: Any) -> list[Diagnostic]:
        """Return diagnostics for invalid export options, independently of a network.

        The options are described in `lowering.export_options.ExportOptions`.
        """
        return make_options(**options).problems()

    def lower(
        self, graph: Graph, weights: Arrays, *, metadata: Mapping[str, str] | None = None, **options: Any
    ) -> onnx.ModelProto:
        """Return the ONNX model of a graph without choices. `options` are export options.

        Raises ArchError if the graph or the options are not supported, or weights do not fit (see
        `lowering.model.build`).
        """
        return build(graph, weights, make_options(**options), metadata=metadata).to_proto()

    def write(
        self,
        graph: Graph,
        path: Path,
        weights: Arrays,
        *,
        reference: Callable[[Arrays], Arrays] | None = None,
        real: Arrays | None = None,
        metadata: Mapping[str, str] | None = None,
        tolerance: float | None = None,
        deployed: bool = True,
        certified: bool = False,
        providers: Sequence[str] | None = None,
        **options: Any,
    ) -> Report:
        """Write a model file, check it, and compare it with the function `reference`, if given.

        The network is first simplified by `archir.passes.deploy`, unless `deployed` is False; `options` are the export
        options (see `archir_onnx.lowering.export_options`). The model and `reference` are compared on random inputs and
        on the batches of network inputs in `real`, on the execution `providers` (by default all available ones). With
        `certified`, a certificate `NAME.onnx.json` is written beside the model. Existing files are replaced only if
        everything succeeds. Raises ArchError.
        """
        from archir_onnx.verification.certificate import certify
        from archir_onnx.verification.verify import TOLERANCES, Report, check, verify

        if LABELS in (metadata or {}) and not labels_in(metadata or {}):
            raise fail("A0911", f"the metadata `{LABELS}` must be a JSON list of the names of the classes")
        export_options = make_options(**options)
        inputs = ranged_inputs(graph)
        sizes = (
            valid_sizes(graph, export_options.dynamic)
            if export_options.has_open_sizes and not export_options.problems()
            else []
        )
        accepted = accepted_image_sizes(graph, export_options.dynamic) if sizes else None
        if accepted is not None:
            sizes = list(dict.fromkeys([*sizes, *accepted.examples]))
            metadata = {**(metadata or {}), "image sizes": str(accepted)}
        others = {size: ranged_inputs(resize(graph, *size)) for size in sizes}
        own = _own_sizes(graph, export_options)
        if deployed and not self.supports(graph):
            graph, weights = deploy(graph, weights, sizes)
        model = build(graph, weights, export_options, metadata=metadata)
        with staged_output(path, (certificate_path(path), report_path(path))) as draft:
            files = save(model, draft)
            if reference is None:
                check(draft, export_options.runtime)
                report = Report(float("nan"), float("nan"), (), (), len(model.proto.graph.node))
            else:
                report = verify(
                    draft,
                    reference,
                    inputs,
                    export_options,
                    sizes=others,
                    real=real,
                    tolerance=tolerance,
                    providers=providers,
                )
            if certified:
                certified_reference = (
                    None if reference is None else lambda arrays: reference(normalize_inputs(arrays, export_options))
                )
                examples = [] if accepted is None else [own | _named(size, own) for size in accepted.examples]
                certify(
                    draft, report, certified_reference, TOLERANCES[export_options.precision], own,
                    *(example for example in examples if example != own),
                )  # fmt: skip
        note = "; ".join(filter(None, (report.note, f"accepts {accepted}" if accepted else "")))
        return replace(report, note=note, files=tuple(path.with_name(file.name) for file in files))

    def verify(self, path: Path, providers: Sequence[str] = ("CPUExecutionProvider",)) -> Verification:
        """Verify a model against its certificate. Raises ArchError (A0913 to A0918)."""
        from archir_onnx.verification.certificate import check_certificate

        return check_certificate(path, providers)

    def interface(self, path: Path) -> Interface:
        """Return the inputs and outputs of the network in a model file, without the model's own preprocessing.

        Raises ArchError (A0916, A2801).
        """
        from archir_onnx.quantization.batch_inference import ModelInterface
        from archir_onnx.verification.sandbox import require_bounded

        model = external.load_model(path)
        require_bounded(model, path)
        return ModelInterface.of(model).interface

    def quantize(
        self,
        path: Path,
        output: Path,
        samples: Samples,
        *,
        mode: Mode = "auto",
        keep: Sequence[str] = (),
        max_loss: float = 1.0,
        seconds: float = 2.0,
        labels: Sequence[str] = (),
    ) -> Quantised:
        """Write an int8 version of a float32 model, with certificate and report.

        Raises ArchError (see `quantization.quantize`).
        """
        from archir_onnx.quantization import quantize

        return quantize(path, output, samples, mode=mode, keep=keep, max_loss=max_loss, seconds=seconds, labels=labels)

    def describe(self, path: Path) -> dict[str, Any]:
        """Return a description of a model file: producer, opset, number of nodes, inputs, outputs, metadata.

        Raises ArchError (A0916) if the file is not a valid model.
        """
        model = external.load_model(path)

        def typed(value_info: onnx.ValueInfoProto) -> str:
            kind = value_info.type.tensor_type
            dims = ", ".join(dim.dim_param or str(dim.dim_value) for dim in kind.shape.dim)
            element_types = onnx.TensorProto.DataType.values()
            element = (
                onnx.TensorProto.DataType.Name(kind.elem_type).lower() if kind.elem_type in element_types else "unknown"
            )
            return f"{value_info.name} {element}[{dims}]"

        return {
            "producer": f"{model.producer_name} {model.producer_version}".strip(),
            "opset": ", ".join(
                f"{value_info.domain or 'ai.onnx'} {value_info.version}" for value_info in model.opset_import
            ),
            "nodes": len(model.graph.node),
            "inputs": [typed(value_info) for value_info in model.graph.input],
            "outputs": [typed(value_info) for value_info in model.graph.output],
            "metadata": {value_info.key: value_info.value for value_info in model.metadata_props},
        }

    def calls(
        self, path: Path, shapes: Mapping[str, tuple[int, ...]] | None = None, *, partial: bool = False
    ) -> tuple[Calls, bool]:
        """Return the operator calls of a model file, and whether the model is fixed to a batch size of 1.

        `shapes` gives the shapes, without the batch axis, of inputs that have axes of dynamic size in the file.
        `partial` allows importing a part of the model. Raises ArchError (A0916, A3202).
        """
        from archir_onnx.reading.model_calls import read_calls

        return read_calls(path, shapes, partial)

    def run(self, path: Path, inputs: Arrays) -> dict[str, NDArray[Any]]:
        """Run a model file on arrays by input name, in a sandbox; return its outputs by name.

        Raises ArchError (A0914, A0916) if the model cannot be run.
        """
        from archir_onnx.reading.submodels import extract_submodel
        from archir_onnx.verification.sandbox import run_on_arrays

        return run_on_arrays(extract_submodel(external.load_model(path)), path, inputs)

    def run_part(
        self, path: Path, inputs: Arrays, types: Mapping[str, TensorType], outputs: Sequence[str]
    ) -> dict[str, NDArray[Any]]:
        """Run the part of a model file that computes `outputs` from the values in `inputs`, which have the given types.

        The part runs in a sandbox. Raises ArchError (A0914, A0916).
        """
        from archir_onnx.reading.submodels import extract_submodel
        from archir_onnx.verification.sandbox import run_on_arrays

        return run_on_arrays(extract_submodel(external.load_model(path), types, outputs), path, inputs)

    def prepared(self, network: Graph | Path, path: Path) -> Path:
        """Return the path of a model file that `runs` can benchmark.

        If `network` is a file, the file is validated and its path is returned. If `network` is a graph, a model with
        random weights is written to `path`. Raises ArchError (A0916, and all errors of `write`).
        """
        from archir_onnx.measuring.latency import random_weights

        if isinstance(network, Path):
            external.load_model(network)
            return network
        graph = expand(network)
        self.write(graph, path, random_weights(graph))
        return path

    def runs(self, path: Path, *, device: str = "cpu", batch: int = 1, threads: int = 1) -> OnnxRuns:
        """Load a model file for benchmarking (see `archir.backends.speed`) on `cpu`, `cuda` or `tensorrt`."""
        from archir_onnx.measuring.speed import OnnxRuns

        return OnnxRuns(path, device, batch, threads)

    def bench(self, device: str, batch: int, threads: int | None = None) -> AbstractContextManager[OnnxBench]:
        """Return a context manager that sets up the device `cpu` or `cuda` for timing operations.

        `threads` is the number of CPU threads, by default one per core.
        """
        from archir_onnx.measuring.latency import bench

        return bench(device, batch, threads)

    def devices(self) -> list[tuple[str, str, str]]:
        """Return the rows of `archir doctor` about onnxruntime's execution providers and whether each works."""
        providers = onnxruntime.get_available_providers()
        rows = [
            ("onnxruntime is built for", ", ".join(name.removesuffix("ExecutionProvider") for name in providers), "")
        ]
        if "CPUExecutionProvider" not in providers:
            rows.append(("onnxruntime CPU", "missing", "reinstall: pip install --force-reinstall onnxruntime-gpu"))
        for device, provider in PROVIDERS.items():
            if provider in available_providers():
                error = provider_error(provider)
                remedy = (
                    "; pip install 'onnxruntime-gpu[cuda,cudnn]' brings libraries" if error and device == "cuda" else ""
                )
                rows.append((f"onnxruntime {device}", "refuses" if error else "works", error + remedy))
            elif provider in providers:
                rows.append((f"onnxruntime {device}", f"not here: {missing_requirement(provider)}", ""))
        return rows


def _own_sizes(graph: Graph, options: ExportOptions) -> dict[str, int]:
    """Return the sizes of dynamic axes for which certificates are computed: the sizes declared in the net."""
    own = {"tokens": token_count(graph)} if "tokens" in options.dynamic else {}
    shapes = [graph[number].op.infer().shape for number in graph.inputs.values()]
    for shape in shapes:
        own |= dict(zip(("height", "width"), shape[1:], strict=True)) if len(shape) == 3 else {}
    return {name: size for name, size in own.items() if name in options.dynamic}


def _named(size: tuple[int, ...], own: Mapping[str, int]) -> dict[str, int]:
    """Return a height and width by the names of the dynamic axes."""
    return {name: number for name, number in zip(("height", "width"), size, strict=True) if name in own}


BACKEND = OnnxBackend()
