"""Lazy feature maps: norms, activations, depthwise convolutions and weighted sums whose computation is deferred.

A consumer either fuses the computation of a lazy map into its own kernel, or materializes the map. A map is
materialized at most once.
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
        """Return the map; it is computed at the first call."""
        if self._result is None:
            self._result = apply_norm(self.x, self.norm, self.activation)
        return self._result

    def make_shareable(self) -> LazyNormAct | Tensor:
        """Return a value that several consumers may read.

        A value with a norm is materialized, so that the gradient of the norm is computed only once.
        """
        return self.materialize() if self.norm is not None else self


class LazyDepthwise:
    """Lazy tensor: depthwise convolution whose operand is a lazy map."""

    __slots__ = ("_result", "filter", "geometry", "map")

    def __init__(self, map: LazyNormAct, filter: Tensor, geometry: Geometry) -> None:
        self.map, self.filter, self.geometry = map, filter, geometry
        self._result: Tensor | None = None

    @property
    def shape(self) -> Any:
        """Shape of the result."""
        return torch.Size(result_shape(self.geometry))

    def materialize(self) -> Tensor:
        """Return the convolved map; it is computed at the first call."""
        if self._result is None:
            source = self.map
            self._result = depthwise(source.x, source.norm, source.activation, self.filter, self.geometry)
        return self._result

    def make_shareable(self) -> Tensor:
        """Return the materialized result, which several consumers may read."""
        return self.materialize()


class MapWithStatistics:
    """Materialized map together with its mean and variance per channel, which a following batch norm uses."""

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
        """Return the map without its statistics, for several consumers.

        A norm may defer its gradient only if it is the map's only consumer.
        """
        return self.map


class LazySum:
    """Lazy tensor: weighted sum whose terms are maps or batch-normalised maps."""

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
        """Whether the sum has already been computed."""
        return self._result is not None

    def materialize(self) -> Tensor:
        """Return the sum; it is computed at the first call."""
        if self._result is None:
            self._result = weighted_sum(self.terms)
        return self._result

    def make_shareable(self) -> Tensor:
        """Return the materialized sum, which several consumers may read."""
        return self.materialize()


LAZY = LazyNormAct, LazyDepthwise, MapWithStatistics, LazySum
"""Classes of lazy tensors."""


def materialize(value: Any) -> Any:
    """Return the tensor that a lazy tensor stands for; other values are returned unchanged."""
    return value.materialize() if isinstance(value, LAZY) else value


def make_shareable(value: Any) -> Any:
    """Return a value that several consumers may read; values that are not lazy are returned unchanged."""
    return value.make_shareable() if isinstance(value, LAZY) else value


def representative(value: Any) -> Tensor:
    """Return a tensor with the dtype and rank of a value that may be lazy, without computing the value."""
    match value:
        case LazySum(terms=terms):
            return terms[0].x
        case LazyDepthwise(map=LazyNormAct(x=x)) | MapWithStatistics(map=x) | LazyNormAct(x=x):
            source: Tensor = x
            return source
    tensor: Tensor = value
    return tensor


def as_term(value: Any, scale: Tensor | None = None) -> Term:
    """Convert a value to a term of a weighted sum. A lazy norm without an activation stays lazy."""
    if isinstance(value, LazyNormAct) and value.activation == NONE and value._result is None:
        return Term(value.x, value.norm, scale, value.deferred)
    return Term(to_channels_last(materialize(value)), None, scale)
