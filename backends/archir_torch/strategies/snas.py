"""SNAS (Xie et al. 2019): mixtures weighted by a point drawn from a Gumbel-softmax."""

from __future__ import annotations

from typing import Annotated

from archir.utils.settings import Many, Positive
from archir_torch.search.job import strategy
from archir_torch.strategies.alphas import Sampling
from archir_torch.strategies.relaxed import GIVES, Options, Relaxed


class SnasOptions(Options):
    """The temperature falls, so that the points end near the corners."""

    temperature: Annotated[tuple[Positive, Positive], Many] = (1.0, 0.03)


@strategy("snas", SnasOptions, gives=GIVES)
class Snas(Relaxed):
    """All alternatives are run, weighted by the same noise in a step for all images."""

    sampling: Sampling = "gumbel"
