"""Whether what is trained runs with kernels (`training.compile`): as asked for, or as measured.

What `auto` finds is a matter of seconds, and kernels round in their own way: whoever goes on later keeps the answer.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor

from archir.diagnostics.errors import ArchError, fail
from archir.recipes.job import Decided
from archir.recipes.training import Training
from archir_torch.lowering.kernels.library import impossible, is_built, library
from archir_torch.lowering.module import Network
from archir_torch.lowering.precision import autocast, chosen_precision
from archir_torch.supernet.network import SuperNetwork
from archir_torch.supernet.turns import Output, backward, in_turns
from archir_torch.training import distributed

Trained = TypeVar("Trained", bound=Network | SuperNetwork)

COMPILING = 30.0
"""Seconds that a machine takes to compile the library, about: it does so once."""
SAVED = 0.5
"""The part of a step that kernels save where they serve well (`benchmarks/results/supernet_compiled_cpu.txt`)."""
WORTH = 0.95
"""What kernels must bring the time of a step down to."""
ROUNDS = 3
FEWEST = 20 * 2 * (ROUNDS + 1)
"""Steps; of fewer, measuring would take more than a twentieth."""


@dataclass(frozen=True)
class Steps(Generic[Trained]):
    """The updates of a network: for each, every call runs it on a batch, or on each part of one, and then gradients
    are taken, of its weights and of what else is `wanted`."""

    count: int
    calls: Sequence[Callable[[Trained], Output]]
    wanted: Sequence[Tensor] = ()


def with_kernels(
    network: Trained, training: Training, device: str, steps: Callable[[], Steps[Trained]], decided: Decided
) -> None:
    """Have a network trained with kernels, if that is asked for or pays. Raises ArchError (A1109) where it cannot be.

    `steps` says what is measured, if anything is; `decided` keeps the answer under the name `kernels`.
    """
    if training.compile is False:
        return
    why = _why_not(training, device)
    if training.compile is True:
        if why:
            raise fail("A1109", f"`training.compile` cannot be used here: {why}", None, "training.compile = false")
        library()
        network.use_kernels()
    elif not why and chosen_precision(training.precision, device) == "float32":
        answer = decided("kernels", lambda: _decide(network, steps(), training))
        if answer["kernels"]:
            library()
            network.use_kernels()


def _why_not(training: Training, device: str) -> str:
    """Why kernels cannot be had; nothing, if they can."""
    if torch.device(device).type != "cpu":
        return "it is for CPUs; on GPUs steps are recorded (`cuda_graphs`)"
    if training.sharding != "none" or distributed.world().size > 1:
        return "it is for one process"
    return impossible()


def _decide(network: Trained, steps: Steps[Trained], training: Training) -> Mapping[str, Any]:
    """Whether kernels pay, and why: what they save of the steps to come is set against compiling them."""
    count = steps.count * training.accumulate
    if count < FEWEST:
        return {"kernels": False, "why": f"{count:,} steps are too few to measure"}
    with torch.random.fork_rng([]):
        plain = copy.deepcopy(network)
        if not is_built():
            (seconds,) = in_turns([partial(_step, plain, steps, training.precision)], torch.device("cpu"), 1)
            saved = SAVED * seconds * count
            if saved < COMPILING:
                return {"kernels": False, "why": f"compiling takes {COMPILING:.0f} s, which would save {saved:.3g}"}
        try:
            library()
        except ArchError as error:
            return {"kernels": False, "why": error.diagnostics[0].message}
        other = copy.deepcopy(network)
        other.use_kernels()
        ways = [partial(_step, way, steps, training.precision) for way in (plain, other)]
        before, after = in_turns(ways, torch.device("cpu"), ROUNDS)
    why = f"a step takes {1000 * before:.4g} ms, and {1000 * after:.4g} with kernels"
    return {"kernels": after < WORTH * before, "why": why}


def _step(network: Trained, steps: Steps[Trained], precision: str) -> None:
    for call in steps.calls:
        with autocast(precision, "cpu"):
            result = call(network)
        backward(result, [*network.parameters(), *steps.wanted])
