"""What decoders of texts take: caches of keys and values, the text that is given, and each token that follows.

A context is a number of tokens. The network is looked at with a text of another length: its operations, and their
attributes, are the same. Attention counts the pairs of positions that it does not leave out, so that what the steps
of a decoder cost adds up to what it costs to read the same text at once.
"""

from __future__ import annotations

from collections.abc import Hashable

from archir.costs.symbolic import Rule
from archir.diagnostics.errors import fail
from archir.ir.graph import Graph, NodeId
from archir.ir.op import Op
from archir.ir.types import TensorType
from archir.language.elaboration.costs import BITS
from archir.ops.attention import Attention
from archir.passes.resize import length


def kv_bytes(graph: Graph, batch: int, context: int | None, dtype: str) -> Rule:
    """Keys and values of all tokens of the context, of as many texts: of a sliding window, those within it.

    Attentions that read the same keys and values, in windows of one size, have one cache.
    """
    _decodes(graph, "kv_bytes")
    tokens = _tokens(graph, context)

    def of(op: Op, *types: TensorType) -> int:
        if not isinstance(op, Attention):
            return 0
        numbers = _seen(op, tokens) * (types[1].channels + types[2].channels)
        return batch * -(-numbers * BITS[dtype] // 8)

    return Rule(of, once=_cached)


def _cached(graph: Graph, number: NodeId) -> tuple[Hashable, tuple[NodeId, ...]]:
    """A window, and the keys and values that are within it."""
    return getattr(graph[number].op, "window", None), tuple(graph.operands(number)[1:3])


def prefill_macs(graph: Graph, context: int | None) -> Rule:
    """Multiply-accumulates of a whole text."""
    tokens = _tokens(graph, context)

    def of(op: Op, *types: TensorType) -> int:
        if not isinstance(op, Attention):
            return op.macs(*types)
        query, key, value = types[:3]
        lines = query.elements // query.channels // op.span(query)
        return lines * _pairs(op, op.span(query), op.span(key)) * _a_pair(op, query, value)

    return Rule(of, tokens=tokens)


def decode_macs(graph: Graph, context: int | None) -> Rule:
    """Multiply-accumulates of one token, the last of the context, with all others in the cache."""
    _decodes(graph, "decode_macs")
    tokens = _tokens(graph, context)

    def of(op: Op, *types: TensorType) -> int:
        if not isinstance(op, Attention):
            return op.macs(*types)
        return _seen(op, tokens) * _a_pair(op, types[0], types[2])

    return Rule(of, tokens=1)


def _a_pair(op: Attention, query: TensorType, value: TensorType) -> int:
    """Multiply-accumulates of one query and one key: its logit, and its value's part, in all heads."""
    return query.channels + op.heads * (value.channels // op.groups)


def _seen(op: Attention, tokens: int) -> int:
    """Positions that the last of so many tokens attends to."""
    return tokens if op.window is None else min(tokens, op.window)


def _pairs(op: Attention, queries: int, keys: int) -> int:
    """Pairs of a query and a key that are not left out."""
    if not op.causal and op.window is None:
        return queries * keys
    window = min(keys, keys if op.window is None else op.window)
    behind = window * (window + 1) // 2 + (keys - window) * window  # each with itself and those before it
    return behind if op.causal else 2 * behind - keys


def _tokens(graph: Graph, context: int | None) -> int:
    """How many tokens a context is, by default the network's own."""
    return length(graph) if context is None else context


def _decodes(graph: Graph, name: str) -> None:
    """Raise ArchError (A3320) unless tokens can follow one another: attention sees none that come later."""
    attentions = [number for number in graph if isinstance(graph[number].op, Attention)]
    if not attentions:
        raise fail("A3320", f"`{name}` is of networks with attention, and `{graph.name}` has none")
    for number in attentions:
        op = graph[number].op
        if isinstance(op, Attention) and op.along != "all":
            raise fail(
                "A3320", f"`{name}` is of texts, and this attention is along an axis of a map", graph[number].span
            )
        if isinstance(op, Attention) and op.causal is not True:
            text = f"`{name}` is of networks that write one token after another, and this attention sees later ones"
            raise fail("A3320", text, graph[number].span, "with `causal=true`, a position attends to none after it")
