"""Compare a step of a differentiable search: the network of DARTS by hand and the relaxed graph of `darts.arch`.

A step follows Liu et al. (2019, section 2.3, first order): the gradient of the loss on held-out images updates the
architecture parameters (Adam), that on training images the weights (SGD, clipped).
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
    """A network with both optimizers. With `sparing`, only the updated tensors get gradients and keep what these
    need."""

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
        """Update architecture parameters and weights."""
        self._update(self.adam, self.alphas, self.weights, held_out)
        self._update(self.sgd, self.weights, self.alphas, training, clip=5.0)

    def _update(
        self,
        optimizer: torch.optim.Optimizer,
        updated: list[Tensor],
        frozen: list[Tensor],
        batch: tuple[Tensor, Tensor],
        clip: float | None = None,
    ) -> None:
        optimizer.zero_grad()
        with _WithoutGradients(frozen if self.sparing else []):
            self.loss(*batch, self.alphas).backward()
        if clip is not None:
            nn.utils.clip_grad_norm_(updated, clip)
        optimizer.step()

    def saved(self, batch: tuple[Tensor, Tensor]) -> int:
        """Return the bytes that the weights' forward pass keeps for the backward pass: every storage once, without
        parameters."""
        parameters = {tensor.untyped_storage().data_ptr() for tensor in [*self.weights, *self.module.buffers()]}
        sizes: dict[int, int] = {}
        references: list[Tensor] = []

        def pack(tensor: Tensor) -> Tensor:
            storage = tensor.untyped_storage()
            if storage.data_ptr() not in parameters:
                sizes[storage.data_ptr()] = storage.nbytes()
                references.append(tensor.detach())  # so that no later tensor gets the address
            return tensor.detach()  # a result that keeps itself for its gradient would never be freed

        with _WithoutGradients(self.alphas if self.sparing else []):
            with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
                loss = self.loss(*batch, self.alphas)
            del loss
        return sum(sizes.values())


class _WithoutGradients:
    """Context in which tensors need no gradient."""

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
    """Return the search of the network by hand."""
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
    """Return the search of a lowered graph."""
    network = network.to(device)
    run: Callable[..., Tensor] = torch.compile(network) if compiled else network
    record = GraphedNetwork(network, possible=replayed)

    def loss(images: Tensor, labels: Tensor, alphas: list[Tensor]) -> Tensor:
        weights = alphas_in_graph(*(alpha.softmax(-1) for alpha in alphas))
        still = not next(network.parameters()).requires_grad
        with autocast(precision, device):
            logits = record(images, weights=weights, still=still) if replayed else run(images, weights=weights)
            return F.cross_entropy(logits, labels)

    search = Search(network, loss, device, sparing)
    search.run = record
    return search


def graph(channels: int, cells: int = 8) -> Graph:
    """Return the relaxed graph of the space."""
    path = f"{EXAMPLES / 'darts' / 'darts.arch'}:darts"
    return relax(archir.load(path, channels=channels, cells=cells, affine=False, zero=True).graph)


def agreement(kernels: bool = False) -> float:
    """Return the largest difference between gradients of the two networks with 4 channels, in float64, relative to the
    largest norm."""
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
    by_hand_gradients = torch.autograd.grad(losses[0], [*alphas, *named.values()], retain_graph=True)
    graph_gradients = torch.autograd.grad(losses[1], [*alphas, *(own[name] for name in named)])
    largest = max(float(gradient.norm()) for gradient in by_hand_gradients)
    return max(float((a - b).norm()) for a, b in zip(by_hand_gradients, graph_gradients, strict=True)) / largest


def candidates(relaxed: Graph, device: str, best: Plan) -> dict[str, Callable[[], Search]]:
    """Return the compared searches: passes added one after the other, the measured plan, and kernels on a CPU."""

    def ours(plan: Plan, **options: bool) -> Callable[[], Search]:
        return lambda: from_graph(lower_with_plan(relaxed, plan), device, **options)

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
    """Return the table of search steps."""
    torch.manual_seed(0)
    size = (8 if quick else 32) if device == "cpu" else 64
    rounds = 3 if quick or device == "cpu" else 11
    relaxed = graph(16)
    batches = _batches(size, device)
    _, best = tuned(relaxed, [batches[1][0]], say=lambda text: print(f"  {text}", flush=True))
    gradient_error = agreement()
    title = (
        f"a search step (architecture and weights) of the 8-cell, 16-channel network of DARTS, batch {size}; "
        f"gradients agree to {gradient_error:.0e} in float64"
    )
    memory = "saved, MiB" if device == "cpu" else "peak, MiB"
    table = Table(title, ["network", "ms", "times as fast", memory])
    print(f"  {title}", flush=True)
    searches = {name: make() for name, make in candidates(relaxed, device, best).items()}
    times = _time_in_turns(searches, batches, rounds, device)
    reference = times["by hand"]
    for name, search in searches.items():
        ratio = median(theirs / ours for ours, theirs in zip(times[name], reference, strict=True))
        megabytes = _memory(search, batches, device)
        table.add(name, f"{median(times[name]):.0f}", f"{ratio:.2f}", f"{megabytes:.0f}")
    return table


def compiled(device: str, quick: bool) -> Table:
    """Return the table of compiled search steps: with kernels on a CPU, by torch.compile on a GPU.

    torch.compile takes too long for eight cells on a CPU. The library of kernels is compiled in the first step.
    Processor time is more reliable if other programs run.
    """
    torch.manual_seed(0)
    cells, size = 8, (8 if quick else 32) if device == "cpu" else 64
    batches = _batches(size, device)
    plan = Plan(channels_last=True, depthwise=True)
    factories = {
        "by hand": lambda: by_hand(device, cells=cells),
        f"archir: {plan}": lambda: from_graph(lower_with_plan(graph(16, cells), plan), device),
    }
    if device == "cpu":
        factories["archir: compiled"] = lambda: from_graph(_with_kernels(graph(16, cells)), device)
    else:
        factories["by hand, compiled"] = lambda: by_hand(device, cells=cells, compiled=True)
        network = lower_with_plan(graph(16, cells), plan)
        factories[f"archir: {plan}, compiled"] = lambda: from_graph(network, device, compiled=True)
    title = f"a search step of the network of DARTS with {cells} cells and 16 channels, batch {size}"
    if device == "cpu":
        title += f"; gradients of the compiled one agree to {agreement(kernels=True):.0e} in float64"
    memory = "saved, MiB" if device == "cpu" else "peak, MiB"
    columns = ["network", "first step, s", "ms", "times as fast", "processor, ms", "times as fast", memory]
    table = Table(title, columns)
    searches = {name: make() for name, make in factories.items()}
    first: dict[str, float] = {}
    for name, search in searches.items():
        if "compiled" in name:
            _forget_kernels()
        first[name] = _seconds(search, batches, device)
        print(f"  {name}: {first[name]:.0f} s for the first step", flush=True)
    processor: dict[str, list[float]] = {}
    times = _time_in_turns(searches, batches, 3 if device == "cpu" else 11, device, processor)
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
    """Drop compiled kernels, so that the next use compiles them."""
    os.environ["XDG_CACHE_HOME"] = tempfile.mkdtemp()
    library.load_library.cache_clear()
    library.kernel_function.cache_clear()


def _batches(size: int, device: str) -> list[tuple[Tensor, Tensor]]:
    """Return images and labels: held out, and for training."""
    return [(torch.randn(size, 3, 32, 32, device=device), torch.randint(10, (size,), device=device)) for _ in range(2)]


def _seconds(search: Search, batches: list[tuple[Tensor, Tensor]], device: str) -> float:
    """Return the seconds of the first step, which includes compilation."""
    begin = time.perf_counter()
    search.step(*batches)
    _wait(device)
    return time.perf_counter() - begin


def _time_in_turns(
    searches: Mapping[str, Search], batches: list[tuple[Tensor, Tensor]], rounds: int, device: str,
    processor: dict[str, list[float]] | None = None,
) -> dict[str, list[float]]:  # fmt: skip
    """Return milliseconds of each search; searches take turns, round 0 does not count, and ratios are taken within a
    round.

    Milliseconds of processor time of all threads are added to `processor`.
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
    """Return MiB: on a CPU those kept for the backward pass, on a GPU the peak."""
    if device == "cpu":
        return search.saved(batches[1]) / 2**20
    torch.cuda.reset_peak_memory_stats()
    search.step(*batches)
    return torch.cuda.max_memory_allocated() / 2**20


def _wait(device: str) -> None:
    if device != "cpu":
        torch.cuda.synchronize()
