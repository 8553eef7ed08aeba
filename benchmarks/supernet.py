"""Measure steps of a supernet: against the same steps of extracted networks, with kernels, the switch of architectures,
and memory.

A step is forward and backward of one path, batch 64. Both sides take turns, and the ratio is the median over turns and
architectures. Where kernels are compared (`training.compile`, on a CPU), times are of the processor, of all threads,
because other programs may run.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import torch
import torch.nn.functional as F
from measure import Table
from torch import Tensor, nn

import archir
from archir.ir.typing import infer
from archir.spaces.architecture import Architecture
from archir.spaces.space import Space
from archir_torch.supernet.network import SuperNetwork, extract

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
SPACES: dict[str, tuple[str, dict[str, Any]]] = {
    "TrioNet": ("trionet/trionet.arch", {"size": 64}),
    "Once-for-all": ("mobilenet_v3_ofa/mobilenet_v3_ofa.arch", {"resolution": 64}),
    "AutoFormer-Tiny": ("autoformer/autoformer.arch", {"size": 64}),
    "GLiT-Tiny": ("glit/glit.arch", {"size": 64}),
}
"""File and parameters of each space."""
BATCH, WARM = 64, 300


def run(device: str, quick: bool) -> Table:
    """Return the table of a supernet's steps and those of extracted networks."""
    torch.manual_seed(0)
    columns = [
        "space", "own, ms", "supernet, ms", "ratio", "plan of a new architecture, ms", "saved: own, MiB",
        "saved: supernet, MiB", "gradients, MiB", "supernet, MiB",
    ]  # fmt: skip
    threads = "" if device != "cpu" else f", {torch.get_num_threads()} threads"
    table = Table(f"a step of one path, 64 pixels, batch {BATCH}{threads}", columns)
    for name, (path, parameters) in SPACES.items():
        space = archir.load(EXAMPLES / path, **parameters)
        table.add(name, *_row(space, device, 2 if quick else 3, 2 if quick else 3))
        print(f"  {name} done", flush=True)
    return table


def compiled(quick: bool) -> Table:
    """Return the table of steps with and without kernels, of the same weights and paths, on a CPU."""
    columns = ["space", "plain, ms", "compiled, ms", "times as fast", "least", "greatest", "gradients apart"]
    title = f"a step of one path, 64 pixels, batch {BATCH}, {torch.get_num_threads()} threads, processor time"
    table = Table(title, columns)
    for name, (path, parameters) in SPACES.items():
        space = archir.load(EXAMPLES / path, **parameters)
        plain, fast = (SuperNetwork(space.graph).train() for _ in range(2))
        fast.load_state_dict(plain.state_dict())
        fast.use_kernels()
        table.add(name, *_compare_kernels(space, plain, fast, 2 if quick else 6, 2))
        print(f"  {name} done", flush=True)
    return table


def _compare_kernels(
    space: Space, plain: SuperNetwork, fast: SuperNetwork, architectures: int, turns: int
) -> list[str]:
    """Return the cells of a space: a step with and without kernels."""
    (number,) = space.graph.inputs.values()
    images, labels = torch.randn(BATCH, *infer(space.graph)[number].shape), torch.randint(10, (BATCH,))
    times: list[list[float]] = [[], []]
    gradient_errors: list[float] = []
    for seed in range(architectures):
        architecture = space.sample(seed, policy="choices")
        steps = [_step(model, images, labels, architecture) for model in (plain, fast)]
        for turn in range(turns + 1):
            for step, step_times in zip(steps, times, strict=True):
                torch.manual_seed(turn)  # the seed of dropout
                begin = time.process_time()
                step()
                if turn:
                    step_times.append(time.process_time() - begin)
        pairs = [(a.grad, b.grad) for a, b in zip(plain.parameters(), fast.parameters(), strict=True)]
        norms = [(float((a - b).norm()), float(a.norm())) for a, b in pairs if a is not None and b is not None]
        gradient_errors.append(max(difference for difference, _ in norms) / max(norm for _, norm in norms))
    ratios = [before / after for before, after in zip(*times, strict=True)]
    figures = median(ratios), min(ratios), max(ratios)
    milliseconds = [f"{1e3 * median(samples):.0f}" for samples in times]
    return [*milliseconds, *(f"{x:.2f}" for x in figures), f"{max(gradient_errors):.0e}"]


def _row(space: Space, device: str, architectures: int, turns: int) -> list[str]:
    """Return the cells of a space: a step of the supernet and of extracted networks."""
    model = SuperNetwork(space.graph).to(device).train()
    (number,) = space.graph.inputs.values()
    images = torch.randn(BATCH, *infer(space.graph)[number].shape, device=device)
    labels = torch.randint(10, (BATCH,), device=device)
    switching = _switching(model, space)
    own, shared, ratios = [], [], []
    saved: list[tuple[int, int, int]] = []
    for seed in range(architectures):
        architecture = space.sample(seed, policy="choices")
        network = extract(model, architecture).train()
        steps = [_step(network, images, labels), _step(model, images, labels, architecture)]
        for turn in range(turns + 1):
            own_time, shared_time = (_step_seconds(step, device) for step in steps)
            if turn:
                own.append(own_time)
                shared.append(shared_time)
                ratios.append(shared_time / own_time)
        gradients = sum(p.grad.nbytes for p in model.parameters() if p.grad is not None)
        saved.append((_saved(network, steps[0]), _saved(model, steps[1]), gradients))
    parameter_bytes = sum(p.nbytes for p in model.parameters())
    numbers = [median(column) for column in zip(*saved, strict=True)]
    return [
        f"{1e3 * median(own):.1f}", f"{1e3 * median(shared):.1f}", f"{median(ratios):.3f}", f"{1e3 * switching:.2f}",
        *(f"{number / 2**20:.1f}" for number in [*numbers, parameter_bytes]),
    ]  # fmt: skip


def _switching(model: SuperNetwork, space: Space) -> float:
    """Return the seconds that the plan of a new architecture takes, when all choices were seen before."""
    for seed in range(WARM):
        model.plan(space.sample(seed, policy="choices"))
    times = []
    for seed in range(WARM, 2 * WARM):
        architecture = space.sample(seed, policy="choices")
        begin = time.perf_counter()
        model.plan(architecture)
        times.append(time.perf_counter() - begin)
    return median(times)


def _step(
    module: nn.Module, images: Tensor, labels: Tensor, architecture: Architecture | None = None
) -> Callable[[], None]:
    def step() -> None:
        module.zero_grad(set_to_none=True)
        F.cross_entropy(module(images, *([architecture] if architecture is not None else [])), labels).backward()

    return step


def _step_seconds(step: Callable[[], None], device: str) -> float:
    if device != "cpu":
        torch.cuda.synchronize()
    begin = time.perf_counter()
    step()
    if device != "cpu":
        torch.cuda.synchronize()
    return time.perf_counter() - begin


def _saved(module: nn.Module, step: Callable[[], None]) -> int:
    """Return the bytes kept for the backward pass: every storage once, without parameters and buffers."""
    parameters = {t.untyped_storage().data_ptr() for t in [*module.parameters(), *module.buffers()]}
    sizes: dict[int, int] = {}
    references: list[Tensor] = []

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in parameters:
            sizes[storage.data_ptr()] = storage.nbytes()
            references.append(tensor.detach())  # so that no later tensor gets the address
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        step()
    return sum(sizes.values())
