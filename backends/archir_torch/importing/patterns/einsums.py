"""Products of matrices that are written as sums over letters, as the products that they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from torch import fx

from archir_torch.importing.patterns.matching import aten, made, name_of


def products(graph: fx.Graph) -> None:
    """`bhnd,bhmd->bhnm` is matmul(q, k^T): one letter each for rows, columns and what is summed over."""
    for node in list(graph.nodes):
        if name_of(node) == "einsum":
            equation, operands = node.args[0], node.args[1]
            assert isinstance(equation, str)
            assert isinstance(operands, Sequence)
            letters = _letters(equation.replace(" ", "")) if len(operands) == 2 else None
            if letters is not None:
                _replace(graph, node, operands[0], operands[1], letters)


class _Letters(NamedTuple):
    """The operands', the result's, and those of each kind in it."""

    one: str
    two: str
    out: str
    beside: str
    rows: str
    columns: str
    inner: str


def _letters(equation: str) -> _Letters | None:
    if "." in equation or "->" not in equation or equation.count(",") != 1:
        return None
    (one, two), out = equation.split("->")[0].split(","), equation.split("->")[1]
    beside = "".join(c for c in out if c in one and c in two)
    rows = "".join(c for c in out if c in one and c not in two)
    columns = "".join(c for c in out if c in two and c not in one)
    inner = "".join(c for c in one if c in two and c not in out)
    plain = all(len({*word}) == len(word) for word in (one, two, out))
    single = len(rows) == len(columns) == len(inner) == 1 and beside
    fits = plain and single and len(one) == len(two) == len(out)
    return _Letters(one, two, out, beside, rows, columns, inner) if fits else None


def _replace(graph: fx.Graph, node: fx.Node, first: Any, second: Any, of: _Letters) -> None:
    x = _permuted(graph, node, first, of.one, of.beside + of.rows + of.inner)
    y = _permuted(graph, node, second, of.two, of.beside + of.columns + of.inner)
    turned = made(graph, node, node, aten.transpose.int, y, -1, -2)
    turned.meta["val"] = y.meta["val"].transpose(-1, -2)
    product = made(graph, node, node, aten.matmul.default, x, turned)
    made_in = of.beside + of.rows + of.columns
    product.meta["val"] = node.meta["val"].permute([of.out.index(c) for c in made_in])
    node.replace_all_uses_with(_permuted(graph, node, product, made_in, of.out))


def _permuted(graph: fx.Graph, before: fx.Node, node: Any, word: str, wanted: str) -> Any:
    if word == wanted:
        return node
    order = [word.index(c) for c in wanted]
    found = made(graph, before, before, aten.permute.default, node, order)
    found.meta["val"] = node.meta["val"].permute(order)
    return found
