"""A fake device, its tables, and small spaces of every kind, for the tests of latencies."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from archir.costs.latencies.measurement import MeasuredNetwork, Validation, fill_table, new_table
from archir.costs.latencies.table import Correction, Entry, LatencyTable
from archir.costs.latencies.timing import Effort, TimedRun, Timing
from archir.costs.latencies.workloads import space_workloads
from archir.ir.graph import Graph
from archir.spaces.space import Space

QUICK = Effort(visits=3, max_visits=3, warm_ns=0, sample_ns=1e3)


class FakeBench:
    """A device on which a network takes 100 ns per call and 10 ns per node. It counts requests."""

    machine = {"processor": "abacus"}  # noqa: RUF012
    threads = 1
    batch = 1
    simplified = False

    def __init__(self, interrupt_at: int = 10**9) -> None:
        self.asked: list[Graph] = []
        self.interrupt_at = interrupt_at

    def free(self, graph: Graph) -> bool:
        return any(graph[number].op.name == "identity" for number in graph) and len(graph) == 2

    def timed(self, graph: Graph) -> TimedRun:
        if len(self.asked) == self.interrupt_at:
            raise KeyboardInterrupt
        self.asked.append(graph)
        return lambda calls: calls * (100.0 + 10.0 * (len(graph) - len(graph.inputs)))


def table_of(keys: Iterable[str], correction: Correction | None = None, simplified: bool = False) -> LatencyTable:
    """Return a table in which every operation takes as many nanoseconds as its key has characters."""
    entries = {key: Entry(mean=len(key), spread=0, samples=3) for key in keys}
    overhead = Entry(mean=1000, spread=0, samples=3)
    return LatencyTable(
        schema_version=1, device="cpu", batch=1, threads=1, machine=FakeBench.machine, simplified=simplified,
        overhead=overhead, correction=correction, entries=entries,
    )  # fmt: skip


def net(body: str, more: str = "") -> str:
    return f"{more}\nnet n {{\n input image: f32[4, 6, 6]\n{body}\n}}\n"


SMALL = {
    "values": net("k = choose k(1, 3, 5)\nc = choose c(4, 8)\noutput y = image |> conv(c, k) |> relu |> conv(2, k)"),
    "depth": net(
        "d = choose d(1, 2, 3)\nx = image\nrepeat d as i {\n x = x |> conv(choose w(4, 8)) |> choose a(relu, gelu)\n}\n"
        "output y = x |> global_avg_pool |> linear(3)"
    ),
    "conditional": net(
        "x = image |> choose op {\n a: conv(choose w(2, 4), kernel=choose k(1, 3))\n b: max_pool(3)\n c: identity\n}\n"
        "output y = x |> batch_norm |> relu"
    ),
    "subsets": net(
        "s = choose s 2 of [image |> conv(4), image |> relu, image |> max_pool(3, stride=1)]\n"
        "output y = sum(s) |> concat(image)"
    ),
    "kinds": net(
        "a = image |> choose a { feature: relu, gate: relu |> as_gate, one: global_avg_pool(keep=true) |> as_gate }\n"
        "b = image |> choose b { feature: conv(4), gate: conv(4, 1) |> as_gate }\n"
        "output y = calibrate(image, a, b)"
    ),
    "cells": net(
        "output y = image |> mix |> conv(8) |> mix",
        "cell mix(x) {\n return x |> choose op { a: conv(x.channels), b: relu |> conv(x.channels, kernel=1) }\n}",
    ),
    "never": net("k = choose k(1, 3)\nif k > 1 {\n k = k + 2\n}\noutput y = image |> conv(4, k) |> scale(k / 2)"),
    "dead": net(
        "x = image |> conv(choose w(4, 8)) |> choose a(relu, zero)\n"
        "y = x |> conv(4, choose k(1, 3)) |> choose b(identity, zero, relu)\n"
        "output z = y + (image |> conv(4, 1) |> choose c(gelu, zero))"
    ),
    "zeros": net(
        "a = image |> conv(4) |> choose a(identity, zero, relu)\n"
        "b = image |> conv(4, 1) |> choose b(zero, gelu)\n"
        "c = a + b |> choose c(relu, identity, zero)\n"
        "output y = sum([c, a, b |> relu6]) |> conv(2, 1)\noutput z = b"
    ),
    "without operands": net("output y = (image |> to_tokens) + parameter((36, choose c(1, 4)))"),
}

RUNS = [*((name, False) for name in SMALL), ("dead", True), ("zeros", True)]
"""The small spaces, and whether their networks are simplified before they run."""


def filled(bench: FakeBench, space: Space, table: LatencyTable | None = None, **options: Any) -> LatencyTable:
    table = table or new_table("cpu", bench, QUICK)
    fill_table(table, space_workloads(space.graph), bench, effort=QUICK, **({"save": lambda _: None} | options))
    return table


def validation(pairs: Iterable[tuple[float, float]]) -> Validation:
    return Validation(tuple(MeasuredNetwork(x, Timing(y, 0, 3), x) for x, y in pairs))
