"""GDAS (Dong and Yang 2019): one alternative of each choice per step, sampled by Gumbel-softmax."""

from __future__ import annotations

from typing import Annotated

from archir.utils.settings import ListAsTuple, Positive
from archir_torch.search.job import strategy
from archir_torch.strategies.alphas import Sampling
from archir_torch.strategies.relaxed import GIVES, Options, Relaxed


class GdasOptions(Options):
    """Options of `gdas`. The temperature falls from 10 to 0.1 (section 4.1)."""

    temperature: Annotated[tuple[Positive, Positive], ListAsTuple] = (10.0, 0.1)


@strategy("gdas", GdasOptions, gives=GIVES)
class Gdas(Relaxed):
    """Runs only the sampled alternatives; their gradient reaches all logits of the choice."""

    sampling: Sampling = "single"
