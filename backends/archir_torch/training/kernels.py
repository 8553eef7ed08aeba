"""Decision on compiled CPU kernels for training (`training.compile`): explicit, or measured with `auto`.

A measured decision depends on timing, and results with and without kernels differ by rounding. The decision is
therefore stored, so that a resumed run makes the same one.
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
from archir.recipes.job import DecideOnce
from archir.recipes.training import Training
from archir_torch.lowering.kernels.library import is_built, load_library, unavailable_reason
from archir_torch.lowering.module import Network
from archir_torch.lowering.precision import autocast, resolve_precision
from archir_torch.supernet.network import SuperNetwork
from archir_torch.supernet.step_timing import Output, run_backward, time_in_turns
from archir_torch.training import distributed

Trained = TypeVar("Trained", bound=Network | SuperNetwork)

COMPILE_SECONDS = 30.0
"""Approximate time in seconds to compile the kernel library, once per machine."""
EXPECTED_SAVING = 0.5
"""Fraction of a training step that kernels save on networks that suit them.

Source: `benchmarks/results/supernet_compiled_cpu.txt`.
"""
MAX_TIME_RATIO = 0.95
"""Maximum ratio of step time with kernels to step time without them, for which kernels are used."""
ROUNDS = 3
"""Number of timing rounds; in each round, both variants run once."""
MIN_STEPS = 20 * 2 * (ROUNDS + 1)
"""Minimum number of training steps for which kernels are timed.

With fewer steps, the timing would take more than a twentieth of the training time.
"""


@dataclass(frozen=True)
class StepWorkload(Generic[Trained]):
    """Training updates to time: their number, and the network calls in each.

    Each call runs the network on a batch or a part of one. Gradients are computed for the network's weights and for
    `extra_tensors`.
    """

    count: int
    calls: Sequence[Callable[[Trained], Output]]
    extra_tensors: Sequence[Tensor] = ()


def with_kernels(
    network: Trained,
    training: Training,
    device: str,
    steps: Callable[[], StepWorkload[Trained]],
    decide_once: DecideOnce,
) -> None:
    """Switch a network to compiled kernels if the settings require it, or if they say `auto` and measurements
    favour kernels.

    `steps` returns the workload to time and is called only if timing is needed. `decide_once` stores the decision under
    the name `kernels`. Raises ArchError (A1109) if kernels are required but cannot be used.
    """
    if training.compile is False:
        return
    obstacle = _obstacle(training, device)
    if training.compile is True:
        if obstacle:
            raise fail("A1109", f"`training.compile` cannot be used here: {obstacle}", None, "training.compile = false")
        load_library()
        network.use_kernels()
    elif not obstacle and resolve_precision(training.precision, device) == "float32":
        answer = decide_once("kernels", lambda: _decide(network, steps(), training))
        if answer["kernels"]:
            load_library()
            network.use_kernels()


def _obstacle(training: Training, device: str) -> str:
    """Return why kernels cannot be used; an empty string if they can."""
    if torch.device(device).type != "cpu":
        return "kernels are for CPUs; on GPUs, use `cuda_graphs`"
    if training.sharding != "none" or distributed.world().size > 1:
        return "kernels are for training in a single process without sharding"
    return unavailable_reason()


def _decide(network: Trained, steps: StepWorkload[Trained], training: Training) -> Mapping[str, Any]:
    """Return whether to use kernels, and why.

    The time that kernels save in all remaining steps is weighed against the time to compile them.
    """
    count = steps.count * training.accumulate
    if count < MIN_STEPS:
        return {"kernels": False, "why": f"{count:,} steps are too few to measure"}
    with torch.random.fork_rng([]):
        baseline = copy.deepcopy(network)
        if not is_built():
            (seconds,) = time_in_turns([partial(_step, baseline, steps, training.precision)], torch.device("cpu"), 1)
            saved = EXPECTED_SAVING * seconds * count
            if saved < COMPILE_SECONDS:
                return {
                    "kernels": False,
                    "why": f"compiling takes {COMPILE_SECONDS:.0f} s, which would save {saved:.3g}",
                }
        try:
            load_library()
        except ArchError as error:
            return {"kernels": False, "why": error.diagnostics[0].message}
        compiled = copy.deepcopy(network)
        compiled.use_kernels()
        candidates = [partial(_step, candidate, steps, training.precision) for candidate in (baseline, compiled)]
        plain_seconds, kernel_seconds = time_in_turns(candidates, torch.device("cpu"), ROUNDS)
    why = f"a step takes {1000 * plain_seconds:.4g} ms, and {1000 * kernel_seconds:.4g} with kernels"
    return {"kernels": kernel_seconds < MAX_TIME_RATIO * plain_seconds, "why": why}


def _step(network: Trained, steps: StepWorkload[Trained], precision: str) -> None:
    """Run one update of the workload: forward passes and gradients, without the optimizer."""
    for call in steps.calls:
        with autocast(precision, "cpu"):
            result = call(network)
        run_backward(result, [*network.parameters(), *steps.extra_tensors])
