"""Maps that are not written yet: norms, activations, depthwise convolutions and weighted sums of maps.

What reads one either computes it while reading, or asks for the `whole` map, which is written once.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from archir_torch.lowering.kernels.depthwise import Geometry, depthwise, result_shape
from archir_torch.lowering.kernels.library import laid_out
from archir_torch.lowering.kernels.norm import NONE, Handed, Norm, normed
from archir_torch.lowering.kernels.sums import Term, weighted_sum


class Pending:
    """activation(norm(x)) of a map."""

    __slots__ = ("_whole", "activation", "handed", "norm", "x")

    def __init__(
        self, x: Tensor, norm: Norm | None = None, activation: int = NONE, handed: Handed | None = None
    ) -> None:
        self.x, self.norm, self.activation, self.handed = x, norm, activation, handed
        self._whole: Tensor | None = None

    @property
    def shape(self) -> Any:
        """That of the map."""
        return self.x.shape

    def whole(self) -> Tensor:
        """The map."""
        if self._whole is None:
            self._whole = normed(self.x, self.norm, self.activation)
        return self._whole

    def settled(self) -> Pending | Tensor:
        """What several readers share: the gradient of a norm is taken once."""
        return self.whole() if self.norm is not None else self


class Filtered:
    """The depthwise convolution of a map."""

    __slots__ = ("_whole", "filter", "geometry", "map")

    def __init__(self, map: Pending, filter: Tensor, geometry: Geometry) -> None:
        self.map, self.filter, self.geometry = map, filter, geometry
        self._whole: Tensor | None = None

    @property
    def shape(self) -> Any:
        """That of the result."""
        return torch.Size(result_shape(self.geometry))

    def whole(self) -> Tensor:
        """The result."""
        if self._whole is None:
            of = self.map
            self._whole = depthwise(of.x, of.norm, of.activation, self.filter, self.geometry)
        return self._whole

    def settled(self) -> Tensor:
        """What several readers share."""
        return self.whole()


class Made:
    """A map that is written, and whose mean and variance are known."""

    __slots__ = ("handed", "map", "mean", "variance")

    def __init__(self, map: Tensor, mean: Tensor, variance: Tensor, handed: Handed) -> None:
        self.map, self.mean, self.variance, self.handed = map, mean, variance, handed

    @property
    def shape(self) -> Any:
        """That of the map."""
        return self.map.shape

    def whole(self) -> Tensor:
        """The map."""
        return self.map

    def settled(self) -> Tensor:
        """What several readers share: no norm is the only one."""
        return self.map


class Sum:
    """A weighted sum of maps."""

    __slots__ = ("_whole", "terms")

    def __init__(self, terms: tuple[Term, ...]) -> None:
        self.terms = terms
        self._whole: Tensor | None = None

    @property
    def shape(self) -> Any:
        """That of the map."""
        return self.terms[0].x.shape

    @property
    def written(self) -> bool:
        """Whether the map is there."""
        return self._whole is not None

    def whole(self) -> Tensor:
        """The map."""
        if self._whole is None:
            self._whole = weighted_sum(self.terms)
        return self._whole

    def settled(self) -> Tensor:
        """What several readers share."""
        return self.whole()


LAZY = Pending, Filtered, Made, Sum


def whole(value: Any) -> Any:
    """A value, written."""
    return value.whole() if isinstance(value, LAZY) else value


def settled(value: Any) -> Any:
    """A value that several read."""
    return value.settled() if isinstance(value, LAZY) else value


def read_of(value: Any) -> Tensor:
    """A tensor that is there, of the type and number of axes that a value has."""
    match value:
        case Sum(terms=terms):
            return terms[0].x
        case Filtered(map=Pending(x=x)) | Made(map=x) | Pending(x=x):
            found: Tensor = x
            return found
    written: Tensor = value
    return written


def term(value: Any, share: Tensor | None = None) -> Term:
    """A term of a sum; norms are left to it."""
    if isinstance(value, Pending) and value.activation == NONE and value._whole is None:
        return Term(value.x, value.norm, share, value.handed)
    return Term(laid_out(whole(value)), None, share)
