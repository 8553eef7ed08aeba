"""Lowering of networks to executable forms: torch modules, ONNX models, int8 models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

from archir import backends
from archir.api.loading import as_graph
from archir.backends.certificates import require_model
from archir.backends.suffixes import ONNX_FORMATS, output_format
from archir.diagnostics.errors import ArchError, RuleError, fail
from archir.ir.graph import Graph
from archir.passes.block import block as part
from archir.passes.resize import trim_position_tables
from archir.utils.files import require_writable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from archir.spaces.space import Space
    from archir_onnx.quantization.quantize import Quantised  # noqa: TID251  (types, never imported)
    from archir_onnx.verification.verify import Report  # noqa: TID251
    from archir_torch.lowering.module import Network  # noqa: TID251

__all__ = ["block", "compile", "export", "quantize"]


@overload
def compile(graph: Graph | Space, to: Literal["torch"] = "torch", *, seed: int | None = None) -> Network: ...


@overload
def compile(graph: Graph | Space, to: str, *, seed: int | None = None) -> Any: ...


def compile(graph: Graph | Space, to: str = "torch", *, seed: int | None = None) -> Any:
    """Lower a network by a backend; by default to a torch `nn.Module`.

    Args:
        graph: A graph, or a space without choices.
        to: Name of the backend: `torch`, or that of a plugin; `onnx` needs weights, see `export`.
        seed: Seed of the initial weights (default 0); it is passed to other backends only if it is given.

    Returns:
        By default a torch module, which takes tensors [N, ...] and returns a tensor, or a dictionary by name if the net
        has several outputs; otherwise the output of the backend.

    Raises:
        ArchError: A0901 (choices are left), A0903 (no such backend), A0904 (the backend cannot lower an operation).

    Examples:
        >>> import torch
        >>> module = archir.compile(network, seed=0)
        >>> module(torch.zeros(2, 1, 8, 8)).shape
        torch.Size([2, 10])
    """
    return backends.get(to).lower(as_graph(graph), **({} if seed is None else {"seed": seed}))


def block(graph: Graph | Space, name: str) -> Graph:
    """Return one block of a network as a network of its own.

    The inputs and outputs of the result are the tensors that the block reads and returns.

    Args:
        graph: A graph, or a space without choices.
        name: Name of the block, such as `"hoga"`; if its calls differ, `"hoga@scope"` selects the call at a scope.

    Returns:
        The graph of the block.

    Raises:
        ArchError: A0901 (choices are left), A0906 (there is no such block, or the name is ambiguous).

    Examples:
        >>> unit = archir.block(archir.load("fixed.arch"), "unit@unit")
        >>> [unit[node].op.name for node in unit]
        ['input', 'conv', 'batch_norm', 'relu']
    """
    return part(as_graph(graph), name)


def export(
    graph: Graph | Space,
    path: str | Path,
    module: Network,
    *,
    opset: int | None = None,
    runtime: Literal["cpu", "cuda", "openvino", "tensorrt", "web", "ncnn"] | None = None,
    precision: Literal["float32", "float16", "bfloat16"] = "float32",
    dynamic: Sequence[Literal["batch", "height", "width", "tokens"]] = ("batch",),
    batch: int = 1,
    pixels: tuple[Sequence[float], Sequence[float]] | None = None,
    scales: Mapping[str, Mapping[str, Any]] | None = None,
    attention: Literal["auto", "decomposed", "standard", "fused"] = "auto",
    deployed: bool = True,
    certified: bool = False,
    metadata: Mapping[str, str] | None = None,
    real: Mapping[str, NDArray[np.float32]] | None = None,
    tolerance: float | None = None,
    providers: Sequence[str] | None = None,
) -> Report:
    """Write a network with a module's weights to an ONNX file, and verify the model against the module.

    The model is compared with the module on random inputs and on real samples. An existing file is replaced only if all
    comparisons succeed.

    Args:
        graph: A graph, or a space without choices.
        path: The file to write; it must end in `.onnx`.
        module: The module whose weights are written.
        opset: Opset of the model, 17 to 26; by default the lowest that suits the network and the runtime.
        runtime: The runtime that must run the model, by default all but ncnn.
        precision: Type of the weights; inputs and outputs are float32.
        dynamic: Axes whose sizes are left open; without the batch axis, the batch size is fixed to `batch`.
        batch: Number of samples, if the batch axis is fixed.
        pixels: Means and standard deviations of pixels scaled to 0..1, one per channel or one for all; the model then
            takes raw images, uint8 [N, H, W, C], and normalises them itself.
        scales: The same for inputs by name: `result.images["scales"]` of a training, or `{"tone": {"of": "numbers",
            "mean": [0.0], "std": [2.0]}}`.
        attention: Operators that compute attention (docs/deployment.md).
        deployed: Leave out operations that have an effect only in training.
        certified: Write a certificate beside the model.
        metadata: Texts by name that are stored in the model. `labels`, a JSON list with the names of the classes in the
            order of the outputs, is what `archir.quantize` and the HTTP service (docs/serve.md) read.
        real: Samples to compare on, arrays [N, ...] by input name.
        tolerance: Largest relative difference, by default one that suits the precision.
        providers: Execution providers of onnxruntime to compare on, by default all that are available.

    Returns:
        The report of the comparison: its `absolute` and `relative` differences, `nodes`, `files`.

    Raises:
        ArchError: A0809 (the path does not end in `.onnx`), A0902 to A0931 (the network cannot be exported in this
            form, or the model differs from the module).

    Examples:
        >>> module = archir.compile(network)
        >>> report = archir.export(network, "net.onnx", module, certified=True)
        >>> report.relative < 1e-5, [file.name for file in report.files]
        (True, ['net.onnx'])
    """
    _require_onnx_suffix(Path(path))
    torch, graph = backends.get("torch"), as_graph(graph)
    if "tokens" in dynamic:
        graph, state = trim_position_tables(graph), module.state_dict()
        module = torch.lower(graph)
        module.load_state_dict(state)
    return backends.get("onnx").write(
        graph, Path(path), torch.arrays(module), reference=torch.runner(module), real=real, metadata=metadata,
        tolerance=tolerance, deployed=deployed, certified=certified, providers=providers, opset=opset,
        runtime=runtime, precision=precision, dynamic=tuple(dynamic), batch=batch, pixels=pixels, scales=scales,
        attention=attention,
    )  # fmt: skip


def _require_onnx_suffix(output: Path) -> None:
    """Raise ArchError (A0809) if the name of a file to write does not end in `.onnx`."""
    try:
        output_format(None, output, ONNX_FORMATS)
    except RuleError as error:
        raise fail("A0809", error.message) from None


def quantize(
    path: str | Path,
    output: str | Path,
    *,
    data: Any = "digits",
    pixels: tuple[Sequence[float], Sequence[float]] | None = None,
    labels: Sequence[str] = (),
    objective: Mapping[str, Any] | None = None,
    calibration: int = 256,
    seed: int = 0,
    mode: Literal["auto", "static", "dynamic", "int4"] = "auto",
    keep: Sequence[str] = (),
    max_loss: float = 1.0,
    seconds: float = 2.0,
) -> Quantised:
    """Quantise a float32 ONNX model to int8 or int4; write the model, a certificate and a report.

    Layers stay in float until the loss of the objective's criterion on one half of the held-out samples is at most
    `max_loss`. The report is measured on the other half.

    Args:
        path: The model.
        output: The file to write; it must end in `.onnx`.
        data: The data source on which the network was trained (docs/data.md).
        pixels: Means and standard deviations of pixels scaled to 0..1, one per channel or one for all, by which images
            are normalised for the model, as for `export`; by default those of the training images.
        labels: Names of the classes in the order of the model's outputs, by default those in its metadata. Classes of
            the data are matched by name; without labels, by number.
        objective: Measures quality on the held-out samples, as in training; by default classification if the samples
            have labels, and otherwise nothing is measured.
        calibration: Number of training samples that determine the ranges of activations.
        seed: Seed that selects these samples.
        mode: `"static"` determines ranges once, from the calibration samples; `"dynamic"` determines them for each
            input, in linear layers only; `"auto"` tries both for transformers and keeps the faster one. `"int4"` stores
            the weights of linear layers in 4 bits, for language models in onnxruntime.
        keep: Patterns of the names of layers that stay in float.
        max_loss: Largest loss of the criterion: in points if it is a fraction, otherwise in percent.
        seconds: Time for which the float and the int8 model are each measured, in turns; with 0, they are not measured,
            and `"auto"` selects dynamic quantisation for transformers.

    Returns:
        The report: measures `before` and `after`, `bytes_before` and `bytes_after`, `layers`, `in_float`, the names of
        the layers that stayed in float, `scales`, the normalisation of the samples, and `classes`.

    Raises:
        ArchError: A0809 (the output cannot be written, or does not end in `.onnx`), A0911 and A0933 (`pixels` or
            `labels` are invalid or do not fit the model), A0916 (the file is not a model), A1117 (the classes of the
            data do not fit the model), A11xx (the data is invalid), A19xx, A28xx (the model cannot be
            quantised, or not within `max_loss`).

    Examples:
        >>> _ = archir.export(network, "net.onnx", archir.compile(network))
        >>> report = archir.quantize("net.onnx", "int8.onnx", max_loss=100, seconds=0)
        >>> report.mode, report.in_float
        ('static', [])
    """
    _require_onnx_suffix(Path(output))
    if Path(path).resolve() == Path(output).resolve():
        raise fail("A0809", f"cannot write {output}: it is the model that is read", None, "name another file")
    require_writable(Path(output))
    require_model(Path(path))
    onnx = backends.get("onnx")
    interface = onnx.interface(Path(path))
    if pixels is not None:
        if problems := onnx.problems(pixels=pixels):
            raise ArchError(*problems)
        if interface.raw:
            raise fail("A0933", f"the model normalises `{min(interface.raw)}` itself: leave out the normalisation")
    if labels:
        for name, kind in [*interface.outputs.items()][:1]:
            if kind.shape != (len(labels),):
                raise fail("A0911", f"there are {len(labels)} names of classes, but the output `{name}` is {kind}")
        interface = replace(interface, labels=tuple(labels))
    samples = backends.get("torch").samples(
        data, interface, objective=objective, training=calibration, seed=seed, pixels=pixels
    )
    return onnx.quantize(
        Path(path), Path(output), samples, mode=mode, keep=keep, max_loss=max_loss, seconds=seconds, labels=labels
    )
