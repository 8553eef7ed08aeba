"""Of a module that cannot be imported whole, the largest part can; what is left out is said, all at once."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import archir
from archir.diagnostics.errors import ArchError
from archir_torch.importing import proof

IMAGE = torch.zeros(1, 3, 8, 8)


class Sorting(nn.Module):
    """Two convolutions, a sort, and one more convolution."""

    def __init__(self, last: int = 4) -> None:
        super().__init__()
        self.one, self.two, self.three = nn.Conv2d(3, 8, 3), nn.Conv2d(8, 4, 3), nn.Conv2d(4, last, 3)

    def forward(self, image: Tensor) -> Tensor:
        x = self.two(self.one(image).relu())
        y: Tensor = self.three(torch.sort(x, dim=1)[0])
        return y


class Beside(nn.Module):
    """A residual around what cannot be imported, twice."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Conv2d(3, 4, 3, padding=1), nn.Conv2d(4, 4, 3, padding=1)

    def forward(self, image: Tensor) -> Tensor:
        x = self.one(image)
        x = self.two(x + torch.sort(x, dim=1)[0])
        return x + torch.cummax(x, dim=1)[0]


@pytest.mark.parametrize(("last", "inputs", "outputs"), [(4, ["image"], ["conv2d_1"]), (900, ["sort_0"], ["result"])])
def test_partial_import_takes_largest_supported_part(last: int, inputs: list[str], outputs: list[str]) -> None:
    with pytest.raises(ArchError, match="sort: archir has no such operation"):
        archir.from_torch(Sorting(last), IMAGE)
    module = Sorting(last)
    found = archir.from_torch(module, IMAGE, partial=True)
    assert ["sort" in one.message for one in found.problems] == [True]
    assert ([*found.graph.inputs], [*found.graph.outputs]) == (inputs, outputs)
    given = torch.randn(2, *(4, 4, 4) if last > 4 else (3, 8, 8))
    made = proof.network(found.graph, found.weights)(given)
    with torch.no_grad():
        wanted = module.three(given) if last > 4 else module.two(module.one(given).relu())
    np.testing.assert_allclose(made.detach().numpy(), wanted.numpy(), rtol=1e-5, atol=1e-5)


def test_unsupported_branch_becomes_input_of_partial_import() -> None:
    found = archir.from_torch(Beside(), IMAGE, partial=True)  # which compares it
    assert len(found.problems) == 2
    assert {"image", "sort_0"} <= {*found.graph.inputs}
    assert sum(found.graph[number].op.name == "conv" for number in found.graph) == 2


def test_partial_import_of_supported_module_equals_full_import() -> None:
    module = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU())
    found = archir.from_torch(module, IMAGE, partial=True)
    assert not found.problems
    assert archir.canonical_hash(found.graph) == archir.canonical_hash(archir.from_torch(module, IMAGE).graph)


class Nothing(nn.Module):
    """A sort alone."""

    def forward(self, image: Tensor) -> Tensor:
        found: Tensor = torch.sort(image, dim=1)[0]
        return found


def test_partial_import_rejects_module_without_supported_part() -> None:
    with pytest.raises(ArchError, match="no part that can be imported"):
        archir.from_torch(Nothing(), IMAGE, partial=True)
