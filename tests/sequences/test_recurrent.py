"""Constants, and recurrent layers: what torch's own layers compute, written in `.arch`."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

import archir
from archir.diagnostics.errors import ArchError
from archir_torch import BACKEND as TORCH
from tests.sequences.laws import assert_deploys, assert_shared

N, D, WIDTH = 6, 5, 4
_OWN = {
    "rnn": torch.nn.RNN,
    "lstm": torch.nn.LSTM,
    "gru": torch.nn.GRU,
}


@pytest.mark.parametrize("name", _OWN)
def test_recurrent_layers_equal_torch_layers(name: str) -> None:
    text = f"import std.recurrent\nnet n {{\n input x: f32[{N}, {D}]\n output y = x |> {name}({WIDTH})\n}}"
    graph = archir.loads(text).graph
    module, reference = TORCH.lower(graph), _OWN[name](D, WIDTH, batch_first=True)
    held = {key.removeprefix(f"{name}."): tensor for key, tensor in module.state_dict().items()}
    zeros = torch.zeros_like(held["linear.bias"])
    reference.load_state_dict(
        {
            "weight_ih_l0": held["linear.weight"],
            "bias_ih_l0": held["linear.bias"],
            "weight_hh_l0": held["recurrent.weight"],
            "bias_hh_l0": held.get("recurrent.bias", zeros),
        }
    )
    x = torch.randn(3, N, D)
    torch.testing.assert_close(module(x), reference(x)[0])
    gates = {"rnn": 1, "lstm": 4, "gru": 3}[name]
    cost = archir.cost(graph)
    assert cost.macs == N * gates * WIDTH * (D + WIDTH)
    assert cost.params == gates * WIDTH * (D + WIDTH + 1 + (name == "gru"))


def test_linear_recurrence_equals_formula() -> None:
    text = f"import std.recurrent\nnet n {{\n input x: f32[{N}, {D}]\n output y = x |> linear_recurrence({WIDTH})\n}}"
    module = TORCH.lower(archir.loads(text).graph)
    state = {key.removeprefix("linear_recurrence."): tensor for key, tensor in module.state_dict().items()}
    x = torch.randn(2, N, D)
    u, decay, h = x @ state["linear.weight"].T + state["linear.bias"], state["parameter.value"].sigmoid(), 0
    wanted = []
    for t in range(N):
        h = decay * h + u[:, t]
        wanted.append(h @ state["linear_2.weight"].T + state["linear_2.bias"])
    torch.testing.assert_close(module(x), torch.stack(wanted, 1))


def test_mamba_block_equals_published_equations() -> None:
    """Gu and Dao 2023, equations 2 and algorithm 2: h = exp(step A) h + step B x, read by C."""
    inner, state, rank = 2 * D, 3, 1
    text = f"import std.recurrent\nnet n {{\n input x: f32[{N}, {D}]\n output y = x |> mamba(state={state})\n}}"
    module = TORCH.lower(archir.loads(text).graph)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.normal_(std=0.5)
    held = {key.removeprefix("mamba."): tensor for key, tensor in module.state_dict().items()}
    kernels, out, skipped = (
        held["conv1d.weight"],
        held["linear_4.weight"],
        held["selective_state_space.parameter_2.value"],
    )
    x = torch.randn(2, N, D)
    u, gate = (x @ held["linear.weight"].T).chunk(2, -1)
    u = F.silu(F.conv1d(F.pad(u.transpose(1, 2), (3, 0)), kernels, held["conv1d.bias"], groups=inner)).transpose(1, 2)
    step, written, read = (u @ held["linear_2.weight"].T).split([rank, state, state], -1)
    step = F.softplus(step @ held["linear_3.weight"].T + held["linear_3.bias"])
    decay, h, results = -held["selective_state_space.parameter.value"].T.exp(), torch.zeros(2, inner, state), []
    for t in range(N):
        h = (step[:, t, :, None] * decay).exp() * h + (step * u)[:, t, :, None] * written[:, t, None]
        results.append((h * read[:, t, None]).sum(-1))
    wanted = (torch.stack(results, 1) + u * skipped[0]) * F.silu(gate) @ out.T
    torch.testing.assert_close(module(x), wanted)


OWN = """
import std.recurrent

block minimal(x, h) {
    f = sigmoid(concat(x, h) |> linear(h.features))
    new = concat(x, f * h) |> linear(h.features) |> choose act(tanh, relu)
    return h + f * (new - h)
}

