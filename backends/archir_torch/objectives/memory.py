"""What a network said of samples, kept for when they come again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b

import torch
from torch import Tensor

MOST_BYTES = 1 << 29
"""Bytes of what is kept; what comes after that is asked every time."""
MOST_MEMORIES = 2

Answers = Mapping[str, Tensor]


class Memory:
    """Answers by sample, which is told by its numbers: wherever it stands in a batch, and whoever drew it."""

    def __init__(self) -> None:
        self._known: dict[bytes, dict[str, Tensor]] = {}
        self._bytes = 0

    def __call__(self, ask: Callable[..., Answers], inputs: Sequence[Tensor]) -> dict[str, Tensor]:
        """The answers for a batch; only samples that are not known are asked about."""
        device, keys = inputs[0].device, _keys(inputs)
        new = [row for row, key in enumerate(keys) if key not in self._known]
        fresh: dict[bytes, dict[str, Tensor]] = {}
        if new:
            rows = torch.tensor(new, device=device)
            answers = {name: one.cpu() for name, one in ask(*(x[rows] for x in inputs)).items()}
            for place, row in enumerate(new):
                fresh[keys[row]] = {name: one[place].clone() for name, one in answers.items()}
                self._keep(keys[row], fresh[keys[row]])
        found = [fresh.get(key) or self._known[key] for key in keys]
        return {name: torch.stack([one[name] for one in found]).to(device) for name in found[0]}

    def _keep(self, key: bytes, answer: dict[str, Tensor]) -> None:
        size = sum(one.nbytes for one in answer.values())
        if self._bytes + size <= MOST_BYTES:
            self._known[key] = answer
            self._bytes += size


@lru_cache(MOST_MEMORIES)
def memory_of(*key: str) -> Memory:
    """What is remembered of a network, which a key tells from others: one phase begins with what the last one asked."""
    return Memory()


def _keys(inputs: Sequence[Tensor]) -> list[bytes]:
    arrays = [x.detach().cpu().contiguous().numpy() for x in inputs]
    rows = (b"".join(x[row].tobytes() for x in arrays) for row in range(len(arrays[0])))
    return [blake2b(row, digest_size=16).digest() for row in rows]
