"""Behind joins, shuffles and other shapes, a narrower network has the columns of the channels that it keeps."""

from __future__ import annotations

import random

import pytest
import torch

import archir
from archir.language.elastic.elastic_space import make_elastic
from archir.passes.sharing import Sharing
from archir.spaces.completion import largest
from archir_torch.supernet import extract

IMAGE = "input image: f32[3, 6, 6]"
HEAD = """
    wa = choose wa(2, 4, 8)
    wb = choose wb(2, 4, 8)
    a = image |> conv(wa, kernel=3) |> relu
    b = image |> conv(wb, kernel=3) |> relu
    c = image |> conv(choose wc(2, 4, 8), kernel=3) |> relu
"""
BEHIND = {
    "two": "output y = concat(a, b) |> conv(5, kernel=3)",
    "three": "output y = concat(a, b, c) |> conv(5, kernel=3)",
    "again": "output y = concat(a, b, a) |> conv(5, kernel=1)",
    "nested": "output y = concat(concat(a, b) |> relu, c, concat(b, a)) |> conv(5, kernel=3)",
    "flattened": "output y = concat(a, b) |> max_pool(2) |> flatten |> linear(5)",
    "map": "output y = a |> flatten |> linear(5)",
    "tokens": "output y = concat(a, b) |> to_tokens |> flatten |> linear(5)",
    "vectors": "output y = concat(a |> global_avg_pool, b |> flatten) |> linear(5)",
    "depthwise": "output y = concat(a, b) |> conv(wa + wb, kernel=3, groups=wa + wb) |> conv(5, kernel=1)",
    "groups": "d = image |> conv(wa, kernel=3) |> relu\n output y = concat(a, d) |> conv(8, kernel=1, groups=4)",
    "summed": "x = concat(a, b) + (concat(a, b) |> relu)\n output y = x |> conv(5, kernel=3)",
    "dense": """x = concat(a, b)
    for i in 0..2 { x = concat(x, x |> batch_norm |> relu |> conv(4, kernel=3)) }
    output y = x |> conv(5, kernel=3)""",
    "layers": """x = concat(a, b)
    x = [x, concat(x, x |> own conv(4, kernel=3)), concat(x, x |> own conv(4, kernel=1), c)][choose i(0, 1, 2)]
    output y = x |> relu |> own conv(5, kernel=3)""",
    "shuffled": "output y = concat(a, b, c) |> channel_shuffle(2) |> conv(5, kernel=3)",
    "shuffled twice": """x = concat(a, b, c) |> channel_shuffle(2) |> relu |> channel_shuffle(2)
    output y = x |> conv(5, kernel=3)""",
    "shuffled groups": """x = image |> conv(8 * wa, kernel=1) |> conv(8 * wa, kernel=1, groups=2)
    x = x |> channel_shuffle(2) |> batch_norm
    output y = x |> conv(8 * wa, kernel=3, groups=8 * wa) |> conv(6, kernel=1, groups=2)""",
    "pixels": "output y = concat(a, c) |> conv(4 * wb, kernel=1) |> pixel_shuffle(2) |> conv(5, kernel=3)",
    "pixels beside": """x = concat(image |> conv(4 * wa, kernel=3), image |> conv(4 * wb, kernel=1)) |> relu
    output y = x |> pixel_shuffle(2) |> conv(5, kernel=3)""",
    "unshuffled": "output y = concat(a, b) |> pixel_unshuffle(2) |> conv(5, kernel=3)",
    "reshaped": "output y = concat(a, b) |> reshape([2 * (wa + wb), 3, 6]) |> conv(5, kernel=3)",
    "gathered": "output y = concat(a, b) |> reshape([(wa + wb) / 2, 12, 6]) |> conv(5, kernel=3)",
    "numbers": "output y = concat(a, b) |> reshape([-1]) |> linear(5)",
    "positions": "output y = concat(a, b) |> to_tokens |> reshape([12, -1]) |> linear(5)",
    "vector": """x = concat(a, b) |> global_avg_pool |> linear(36 * wa)
    output y = concat(x |> reshape([-1, 6, 6]), c) |> conv(5, kernel=3)""",
    "transposed groups": """x = image |> conv(8, kernel=1) |> conv_transpose(2 * wa, kernel=2, stride=2, groups=2)
    output y = x |> batch_norm |> conv(5, kernel=3)""",
    "chosen": """x = choose how { one: concat(a, b), other: concat(b, a), own: image |> conv(wa + wb, kernel=1) }
    output y = x |> conv(5, kernel=3)""",
}


def space_of(behind: str) -> archir.Space:
    return archir.loads(f"net joined {{\n{IMAGE}\n{HEAD}\n{behind}\n}}")


