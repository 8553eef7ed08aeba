"""Networks refuse inputs that they do not take: other numbers of them, element types, ranks, sizes and batches."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import archir
from archir.passes.relax import relax
from archir_torch import BACKEND
from archir_torch.lowering.module import lower
from archir_torch.supernet.mixture import lower_mixed
from tests.soak import with_soak

IMAGES = """
net images() {
    input image: f32[3, 8, 8]
    x = image |> conv(choose width(4, 8), kernel=3) |> batch_norm |> relu
    output logits = x |> choose one { a: identity, b: relu } |> global_avg_pool |> linear(10)
}
"""


def network() -> Callable[[Tensor], Tensor]:
    space = archir.loads(IMAGES)
    return lower(space.specialize(space.sample(0))).eval()


def with_kernels() -> Callable[[Tensor], Tensor]:
    space = archir.loads(IMAGES)
    made = lower(space.specialize(space.sample(0))).train()
    made.use_kernels()
    return made


def mixture() -> Callable[[Tensor], Tensor]:
    made = lower_mixed(relax(archir.loads(IMAGES.replace("choose width(4, 8)", "4")).graph)).eval()
    weights = {name: torch.full((count,), 1 / count) for name, count in made.names.items()}
    return lambda x: made(x, weights=weights)


def supernet() -> Callable[[Tensor], Tensor]:
    space = archir.loads(IMAGES)
    made, architecture = archir.supernet(space).eval(), space.sample(0)
    return lambda x: made(x, architecture)


@pytest.mark.parametrize("made", [network, with_kernels, mixture, supernet])
def test_rejects_images_of_wrong_shape_or_type(made: Callable[[], Callable[[Tensor], Tensor]]) -> None:
    run = made()
    assert run(torch.randn(5, 3, 8, 8)).shape == (5, 10)
    with pytest.raises(ValueError, match=r"`image`: expected \[batch, 3, 8, 8\], got \[3, 8, 8\]; one sample is"):
        run(torch.randn(3, 8, 8))
    with pytest.raises(ValueError, match=r"got \[5, 3, 8, 16\]; `module.open_sizes = True` lets other sizes"):
        run(torch.randn(5, 3, 8, 16))
    with pytest.raises(TypeError, match=r"expected a tensor of floats, got torch\.int64"):
        run(torch.zeros(5, 3, 8, 8, dtype=torch.long))
    with pytest.raises(TypeError, match="got ndarray"):
        run(np.zeros((5, 3, 8, 8), np.float32))  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", with_soak(range(300), range(6)))
def test_accepts_only_declared_shapes_and_types(seed: int) -> None:
    """Inputs of any rank and element type; one of them is then changed, in one way."""
    rng, generator = random.Random(seed), torch.Generator().manual_seed(seed)
    dtypes = {"f32": torch.float32, "f16": torch.float16, "i64": torch.int64, "i32": torch.int32, "bool": torch.bool}
    kinds = [
        (rng.choice([*dtypes]), [rng.choice([1, 2, 3, 5]) for _ in range(rng.randrange(5))])
        for _ in range(rng.choice([1, 2, 3]))
    ]
    lines = [f"input x{i}: {dtype}{shape}\noutput y{i} = x{i} |> identity\n" for i, (dtype, shape) in enumerate(kinds)]
    made = lower(archir.loads("net n() {\n" + "".join(lines) + "}\n").graph)
    batch = rng.choice([1, 2, 4])

    def drawn(dtype: torch.dtype, *shape: int) -> Tensor:
        return torch.randint(0, 2, shape, generator=generator).to(dtype)

    inputs = [drawn(dtypes[dtype], batch, *shape) for dtype, shape in kinds]
    made(*inputs)
    for i, (dtype, shape) in enumerate(kinds):
        own = dtypes[dtype]
        others = [drawn(own, *shape), drawn(own, batch, *shape, 2), drawn(own, batch, 1, *shape)]
        others += [drawn(own, batch, *shape[:axis], size + 1, *shape[axis + 1 :]) for axis, size in enumerate(shape)]
        others += [drawn(own, batch + 1, *shape)] if len(kinds) > 1 else []
        for other in others:
            with pytest.raises(ValueError, match=r"expected|batch"):
                made(*inputs[:i], other, *inputs[i + 1 :])
        wrong = torch.bool if own.is_floating_point else torch.float64
        with pytest.raises(TypeError, match="expected a tensor of"):
            made(*inputs[:i], inputs[i].to(wrong), *inputs[i + 1 :])
    with pytest.raises(TypeError, match=f"takes {len(kinds)} inputs"):
        made(*inputs, inputs[0])


def test_open_sizes_allow_larger_images_but_not_other_ranks() -> None:
    made: Any = network()
    made.open_sizes = True
    assert made(torch.randn(2, 3, 16, 11)).shape == (2, 10)
    with pytest.raises(ValueError, match="one sample"):
        made(torch.randn(3, 8, 8))


def test_rejects_arrays_with_unknown_input_names() -> None:
    made: Any = network()
    with pytest.raises(TypeError, match="takes image; there is no `image`"):
        BACKEND.runner(made)({"picture": np.zeros((2, 3, 8, 8), np.float32)})


@pytest.mark.soak
def test_input_checks_survive_compile_and_export() -> None:
    made: Any = network()
    x = torch.randn(2, 3, 8, 8)
    for dynamic in (False, True):
        compiled = torch.compile(made, fullgraph=True, backend="eager", dynamic=dynamic)
        assert compiled(x).shape == (2, 10)
    assert isinstance(made, nn.Module)
    batch, height = (torch.export.Dim(name, min=1, max=64) for name in ("batch", "height"))
    exported = torch.export.export(made, (x,), dynamic_shapes={"inputs": ({0: batch},)}).module()
    assert exported(torch.randn(5, 3, 8, 8)).shape == (5, 10)
    made.open_sizes = True
    exported = torch.export.export(made, (x,), dynamic_shapes={"inputs": ({0: batch, 2: height},)}).module()
    assert exported(torch.randn(5, 3, 13, 8)).shape == (5, 10)
