"""Modules of many kinds come out as graphs that compute the same, with the same weights, and go back."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import archir
from archir.diagnostics.errors import ArchError
from archir.ir.verify import verify
from archir.language.decompiler.imported import Imported, restore_tensors
from archir_torch.lowering.module import weights_of

IMAGE = torch.randn(1, 3, 16, 16, generator=torch.Generator().manual_seed(0))
TOKENS = torch.randn(1, 6, 16, generator=torch.Generator().manual_seed(1))
TEXT = torch.randint(11, (1, 7), generator=torch.Generator().manual_seed(2))


class Gated(nn.Module):
    """A residual block with squeeze and excitation, in place where it can be."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, width, 3, stride=2, padding=1)
        self.conv = nn.Conv2d(width, width, 3, padding=1, groups=2, bias=False)
        self.norm = nn.BatchNorm2d(width)
        self.squeeze, self.excite = nn.Conv2d(width, 4, 1), nn.Conv2d(4, width, 1)
        self.head = nn.Linear(width, 5)

    def forward(self, image: Tensor) -> Tensor:
        x = self.stem(image)
        y = F.relu_(self.norm(self.conv(x)))
        gate = self.excite(self.squeeze(y.mean((2, 3), keepdim=True)).relu()).sigmoid()
        y = y * gate
        y += x
        out: Tensor = self.head(torch.flatten(F.adaptive_avg_pool2d(y, 1), 1))
        return out


