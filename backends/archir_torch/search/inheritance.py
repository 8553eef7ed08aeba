"""Weights that a phase takes over from an earlier one."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from archir.backends.naming import Named
from archir.diagnostics.errors import ArchError, fail, listed
from archir.ir.serial import from_json
from archir.recipes.supernet import SupernetRecord
from archir.spaces.architecture import Architecture
from archir_torch.lowering.weights import shapes
from archir_torch.reuse.start import merging
from archir_torch.search.job import Job
from archir_torch.supernet.network import SuperNetwork


def take_over(network: nn.Module, weights: Mapping[str, Tensor], named: Named | None = None) -> int:
    """Copy the weights that a network has of the same name and shape; how many there were. Those that a map has named
    are to be all of the network's: raises ArchError (A0902) with everything that is not so."""
    own = network.state_dict()
    if named is not None and (problems := named.unfit(shapes(own), shapes(weights))):
        raise ArchError(*problems)
    fitting = {name: tensor for name, tensor in weights.items() if name in own and own[name].shape == tensor.shape}
    network.load_state_dict({**own, **fitting})
    return len(fitting)


def require_all(network: nn.Module, weights: Mapping[str, Tensor], phase: str) -> None:
    """Raise ArchError (A0902) unless there is a weight of the name and shape of each of a network's."""
    given = shapes(weights)
    lacking = [name for name, shape in shapes(network.state_dict()).items() if given.get(name) != shape]
    if lacking:
        text = (
            f"phase `{phase}` starts from weights that lack {len(lacking)} of its network, or have them in other shapes"
        )
        raise fail("A0902", f"{text}: {listed(lacking, 4)}")


def inherited(job: Job, architecture: Architecture) -> Mapping[str, Tensor]:
    """The weights that were taken over; of a supernet, the architecture's part of them, into which what it leaves out
    is merged if the phase says so. Raises ArchError (A2209, A2225)."""
    weights = job.weights or {}
    if job.supernet is None:
        return weights
    model = restored(job.supernet, weights)
    own = job.supernet.own(model.graph, architecture)
    merged = merging(job, model)
    return model.weights(own) | (merged.weights(model.parts(own)) if merged is not None else {})


def restored(record: SupernetRecord, weights: Mapping[str, Tensor]) -> SuperNetwork:
    """A supernet that was trained, with its weights, in evaluation mode."""
    made = SuperNetwork(from_json(record.graph), torch.Generator().manual_seed(0), record.sharing == "heads")
    made.load_state_dict(dict(weights))
    return made.eval()
