"""Lazy feature maps: norms, activations, depthwise convolutions and weighted sums that are not computed yet.

A consumer either computes a lazy map while it reads it, or materializes it, which happens once.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from archir_torch.lowering.kernels.depthwise import Geometry, depthwise, result_shape
from archir_torch.lowering.kernels.library import to_channels_last
from archir_torch.lowering.kernels.norm import NONE, DeferredGradient, Norm, apply_norm
from archir_torch.lowering.kernels.sums import Term, weighted_sum


class LazyNormAct:
    """Lazy tensor: activation(norm(x)), where the norm is optional."""

    __slots__ = ("_result", "activation", "deferred", "norm", "x")

    def __init__(
        self, x: Tensor, norm: Norm | None = None, activation: int = NONE, deferred: DeferredGradient | None = None
    ) -> None:
        self.x, self.norm, self.activation, self.deferred = x, norm, activation, deferred
        self._result: Tensor | None = None

    @property
    def shape(self) -> Any:
        """Shape of the map."""
        return self.x.shape

    def materialize(self) -> Tensor:
        """Return the map, computed once."""
        if self._result is None:
            self._result = apply_norm(self.x, self.norm, self.activation)
        return self._result

    def make_shareable(self) -> LazyNormAct | Tensor:
        """Return a value for several consumers: materialized if it has a norm, so that its gradient is computed
        once."""
        return self.materialize() if self.norm is not None else self


class LazyDepthwise:
    """Lazy tensor: depthwise convolution of a lazy map."""

    __slots__ = ("_result", "filter", "geometry", "map")

    def __init__(self, map: LazyNormAct, filter: Tensor, geometry: Geometry) -> None:
        self.map, self.filter, self.geometry = map, filter, geometry
        self._result: Tensor | None = None

    @property
    def shape(self) -> Any:
        """Shape of the result."""
        return torch.Size(result_shape(self.geometry))

    def materialize(self) -> Tensor:
        """Return the result, computed once."""
        if self._result is None:
            source = self.map
            self._result = depthwise(source.x, source.norm, source.activation, self.filter, self.geometry)
        return self._result

    def make_shareable(self) -> Tensor:
        """Return the materialized result for several consumers."""
        return self.materialize()


class MapWithStatistics:
    """Materialized map whose mean and variance per channel are known, for a batch norm after it."""

    __slots__ = ("deferred", "map", "mean", "variance")

    def __init__(self, map: Tensor, mean: Tensor, variance: Tensor, deferred: DeferredGradient) -> None:
        self.map, self.mean, self.variance, self.deferred = map, mean, variance, deferred

    @property
    def shape(self) -> Any:
        """Shape of the map."""
        return self.map.shape

    def materialize(self) -> Tensor:
        """Return the map."""
        return self.map

    def make_shareable(self) -> Tensor:
        """Return the map alone for several consumers: a norm may defer its gradient only if it is the only consumer."""
        return self.map


class LazySum:
    """Lazy tensor: weighted sum of maps and of norms of maps."""

    __slots__ = ("_result", "terms")

    def __init__(self, terms: tuple[Term, ...]) -> None:
        self.terms = terms
        self._result: Tensor | None = None

    @property
    def shape(self) -> Any:
        """Shape of the map."""
        return self.terms[0].x.shape

    @property
    def is_materialized(self) -> bool:
        """Whether the sum was computed already."""
        return self._result is not None

    def materialize(self) -> Tensor:
        """Return the sum, computed once."""
        if self._result is None:
            self._result = weighted_sum(self.terms)
        return self._result

    def make_shareable(self) -> Tensor:
        """Return the materialized sum for several consumers."""
        return self.materialize()


LAZY = LazyNormAct, LazyDepthwise, MapWithStatistics, LazySum
"""Classes of lazy tensors."""


def materialize(value: Any) -> Any:
    """Return the tensor of a lazy tensor; other values are returned as they are."""
    return value.materialize() if isinstance(value, LAZY) else value


def make_shareable(value: Any) -> Any:
    """Return a value that several consumers may read; values that are not lazy are returned as they are."""
    return value.make_shareable() if isinstance(value, LAZY) else value


def representative(value: Any) -> Tensor:
    """Return a materialized tensor with the dtype and number of axes of a value that may be lazy, without computing
    it."""
    match value:
        case LazySum(terms=terms):
            return terms[0].x
        case LazyDepthwise(map=LazyNormAct(x=x)) | MapWithStatistics(map=x) | LazyNormAct(x=x):
            source: Tensor = x
            return source
    tensor: Tensor = value
    return tensor


def as_term(value: Any, scale: Tensor | None = None) -> Term:
    """Return a value as a term of a weighted sum; a lazy norm without activation stays lazy."""
    if isinstance(value, LazyNormAct) and value.activation == NONE and value._result is None:
        return Term(value.x, value.norm, scale, value.deferred)
    return Term(to_channels_last(materialize(value)), None, scale)
