"""The ONNX backend: models built from the graph itself, checked, and compared with torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray

from archir.backends.calls import Calls
from archir.backends.certificates import PROVIDERS, Verified, beside
from archir.backends.ranges import ranged_inputs
from archir.backends.samples import Interface, Samples
from archir.diagnostics.errors import Diagnostic
from archir.ir.graph import Graph
from archir.ir.types import TensorType
from archir.passes.deploy import deploy
from archir.passes.expand import expand
from archir.passes.resize import length, other_sizes, resize
from archir.utils.files import drafts
from archir_onnx.files import external
from archir_onnx.files.models import save
from archir_onnx.lowering.form import Form, form_of
from archir_onnx.lowering.interface import seen
from archir_onnx.lowering.model import build, supports
from archir_onnx.measuring.latency import OnnxBench, bench, new_weights
from archir_onnx.measuring.speed import OnnxRuns
from archir_onnx.quantization import Mode, Quantised, quantize
from archir_onnx.quantization.feeding import Entrance
from archir_onnx.quantization.quantize import report_of
from archir_onnx.reading.parts import part
from archir_onnx.reading.read import read
from archir_onnx.running.sessions import lacking, present, run, session, trouble
from archir_onnx.verification.certificate import certify, look
from archir_onnx.verification.sandbox import require_bounded
from archir_onnx.verification.verify import TOLERANCES, Report, check, verify

Arrays = Mapping[str, NDArray[Any]]


class OnnxBackend:
    """What `archir.backends.get("onnx")` gives."""

    name = "onnx"

    def supports(self, graph: Graph) -> list[Diagnostic]:
        """What of a graph cannot be lowered, with places."""
        return supports(graph)

    def problems(self, **form: Any) -> list[Diagnostic]:
        """What of a model's form cannot be, whatever the network (see `archir_onnx.lowering.form.Form`)."""
        return form_of(**form).problems()

    def lower(
        self, graph: Graph, weights: Arrays, *, metadata: Mapping[str, str] | None = None, **form: Any
    ) -> onnx.ModelProto:
        """The model of a graph without choices; options are those of its form (`lowering.form`). Raises ArchError."""
        return build(graph, weights, form_of(**form), metadata=metadata).whole()

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
        **form: Any,
    ) -> Report:
        """Write a model; check it, and compare it with a reference where there is one. Raises ArchError.

        It is what `archir.passes.deploy` makes of the network, unless `deployed` says otherwise, in the form that the
        other options say (see `archir_onnx.lowering.form`). It is compared on random inputs and on `real` ones, batches
        of what the network takes, on `providers`, by default on all that are here. `certified` writes a certificate
        beside it, `NAME.onnx.json`. What was there before is replaced if all of it holds, and else left as it is.
        """
        shape = form_of(**form)
        inputs = ranged_inputs(graph)
        sizes = other_sizes(graph, shape.dynamic) if shape.resizable and not shape.problems() else []
        others = {size: ranged_inputs(resize(graph, *size)) for size in sizes}
        own = _sizes(graph, shape)
        if deployed and not self.supports(graph):
            graph, weights = deploy(graph, weights, sizes)
        model = build(graph, weights, shape, metadata=metadata)
        with drafts(path, (beside(path), report_of(path))) as draft:
            written = save(model, draft)
            if reference is None:
                check(draft)
                report = Report(float("nan"), float("nan"), (), (), len(model.proto.graph.node))
            else:
                report = verify(
                    draft, reference, inputs, shape, sizes=others, real=real, tolerance=tolerance, providers=providers
                )
            if certified:
                wanted = None if reference is None else lambda given: reference(seen(given, shape))
                certify(draft, report, wanted, TOLERANCES[shape.precision], own)
        return replace(report, files=tuple(path.with_name(file.name) for file in written))

    def look(self, path: Path, providers: Sequence[str] = ("CPUExecutionProvider",)) -> Verified:
        """Compare a model with its certificate. Raises ArchError (A0913 to A0918)."""
        return look(path, providers)

    def interface(self, path: Path) -> Interface:
        """What a model takes and gives, as the network behind it does. Raises ArchError (A0916, A2801)."""
        model = external.read(path)
        require_bounded(model, path)
        return Entrance.of(model).interface

    def quantize(
        self,
        path: Path,
        output: Path,
        known: Samples,
        *,
        mode: Mode = "auto",
        keep: Sequence[str] = (),
        max_loss: float = 1.0,
    ) -> Quantised:
        """Write an int8 model of a float32 one, with certificate and report. Raises ArchError."""
        return quantize(path, output, known, mode=mode, keep=keep, max_loss=max_loss)

    def describe(self, path: Path) -> dict[str, Any]:
        """What a model file says of itself. Raises ArchError (A0916)."""
        model = external.read(path)

        def typed(one: onnx.ValueInfoProto) -> str:
            kind = one.type.tensor_type
            dims = ", ".join(dim.dim_param or str(dim.dim_value) for dim in kind.shape.dim)
            known = onnx.TensorProto.DataType.values()
            element = onnx.TensorProto.DataType.Name(kind.elem_type).lower() if kind.elem_type in known else "unknown"
            return f"{one.name} {element}[{dims}]"

        return {
            "producer": f"{model.producer_name} {model.producer_version}".strip(),
            "opset": ", ".join(f"{one.domain or 'ai.onnx'} {one.version}" for one in model.opset_import),
            "nodes": len(model.graph.node),
            "inputs": [typed(one) for one in model.graph.input],
            "outputs": [typed(one) for one in model.graph.output],
            "metadata": {one.key: one.value for one in model.metadata_props},
        }

    def calls(
        self, path: Path, shapes: Mapping[str, tuple[int, ...]] | None = None, *, partial: bool = False
    ) -> tuple[Calls, bool]:
        """What a model file computes, as calls, and whether it is made for one sample at a time.

        `shapes` are those of inputs that the file leaves open, without samples; `partial` says that a part is enough.
        Raises ArchError (A0916, A3202).
        """
        return read(path, shapes, partial)

    def run(self, path: Path, inputs: Arrays) -> dict[str, NDArray[Any]]:
        """Run a model file on arrays. Raises ArchError (A0914)."""
        return run(session(path), {name: np.asarray(x) for name, x in inputs.items()})

    def run_part(
        self, path: Path, inputs: Arrays, types: Mapping[str, TensorType], outputs: Sequence[str]
    ) -> dict[str, NDArray[Any]]:
        """Run the part of a model file that makes `outputs` of inputs of these types.

        Raises ArchError (A0914, A0916).
        """
        return run(session(part(path, types, outputs)), {name: np.asarray(x) for name, x in inputs.items()}, outputs)

    def prepared(self, network: Graph | Path, path: Path) -> Path:
        """The model file that `runs` takes: one that is there, looked at, or at `path` what `write` makes of a network
        without choices, with new weights. Raises ArchError (A0916, and what `write` raises)."""
        if isinstance(network, Path):
            external.read(network)
            return network
        graph = expand(network)
        self.write(graph, path, new_weights(graph))
        return path

    def runs(self, path: Path, *, device: str = "cpu", batch: int = 1, threads: int = 1) -> OnnxRuns:
        """A model file made ready to be measured (see `archir.backends.speed`) on `cpu`, `cuda` or `tensorrt`."""
        return OnnxRuns(path, device, batch, threads)

    def bench(self, device: str, batch: int, threads: int | None = None) -> AbstractContextManager[OnnxBench]:
        """`cpu` or `cuda`, made ready for timing; the default is a thread per core."""
        return bench(device, batch, threads)

    def devices(self) -> list[tuple[str, str, str]]:
        """For `archir doctor`: what onnxruntime can run on, and what it only claims to."""
        found = onnxruntime.get_available_providers()
        rows = [("onnxruntime is built for", ", ".join(name.removesuffix("ExecutionProvider") for name in found), "")]
        if "CPUExecutionProvider" not in found:
            rows.append(("onnxruntime CPU", "missing", "reinstall: pip install --force-reinstall onnxruntime-gpu"))
        for device, provider in PROVIDERS.items():
            if provider in present():
                wrong = trouble(provider)
                cure = (
                    "; pip install 'onnxruntime-gpu[cuda,cudnn]' brings libraries" if wrong and device == "cuda" else ""
                )
                rows.append((f"onnxruntime {device}", "refuses" if wrong else "works", wrong + cure))
            elif provider in found:
                rows.append((f"onnxruntime {device}", f"not here: {lacking(provider)}", ""))
        return rows


def _sizes(graph: Graph, form: Form) -> dict[str, int]:
    """The sizes of open axes that a certificate's numbers are computed at: the net's own."""
    own = {"tokens": length(graph)} if "tokens" in form.dynamic else {}
    shapes = [graph[number].op.infer().shape for number in graph.inputs.values()]
    for shape in shapes:
        own |= dict(zip(("height", "width"), shape[1:], strict=True)) if len(shape) == 3 else {}
    return {name: size for name, size in own.items() if name in form.dynamic}


BACKEND = OnnxBackend()
