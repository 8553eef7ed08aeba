"""Replacement of einsums that are matrix products by `matmul`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from torch import fx

from archir_torch.importing.patterns.matching import aten, insert_call, name_of


def rewrite_einsums(graph: fx.Graph) -> None:
    """Replace einsums that are matrix products: `bhnd,bhmd->bhnm` becomes matmul(q, k^T).

    Exactly one letter each must stand for the rows, the columns and the axis that is summed over.
    """
    for node in list(graph.nodes):
        if name_of(node) == "einsum":
            equation, operands = node.args[0], node.args[1]
            assert isinstance(equation, str)
            assert isinstance(operands, Sequence)
            letters = _parse_product(equation.replace(" ", "")) if len(operands) == 2 else None
            if letters is not None:
                _replace(graph, node, operands[0], operands[1], letters)


class _ProductLetters(NamedTuple):
    """Letters of an einsum of two operands, and their roles in the matrix product.

    `batch` are the letters of batch axes; `rows`, `columns` and `inner` those of the product.
    """

    left: str
    right: str
    out: str
    batch: str
    rows: str
    columns: str
    inner: str


def _parse_product(equation: str) -> _ProductLetters | None:
    """Parse the equation of an einsum of two operands; None if it is not a matrix product."""
    if "." in equation or "->" not in equation or equation.count(",") != 1:
        return None
    (left, right), out = equation.split("->")[0].split(","), equation.split("->")[1]
    batch = "".join(c for c in out if c in left and c in right)
    rows = "".join(c for c in out if c in left and c not in right)
    columns = "".join(c for c in out if c in right and c not in left)
    inner = "".join(c for c in left if c in right and c not in out)
    distinct = all(len({*word}) == len(word) for word in (left, right, out))
    is_single = len(rows) == len(columns) == len(inner) == 1 and batch
    is_product = distinct and is_single and len(left) == len(right) == len(out)
    return _ProductLetters(left, right, out, batch, rows, columns, inner) if is_product else None


def _replace(graph: fx.Graph, node: fx.Node, first: Any, second: Any, letters: _ProductLetters) -> None:
    """Replace an einsum by a matrix product of permuted operands."""
    x = _permute(graph, node, first, letters.left, letters.batch + letters.rows + letters.inner)
    y = _permute(graph, node, second, letters.right, letters.batch + letters.columns + letters.inner)
    transposed = insert_call(graph, node, node, aten.transpose.int, y, -1, -2)
    transposed.meta["val"] = y.meta["val"].transpose(-1, -2)
    product = insert_call(graph, node, node, aten.matmul.default, x, transposed)
    result_axes = letters.batch + letters.rows + letters.columns
    product.meta["val"] = node.meta["val"].permute([letters.out.index(c) for c in result_axes])
    node.replace_all_uses_with(_permute(graph, node, product, result_axes, letters.out))


def _permute(graph: fx.Graph, before: fx.Node, node: Any, axes: str, target: str) -> Any:
    """Insert a permutation of axes from the letters `axes` to `target`, unless they are equal."""
    if axes == target:
        return node
    order = [axes.index(c) for c in target]
    permuted = insert_call(graph, before, before, aten.permute.default, node, order)
    permuted.meta["val"] = node.meta["val"].permute(order)
    return permuted
