"""NAS-Bench-201: costs and unique counts match the published ones."""

from __future__ import annotations

import json
import tomllib
from functools import cache
from itertools import permutations
from typing import Any

import pytest
from click.testing import CliRunner

import archir
from archir.cli import main
from archir.spaces.architecture import Architecture
from archir.spaces.space import Space
from tests.conftest import EXAMPLES

FOLDER = EXAMPLES / "nas_bench_201"
FILE = FOLDER / "nas_bench_201.arch"
EDGES = [(source, node) for node in range(1, 4) for source in range(node)]


def cell(architecture: Architecture) -> tuple[str, ...]:
    """The operations in the order of EDGES."""
    return tuple(str(architecture[f"searched.edge[{node - 1}][{source}].op"]) for source, node in EDGES)


@cache
def small() -> tuple[Space, list[Architecture]]:
    """The space with one cell a stage, and its architectures."""
    space = archir.load(FILE, cells=1)
    return space, list(space.enumerate())


def test_space_size_matches_paper() -> None:
    space = archir.load(FILE)
    assert space.size == space.satisfying == 5**6 == 15_625
    assert [choice.path for choice in space.choices] == [f"searched.edge[{n - 1}][{s}].op" for s, n in EDGES]


@pytest.mark.parametrize("row", tomllib.loads((FOLDER / "published.toml").read_text())["row"], ids=lambda r: r["model"])
def test_costs_match_published_ones(row: dict[str, Any]) -> None:
    """Parameters are exact; the benchmark's FLOPs are multiply-accumulates and the classifier's biases."""
    parameters = row.get("parameters", {})
    space = archir.load(FILE, **parameters)
    choices = json.loads((FOLDER / row["architecture"]).read_text())["choices"]
    cost = archir.cost(space.specialize(space.architecture(choices)))
    assert cost.params == round(float(row["params"].removesuffix(" M")) * 1e6)
    assert cost.macs + parameters.get("classes", 10) == round(float(row["macs"].removesuffix(" M")) * 1e6)


def text(operations: tuple[str, ...], zeros: bool) -> str:
    """What the benchmark's authors compare (`Structure.to_unique_str` of their code): sums of texts as they are."""
    nodes = ["0"]
    for node in range(1, 4):
        terms = []
        for (source, end), op in zip(EDGES, operations, strict=True):
            if end != node:
                continue
            if zeros and (op == "none" or nodes[source] == "#"):
                terms.append("#")
            else:
                terms.append(nodes[source] if op == "skip_connect" else f"({nodes[source]})@{op}")
        nodes.append("+".join(sorted(terms)))
    return nodes[-1]


def test_counts_of_distinct_cell_strings_match_published_ones() -> None:
    cells = [cell(architecture) for architecture in small()[1]]
    assert len({text(operations, zeros=False) for operations in cells}) == 12_751
    assert len({text(operations, zeros=True) for operations in cells}) == 6_466


Sum = tuple[Any, ...]
"""Sorted terms (operation, edge that has the weights, the sum it is applied to); the cell's input is `("x",)`."""


def terms(operations: tuple[str, ...], cut: bool = False) -> Sum:
    """What a cell computes, by hand: sums without zeros, and what a batch norm makes of zeros: a constant, or, if that
    is cut, nothing."""
    nodes: list[Sum] = [(("x",),)]
    for node in range(1, 4):
        found: list[Any] = []
        for edge, ((source, end), op) in enumerate(zip(EDGES, operations, strict=True)):
            if end != node or op == "none":
                continue
            value = nodes[source]
            if not value and (cut or op == "avg_pool_3x3"):
                continue
            if op == "skip_connect":
                found += value
            elif op == "avg_pool_3x3":
                found.append((op, -1, value))
            else:
                found.append((op if value else "constant", edge, value))
        nodes.append(tuple(sorted(found, key=repr)))
    return nodes[-1]


def weights(value: Sum) -> set[int]:
    return {edge for term in value if len(term) == 3 for edge in {term[1], *weights(term[2])} if edge >= 0}


def renamed(value: Sum, names: dict[int, int]) -> Sum:
    new = [term if len(term) == 1 else (term[0], names.get(term[1], -1), renamed(term[2], names)) for term in value]
    return tuple(sorted(new, key=repr))


@cache
def canonical_terms(value: Sum) -> Sum:
    """The smallest of all namings of the weights."""
    known = sorted(weights(value))
    namings = (dict(zip(known, names, strict=True)) for names in permutations(range(len(known))))
    return min((renamed(value, naming) for naming in namings), key=repr)


@pytest.mark.parametrize("step", [18, pytest.param(1, marks=pytest.mark.soak)])
def test_hash_equality_equals_handwritten_equivalence(step: int) -> None:
    space, architectures = small()
    pairs = {(space.canonical(one), canonical_terms(terms(cell(one)))) for one in architectures[::step]}
    assert len(pairs) == len({name for name, _ in pairs}) == len({value for _, value in pairs})


@pytest.mark.soak
def test_handwritten_equivalence_counts_unique_cells() -> None:
    _, architectures = small()
    assert len({canonical_terms(terms(cell(one))) for one in architectures}) == 5_485
    assert len({canonical_terms(terms(cell(one), cut=True)) for one in architectures}) == 5_260


@pytest.mark.parametrize("step", [51, pytest.param(17, marks=pytest.mark.soak)])
def test_stacked_cells_hash_equality_equals_single_cell_one(step: int) -> None:
    space, architectures = small()
    stacked = archir.load(FILE, cells=2)
    pairs = {(space.canonical(one), stacked.canonical(one)) for one in architectures[::step]}
    assert len(pairs) == len({one for one, _ in pairs}) == len({other for _, other in pairs})


@pytest.mark.soak
def test_count_unique_command_prints_5485() -> None:
    result = CliRunner().invoke(main, ["count", str(FILE), "-p", "cells=1", "--unique"])
    assert "15,625 architectures" in result.output
    assert "5,485 of them compute something different" in result.output
