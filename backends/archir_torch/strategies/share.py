"""A trained network for a supernet: the architectures of a space share its weights as they are."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from archir.diagnostics.errors import ArchError, Diagnostic
from archir.recipes.open_choices import settle
from archir.recipes.recipe import Phase
from archir.recipes.supernet import SupernetRecord
from archir.spaces.partial import largest
from archir.spaces.space import Space
from archir.utils.settings import Path, Settings
from archir_torch.reuse.start import in_order
from archir_torch.search.inheritance import require_all, take_over
from archir_torch.search.job import Job, Outcome, strategy
from archir_torch.strategies.untrained import Untrained
from archir_torch.supernet import Sharing, SuperNetwork


class ShareOptions(Settings):
    """What `share` can be told."""

    sharing: Sharing = "heads"
    """Which channels a smaller attention has: the first ones of each head, or (`leading`) of all together."""


@strategy("share", ShareOptions, orders=True, gives=("weights", "supernet"))
class Share(Untrained):
    """Nothing is trained: the largest architecture is the network, the others have a part of its weights."""

    def __init__(self, job: Job, options: ShareOptions) -> None:
        name = job.phase.name
        if not job.weights:
            raise ArchError(_nothing(job.phase))
        self.opened = settle(job.space, job.phase.open, job.phase.fixed, job.architecture)
        graph, self.sharing = self.opened.space.graph, options.sharing
        self.network = SuperNetwork(graph, torch.Generator().manual_seed(0), options.sharing == "heads")
        most = job.space.specialize(self.opened.completed(largest(self.opened.space)))
        require_all(self.network, job.weights, name)
        take_over(self.network, in_order(job, most, job.weights), job.named)

    @classmethod
    def mistakes(cls, phase: Phase, space: Space, options: ShareOptions) -> Iterator[tuple[Path, Diagnostic]]:
        """No weights."""
        if phase.start.weights is None:
            yield ("strategy",), _nothing(phase)

    def outcome(self) -> Outcome:
        """The weights."""
        weights = {name: tensor.detach().clone() for name, tensor in self.network.state_dict().items()}
        return Outcome(weights=weights, supernet=SupernetRecord.of(self.opened, self.network.graph, self.sharing))


def _nothing(phase: Phase) -> Diagnostic:
    return Diagnostic("A2210", f"phase `{phase.name}` has no weights to share", None, "start.weights says which")
