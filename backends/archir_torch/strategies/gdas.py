"""GDAS (Dong and Yang 2019): each step samples one alternative per choice by the Gumbel-softmax trick."""

from __future__ import annotations

from typing import Annotated

from archir.utils.settings import ListAsTuple, Positive
from archir_torch.search.job import strategy
from archir_torch.strategies.alphas import Sampling
from archir_torch.strategies.relaxed import GIVES, Options, Relaxed


class GdasOptions(Options):
    """Options of `gdas`. By default, the temperature falls from 10 to 0.1 (section 4.1)."""

    temperature: Annotated[tuple[Positive, Positive], ListAsTuple] = (10.0, 0.1)


@strategy("gdas", GdasOptions, gives=GIVES)
class Gdas(Relaxed):
    """GDAS: only the sampled alternatives run; their gradient reaches all logits of the choice."""

    sampling: Sampling = "single"