net own {
    input x: f32[6, 5]
    output y = x |> scan(no_state(x, choose width(4, 9)), minimal)
}
"""


@pytest.mark.parametrize("width", [4, 9])
def test_custom_cell_equals_minimal_gated_unit(width: int, tmp_path: Path) -> None:
    """The minimal gated unit (Zhou et al. 2016, equations 6), of fewer and of more features than tokens have."""
    graph = (space := archir.loads(OWN)).specialize(space.architecture({"scan.step.act": "tanh", "width": width}))
    module = TORCH.lower(graph)
    held = module.state_dict()
    gate, fresh = (torch.nn.Linear(D + width, width) for _ in range(2))
    for layer, name in ((gate, "linear"), (fresh, "linear_2")):
        layer.load_state_dict({part: held[f"scan.step.{name}.{part}"] for part in ("weight", "bias")})
    x = torch.randn(3, N, D)
    h, wanted = torch.zeros(3, width), []
    for t in range(N):
        f = gate(torch.cat([x[:, t], h], 1)).sigmoid()
        h = (1 - f) * h + f * fresh(torch.cat([x[:, t], f * h], 1)).tanh()
        wanted.append(h)
    torch.testing.assert_close(module(x), torch.stack(wanted, 1))
    cost = archir.cost(graph)
    assert cost.params == 2 * (D + width + 1) * width
    assert cost.macs == N * 2 * (D + width) * width
    assert_deploys(graph, tmp_path)


def test_custom_cell_makes_its_choices_once() -> None:
    space = archir.loads(OWN)
    assert space.size == 4
    assert_shared(space, 4)


def test_scan_with_learned_two_part_state_equals_formula(tmp_path: Path) -> None:
    """A cell may keep more than it shows: what is shown is a part of the states."""
    text = """
    import std.recurrent
    block counted(x, state) {
        h = tanh((x |> linear(3)) + (state[0:3] |> linear(3, bias=false)))
        return concat(h, state[3:6] + h)
    }
    net n { input x: f32[6, 5]
        states = x |> scan(parameter([1, 6]), counted)
        output y = states[3:6]
    }
    """
    graph = archir.loads(text).graph
    module = TORCH.lower(graph)
    held, x = module.state_dict(), torch.randn(2, N, D)
    h, total = held["parameter.value"].expand(2, 6).chunk(2, 1)
    wanted = []
    for t in range(N):
        seen = x[:, t] @ held["scan.step.linear.weight"].T + held["scan.step.linear.bias"]
        h = torch.tanh(seen + h @ held["scan.step.linear_2.weight"].T)
        total = total + h
        wanted.append(total)
    torch.testing.assert_close(module(x), torch.stack(wanted, 1))
    assert_deploys(graph, tmp_path)


@pytest.mark.parametrize(
    ("cell", "said"),
    [
        ("block c(x, h) {\n return concat(x, h) |> linear(5)\n}", "A0409"),
        ("block c(x) {\n return x\n}", "A0207.*`c` takes 1 argument"),
    ],
)
def test_rejects_cell_with_wrong_shape_or_arguments(cell: str, said: str) -> None:
    text = f"import std.recurrent\n{cell}\nnet n {{\n input x: f32[6, 5]\n output y = x |> scan(no_state(x, 4), c)\n}}"
    with pytest.raises(ArchError, match=said):
        archir.loads(text)


SPACE = """
import std.recurrent
net tagger(vocabulary = 20, context = 3) {
    input tokens: i64[context]
    width = choose width(4, 6)
    x = tokens |> embedding(vocabulary, width)
    x = x + choose place {
        waves: x |> sinusoidal
        learned: tokens |> positions |> embedding(context, width)
        nothing: x |> zero
    }
    x = x |> choose layer { rnn: rnn(width), lstm: lstm(4), gru: gru(width), linear: linear_recurrence(6) }
    output tags = x |> linear(3)
    output ends = gather(x, constant(x, [0, 2])) |> linear(2)
}
"""


def test_recurrent_supernet_equals_subnetworks_and_deploys(tmp_path: Path) -> None:
    space = archir.loads(SPACE)
    assert space.size == 2 * 3 * 4
    assert_shared(space, 3)
    assert_deploys(space.specialize(space.sample(random.Random(1))), tmp_path)


def test_sinusoidal_positions_equal_published_formula() -> None:
    """PE(pos, 2i) = sin(pos / 10000^(2i/d)), PE(pos, 2i + 1) = cos(pos / 10000^(2i/d))."""
    graph = archir.loads("net n {\n input x: f32[7, 6]\n output y = sinusoidal(x)\n}").graph
    found = TORCH.lower(graph)(torch.randn(2, 7, 6))
    for position in range(7):
        for i in range(3):
            angle = torch.tensor(position / 10000 ** (2 * i / 6))
            torch.testing.assert_close(found[1, position, 2 * i], angle.sin())
            torch.testing.assert_close(found[0, position, 2 * i + 1], angle.cos())
    assert archir.cost(graph).params == 0


@pytest.mark.parametrize("opset", [17, 23])
def test_positions_export_for_images_of_any_size(opset: int, tmp_path: Path) -> None:
    text = """
    net n {
        input image: f32[3, 8, 8]
        x = image |> conv(6, kernel=2, stride=2) |> to_tokens
        x = x + sinusoidal(x) + gather(x, positions(x))
        output y = x |> linear(4) |> global_avg_pool
    }
    """
    graph = archir.loads(text).graph
    dynamic = ("batch", "height", "width")
    report = archir.export(graph, tmp_path / "net.onnx", TORCH.lower(graph), opset=opset, dynamic=dynamic)
    assert report.relative < 1e-5
    assert report.sizes
