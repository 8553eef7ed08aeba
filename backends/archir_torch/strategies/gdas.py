"""GDAS (Dong and Yang 2019): one alternative of each choice a step, drawn by Gumbel-softmax."""

from __future__ import annotations

from typing import Annotated

from archir.utils.settings import Many, Positive
from archir_torch.search.job import strategy
from archir_torch.strategies.alphas import Sampling
from archir_torch.strategies.relaxed import GIVES, Options, Relaxed


class GdasOptions(Options):
    """The temperature falls from 10 to 0.1 (section 4.1)."""

    temperature: Annotated[tuple[Positive, Positive], Many] = (10.0, 0.1)


@strategy("gdas", GdasOptions, gives=GIVES)
class Gdas(Relaxed):
    """Only what was drawn is run; its gradient goes on to all logits of its choice."""

    sampling: Sampling = "single"
