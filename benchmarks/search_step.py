"""One step of a differentiable search, the network of DARTS by hand against the relaxed graph of `darts.arch`.

A step is what Liu et al. (2019, section 2.3, first order) do: the gradient of the loss on held-out images moves the
architecture's parameters (Adam), that on training images the weights (SGD, clipped).
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median

import torch
import torch.nn.functional as F
from handwritten_darts import EDGES, OPERATIONS, DartsSearch, alphas_in_graph, weights_in_graph
from measure import Table
from torch import Tensor, nn

import archir
from archir.ir.graph import Graph
from archir.passes.cse import cse
from archir.passes.relax import relax
from archir_torch.lowering.kernels import library
from archir_torch.lowering.precision import autocast
from archir_torch.lowering.replay import GraphedNetwork
from archir_torch.supernet.mixture import MixedNetwork, lower_mixed
from archir_torch.supernet.tuning import Plan, lower_with_plan, tuned

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
Loss = Callable[[Tensor, Tensor, list[Tensor]], Tensor]
"""The loss of images and labels, given the architecture's parameters [14, 8] of normal and reduction cells."""


class Search:
    """A network with both optimizers. `sparing`: gradients are taken, and kept ready, of what is moved only."""

    def __init__(self, module: nn.Module, loss: Loss, device: str, sparing: bool) -> None:
        self.module, self.loss, self.sparing = module.train(), loss, sparing
        numbers = torch.Generator().manual_seed(1)
        self.alphas = [
            (1e-3 * torch.randn(len(EDGES), len(OPERATIONS), generator=numbers)).to(device).requires_grad_()
            for _ in range(2)
        ]
        self.weights = list(module.parameters())
        self.adam = torch.optim.Adam(self.alphas, 3e-4, betas=(0.5, 0.999), weight_decay=1e-3)
        self.sgd = torch.optim.SGD(self.weights, 0.025, momentum=0.9, weight_decay=3e-4)
        self.run: GraphedNetwork | None = None

    def step(self, held_out: tuple[Tensor, Tensor], training: tuple[Tensor, Tensor]) -> None:
        """Both updates."""
        self._update(self.adam, self.alphas, self.weights, held_out)
        self._update(self.sgd, self.weights, self.alphas, training, clip=5.0)

    def _update(
        self,
        optimizer: torch.optim.Optimizer,
        moved: list[Tensor],
        still: list[Tensor],
        batch: tuple[Tensor, Tensor],
        clip: float | None = None,
    ) -> None:
        optimizer.zero_grad()
        with _Still(still if self.sparing else []):
            self.loss(*batch, self.alphas).backward()
        if clip is not None:
            nn.utils.clip_grad_norm_(moved, clip)
        optimizer.step()

    def saved(self, batch: tuple[Tensor, Tensor]) -> int:
        """Bytes that the weights' forward pass keeps for its gradient: every storage once, parameters left out."""
        own = {tensor.untyped_storage().data_ptr() for tensor in [*self.weights, *self.module.buffers()]}
        found: dict[int, int] = {}
        kept: list[Tensor] = []

        def pack(tensor: Tensor) -> Tensor:
            storage = tensor.untyped_storage()
            if storage.data_ptr() not in own:
                found[storage.data_ptr()] = storage.nbytes()
                kept.append(tensor.detach())  # so that no later tensor gets the address
            return tensor.detach()  # a result that keeps itself for its gradient would never be freed

        with _Still(self.alphas if self.sparing else []):
            with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
                loss = self.loss(*batch, self.alphas)
            del loss
        return sum(found.values())


class _Still:
    """Tensors that need no gradient for a while."""

    def __init__(self, tensors: list[Tensor]) -> None:
        self.tensors = tensors

    def __enter__(self) -> None:
        for tensor in self.tensors:
            tensor.requires_grad_(False)

    def __exit__(self, *_: object) -> None:
        for tensor in self.tensors:
            tensor.requires_grad_(True)


def by_hand(
    device: str, *, sparing: bool = False, channels_last: bool = False, compiled: bool = False, cells: int = 8
) -> Search:
    network = DartsSearch(cells=cells).to(device)
    layout = torch.channels_last if channels_last else torch.contiguous_format
    run = torch.compile(network) if compiled else network

    def loss(images: Tensor, labels: Tensor, alphas: list[Tensor]) -> Tensor:
        images = images.contiguous(memory_format=layout)
        return F.cross_entropy(run(images, *(alpha.softmax(-1) for alpha in alphas)), labels)

    return Search(network.to(memory_format=layout), loss, device, sparing)


