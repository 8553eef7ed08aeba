"""SNAS (Xie et al. 2019): mixtures with weights sampled from a Gumbel-softmax."""

from __future__ import annotations

from typing import Annotated

from archir.utils.settings import ListAsTuple, Positive
from archir_torch.search.job import strategy
from archir_torch.strategies.alphas import Sampling
from archir_torch.strategies.relaxed import GIVES, Options, Relaxed


class SnasOptions(Options):
    """Options of `snas`. By default, the temperature falls, so that samples approach one-hot weights."""

    temperature: Annotated[tuple[Positive, Positive], ListAsTuple] = (1.0, 0.03)


@strategy("snas", SnasOptions, gives=GIVES)
class Snas(Relaxed):
    """SNAS: all alternatives run; one sample of mixture weights is used for all samples in a batch."""

    sampling: Sampling = "gumbel"
