"""Costs of decoder language models: key-value cache, prefill (reading the prompt), decoding of a token.

A context is a number of tokens. The costs are those of the same network with an input of that length; operations and
attributes stay the same. Attention counts only unmasked pairs of positions, so that the costs of decoding token by
token add up to the cost of reading the same text at once.
"""

from __future__ import annotations

from collections.abc import Hashable

from archir.costs.symbolic import Rule
from archir.diagnostics.errors import fail
from archir.ir.graph import Graph, NodeId
from archir.ir.op import Op
from archir.ir.types import TensorType
from archir.language.elaboration.cost_names import BITS
from archir.ops.attention import Attention
from archir.passes.resize import token_count


def kv_bytes(graph: Graph, batch: int, context: int | None, dtype: str) -> Rule:
    """Return the rule of the cost `kv_bytes`: bytes of the keys and values of a whole context, for `batch` texts.

    With a sliding window, only the tokens within it are cached. Attention layers that read the same keys and values
    with the same window size share one cache.
    """
    _check_decoder(graph, "kv_bytes")
    tokens = _context_tokens(graph, context)

    def op_bytes(op: Op, *types: TensorType) -> int:
        if not isinstance(op, Attention):
            return 0
        elements = _attended_positions(op, tokens) * (types[1].channels + types[2].channels)
        return batch * -(-elements * BITS[dtype] // 8)

    return Rule(op_bytes, share_key=_cache_key)


def _cache_key(graph: Graph, number: NodeId) -> tuple[Hashable, tuple[NodeId, ...]]:
    """Return the key of an attention's cache: its window size, and the nodes of its keys and values."""
    return getattr(graph[number].op, "window", None), tuple(graph.operands(number)[1:3])


def prefill_macs(graph: Graph, context: int | None) -> Rule:
    """Return the rule of the cost `prefill_macs`: multiply-accumulates for reading the whole context."""
    tokens = _context_tokens(graph, context)

    def op_macs(op: Op, *types: TensorType) -> int:
        if not isinstance(op, Attention):
            return op.macs(*types)
        query, key, value = types[:3]
        sequences = query.elements // query.channels // op.span(query)
        return sequences * _unmasked_pairs(op, op.span(query), op.span(key)) * _macs_per_pair(op, query, value)

    return Rule(op_macs, tokens=tokens)


def decode_macs(graph: Graph, context: int | None) -> Rule:
    """Return the rule of the cost `decode_macs`: multiply-accumulates for one token, the last one of the context.

    The keys and values of all other tokens are cached.
    """
    _check_decoder(graph, "decode_macs")
    tokens = _context_tokens(graph, context)

    def op_macs(op: Op, *types: TensorType) -> int:
        if not isinstance(op, Attention):
            return op.macs(*types)
        return _attended_positions(op, tokens) * _macs_per_pair(op, types[0], types[2])

    return Rule(op_macs, tokens=1)


def _macs_per_pair(op: Attention, query: TensorType, value: TensorType) -> int:
    """Return the multiply-accumulates of one query-key pair in all heads: logits, and weighting of values."""
    return query.channels + op.heads * (value.channels // op.groups)


def _attended_positions(op: Attention, tokens: int) -> int:
    """Return the number of positions that the last of `tokens` tokens attends to, itself included."""
    return tokens if op.window is None else min(tokens, op.window)


def _unmasked_pairs(op: Attention, queries: int, keys: int) -> int:
    """Return the number of query-key pairs that are not masked."""
    if not op.causal and op.window is None:
        return queries * keys
    window = min(keys, keys if op.window is None else op.window)
    causal_pairs = window * (window + 1) // 2 + (keys - window) * window  # each query with itself and earlier keys
    return causal_pairs if op.causal else 2 * causal_pairs - keys


def _context_tokens(graph: Graph, context: int | None) -> int:
    """Return `context`, or the network's own number of tokens if `context` is None."""
    return token_count(graph) if context is None else context


def _check_decoder(graph: Graph, name: str) -> None:
    """Raise ArchError (A3320) unless all attention is causal, so that the network can generate token by token."""
    attentions = [number for number in graph if isinstance(graph[number].op, Attention)]
    if not attentions:
        raise fail("A3320", f"`{name}` needs a network with attention, and `{graph.name}` has none")
    for number in attentions:
        op = graph[number].op
        if isinstance(op, Attention) and op.along != "all":
            raise fail(
                "A3320", f"`{name}` needs attention over a sequence, not along an axis of a map", graph[number].span
            )
        if isinstance(op, Attention) and op.causal is not True:
            text = f"`{name}` needs a network that generates token by token, but this attention sees later tokens"
            raise fail("A3320", text, graph[number].span, "mask later positions: `causal=true`")
