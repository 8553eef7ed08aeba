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

from archir.errors import Diagnostic
from archir.images import Images
from archir.ir.graph import Graph
from archir.ir.typing import infer
from archir.passes.deploy import deploy
from archir_onnx import external
from archir_onnx.bench import OnnxBench, bench
from archir_onnx.certificate import Verified, certify, look
from archir_onnx.files import save
from archir_onnx.int8 import Mode, Quantised, quantize
from archir_onnx.int8.feeding import ImageInput
from archir_onnx.model import build, supports
from archir_onnx.verify import TOLERANCE, Report, check, session, verify

Arrays = Mapping[str, NDArray[Any]]


class OnnxBackend:
    """What `archir.backends.get("onnx")` gives."""

    name = "onnx"

    def supports(self, graph: Graph) -> list[Diagnostic]:
        """What of a graph cannot be lowered, with places."""
        return supports(graph)

    def lower(self, graph: Graph, weights: Arrays, **options: Any) -> onnx.ModelProto:
        """The model of a graph without choices; options are `opset` and `metadata`. Raises ArchError."""
        return build(graph, weights, **options).whole()

    def write(
        self,
        graph: Graph,
        path: Path,
        weights: Arrays,
        *,
        reference: Callable[[Arrays], Arrays] | None = None,
        opset: int = 23,
        metadata: Mapping[str, str] | None = None,
        tolerance: float = TOLERANCE,
        deployed: bool = True,
    ) -> Report:
        """Write a model; check it, and compare it with a reference where there is one. Raises ArchError.

        It is what `archir.passes.deploy` makes of the network, unless `deployed` says otherwise.
        """
        given, types = graph, infer(graph)
        if deployed and not self.supports(graph):
            graph, weights = deploy(graph, weights)
        model = build(graph, weights, opset=opset, metadata=metadata)
        written = tuple(save(model, path))
        if reference is None:
            check(path)
            return Report(float("nan"), float("nan"), (), (), len(model.proto.graph.node), written)
        inputs = {name: types[number] for name, number in given.inputs.items()}
        return replace(verify(path, reference, inputs, tolerance=tolerance), files=written)

    def certify(self, path: Path, report: Report, reference: Callable[[Arrays], Arrays] | None = None) -> Path:
        """Write the certificate of a model that was written, beside it; its file (see `archir_onnx.certificate`)."""
        return certify(path, report, reference)

    def look(self, path: Path, providers: Sequence[str] = ("CPUExecutionProvider",)) -> Verified:
        """Compare a model with its certificate. Raises ArchError (A0913 to A0918)."""
        return look(path, providers)

    def image_size(self, path: Path) -> tuple[int, int, int]:
        """Channels, height and width of the one image that a model takes. Raises ArchError (A0916, A2801)."""
        return ImageInput.of(external.read(path)).size

    def quantize(
        self,
        path: Path,
        output: Path,
        images: Images,
        *,
        mode: Mode = "auto",
        keep: Sequence[str] = (),
        max_loss: float = 1.0,
    ) -> Quantised:
        """Write a float32 model in int8, with certificate and report (see `archir_onnx.int8`). Raises ArchError."""
        return quantize(path, output, images, mode=mode, keep=keep, max_loss=max_loss)

    def describe(self, path: Path) -> dict[str, Any]:
        """What a model file says of itself. Raises ArchError (A0916)."""
        model = external.read(path)

        def typed(one: onnx.ValueInfoProto) -> str:
            kind = one.type.tensor_type
            dims = ", ".join(dim.dim_param or str(dim.dim_value) for dim in kind.shape.dim)
            return f"{one.name} {onnx.TensorProto.DataType.Name(kind.elem_type).lower()}[{dims}]"

        return {
            "producer": f"{model.producer_name} {model.producer_version}".strip(),
            "opset": ", ".join(f"{one.domain or 'ai.onnx'} {one.version}" for one in model.opset_import),
            "nodes": len(model.graph.node),
            "inputs": [typed(one) for one in model.graph.input],
            "outputs": [typed(one) for one in model.graph.output],
            "metadata": {one.key: one.value for one in model.metadata_props},
        }

    def run(self, path: Path, inputs: Arrays) -> dict[str, NDArray[Any]]:
        """Run a model file on arrays."""
        running = session(path)
        names = [output.name for output in running.get_outputs()]
        return dict(zip(names, running.run(names, {name: np.asarray(x) for name, x in inputs.items()}), strict=True))

    def bench(self, device: str, batch: int, threads: int | None = None) -> AbstractContextManager[OnnxBench]:
        """`cpu` or `cuda`, made ready for timing; the default is a thread per core."""
        return bench(device, batch, threads)

    def devices(self) -> list[tuple[str, str, str]]:
        """For `archir doctor`: what onnxruntime can run on, and what it only claims to."""
        found = onnxruntime.get_available_providers()
        rows = [("onnxruntime is built for", ", ".join(name.removesuffix("ExecutionProvider") for name in found), "")]
        if "CPUExecutionProvider" not in found:
            rows.append(("onnxruntime CPU", "missing", "reinstall: pip install --force-reinstall onnxruntime-gpu"))
        return rows


BACKEND = OnnxBackend()
