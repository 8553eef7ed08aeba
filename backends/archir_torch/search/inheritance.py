"""Initial weights that a phase inherits from an earlier phase or a file."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from archir.backends.weight_names import RenamedWeights
from archir.diagnostics.errors import ArchError, fail, join_names
from archir.ir.serial import from_json
from archir.recipes.job import SupernetRecord
from archir.spaces.architecture import Architecture
from archir_torch.lowering.weights import shapes
from archir_torch.reuse.start import make_merging
from archir_torch.search.job import Job
from archir_torch.supernet.network import SuperNetwork


def copy_matching(network: nn.Module, weights: Mapping[str, Tensor], renamed: RenamedWeights | None = None) -> int:
    """Copy the weights whose name and shape match weights of a network, and return how many were copied.

    `renamed` is given if the weights were renamed by a map file (old name -> new name). Renamed weights must match
    all weights of the network; otherwise ArchError (A0902) is raised with every mismatch.
    """
    state = network.state_dict()
    if renamed is not None and (problems := renamed.mismatches(shapes(state), shapes(weights))):
        raise ArchError(*problems)
    matching = {name: tensor for name, tensor in weights.items() if name in state and state[name].shape == tensor.shape}
    network.load_state_dict({**state, **matching})
    return len(matching)


def require_all_weights(network: nn.Module, weights: Mapping[str, Tensor], phase: str) -> None:
    """Raise ArchError (A0902) unless `weights` contains every weight of the network with the right shape."""
    shapes_by_name = shapes(weights)
    missing = [name for name, shape in shapes(network.state_dict()).items() if shapes_by_name.get(name) != shape]
    if missing:
        text = f"phase `{phase}` starts from weights that lack {len(missing)} of its network's, or have other shapes"
        raise fail("A0902", f"{text}: {join_names(missing, 4)}")


def inherited_weights(job: Job, architecture: Architecture) -> Mapping[str, Tensor]:
    """Return the weights of an architecture: those of the job, or the architecture's slice of a supernet's weights.

    If the phase sets `start.refit`, channels that the architecture leaves out are merged into the kept ones. Raises
    ArchError (A2209, A2225).
    """
    weights = job.weights or {}
    if job.supernet is None:
        return weights
    model = restore_supernet(job.supernet, weights)
    encoded = job.supernet.to_supernet(model.graph, architecture)
    merged = make_merging(job, model)
    return model.weights(encoded) | (merged.weights(model.weight_slices(encoded)) if merged is not None else {})


def restore_supernet(record: SupernetRecord, weights: Mapping[str, Tensor]) -> SuperNetwork:
    """Return a trained supernet with its weights, in evaluation mode."""
    supernet = SuperNetwork(from_json(record.graph), torch.Generator().manual_seed(0), record.sharing == "heads")
    supernet.load_state_dict(dict(weights))
    return supernet.eval()
