"""Compare implementations of local attention: time and memory of a forward and backward pass."""

from __future__ import annotations

import gc
import subprocess
import sys
from collections.abc import Callable

import torch
import torch.nn.functional as F
from measure import Table, medians
from torch import Tensor

from archir_torch.lowering.local_attention import _offset_logits, local_attention

SHAPES = [(32, 64, 32, 7, 8), (64, 16, 32, 3, 4), (64, 32, 16, 5, 8), (64, 16, 8, 7, 8)]
"""Batch, channels, height and width, kernel, heads."""


def unfold(q: Tensor, k: Tensor, v: Tensor, rows: Tensor, columns: Tensor, *, heads: int, kernel: int) -> Tensor:
    """Local attention by copies: kernel^2 copies of keys and values, then products and sums over them."""
    batch, channels, height, width = q.shape
    shape = (batch, heads, channels // heads, kernel * kernel, height * width)
    keys, values = (F.unfold(x, kernel, padding=kernel // 2).view(shape) for x in (k, v))
    half = channels // 2
    offsets = torch.cat([rows[:, :, None].expand(-1, -1, kernel), columns[:, None, :].expand(-1, kernel, -1)])
    offsets = offsets.reshape(1, heads, channels // heads, kernel * kernel, 1)
    assert rows.shape[0] == half
    logits = (q.view(batch, heads, -1, 1, height * width) * (keys + offsets)).sum(2)
    return (logits.softmax(2)[:, :, None] * values).sum(3).view(q.shape)


def masked(q: Tensor, k: Tensor, v: Tensor, rows: Tensor, columns: Tensor, *, heads: int, kernel: int) -> Tensor:
    """Local attention by a mask: all positions attend to all, and positions outside of the window are masked.

    Padding adds keys of zeros.
    """
    batch, channels, height, width = q.shape
    pad = kernel // 2
    offset_logits = _offset_logits(q, rows, columns, heads).flatten(3).transpose(2, 3)
    keys, values = (F.pad(x, (pad,) * 4).flatten(2).unflatten(1, (heads, -1)) for x in (k, v))
    y, x = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
    i, j = torch.meshgrid(torch.arange(kernel), torch.arange(kernel), indexing="ij")
    window = ((y.flatten()[:, None] + i.flatten()) * (width + 2 * pad) + x.flatten()[:, None] + j.flatten()).to(
        q.device
    )
    bias = q.new_full((batch, heads, height * width, keys.shape[-1]), float("-inf"))
    bias = bias.scatter(3, window.expand(batch, heads, -1, -1), offset_logits)
    queries = q.flatten(2).unflatten(1, (heads, -1)).transpose(2, 3)
    attended = F.scaled_dot_product_attention(queries, keys.transpose(2, 3), values.transpose(2, 3), bias, scale=1.0)
    return attended.transpose(2, 3).reshape(batch, channels, height, width)


FORMS: dict[str, Callable[..., Tensor]] = {"shift and accumulate": local_attention, "unfold": unfold, "masked": masked}


def operands(batch: int, channels: int, size: int, kernel: int, device: str) -> list[Tensor]:
    """Return random queries, keys, values, and offsets of rows and columns."""
    generator = torch.Generator().manual_seed(0)
    shapes = [(batch, channels, size, size)] * 3 + [(channels // 2, kernel), (channels - channels // 2, kernel)]
    return [torch.randn(shape, generator=generator).to(device).requires_grad_() for shape in shapes]


def step(form: Callable[..., Tensor], tensors: list[Tensor], kernel: int, heads: int) -> Tensor:
    """Run a forward and backward pass, and return the result."""
    result = form(*tensors, heads=heads, kernel=kernel)
    torch.autograd.grad(result.sum(), tensors)
    return result


def saved_bytes(form: Callable[..., Tensor], tensors: list[Tensor], kernel: int, heads: int) -> int:
    """Return the bytes that autograd keeps for the backward pass, each storage counted once."""
    storages: dict[int, int] = {}

    def pack(tensor: Tensor) -> Tensor:
        storages[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        result = form(*tensors, heads=heads, kernel=kernel)
    del result
    return sum(storages.values())


def peak_mib(name: str, shape: tuple[int, ...]) -> float:
    """Return how much a step raises the peak resident memory, in MiB, in a process of its own (VmHWM is per
    process)."""
    program = (
        "import re, sys\nsys.path[:0] = sys.argv[1:]\nimport local_attention as la\n"
        "peak = lambda: int(re.search(r'VmHWM:\\s+(\\d+)', open('/proc/self/status').read())[1])\n"
        f"batch, channels, size, kernel, heads = {shape}\ntensors = la.operands(batch, channels, size, kernel, 'cpu')\n"
        f"before = peak()\nla.step(la.FORMS[{name!r}], tensors, kernel, heads)\nprint((peak() - before) / 1024)"
    )
    done = subprocess.run([sys.executable, "-c", program, *sys.path], capture_output=True, text=True, check=True)
    return float(done.stdout)


def run(device: str, quick: bool) -> Table:
    table = Table(
        "local attention, forward and backward, float32",
        [
            "batch x C x H x W, k, heads",
            "formulation",
            "ms",
            "speed-up over unfold",
            "kept for backward, MiB",
            "peak, MiB",
        ],
    )
    for shape in SHAPES[: 1 if quick else None]:
        batch, channels, size, kernel, heads = shape
        tensors = operands(batch, channels, size, kernel, device)
        expected = step(unfold, tensors, kernel, heads)
        for form in FORMS.values():
            torch.testing.assert_close(step(form, tensors, kernel, heads), expected, atol=2e-4, rtol=2e-4)
        times = medians(
            {name: lambda form=form: step(form, tensors, kernel, heads) for name, form in FORMS.items()},
            3 if quick else 5,
            device,
        )
        for name, form in FORMS.items():
            gc.collect()
            peak = f"{peak_mib(name, shape):.0f}" if device == "cpu" else "-"
            kept = saved_bytes(form, tensors, kernel, heads) / 2**20
            what = f"{batch}x{channels}x{size}x{size}, {kernel}, {heads}"
            table.add(what, name, f"{times[name]:.1f}", f"{times['unfold'] / times[name]:.2f}", f"{kept:.0f}", peak)
    return table
