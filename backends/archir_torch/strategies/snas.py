"""SNAS (Xie et al. 2019): mixtures weighted by a sample of a Gumbel-softmax."""

from __future__ import annotations

from typing import Annotated

from archir.utils.settings import ListAsTuple, Positive
from archir_torch.search.job import strategy
from archir_torch.strategies.alphas import Sampling
from archir_torch.strategies.relaxed import GIVES, Options, Relaxed


class SnasOptions(Options):
    """Options of `snas`. The temperature falls, so that samples approach the corners of the simplex."""

    temperature: Annotated[tuple[Positive, Positive], ListAsTuple] = (1.0, 0.03)


@strategy("snas", SnasOptions, gives=GIVES)
class Snas(Relaxed):
    """Runs all alternatives, weighted by the same noise for all samples of a step."""

    sampling: Sampling = "gumbel"
