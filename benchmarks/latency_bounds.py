"""Are predicted latencies fit for bounds? Models are fitted to networks within bounds, checked on other networks within
the same bounds, and used as the bound of searches.

Each search measures its best candidates, and the model of the next one is fitted to them, too.

The speed of a shared machine changes by a quarter within minutes. Therefore the networks of the fit and of the check
are measured in turns, and the winners of the searches in turns with some of them, whose latencies say by how much the
machine is faster or slower than before."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from measure import Table

import archir
from archir.backends.latency_benches import open_bench
from archir.costs.latencies.measurement import MeasuredNetwork, Validation, measure_networks
from archir.costs.latencies.model import HeldOut
from archir.costs.latencies.timing import Timing
from archir_torch.search.measured_latency import EFFORT, latency_bounds, measure_finalists

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
SPACES: dict[str, tuple[str, dict[str, Any], str]] = {
    "NATS-Bench, sizes": ("zoo/nats_size.arch", {}, "macs >= 20M"),
    "NAS-Bench-201": ("nas_bench_201/nas_bench_201.arch", {}, "macs >= 40M"),
    "full attention": ("full_attention/full_attention.arch", {"channels": 16}, "macs <= 16M"),
    "GLiT": ("glit/search.arch:levels", {"width": 96, "depth": 6, "patch": 4, "size": 32, "drop": 0}, "params <= 1M"),
    "TrioNet": ("trionet/trionet.arch", {"channels": 64, "size": 96, "classes": 10}, "macs <= 200M"),
    "MobileNetV3 (OFA)": ("mobilenet_v3_ofa/mobilenet_v3_ofa.arch", {}, "macs <= 300M"),
}
DEVICES = (("onnxruntime-cpu", 1), ("onnxruntime-cpu", 2), ("cpu", 1))
SAMPLED = 300
"""Number of candidates of a search, of which the one with the most parameters within the bound wins."""

MAX_DEVIATION = 0.1
"""How far the latency of a winner may be from its prediction, relative to it."""

DIVISIONS = 25
"""Number of random divisions of the measured networks into those that a model is fitted to, and those it is checked on.
"""

ANCHORS = 20
"""Number of networks that are measured again in turns with the winners."""


def run(quick: bool) -> Table:
    """Return the table of figures."""
    fitted, held_out, searches = (12, 6, 2) if quick else (80, 40, 10)
    table = Table(
        f"latency models fitted to a table of operations and {fitted} networks, and checked on {held_out} others, "
        f"within bounds, and how many of the others were inside on average over {DIVISIONS} random divisions of all of "
        f"them; {searches} searches for the most parameters of {SAMPLED} candidates predicted to be faster "
        "than the median, each by a model that is also fitted to the candidates that earlier ones measured; how many "
        "winners were under the bound and within 10% of their prediction when their search "
        "measured them, and when measured again, both converted to the machine's speed during the fit; how far the "
        "furthest was from its prediction then; and the machine's speed then, relative to that during the fit",
        [
            "space", "within", "device", "measured, ms", "error", "inside 95%", "divisions", "tau", "verdict",
            "bound, ms", "winners", "again", "furthest", "speed",
        ],
    )  # fmt: skip
    for name, (file, parameters, where) in SPACES.items():
        space = archir.load(f"{EXAMPLES}/{file}", **parameters)
        for device, threads in DEVICES:
            with tempfile.TemporaryDirectory() as folder:
                row = _row(space, where, device, threads, Path(folder), fitted, held_out, searches)
            table.add(name, where, f"{'torch' if device == 'cpu' else device}, {threads}", *row)
            print(table.rows[-1], flush=True)
    return table


def _row(
    space: archir.Space, where: str, device: Any, threads: int, folder: Path, fitted: int, held_out: int, searches: int
) -> tuple[str, ...]:
    """Fit and check a model, and search with it; return the figures."""
    operations = archir.measure_operations(space, folder / "table.json", device=device, threads=threads)
    measured = archir.measured_latency(space, fitted + held_out, where=where, device=device, threads=threads)
    architectures, times = measured.architectures, measured.nanoseconds
    networks = [space.specialize(architecture) for architecture in architectures]

    def fit(known: dict[archir.Architecture, float], path: Path | None = None) -> archir.LatencyModel:
        """Fit a model to known latencies."""
        return archir.fit_latency(
            space, [*known], [*known.values()], path, operations=operations, conditions=measured.conditions
        )

    def check(order: Sequence[int]) -> Validation:
        """Check the model that is fitted to the first networks in an order on the others."""
        model = fit({architectures[number]: times[number] for number in order[:fitted]})
        others = [
            MeasuredNetwork(model.estimate(networks[number]), Timing(times[number], 0, 1)) for number in order[fitted:]
        ]
        return Validation(tuple(others), model.margin())

    count, rng = fitted + held_out, np.random.default_rng(0)
    checked = check(range(count))
    found = _held_out(checked)
    divided = [_held_out(check(rng.permutation(count).tolist())).inside for _ in range(DIVISIONS)]
    known = dict(zip(architectures[:fitted], times[:fitted], strict=True))
    bound = round(float(np.median(times)))
    winners: list[Winner] = []
    for seed in range(searches):
        path = folder / f"model_{seed}.json"
        fit(known, path)
        candidates, winner = _search(space.where(f'{where} and latency("{path}") <= {bound}ns'), seed)
        known |= candidates
        winners += [winner] if winner else []
    graphs = [*(space.specialize(one.architecture) for one in winners), *networks[:ANCHORS]]
    with open_bench(device, 1, threads) as bench:
        now = np.array([timing.mean for timing in measure_networks(graphs, bench, effort=EFFORT)])
    speed = float(np.mean(np.array(times[:ANCHORS]) / now[len(winners) :]))
    predicted = np.array([winner.predicted for winner in winners])

    def good(nanoseconds: Any) -> str:
        """Return how many winners took these times within the bound and close to their predictions."""
        is_good = (np.abs(nanoseconds / predicted - 1) <= MAX_DEVIATION) & (nanoseconds <= bound)
        return f"{is_good.sum()} of {searches}"

    again = speed * now[: len(winners)]
    tau = "-" if found.rank_correlation is None else f"{found.rank_correlation:.2f}"
    milliseconds = np.array(times) / 1e6
    return (
        f"{milliseconds.min():.2f} to {milliseconds.max():.2f}", f"{checked.error:.1%}",
        f"{found.inside} of {found.networks}", f"{np.mean(divided):.1f}", tau, "not fit" if found.weaknesses else "fit",
        f"{bound / 1e6:.3f}", good(np.array([winner.measured for winner in winners])), good(again),
        f"{np.abs(again / predicted - 1).max(initial=0):.1%}", f"{speed:.2f}",
    )  # fmt: skip


def _held_out(checked: Validation) -> HeldOut:
    found = checked.held_out
    assert found is not None, "there are enough networks"
    return found


class Winner(NamedTuple):
    """Result of a search within a latency, and its predicted and measured nanoseconds."""

    architecture: archir.Architecture
    predicted: float
    measured: float


def _search(bounded: archir.Space, seed: int) -> tuple[dict[archir.Architecture, float], Winner | None]:
    """Search within a predicted latency; return the measured nanoseconds of the best candidates and the winner, if one
    of them is within the bound."""
    codes = bounded.sample_codes(SAMPLED, np.random.default_rng(seed))
    best = np.argsort(-bounded.cost(codes, names=["params"])["params"], kind="stable")
    candidates = [bounded.decode(codes[row]) for row in best[:20]]
    finalists = measure_finalists(bounded, candidates, latency_bounds(bounded))
    predicted, measured, chosen = (
        *(finalists["bounds"][0][name] for name in ("predicted", "measured")),
        finalists["chosen"],
    )
    winner = None if chosen is None else Winner(candidates[chosen], predicted[chosen], measured[chosen])
    return dict(zip(candidates, measured, strict=False)), winner
