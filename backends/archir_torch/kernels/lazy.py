"""Maps that are not written yet: norms and activations of maps, and weighted sums.

What reads one either computes it while reading, or asks for the `whole` map, which is written once.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from archir_torch.kernels.library import laid_out
from archir_torch.kernels.norm import NONE, Norm, normed
from archir_torch.kernels.sums import Term, weighted_sum


class Pending:
    """activation(norm(x)) of a map."""

    __slots__ = ("_whole", "activation", "norm", "x")

    def __init__(self, x: Tensor, norm: Norm | None = None, activation: int = NONE) -> None:
        self.x, self.norm, self.activation = x, norm, activation
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


LAZY = Pending, Sum


def whole(value: Any) -> Any:
    """A value, written."""
    return value.whole() if isinstance(value, LAZY) else value


def settled(value: Any) -> Any:
    """A value that several read."""
    return value.settled() if isinstance(value, LAZY) else value


def term(value: Any, share: Tensor | None = None) -> Term:
    """A term of a sum; norms are left to it."""
    if isinstance(value, Pending) and value.activation == NONE and value._whole is None:
        return Term(value.x, value.norm, share)
    return Term(laid_out(whole(value)), None, share)