def differs(space: archir.Space, architecture: archir.Architecture, widest: archir.Architecture) -> float:
    """Between an architecture's own network and the widest one of which the channels that are left out are zeros, as a
    part of the largest output."""
    model = archir.supernet(space).eval()
    generator = torch.Generator().manual_seed(0)
    for name, tensor in model.state_dict().items():
        tensor.copy_(torch.rand(tensor.shape, generator=generator) - (0 if "var" in name else 0.5))
    x = torch.randn(2, 3, 6, 6, generator=generator)
    with torch.no_grad():
        own = extract(model, architecture).double()(x.double())
        full = extract(model, widest).double()
        parts = model.weight_slices(architecture)
        for name, tensor in full.state_dict().items():
            kept = parts[name][0].positions() if name in parts else []
            tensor[[i for i in range(len(tensor)) if i not in kept]] = 0
        whole = full(x.double())
    return float((own - whole).abs().max() / whole.abs().max())


@pytest.mark.parametrize("behind", BEHIND)
def test_narrow_network_equals_wide_one_with_zeroed_channels(behind: str) -> None:
    space = space_of(BEHIND[behind])
    for architecture in random.Random(0).sample(list(space.enumerate()), 4):
        wide = {name: 8 if name in ("wa", "wb", "wc") else value for name, value in dict(architecture).items()}
        assert differs(space, architecture, space.architecture(wide)) < 1e-12


TURNED = """d = image |> conv(12 - wa, kernel=3) |> relu
    output y = concat(concat(a, d) |> relu, c) |> conv(5, kernel=3) |> batch_norm"""
"""As many channels side by side whatever is chosen, each of which has other places."""


@pytest.mark.parametrize("behind", [*BEHIND.values(), TURNED], ids=[*BEHIND, "turned"])
def test_weight_slices_depend_only_on_declared_choices(behind: str) -> None:
    space = space_of(behind)
    sharing = Sharing(space.graph)
    found: dict[object, object] = {}
    for architecture in random.Random(1).sample(list(space.enumerate()), 9):
        for number in sharing.types:
            known = tuple(architecture.outcomes.get(choice.path, 0) for choice in sharing.depends_on(number))
            parts = sharing.slices(number, architecture.outcomes)
            assert found.setdefault((number, known), parts) == parts


def test_gradients_and_statistics_change_only_kept_channels() -> None:
    space = space_of(BEHIND["dense"])
    model = archir.supernet(space).train()
    architecture = space.architecture({"wa": 2, "wb": 4, "wc": 8})
    model(torch.randn(4, 3, 6, 6, generator=torch.Generator().manual_seed(0)), architecture).sum().backward()
    used = model.used(architecture)
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None
        assert not parameter.grad[~used[name]].any()
        assert parameter.grad[used[name]].any()
    means = model.state_dict()["batch_norm.0.running_mean"]
    assert means.nonzero()[:, 0].tolist() == [0, 1, 8, 9, 10, 11]


def test_chosen_groups_need_only_weights_of_widest_network() -> None:
    """Without groups, a convolution would read the columns of all channels, which one with groups has not."""
    space = archir.loads("""net n {
        input image: f32[3, 6, 6]
        wide = choose wide(1, 2, 4)
        x = concat(image |> conv(4 * wide), image |> conv(4 * wide, kernel=1)) |> pixel_unshuffle
        output y = x |> conv(8 * wide, kernel=1, groups=wide) |> channel_shuffle(wide) |> conv(8 * wide, groups=wide)
    }""")
    shapes = {name: tuple(tensor.shape) for name, tensor in archir.supernet(space).state_dict().items()}
    widest = archir.compile(space.specialize(space.architecture({"wide": 4}))).state_dict()
    assert shapes == {name: tuple(tensor.shape) for name, tensor in widest.items()}


GROUPED = {
    "fire": """
        s = image |> conv(16, kernel=1) |> relu
        x = concat(s |> conv(32, kernel=1), s |> conv(32, kernel=3, groups=4)) |> relu |> channel_shuffle(4)
        output y = x |> conv(32, kernel=3, groups=4) |> relu |> conv(5, kernel=1)""",
    "fewer and fewer": """
        x = image |> conv(16, kernel=1) |> conv(32, kernel=3, groups=8) |> relu |> conv(32, kernel=3, groups=4) |> relu
        output y = x |> conv(32, kernel=1, groups=2) |> conv(5, kernel=1)""",
    "halves": """
        x = image |> conv(32, kernel=3) |> relu
        for i in 0..2 { x = x |> unit(16) }
        output y = x |> conv(5, kernel=1)""",
}
UNIT = """block unit(x, width) {
    b = x[width:] |> conv(width, kernel=1) |> relu |> conv(width, kernel=3, groups=width) |> conv(width, kernel=1)
    return concat(x[0:width], b) |> channel_shuffle(2)
}
"""


@pytest.mark.parametrize("name", GROUPED)
def test_opened_space_with_groups_uses_network_weights(name: str) -> None:
    """Groups behind concatenations stay as many, or widths are tied, so that each reads channels that it knows."""
    net = f"{UNIT}net n {{\n{IMAGE}\n{GROUPED[name]}\n}}"
    space = make_elastic(net, "widths,ratios").graph
    found = archir.Space(space)
    assert found.size >= 4
    for seed in range(4):
        assert differs(found, found.sample(seed), largest(found)) < 1e-12
