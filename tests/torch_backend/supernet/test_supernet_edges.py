"""What a supernet is given, what it gives, and what it remembers."""

from __future__ import annotations

import pytest
import torch

import archir
from archir_torch.supernet import network
from archir_torch.supernet.network import SuperNetwork, extract

SPACE = archir.loads("""
net two() {
    input x: f32[3]
    input y: f32[3]
    width = choose width(2, 4)
    h = x + y |> linear(width)
    output small = h |> linear(1)
    output large = h |> relu |> linear(choose last(1, 2, 3))
}
""")
MODEL = SuperNetwork(SPACE.graph, torch.Generator().manual_seed(0)).eval()
X, Y = torch.randn(2, 5, 3, generator=torch.Generator().manual_seed(1))


def test_rejects_calls_without_inputs_and_architecture() -> None:
    architecture = SPACE.sample(0)
    for given in ((X, architecture), (X, Y), (X, Y, X, architecture), (X, Y, {"width": 2, "last": 1})):
        with pytest.raises(TypeError, match=r"a supernet takes its inputs \(x, y\) and an architecture"):
            MODEL(*given)


def test_named_outputs_equal_extracted_network() -> None:
    for architecture in SPACE.enumerate():
        found = MODEL(X, Y, architecture)
        assert {name: tensor.shape[1] for name, tensor in found.items()} == {"small": 1, "large": architecture["last"]}
        for name, tensor in extract(MODEL, architecture).eval()(X, Y).items():
            torch.testing.assert_close(found[name], tensor)


def test_plans_are_remembered_and_the_oldest_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network, "MAX_PLANS", 2)
    model = SuperNetwork(SPACE.graph)
    one, two, three = list(SPACE.enumerate())[:3]
    first, second = model.plan(one), model.plan(two)
    assert model.plan(one) is first
    assert model.plan(two) is second
    model.plan(three)
    assert model.plan(two) is second
    again = model.plan(one)
    assert again is not first
    assert model.plan(two) is second, "it was used later than the third"


def test_substituted_lowering_applies_to_cached_plans() -> None:
    from archir.ops.activation import Relu
    from archir_torch.lowering.rules import RULES

    model = SuperNetwork(SPACE.graph, torch.Generator().manual_seed(0)).eval()
    architecture = SPACE.sample(0)
    before = model(X, Y, architecture)
    model.substitute(RULES[Relu].function, lambda x: torch.zeros_like(x))
    after = model(X, Y, architecture)
    assert torch.equal(before["small"], after["small"])
    assert not torch.equal(before["large"], after["large"])
    assert torch.equal(after["large"], after["large"][:1].expand_as(after["large"])), "the last layer has its bias only"


@pytest.mark.parametrize("way", ["flatten", "reshape([y.channels, 5]) |> transpose |> flatten"])
def test_flattening_selects_columns_of_kept_channels(way: str) -> None:
    """A narrower network is the widest one with zeros for the channels that it leaves out."""
    body = "y |> flatten" if way == "flatten" else f"y |> transpose |> {way}"
    space = archir.loads(f"""
        net n() {{
            input x: f32[5, 6]
            y = x |> linear(choose w(2, 4)) |> relu
            output z = {body} |> linear(3)
        }}
    """)
    model, x = archir.supernet(space).eval(), torch.randn(2, 5, 6, generator=torch.Generator().manual_seed(0))
    small = extract(model, space.from_outcomes({"w": 0}))(x)
    with torch.no_grad():
        model.state_dict()["linear.weight"][2:] = 0
        model.state_dict()["linear.bias"][2:] = 0
    assert torch.allclose(model(x, space.from_outcomes({"w": 1})), small, atol=1e-6)
