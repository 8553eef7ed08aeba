"""From networks of other frameworks to archir's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from archir import backends

if TYPE_CHECKING:
    from archir.language.writing.imported import Imported

__all__ = ["from_torch"]


def from_torch(
    module: Any, example_inputs: Any | Sequence[Any] | Mapping[str, Any], *, name: str = "network", seed: int = 0
) -> Imported:
    """The graph and the weights of a torch module, by `torch.export`: `from_torch(model, torch.randn(1, 3, 224, 224))`.

    `example_inputs` is a tensor, several, or tensors by the name of an argument; the first axis of each is that of the
    samples. Weights are the module's own tensors, not copies of them. The import is compared with the module on random
    inputs that the `seed` draws; `name` is the graph's. Raises ArchError (A3201 to A3203) with everything that archir
    has no words for.
    """
    return backends.get("torch").imported(module, example_inputs, name=name, seed=seed)
