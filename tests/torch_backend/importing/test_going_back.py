"""Weights of imports go back to their source: all of its tensors, or an error that names what cannot."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils import parametrizations

import archir
from archir.backends.imports import Program, program_of, to_source_tensors
from archir.diagnostics.errors import ArchError
from archir_torch.importing.proof import network


class Made(nn.Module):
    """A module of a function of itself and its input, with the parameters, buffers and modules that it is given."""

    def __init__(self, body: Callable[[Any, Tensor], Tensor], **held: Any) -> None:
        super().__init__()
        self.body = body
        for name, one in held.items():
            if isinstance(one, Tensor) and not isinstance(one, nn.Parameter):
                self.register_buffer(name, one, persistent=not name.startswith("temporary"))
            else:
                setattr(self, name, one)

    def forward(self, x: Tensor) -> Tensor:
        return self.body(self, x)


class Extra(nn.Linear):
    """A state that is not a tensor."""

    def get_extra_state(self) -> Any:
        return {"version": 1}

    def set_extra_state(self, state: Any) -> None:
        pass


def drawn(*shape: int) -> nn.Parameter:
    return nn.Parameter(torch.randn(*shape))


def tied() -> nn.Module:
    module = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8))
    module[2].weight, module[2].bias = module[0].weight, module[0].bias
    return module


def half() -> nn.Module:
    """A weight of 16 bits by two names, computed with in 32 bits."""
    w = nn.Parameter(torch.randn(8, 8).half())
    return Made(lambda m, x: F.linear(F.linear(x * m.one, m.w.float()), m.v.float()), one=drawn(8), w=w, v=w)


def seen_through(table: nn.Parameter) -> nn.Module:
    """Two parameters in the same memory, one of them transposed."""
    return Made(lambda m, x: F.linear(x, m.a) + F.linear(x, m.b), a=table, b=nn.Parameter(table.detach().t()))


def norms() -> nn.Module:
    module = nn.Sequential(nn.Conv2d(1, 4, 1), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(32, 4))
    return Made(lambda m, x: m.inner(x.unsqueeze(1).unsqueeze(1)), inner=module)


def attention(m: Any, x: Tensor) -> Tensor:
    tokens = x.reshape(-1, 2, 4)
    made: Tensor = m.a(tokens, tokens * 2, tokens, need_weights=False)[0].flatten(1)
    return made


MODULES: dict[str, Callable[[], nn.Module]] = {
    "attention that is split": lambda: Made(attention, a=nn.MultiheadAttention(4, 2, batch_first=True)),
    "the first rows of a table": lambda: Made(
        lambda m, x: m.fc(x + m.table[:1]), table=drawn(5, 8), fc=nn.Linear(8, 3)
    ),
    "one row": lambda: Made(lambda m, x: x * m.table[2], table=drawn(5, 8)),
    "every second row": lambda: Made(lambda m, x: F.linear(x, m.table[::2]), table=drawn(6, 8)),
    "a diagonal": lambda: Made(lambda m, x: x * m.table.diagonal(), table=drawn(8, 8)),
    "chunks": lambda: Made(lambda m, x: [F.linear(x, one) for one in m.table.chunk(2)][1], table=drawn(6, 8)),
    "uneven parts": lambda: Made(lambda m, x: F.linear(x, m.w.split([1, 5])[1]), w=drawn(6, 8)),
    "parts by places": lambda: Made(lambda m, x: F.linear(x, m.w.tensor_split((2,))[0]), w=drawn(6, 8)),
    "unbound": lambda: Made(lambda m, x: F.linear(x, m.w.unbind(1)[1]), w=drawn(6, 2, 8)),
    "narrowed": lambda: Made(lambda m, x: F.linear(x, m.w.narrow(0, 1, 3)), w=drawn(6, 8)),
    "axes moved": lambda: Made(lambda m, x: F.linear(x, m.w.movedim(0, 1).swapaxes(0, 1).mT), w=drawn(8, 6)),
    "transposed and sliced": lambda: Made(lambda m, x: F.linear(x, m.w.t()[1:].reshape(-1, 8)), w=drawn(8, 3)),
    "windows of one table": lambda: Made(lambda m, x: x * m.w[:8] + m.w[1:], w=drawn(9)),
    "two layers of one weight": lambda: Made(
        lambda m, x: F.linear(x, m.w, m.b) + F.linear(x, m.w), w=drawn(8, 8), b=drawn(8)
    ),
    "shared": tied,
    "shared in half precision": half,
    "seen through another": lambda: seen_through(drawn(8, 8)),
    "one slope": lambda: nn.Sequential(nn.Linear(8, 4), nn.PReLU()),
    "a slope for each channel": lambda: nn.Sequential(nn.Linear(8, 4), nn.PReLU(4)),
    "one slope for maps": lambda: Made(
        lambda m, x: m.inner(x.reshape(-1, 2, 2, 2)), inner=nn.Sequential(nn.Conv2d(2, 3, 1), nn.PReLU())
    ),
    "not used": lambda: Made(lambda m, x: m.fc(x), fc=nn.Linear(8, 4), other=nn.Linear(3, 3), none=drawn(0)),
    "norms": norms,
    "buffers": lambda: Made(
        lambda m, x: F.linear(x, m.w) + m.table[m.at], w=torch.randn(4, 8), table=torch.randn(5, 4),
        at=torch.tensor(3), flags=torch.tensor([True]),
    ),
    "a buffer that is made anew": lambda: Made(
        lambda m, x: m.fc(x * m.temporary), fc=nn.Linear(8, 4), temporary=torch.arange(8.0)
    ),
    "one number for all": lambda: Made(lambda m, x: x * m.w.expand(8), w=drawn(1)),
    "a norm of weights": lambda: parametrizations.weight_norm(nn.Linear(8, 4)),
    "a scaled weight": lambda: Made(lambda m, x: F.linear(x, m.w * 2), w=drawn(4, 8)),
    "joined": lambda: Made(lambda m, x: F.linear(x, m.w, torch.cat([m.q, m.k])), w=drawn(4, 8), q=drawn(2), k=drawn(2)),
    "complex numbers": lambda: Made(
        lambda m, x: m.fc(x), fc=nn.Linear(8, 4), turns=torch.ones(3, dtype=torch.complex64)
    ),
    "a state that is not a tensor": lambda: Extra(8, 4),
}  # fmt: skip

NEVER = {"seen through another", "complex numbers", "a state that is not a tensor"}
UNCHANGED = {
    "a buffer that is made anew",
    "a norm of weights",
    "a scaled weight",
    "joined",
    "two layers of one weight",
    "windows of one table",
}
"""What goes back as long as it was not trained: weights that were computed, and parts that were trained apart."""


def loaded(module: nn.Module, program: Program, weights: dict[str, Any]) -> nn.Module:
    """A copy of a module with other numbers, into which weights went back."""
    back = to_source_tensors(weights, program.sources, program.leftover)
    made = copy.deepcopy(module)
    for tensor in made.state_dict().values():
        tensor.zero_()
    made.load_state_dict({name: torch.from_numpy(np.ascontiguousarray(array)) for name, array in back.items()})
    return made


def same(module: nn.Module, program: Program, weights: dict[str, Any]) -> None:
    made = network(archir.loads(program.text).graph, weights)
    x = torch.randn(3, 8)
    with torch.no_grad():
        close = {"rtol": 2e-3, "atol": 2e-2} if any(one.dtype == torch.half for one in module.parameters()) else {}
        torch.testing.assert_close(made(x), module(x), **close)


@pytest.mark.parametrize("name", MODULES)
def test_trained_weights_return_to_module_or_error_explains(name: str) -> None:
    module = MODULES[name]().eval()
    program = program_of(
        archir.from_torch(module, torch.zeros(1, 8, dtype=next(module.parameters(), torch.zeros(1)).dtype))
    )
    weights = dict(program.weights)
    if name in NEVER:
        with pytest.raises(ArchError, match="cannot go back"):
            loaded(module, program, weights)
        return
    back = loaded(module, program, weights)
    for key, tensor in module.state_dict().items():
        torch.testing.assert_close(back.state_dict()[key], tensor, rtol=0, atol=0)
    generator = np.random.default_rng(0)
    trained = {key: array + generator.normal(0, 0.1, array.shape).astype(np.float32) for key, array in weights.items()}
    if name in UNCHANGED:
        with pytest.raises(ArchError, match="was changed"):
            loaded(module, program, trained)
    else:
        same(loaded(module, program, trained), program, trained)
