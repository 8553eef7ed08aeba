"""From networks to what runs: modules, ONNX models, int8 models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

from archir import backends
from archir.api.loading import graph_of
from archir.backends.suffixes import ONNX, form_of
from archir.diagnostics.errors import RuleError, fail
from archir.ir.graph import Graph
from archir.passes.block import block as part
from archir.passes.resize import following
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
    """A graph, or a space, without choices lowered by a backend: for `torch` an `nn.Module`, its weights drawn by the
    `seed` (0).

    A module takes tensors [N, ...] and gives one, or a dictionary by name where the net has several outputs. `onnx`
    needs weights: see `export`. Backends of others are told the seed if there is one. Raises ArchError (A0901, A0903,
    A0904).
    """
    return backends.get(to).lower(graph_of(graph), **({} if seed is None else {"seed": seed}))


def block(graph: Graph | Space, name: str) -> Graph:
    """One block of a network as a network of its own: `"hoga"`, or `"hoga@scope"` where its calls differ.

    Its inputs and outputs are what the block reads and gives. Raises ArchError (A0901, A0906).
    """
    return part(graph_of(graph), name)


def export(
    graph: Graph | Space,
    path: str | Path,
    module: Network,
    *,
    opset: int = 23,
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
    """Write a network with a module's weights to an ONNX file, compared with the module; the comparison's report.

    Weights are of a `precision`, inputs and outputs float32; `opset` is 17 to 26; `attention` says by which operators
    it is computed (docs/deployment.md). `dynamic` names the axes whose sizes are open; a batch that is not open has
    `batch` samples. With `pixels`, a mean and a deviation for each channel, the model takes images uint8 [N, H, W, C]
    as they come; with `scales`, inputs by name, other numbers as well: `result.images["scales"]` of a training, or
    `{"tone": {"of": "numbers", "mean": [0.0], "std": [2.0]}}`. `deployed=False` keeps what acts in training alone;
    `metadata` is written into the model, as texts by name; `certified` writes a certificate beside it. It is compared
    on random inputs and on `real` ones, arrays [N, ...] by input, on `providers` of onnxruntime (by default all that
    are here), to a relative `tolerance` that suits the precision. What was there before stays unless all of it holds.
    Raises ArchError (A0902 to A0931, A0809 for a name that does not end in .onnx).
    """
    try:
        form_of(None, Path(path), ONNX)
    except RuleError as error:
        raise fail("A0809", error.message) from None
    torch, graph = backends.get("torch"), graph_of(graph)
    if "tokens" in dynamic:
        graph, state = following(graph), module.state_dict()
        module = torch.lower(graph)
        module.load_state_dict(state)
    return backends.get("onnx").write(
        graph, Path(path), torch.arrays(module), reference=torch.runner(module), real=real, metadata=metadata,
        tolerance=tolerance, deployed=deployed, certified=certified, providers=providers, opset=opset,
        precision=precision, dynamic=tuple(dynamic), batch=batch, pixels=pixels, scales=scales,
        attention=attention,
    )  # fmt: skip


def quantize(
    path: str | Path,
    output: str | Path,
    *,
    data: Any = "digits",
    objective: Mapping[str, Any] | None = None,
    calibration: int = 256,
    seed: int = 0,
    mode: Literal["auto", "static", "dynamic"] = "auto",
    keep: Sequence[str] = (),
    max_loss: float = 1.0,
) -> Quantised:
    """Write an ONNX model of float32 in int8, with a certificate and a report beside it; the report.

    `calibration` samples of the source `data`, on which the network was trained, drawn by the `seed`, give the ranges
    of activations; on those that are held out, an `objective` measures, as in training: by default classification, if
    they have labels, else none. `mode` says when ranges are found: once (`static`), or for each input (`dynamic`, for
    transformers). As many layers stay in float as it takes to lose at most `max_loss` points of the objective's
    criterion, or percent where it is no part of a whole, on half of the held-out samples, the others being what is
    reported, and those whose names match one of `keep`. Raises ArchError (A0809, A0916, A11xx, A19xx, A28xx).
    """
    if Path(path).resolve() == Path(output).resolve():
        raise fail("A0809", f"cannot write {output}: it is the model that is read", None, "name another file")
    require_writable(Path(output))
    onnx = backends.get("onnx")
    interface = onnx.interface(Path(path))
    known = backends.get("torch").samples(data, interface, objective=objective, training=calibration, seed=seed)
    return onnx.quantize(Path(path), Path(output), known, mode=mode, keep=keep, max_loss=max_loss)
