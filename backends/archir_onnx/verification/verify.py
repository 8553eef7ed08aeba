"""Proof that a model computes what the network computes: the checker, and onnxruntime against a reference."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from archir.backends.comparison import Difference, random_input
from archir.diagnostics.errors import ArchError, fail, listed
from archir.diagnostics.visible import one_line
from archir.ir.types import TensorType
from archir_onnx.lowering.form import PLAIN, Form, Pixels
from archir_onnx.lowering.interface import seen, unseen
from archir_onnx.running.sessions import CPU, NO_KERNEL, present, run, session
from archir_onnx.verification.opsets import narrow

Arrays = Mapping[str, NDArray[Any]]
Reference = Callable[[Arrays], Arrays]

TOLERANCES = {"float32": 1e-4, "float16": 1e-2, "bfloat16": 5e-2}
"""Largest difference, relative to the largest magnitude of an output, by what a model computes in."""
TOLERANCE = TOLERANCES["float32"]
_BATCHES = (1, 3)


@dataclass(frozen=True)
class Report:
    """What a verification found: the largest differences over all outputs and inputs, and what was compared."""

    absolute: float
    relative: float
    batches: tuple[int, ...]
    providers: tuple[str, ...]
    nodes: int
    files: tuple[Path, ...] = ()
    tolerance: float = TOLERANCE
    real: int = 0
    """Real samples, beside random ones."""
    sizes: tuple[tuple[int, ...], ...] = ()
    """Heights and widths, or numbers of tokens, beside the net's own."""
    note: str = ""

    def __repr__(self) -> str:
        return one_line(f"<Report: {self}>")

    def __str__(self) -> str:
        if not self.batches:
            return f"{self.nodes} nodes, checked, not compared{self.note and ': '}{self.note}"
        devices = " and ".join(provider.removesuffix("ExecutionProvider") for provider in self.providers)
        batches = ", ".join(map(str, self.batches))
        more = f", on {self.real} samples of the data" if self.real else ""
        left_out = f"; {self.note}" if self.note else ""
        if self.sizes:
            *others, last = (" x ".join(map(str, size)) for size in self.sizes)
            more += f", at {', '.join(others)} and {last}" if others else f", at {last}"
            more += " tokens" * (len(self.sizes[0]) == 1)
        return (
            f"{self.nodes} nodes, checked; largest difference to torch {self.absolute:.1e} "
            f"({self.relative:.1e} relative) at batches of {batches}{more} on onnxruntime {devices}{left_out}"
        )


def check(model: onnx.ModelProto | Path) -> None:
    """The checker, with full shape inference. Raises ArchError (A0915, and A0911 where a newer opset is needed)."""
    try:
        onnx.checker.check_model(model if isinstance(model, onnx.ModelProto) else str(model), full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError, UnicodeDecodeError) as error:
        proto = model if isinstance(model, onnx.ModelProto) else onnx.load(model, load_external_data=False)
        opset, operators = narrow(proto) if _in_bfloat16(proto) else (0, [])
        if operators:
            text = f"models in bfloat16 with {listed(operators, 4)} need opset {opset}"
            raise fail("A0911", text, None, f"--opset {opset}") from None
        raise fail("A0915", f"the ONNX checker refuses the model: {error}") from None


def _in_bfloat16(model: onnx.ModelProto) -> bool:
    return any(tensor.data_type == onnx.TensorProto.BFLOAT16 for tensor in model.graph.initializer)


def verify(
    path: Path,
    reference: Reference,
    inputs: Mapping[str, TensorType],
    form: Form = PLAIN,
    *,
    sizes: Mapping[tuple[int, ...], Mapping[str, TensorType]] = MappingProxyType({}),
    real: Arrays | None = None,
    seed: int = 0,
    tolerance: float | None = None,
    providers: Sequence[str] | None = None,
) -> Report:
    """Check a model file and compare it with a reference, on random inputs and on real ones if there are any.

    It is run on `providers`, by default on all that are here and take such a model: the CPU must, if it is float32.
    `sizes` are further ones, and the inputs at these. Raises ArchError (A0913 to A0915).
    """
    check(path)
    tolerance = TOLERANCES[form.precision] if tolerance is None else tolerance
    nodes = len(onnx.load(path, load_external_data=False).graph.node)
    sessions, refusal = _sessions(path, form, providers)
    batches = _BATCHES if "batch" in form.dynamic else (form.batch,)
    kinds = [inputs, *sizes.values()]
    worst = Difference()
    for asked in _asked(kinds, batches, form, real, seed) if sessions else ():
        wanted = reference(seen(asked, form))
        for running in sessions:
            for found, value in zip(run(running, asked).values(), wanted.values(), strict=True):
                worst |= Difference.of(found, value)
    if not worst.relative <= tolerance:
        infinite = form.precision == "float16" and not np.isfinite(worst.relative)
        hint = "float16 ends at 65504: take bfloat16, or stay with float32" if infinite else None
        text = f"the model {path.name} differs from the network by {worst}, more than {tolerance:.0e}"
        raise fail("A0913", text, None, hint)
    if not sessions:
        return Report(float("nan"), float("nan"), (), (), nodes, tolerance=tolerance, note=refusal)
    ran = tuple(running.get_providers()[0] for running in sessions)
    return Report(
        worst.absolute, worst.relative, batches, ran, nodes, (), tolerance, _real(real, form), tuple(sizes), refusal
    )


def _sessions(path: Path, form: Form, providers: Sequence[str] | None) -> tuple[list[Any], str]:
    """Sessions on the providers; where none was named, on those here that take the model, and why not on others."""
    if providers is not None:
        return [session(path, (name,)) for name in providers], ""
    found: list[Any] = []
    refusals: list[str] = []
    for name in present():
        try:
            found.append(session(path, (name,)))
        except ArchError as error:
            if name == CPU and form.precision == "float32":
                raise
            device, said = name.removesuffix("ExecutionProvider"), error.diagnostics[0].message
            narrow = NO_KERNEL in said and form.precision != "float32"
            refusals.append(
                f"{device} has no kernels for {form.precision} models" if narrow else f"not on {device}: {said}"
            )
    return found, "; ".join(refusals)


def _asked(
    kinds: Sequence[Mapping[str, TensorType]], batches: Sequence[int], form: Form, real: Arrays | None, seed: int
) -> Iterator[dict[str, NDArray[Any]]]:
    """What the model is asked: random inputs at all batch sizes, then at other sizes, then real ones."""
    rng = np.random.default_rng(seed)
    for position, inputs in enumerate(kinds):
        for batch in batches if position == 0 else batches[:1]:
            yield {name: _random(rng, batch, name, kind, form) for name, kind in inputs.items()}
    if real is not None:
        count = _real(real, form)
        step = max(count, 1) if "batch" in form.dynamic else form.batch
        for start in range(0, count, step):
            part = {name: array[start : start + step] for name, array in real.items()}
            yield unseen(part, form)


def _real(real: Arrays | None, form: Form) -> int:
    """How many real samples a model is asked for: whole batches of them."""
    count = 0 if real is None else len(next(iter(real.values())))
    return count if "batch" in form.dynamic else count - count % form.batch


def _random(rng: np.random.Generator, batch: int, name: str, kind: TensorType, form: Form) -> NDArray[Any]:
    """Normal numbers, as they come if the model normalises them; pixels of any value."""
    if not isinstance(form.scale(name), Pixels):
        return unseen({name: random_input(rng, batch, kind)}, form)[name]
    channels, height, width = kind.shape
    return rng.integers(0, 256, (batch, height, width, channels), dtype=np.uint8)