class Packed(nn.Module):
    """Pre-norm attention from one linear map, with a class token and layer scale, as vision transformers have it."""

    def __init__(self, width: int = 16, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.token = nn.Parameter(torch.randn(1, 1, width))
        self.positions = nn.Parameter(torch.randn(1, 7, width))
        self.norm, self.qkv, self.proj = nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.scale = nn.Parameter(torch.randn(width))

    def forward(self, tokens: Tensor) -> Tensor:
        b, _, d = tokens.shape
        x = torch.cat([self.token.expand(b, -1, -1), tokens], 1) + self.positions
        q, k, v = self.qkv(self.norm(x)).reshape(b, 7, 3, self.heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
        y = self.attend(q, k, v).transpose(1, 2).reshape(b, 7, d)
        x = x + self.scale * self.proj(y)
        return x[:, 0]

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(q, k, v)


class WrittenOut(Packed):
    """The same with the attention written out."""

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        weights = ((q * q.shape[-1] ** -0.5) @ k.transpose(-2, -1)).softmax(-1)
        return weights @ v


class WrittenOver(Packed):
    """The same in place, where nothing else reads the logits."""

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        logits = q @ k.transpose(-2, -1)
        logits /= q.shape[-1] ** 0.5
        logits += torch.zeros(1)
        return logits.softmax(-1) @ v


class Windowed(nn.Module):
    """Attention in shifted windows of a map, with learned biases of positions and a mask, as in Swin."""

    def __init__(self, width: int = 8, heads: int = 2, side: int = 2) -> None:
        super().__init__()
        self.heads, self.side = heads, side
        self.embed, self.qkv = nn.Conv2d(3, width, 4, 4), nn.Linear(width, 3 * width)
        self.table = nn.Parameter(torch.randn(9, heads))
        self.register_buffer("index", torch.arange(16).reshape(4, 4) % 9)
        self.register_buffer("mask", torch.where(torch.randn(4, 4, 4) > 0, 0.0, -100.0))

    def forward(self, image: Tensor) -> Tensor:
        x = torch.roll(self.embed(image).permute(0, 2, 3, 1), (-1, -1), (1, 2))
        b, h, w, c = x.shape
        s = self.side
        windows = x.view(b, h // s, s, w // s, s, c).permute(0, 1, 3, 2, 4, 5).reshape(-1, s * s, c)
        q, k, v = self.qkv(windows).reshape(-1, s * s, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        logits = q @ k.transpose(-2, -1) + self.table[self.index.view(-1)].view(4, 4, -1).permute(2, 0, 1)  # type: ignore[operator]
        logits = logits.view(b, -1, self.heads, s * s, s * s) + self.mask.unsqueeze(1).unsqueeze(0)  # type: ignore[operator]
        y = (logits.view(-1, self.heads, s * s, s * s).softmax(-1) @ v).transpose(1, 2).reshape(-1, s, s, c)
        y = y.view(b, h // s, w // s, s, s, c).permute(0, 1, 3, 2, 4, 5).reshape(b, h, w, c)
        return torch.roll(y, (1, 1), (1, 2)).permute(0, 3, 1, 2)


class Language(nn.Module):
    """A causal model whose heads share keys, and whose last layer is the table of the first."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.table, self.places = nn.Embedding(11, width), nn.Embedding(9, width)
        self.q, self.kv, self.out = nn.Linear(width, width), nn.Linear(width, 8), nn.Linear(width, 11, bias=False)
        self.out.weight = self.table.weight

    def forward(self, text: Tensor) -> Tensor:
        b, n = text.shape
        x = self.table(text) + self.places(torch.arange(n))
        q = self.q(x).view(b, n, 4, 4).transpose(1, 2)
        k, v = (one.view(b, n, 1, 4).transpose(1, 2).expand(b, 4, n, 4) for one in self.kv(x).chunk(2, -1))
        x = x + F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, n, -1)
        out: Tensor = self.out(x)
        return out


class Mixed(nn.Module):
    """Layouts of all kinds: channels last, parts of channels, shuffles, tokens by tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.patch, self.norm = nn.Conv2d(3, 8, 4, 4), nn.LayerNorm(8)
        self.up, self.mix = nn.Linear(8, 16), nn.Linear(16, 16)
        self.depthwise = nn.Conv1d(8, 8, 3, padding=1, groups=8)

    def forward(self, image: Tensor) -> Tensor:
        x = self.patch(image)
        y = F.gelu(self.up(self.norm(x.permute(0, 2, 3, 1)))).permute(0, 3, 1, 2)
        b, c, h, w = y.shape
        y = y.view(b, 2, c // 2, h, w).transpose(1, 2).reshape(b, c, h, w)
        one, other = y.chunk(2, 1)
        x = torch.cat([one * other, F.pad(x, (1, 1))[..., 1:-1]], 1)[:, ::2]
        x = x + self.mix(x.flatten(2)).view_as(x)
        x = self.depthwise(x.flatten(2)).transpose(1, 2)
        return torch.stack([x.amax(1), x.mean(1), x.sum(1)], 1)


MODULES: dict[str, tuple[type[nn.Module], Tensor]] = {
    "gated": (Gated, IMAGE),
    "packed": (Packed, TOKENS),
    "written_out": (WrittenOut, TOKENS),
    "windowed": (Windowed, IMAGE),
    "language": (Language, TEXT),
    "mixed": (Mixed, IMAGE),
}


@pytest.fixture(scope="module", params=MODULES)
def both(request: pytest.FixtureRequest) -> tuple[nn.Module, Imported]:
    kind, example = MODULES[request.param]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        module = kind()
    return module, archir.from_torch(module, example)  # which compares them


def test_graphs_verify_and_have_all_weights(both: tuple[nn.Module, Imported]) -> None:
    _, imported = both
    verify(imported.graph)
    wanted = {name: weight.shape for name, weight in weights_of(imported.graph).items()}
    assert {name: array.shape for name, array in imported.weights.items()} == wanted


def test_restored_weights_equal_state_dict(both: tuple[nn.Module, Imported]) -> None:
    module, imported = both
    state = {name: tensor.numpy() for name, tensor in module.state_dict().items()}
    back = restore_tensors(imported.weights, imported.sources)
    assert back
    for name, array in back.items():
        np.testing.assert_array_equal(array, state[name])
    computed = {"table", "index", "mask"} if isinstance(module, Windowed) else set()
    assert {name for name in state if not name.endswith("num_batches_tracked")} - computed <= {*back, *computed}


def test_import_leaves_module_unchanged() -> None:
    module = Gated().train()
    before = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    archir.from_torch(module, IMAGE)
    assert module.training
    for name, tensor in module.state_dict().items():
        torch.testing.assert_close(tensor, before[name], rtol=0, atol=0)


def operations(imported: Imported) -> Counter[str]:
    return Counter(imported.graph[number].op.name for number in imported.graph)


def test_handwritten_attention_imports_as_attention() -> None:
    for written in (WrittenOut(), WrittenOver()):
        assert operations(archir.from_torch(written, TOKENS)) == operations(archir.from_torch(Packed(), TOKENS))
    assert operations(archir.from_torch(Packed(), TOKENS))["attention"] == 1


class Rotated(nn.Module):
    """Attention of rotated queries and keys between norms, all written out, as language models have it."""

    def __init__(self, width: int = 16, base: float = 10000.0) -> None:
        super().__init__()
        self.base = base
        self.scale, self.qkv = nn.Parameter(torch.rand(width)), nn.Linear(width, 3 * width, bias=False)
        self.up = nn.Linear(width, width)

    def norm(self, x: Tensor) -> Tensor:
        return self.scale * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))

    def rotated(self, x: Tensor) -> Tensor:
        angles = torch.outer(torch.arange(6), self.base ** (torch.arange(4) / -4)).repeat(1, 2)
        first, second = x[..., :4], x[..., 4:]
        return x * angles.cos() + torch.cat((-second, first), -1) * angles.sin()

    def forward(self, tokens: Tensor) -> Tensor:
        b, n, d = tokens.shape
        q, k, v = self.qkv(self.norm(tokens)).view(b, n, 3, 2, 8).permute(2, 0, 3, 1, 4).unbind(0)
        y = F.scaled_dot_product_attention(self.rotated(q), self.rotated(k), v).transpose(1, 2).reshape(b, n, d)
        y = self.up(y)
        return 0.5 * y * (1 + torch.tanh(0.7978845608 * (y + 0.044715 * torch.pow(y, 3))))


@pytest.mark.parametrize("base", [10000.0, 500.0])
def test_handwritten_norm_rotary_and_gelu_become_single_operations(base: float) -> None:
    imported = archir.from_torch(Rotated(base=base), TOKENS)
    assert operations(imported) == Counter(
        {"input": 1, "rms_norm": 1, "linear": 2, "slice": 3, "rotary": 2, "attention": 1, "gelu": 1}
    )
    rotary = next(imported.graph[n].op for n in imported.graph if imported.graph[n].op.name == "rotary")
    assert rotary.attributes() == {"heads": 2, "base": base, "width": None}


class Turned(Rotated):
    """By other angles than those of positions."""

    def rotated(self, x: Tensor) -> Tensor:
        angles = torch.linspace(0.1, 3, 24).view(6, 4).repeat(1, 2)
        return x * angles.cos() + torch.cat((-x[..., 4:], x[..., :4]), -1) * angles.sin()


def test_nonstandard_rotation_stays_elementwise() -> None:
    found = operations(archir.from_torch(Turned(), TOKENS))
    assert found["rotary"] == 0
    assert found["mul"] == 4


class Made(nn.Module):
    """With a buffer that state dicts do not have."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 1)
        self.register_buffer("mask", torch.rand(4, 16, 16), persistent=False)

    def forward(self, image: Tensor) -> Tensor:
        found: Tensor = self.conv(image) * self.mask
        return found


def test_restored_tensors_match_state_dict_keys() -> None:
    imported = archir.from_torch(Made(), IMAGE)
    assert {*restore_tensors(imported.weights, imported.sources)} == {*Made().state_dict()}


def test_tied_weights_are_imported_once() -> None:
    imported = archir.from_torch(Language(), TEXT)
    assert sum(name.endswith("table.weight") for name in imported.weights) == 1
    attention = next(imported.graph[n].op for n in imported.graph if imported.graph[n].op.name == "attention")
    assert attention.attributes() == {
        "heads": 4, "scale": None, "causal": True, "window": None, "kv_heads": 1, "along": "all",
        "dropout": 0.0,
    }  # fmt: skip


def test_graph_keeps_module_scopes_and_class_names() -> None:
    imported = archir.from_torch(nn.Sequential(nn.Sequential(nn.Conv2d(3, 4, 1), nn.ReLU()), Gated4()), IMAGE)
    scopes = {imported.graph[number].scope for number in imported.graph}
    assert {"0[0]", "0[1]", "1.conv"} <= scopes
    assert imported.classes["1"] == "Gated4"


class Gated4(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(4, 4, 1)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.conv(x).tanh()
        return out


class Hopeless(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.sort, self.mix = Sorting(), Shuffling()

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.sort(x) + self.mix(x)
        return out


class Sorting(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.sort(-1).values


class Shuffling(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x - x.mean(0)


def test_all_unsupported_operations_are_reported_together() -> None:
    with pytest.raises(ArchError) as error:
        archir.from_torch(Hopeless(), TOKENS)
    said = [one.message for one in error.value.diagnostics]
    assert len(said) == 2
    assert all(one.code == "A3202" for one in error.value.diagnostics)
    assert "`sort`: sort: " in said[0]
    assert "`mix`: mean: a reduction along the batch" in said[1]


class Branching(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x if x.sum() > 0 else -x


def test_rejects_untraceable_module() -> None:
    with pytest.raises(ArchError, match="cannot follow Branching") as error:
        archir.from_torch(Branching(), TOKENS)
    assert error.value.diagnostics[0].code == "A3201"


class Watched(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x if torch.compiler.is_exporting() else 2 * x


def test_rejects_module_that_differs_under_export() -> None:
    with pytest.raises(ArchError) as error:
        archir.from_torch(Watched(), TOKENS)
    assert error.value.diagnostics[0].code == "A3203"


def test_keyword_inputs_and_dict_outputs_keep_names() -> None:
    class Two(nn.Module):
        def forward(self, one: Tensor, two: Tensor) -> dict[str, Any]:
            return {"total": one + two, "product": one * two}

    imported = archir.from_torch(Two(), {"one": TOKENS, "two": TOKENS})
    assert [*imported.graph.inputs] == ["one", "two"]
    assert [*imported.graph.outputs] == ["total", "product"]


class Padded(nn.Module):
    """Sound as maps of one column, padded unevenly before each convolution."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(2, 4, (4, 1)), nn.Conv2d(4, 3, (4, 1))

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(F.pad(x, (0, 0, 1, 2)))
        return self.second(F.pad(x, (0, 0, 1, 2)))


def test_uneven_row_padding_imports_without_transposes() -> None:
    imported = archir.from_torch(Padded(), torch.randn(1, 2, 16, 1))
    assert operations(imported) == {"input": 1, "pad": 2, "conv": 2}


class Scaled(nn.Module):
    """Learned factors that are all alike, as they are before training."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(width))
        self.first = nn.Parameter(torch.zeros(1, 1, width))

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([self.first.expand(len(x), -1, -1), x * self.scale], 1)


@pytest.mark.parametrize("width", [23, 46, 184, 24])
def test_constant_parameters_are_not_mistaken_for_batch(width: int) -> None:
    imported = archir.from_torch(Scaled(width), torch.randn(1, 3, width))
    assert set(imported.sources) == {"scale", "first"} or len(imported.sources) == 2


def test_module_may_overwrite_its_input() -> None:
    archir.from_torch(nn.Sequential(nn.LeakyReLU(0.2, inplace=True), nn.Conv2d(3, 4, 3)), IMAGE)


class Logarithm(nn.Module):
    """Numbers where inputs are positive; with `batch`, of the batch as well."""

    def __init__(self, batch: bool) -> None:
        super().__init__()
        self.batch = batch

    def forward(self, x: Tensor) -> Any:
        return (x * 2, (x * x * len(x)).log()) if self.batch else x.log()


def test_nan_outputs_compare_equal_but_batch_dependence_is_rejected() -> None:
    archir.from_torch(Logarithm(False), TOKENS)
    with pytest.raises(ArchError, match="A320"):
        archir.from_torch(Logarithm(True), TOKENS)


class Gives(nn.Module):
    """Whatever a function makes of its input."""

    def __init__(self, function: Callable[[Tensor], Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Any:
        return self.function(x)


@pytest.mark.parametrize(
    ("function", "names"),
    [
        (lambda x: (torch.zeros(1), x * 2), ["result_1"]),
        (lambda x: {"a b": x * 2, "a_b": x * 3}, ["a_b", "a_b_2"]),
        (lambda x: ((x * 2, x * 3),), ["result_0", "result_1"]),
        (lambda x: {"y": x * 2, "": x * 3}, ["y", "result"]),
        (lambda x: {"0": x * 2, "größe": x * 3}, ["result_0", "gr__e"]),
    ],
    ids=["constant first", "alike names", "nested", "no name", "no names of programs"],
)
def test_output_names_become_valid_identifiers(function: Callable[[Tensor], Any], names: list[str]) -> None:
    assert list(archir.from_torch(Gives(function), TOKENS).graph.outputs) == names


@pytest.mark.parametrize(
    ("module", "example", "said"),
    [
        (Gives(lambda x: None), TOKENS, "A3202.*gives nothing"),
        (Gives(lambda x: torch.ones(3)), TOKENS, "A3202.*gives nothing"),
        (lambda x: x, TOKENS, "A3205.*not a torch module"),
        (Gives(lambda x: x * 2), 3, "A3205.*has a int where a tensor should be"),
        (Gives(lambda x: x * 2), (), "A3205.*has nothing"),
        (Gives(lambda x: x * 2), [[TOKENS]], "A3205.*has a list"),
        (Gives(lambda x: x * 2), TOKENS[:0], "A3205.*no sample"),
    ],
    ids=["none", "constant", "function", "number", "no input", "list", "no sample"],
)
def test_rejects_invalid_module_or_example(module: Any, example: Any, said: str) -> None:
    with pytest.raises(ArchError, match=said):
        archir.from_torch(module, example)


def test_import_errors_log_nothing_from_torch(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(ArchError, match=r"A3201.*length"):
        archir.from_torch(Gives(lambda x: x + torch.ones(5, 16)), TOKENS)
    with pytest.raises(ArchError, match="i64:128"):
        archir.from_torch(nn.Embedding(11, 4), TOKENS)
    assert not [one for one in caplog.records if one.levelno >= logging.ERROR]


@pytest.mark.parametrize("count", [4, 46])
def test_per_sample_constants_concatenate_along_any_axis(count: int) -> None:
    """Also of 46 columns, a multiple of the number of samples that imports run."""
    module = Gives(lambda x: torch.cat([x, torch.zeros(len(x), 3, count)], 2))
    imported = archir.from_torch(module, torch.zeros(1, 3, 4))
    assert [imported.graph[node].op.name for node in imported.graph][-1] == "concat"
