"""Normalisation over batches, channels, groups, positions or along an axis."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import ClassVar

from archir.diagnostics.errors import require
from archir.ir.op import Free, Weight
from archir.ir.types import TensorType, require_axes


@dataclass(frozen=True)
class _Norm(Free, abstract=True):
    """Base of normalisations, whose result has the type of the operand."""

    def infer(self, x: TensorType) -> TensorType:
        """The type of the operand."""
        return x


def _check_eps(eps: float) -> None:
    """Raise RuleError unless `eps` is positive."""
    require(eps > 0, f"`eps` must be above 0, got {eps}: otherwise zeros become NaN")


@dataclass(frozen=True)
class BatchNorm(_Norm):
    """Batch normalisation of each channel of maps, volumes, tokens or vectors (Ioffe and Szegedy 2015).

    With `zero_init`, the scale is initialised to 0, so that a residual branch that ends in it is zero at first (Goyal
    et al. 2017).
    """

    in_place: ClassVar[bool] = True
    affine: bool = True
    eps: float = 1e-5
    momentum: float = 0.1
    zero_init: bool = False

    def infer(self, x: TensorType) -> TensorType:
        """The type of the operand."""
        require(x.rank in (1, 2, 3, 4), f"expected a map, a volume, tokens or a vector, got {x}", code="A0402")
        _check_eps(self.eps)
        return x

    def weights(self, x: TensorType) -> dict[str, Weight]:
        """`weight` and `bias` [C] if affine; always the buffers `running_mean` and `running_var` [C]."""
        shape = (x.channels,)
        buffers = {
            "running_mean": Weight(shape, "zeros", buffer=True),
            "running_var": Weight(shape, "ones", buffer=True),
        }
        scale = Weight(shape, "zeros" if self.zero_init else "ones")
        return ({"weight": scale, "bias": Weight(shape, "zeros")} if self.affine else {}) | buffers


@dataclass(frozen=True)
class LayerNorm(_Norm):
    """Layer normalisation over the features of each token, or of each position of a map or volume (Ba et al. 2016).

    The features are the last axis of tokens and vectors, and the first axis of maps and volumes (Liu et al. 2022, A
    ConvNet for the 2020s, section 2.6).
    """

    affine: bool = True
    eps: float = 1e-5

    def infer(self, x: TensorType) -> TensorType:
        """The type of the operand."""
        require(x.rank in (1, 2, 3, 4), f"expected a map, a volume, tokens or a vector, got {x}", code="A0402")
        _check_eps(self.eps)
        return x

    def weights(self, x: TensorType) -> dict[str, Weight]:
        """`weight` and `bias` [D] if affine."""
        shape = (x.channels,)
        return {"weight": Weight(shape, "ones"), "bias": Weight(shape, "zeros")} if self.affine else {}


@dataclass(frozen=True)
class RmsNorm(LayerNorm):
    """Root-mean-square normalisation over the features of each token or of each position (Zhang and Sennrich 2019).

    The operand may be tokens, a vector, a map or a volume, as in `layer_norm`.
    """

    eps: float = 1e-6

    def weights(self, x: TensorType) -> dict[str, Weight]:
        """`weight` [D] if affine."""
        return {"weight": Weight((x.channels,), "ones")} if self.affine else {}

    def kernels(self, x: TensorType) -> int:
        """5 kernel launches: square, mean, addition of eps, root and product; 1 more if affine."""
        return 5 + self.affine


@dataclass(frozen=True)
class GroupNorm(_Norm):
    """Group normalisation over the channels of a map or a volume, split into `groups` (Wu and He 2018)."""

    groups: int = 32
    affine: bool = True
    eps: float = 1e-5

    def infer(self, x: TensorType) -> TensorType:
        """The type of the operand."""
        require_axes(x, 2, 3)
        require(self.groups >= 1, f"`groups` must be at least 1, got {self.groups}")
        require(x.channels % self.groups == 0, f"{x.channels} channels do not split into {self.groups} groups")
        require(x.elements > self.groups, f"{x} has one number in a group: normalised, it is always 0")
        _check_eps(self.eps)
        return x

    def weights(self, x: TensorType) -> dict[str, Weight]:
        """`weight` and `bias` [C] if affine."""
        shape = (x.channels,)
        return {"weight": Weight(shape, "ones"), "bias": Weight(shape, "zeros")} if self.affine else {}


@dataclass(frozen=True)
class InstanceNorm(_Norm):
    """Normalisation of each channel of each sample over all positions (Ulyanov et al. 2016).

    The operand is a map, a volume or tokens.
    """

    affine: bool = True
    eps: float = 1e-5

    def infer(self, x: TensorType) -> TensorType:
        """The type of the operand."""
        require_axes(x, 1, 2, 3)
        require(prod(x.spatial) > 1, f"{x} has one position in a channel: normalised, it is always 0")
        _check_eps(self.eps)
        return x

    def weights(self, x: TensorType) -> dict[str, Weight]:
        """`weight` and `bias` [C] if affine."""
        shape = (x.channels,)
        return {"weight": Weight(shape, "ones"), "bias": Weight(shape, "zeros")} if self.affine else {}


@dataclass(frozen=True)
class Normalize(_Norm):
    """x divided by its Euclidean norm along one axis; the divisor is at least `eps`.

    Axes are counted without the batch axis; the default is the feature axis.
    """

    axis: int | None = None
    eps: float = 1e-6

    def resolved_axis(self, x: TensorType) -> int:
        """Return the axis to normalise along as a non-negative index. Raises RuleError if x has no such axis."""
        axis = x.channel_axis if self.axis is None else self.axis
        require(-x.rank <= axis < x.rank, f"axis {axis} of {x} does not exist")
        return axis % x.rank

    def infer(self, x: TensorType) -> TensorType:
        """The type of the operand."""
        self.resolved_axis(x)
        _check_eps(self.eps)
        return x

    def kernels(self, x: TensorType) -> int:
        """3 kernel launches: the norm, the maximum of norm and `eps`, and the quotient."""
        return 3
