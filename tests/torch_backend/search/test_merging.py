"""Channels that are left out, merged into those that are kept: what these say of them is not lost."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest
import torch
from torch import Tensor

import archir
from archir.diagnostics.errors import ArchError
from archir.recipes.recipe import Start
from archir.spaces.completion import largest, smallest
from archir.spaces.space import Space
from archir_torch.lowering.module import lower
from archir_torch.reuse import Trained, merging, start
from archir_torch.reuse.merging import Merging
from archir_torch.search.job import create_strategy
from archir_torch.supernet import SuperNetwork, extract
from tests.soak import with_soak
from tests.torch_backend.tried import elastic, job

SPACE = """
net space() {
    input image: f32[3, 6, 6]
    width = choose width(4, 8)
    x = image |> conv(width, kernel=3) |> relu
    x = x + (x |> conv(choose inner(3, 6), kernel=3, bias=false) |> batch_norm |> conv(width, kernel=1))
    x = concat(x, image |> conv(choose side(5, 10), kernel=3)) |> conv(width, kernel=1)
    x = x |> conv(width, kernel=3, groups=width) |> pad([0, 0, 1, 0])
    t = x |> to_tokens |> linear(choose hidden(5, 10)) |> transpose |> linear(7)
    output logits = t |> transpose |> linear(2) |> flatten
}
"""
"""A residual stream, a concatenation, a depthwise convolution, tokens."""


def supernet(doubled: bool) -> SuperNetwork:
    """A supernet; where it is `doubled`, the channels that its smallest architecture leaves out tell nothing new."""
    model = archir.supernet(archir.loads(SPACE))
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for tensor in model.state_dict().values():
            tensor.copy_(torch.rand(tensor.shape, generator=generator) - 0.3)
        for name, tensor in model.state_dict().items():
            if "var" in name:
                tensor.add_(1)
            if doubled and len(tensor) in (6, 8, 10):
                half = len(tensor) // 2
                tensor[half:] = tensor[:half]
    return model.eval()


def images(count: int) -> list[tuple[Tensor, ...]]:
    generator = torch.Generator().manual_seed(1)
    return [(torch.randn(16, 3, 6, 6, generator=generator),) for _ in range(count)]


def merged(model: SuperNetwork, batches: Iterable[tuple[Tensor, ...]]) -> Merging:
    most = largest(Space(model.graph))
    return Merging(Trained(Space(model.graph).specialize(most), model.weights(most), list(batches)))


def difference(model: SuperNetwork, one: Merging | None) -> float:
    """Between the largest architecture and the smallest one, as a part of what the largest one computes."""
    space, (x,) = Space(model.graph), images(1)[0]
    small = extract(model, smallest(space))
    if one is not None:
        given = one.weights(model.weight_slices(smallest(space)))
        small.load_state_dict(small.state_dict() | given)
    with torch.no_grad():
        whole = model(x, largest(space))
        return float((small(x) - whole).norm() / whole.norm())


def test_removing_duplicated_channels_is_lossless() -> None:
    model = supernet(doubled=True)
    assert difference(model, None) > 0.1
    assert difference(model, merged(model, images(4))) < 1e-5


def test_merging_predicts_removed_channels_from_kept_ones() -> None:
    model = supernet(doubled=False)
    assert difference(model, merged(model, images(8))) < 0.6 * difference(model, None)


def test_merging_keeps_largest_architecture_unchanged() -> None:
    model = supernet(doubled=False)
    assert merged(model, images(1)).weights(model.weight_slices(largest(Space(model.graph)))) == {}


def test_merging_with_one_sample_does_not_increase_error() -> None:
    model = supernet(doubled=True)
    assert difference(model, merged(model, [(images(1)[0][0][:1],)])) < difference(model, None)


ALIKE = "net s {\n input x: f32[32, 8]\n output y = x |> linear(choose inner(6, 12)) |> sigmoid |> linear(3)\n}\n"


@pytest.mark.parametrize(
    "point", with_soak([(1, 0), (0.1, 0), (1e-2, 0), (1e-3, 0), (1e-4, 0), (0.1, 2), (0.1, 4), (0.1, 6), (0.1, 8)],
    [(1e-4, 0), (0.1, 8)]), ids=str,
)  # fmt: skip
@pytest.mark.parametrize("seed", with_soak(range(10), [0]))
def test_merging_equals_least_squares_for_similar_channels(point: tuple[float, float], seed: int) -> None:
    """Channels 0 and 1, and 2 and 3, differ by `eps`; `mean` brings all sigmoids near one."""
    eps, mean = point
    model, generator = archir.supernet(archir.loads(ALIKE)).eval(), torch.Generator().manual_seed(seed)
    weights = model.state_dict()
    first, bias = weights["linear.weight"], weights["linear.bias"]
    for tensor in weights.values():
        tensor.copy_(torch.randn(tensor.shape, generator=generator) * 0.5)
    bias.add_(mean)
    for channel in (0, 2):
        first[channel + 1] = first[channel] + eps * torch.randn(8, generator=generator)
        bias[channel + 1] = bias[channel]
    first[6] = first[0] + 0.5 * first[2]
    last = weights["linear_2.weight"].double()
    batches = [(torch.randn(16, 32, 8, generator=generator),) for _ in range(8)]
    given = (
        merged(model, batches).weights(model.weight_slices(smallest(Space(model.graph))))["linear_2.weight"].double()
    )
    samples = torch.cat([x.flatten(0, 1) for (x,) in batches]).double()
    hidden = torch.sigmoid(samples @ first.double().T + bias.double())
    kept, wanted = hidden[:, :6], hidden @ last.T
    best = torch.linalg.lstsq(kept, wanted).solution
    assert (wanted - kept @ given.T).norm() < 1.005 * (wanted - kept @ best).norm()


def test_merging_rejects_excessive_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merging, "MAX_BYTES", 1000)
    with pytest.raises(ArchError, match="A2225"):
        merged(supernet(doubled=False), images(1))


def test_refit_changes_weights_of_inherited_architecture() -> None:
    space = elastic()
    graph = space.specialize(largest(space))
    weights = lower(graph, generator=torch.Generator().manual_seed(0)).state_dict()
    given = job("share", space=space, start=Start(weights="x.safetensors", order="energy"))
    shared = create_strategy(replace(given, weights=weights)).outcome()
    assert shared.supernet is not None
    architecture = smallest(space)
    after = job("inherit", space=space, start=Start(weights="shared", refit=64))
    taken = replace(after, weights=shared.weights, supernet=shared.supernet, architecture=dict(architecture))
    refitted = create_strategy(taken).outcome().weights
    plain = create_strategy(replace(taken, phase=after.phase.model_copy(update={"start": Start(weights="shared")})))
    differing = {name for name, one in plain.outcome().weights.items() if not torch.equal(one, refitted[name])}
    assert any("linear" in name for name in differing)
    assert start.MAX_BATCHES