def from_graph(
    network: MixedNetwork, device: str, *, sparing: bool = True, compiled: bool = False, replayed: bool = False,
    precision: str = "float32",
) -> Search:  # fmt: skip
    network = network.to(device)
    run: Callable[..., Tensor] = torch.compile(network) if compiled else network
    record = GraphedNetwork(network, possible=replayed)

    def loss(images: Tensor, labels: Tensor, alphas: list[Tensor]) -> Tensor:
        weights = alphas_in_graph(*(alpha.softmax(-1) for alpha in alphas))
        still = not next(network.parameters()).requires_grad
        with autocast(precision, device):
            found = record(images, weights=weights, still=still) if replayed else run(images, weights=weights)
            return F.cross_entropy(found, labels)

    search = Search(network, loss, device, sparing)
    search.run = record
    return search


def graph(channels: int, cells: int = 8) -> Graph:
    """The space, relaxed."""
    path = f"{EXAMPLES / 'darts' / 'darts.arch'}:darts"
    return relax(archir.load(path, channels=channels, cells=cells, affine=False, zero=True).graph)


def agreement(kernels: bool = False) -> float:
    """How far gradients of the two networks, with 4 channels, are apart in float64, as a part of the largest norm."""
    hand, ours = DartsSearch(4).double(), lower_with_plan(graph(4), Plan(True, True, True)).double()
    if kernels:
        ours.use_kernels()
    named, own = weights_in_graph(hand), dict(ours.named_parameters())
    ours.load_state_dict(named, strict=False)
    x = torch.randn(2, 3, 32, 32, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    y = torch.tensor([3, 7])
    alphas = [torch.randn(14, 8, dtype=torch.float64).requires_grad_() for _ in range(2)]
    mixed = [alpha.softmax(-1) for alpha in alphas]
    losses = F.cross_entropy(hand(x, *mixed), y), F.cross_entropy(ours(x, weights=alphas_in_graph(*mixed)), y)
    one = torch.autograd.grad(losses[0], [*alphas, *named.values()], retain_graph=True)
    other = torch.autograd.grad(losses[1], [*alphas, *(own[name] for name in named)])
    largest = max(float(gradient.norm()) for gradient in one)
    return max(float((a - b).norm()) for a, b in zip(one, other, strict=True)) / largest


def candidates(relaxed: Graph, device: str, best: Plan) -> dict[str, Callable[[], Search]]:
    """What is compared: passes one after the other, the measured plan, and the plan with one thing off."""

    def ours(plan: Plan, **given: bool) -> Callable[[], Search]:
        return lambda: from_graph(lower_with_plan(relaxed, plan), device, **given)

    def merged(graph: Graph, *, fold_norms: bool = True) -> Callable[[], Search]:
        return lambda: from_graph(lower_mixed(graph, fold_norms=fold_norms), device, sparing=False)

    rows: dict[str, Callable[[], Search]] = {
        "by hand": lambda: by_hand(device),
        "by hand, channels last": lambda: by_hand(device, channels_last=True),
        "by hand, channels last, gradients where needed": lambda: by_hand(device, channels_last=True, sparing=True),
        "archir: relaxed": merged(relaxed, fold_norms=False),
        "  + norms folded": merged(relaxed),
        "  + cse": merged(cse(relaxed)),
        "  + norms shared": ours(Plan(), sparing=False),
        "  + gradients where needed": ours(Plan()),
        "  + channels last": ours(Plan(channels_last=True)),
        "  + depthwise gradients": ours(Plan(channels_last=True, depthwise=True)),
        "  + batch": ours(Plan(channels_last=True, depthwise=True, batch=True)),
    }
    rows[f"as measured: {best}"] = ours(best)
    if device == "cpu":
        rows["compiled: kernels"] = lambda: from_graph(_with_kernels(relaxed), device)
    return rows


def run(device: str, quick: bool) -> Table:
    torch.manual_seed(0)
    size = (8 if quick else 32) if device == "cpu" else 64
    rounds = 3 if quick or device == "cpu" else 11
    relaxed = graph(16)
    batches = _batches(size, device)
    _, best = tuned(relaxed, [batches[1][0]], say=lambda text: print(f"  {text}", flush=True))
    apart = agreement()
    title = (
        f"a search step (architecture and weights) of the 8-cell, 16-channel network of DARTS, batch {size}; "
        f"gradients agree to {apart:.0e} in float64"
    )
    memory = "saved, MiB" if device == "cpu" else "peak, MiB"
    table = Table(title, ["network", "ms", "times as fast", memory])
    print(f"  {title}", flush=True)
    searches = {name: make() for name, make in candidates(relaxed, device, best).items()}
    times = _turns(searches, batches, rounds, device)
    reference = times["by hand"]
    for name, search in searches.items():
        ratio = median(theirs / ours for ours, theirs in zip(times[name], reference, strict=True))
        megabytes = _memory(search, batches, device)
        table.add(name, f"{median(times[name]):.0f}", f"{ratio:.2f}", f"{megabytes:.0f}")
    return table


def compiled(device: str, quick: bool) -> Table:
    """The same compiled: with kernels on a CPU, and as a whole on a GPU (eight cells as a whole take a CPU too long).

    The library of kernels is compiled anew in the first step. Processor time says more where other work runs beside.
    """
    torch.manual_seed(0)
    cells, size = 8, (8 if quick else 32) if device == "cpu" else 64
    batches = _batches(size, device)
    plan = Plan(channels_last=True, depthwise=True)
    made = {
        "by hand": lambda: by_hand(device, cells=cells),
        f"archir: {plan}": lambda: from_graph(lower_with_plan(graph(16, cells), plan), device),
    }
    if device == "cpu":
        made["archir: compiled"] = lambda: from_graph(_with_kernels(graph(16, cells)), device)
    else:
        made["by hand, compiled"] = lambda: by_hand(device, cells=cells, compiled=True)
        whole = lower_with_plan(graph(16, cells), plan)
        made[f"archir: {plan}, compiled"] = lambda: from_graph(whole, device, compiled=True)
    title = f"a search step of the network of DARTS with {cells} cells and 16 channels, batch {size}"
    if device == "cpu":
        title += f"; gradients of the compiled one agree to {agreement(kernels=True):.0e} in float64"
    memory = "saved, MiB" if device == "cpu" else "peak, MiB"
    columns = ["network", "first step, s", "ms", "times as fast", "processor, ms", "times as fast", memory]
    table = Table(title, columns)
    searches = {name: make() for name, make in made.items()}
    first: dict[str, float] = {}
    for name, search in searches.items():
        if "compiled" in name:
            _forget_kernels()
        first[name] = _seconds(search, batches, device)
        print(f"  {name}: {first[name]:.0f} s for the first step", flush=True)
    processor: dict[str, list[float]] = {}
    times = _turns(searches, batches, 3 if device == "cpu" else 11, device, processor)
    for name in searches:
        cells_of = []
        for kind in (times, processor):
            ratio = median(theirs / ours for ours, theirs in zip(kind[name], kind["by hand"], strict=True))
            cells_of += [f"{median(kind[name]):.0f}", f"{ratio:.2f}"]
        megabytes = _memory(searches[name], batches, device)
        table.add(name, f"{first[name]:.0f}", *cells_of, f"{megabytes:.0f}")
    return table


def _with_kernels(relaxed: Graph) -> MixedNetwork:
    network = lower_with_plan(relaxed, Plan(channels_last=True))
    network.use_kernels()
    return network


def _forget_kernels() -> None:
    """Kernels are compiled when they are used next."""
    os.environ["XDG_CACHE_HOME"] = tempfile.mkdtemp()
    library.load_library.cache_clear()
    library.kernel_function.cache_clear()


def _batches(size: int, device: str) -> list[tuple[Tensor, Tensor]]:
    """Images and labels, held out and for training."""
    return [(torch.randn(size, 3, 32, 32, device=device), torch.randint(10, (size,), device=device)) for _ in range(2)]


def _seconds(search: Search, batches: list[tuple[Tensor, Tensor]], device: str) -> float:
    """Of the first step, in which a compiled network is compiled."""
    begin = time.perf_counter()
    search.step(*batches)
    _wait(device)
    return time.perf_counter() - begin


def _turns(
    searches: Mapping[str, Search], batches: list[tuple[Tensor, Tensor]], rounds: int, device: str,
    processor: dict[str, list[float]] | None = None,
) -> dict[str, list[float]]:  # fmt: skip
    """Milliseconds of each, which take turns; round 0 does not count. Ratios are those within a round.

    `processor` is given those of all processors together.
    """
    times: dict[str, list[float]] = {name: [] for name in searches}
    for turn in range(rounds + 1):
        order = list(searches.items())
        for name, search in order if turn % 2 else reversed(order):
            _wait(device)
            begin, before = time.perf_counter(), time.process_time()
            search.step(*batches)
            _wait(device)
            passed = 1000 * (time.perf_counter() - begin)
            if turn and processor is not None:
                processor.setdefault(name, []).append(1000 * (time.process_time() - before))
            print(f"  {turn}: {name.strip()}: {passed:.0f} ms", flush=True)
            if turn:
                times[name].append(passed)
    return times


def _memory(search: Search, batches: list[tuple[Tensor, Tensor]], device: str) -> float:
    """MiB: on a CPU those kept for gradients, elsewhere the most that were in use."""
    if device == "cpu":
        return search.saved(batches[1]) / 2**20
    torch.cuda.reset_peak_memory_stats()
    search.step(*batches)
    return torch.cuda.max_memory_allocated() / 2**20


def _wait(device: str) -> None:
    if device != "cpu":
        torch.cuda.synchronize()
