"""Operations, objectives, measures, proxies and samples as on a GPU: what the CPU computes, and nothing waits."""

from __future__ import annotations

import io

import numpy as np
import pytest
import torch
from torch import Tensor

import archir
from archir.backends.input_ranges import ranged_inputs
from archir.data.readers.source import EncodedImages
from archir.ir.graph import Graph
from archir.recipes.augmentation import Augment
from archir_torch.data import Split
from archir_torch.data.pixels import Cast, DecodedFiles, Device, MemoryMapped, Normalised, Pixels, RowSubset
from archir_torch.lowering.module import lower
from archir_torch.measuring.latency import random_input
from archir_torch.objectives import create
from archir_torch.proxies import PROXIES, make_trial
from archir_torch.training.feed import Batch, Feed
from archir_torch.training.metrics import WINDOW, MetricsQueue
from tests.op_cases import CASES, Case, graph_of, name_of
from tests.soak import with_soak
from tests.torch_backend.elsewhere.gpu import REAL, gpu, here
from tests.torch_backend.objectives.test_tasks import CASES as SUPERVISED
from tests.torch_backend.searches import images

# operations


def outputs(graph: Graph, device: Device, precision: str) -> tuple[list[Tensor], list[Tensor]]:
    """What a network computes in training, and gradients of its weights and inputs."""
    numbers = torch.Generator().manual_seed(1)
    network = lower(graph, generator=torch.Generator().manual_seed(0)).to(device).train()
    given = [random_input(kind, 2, numbers).to(device) for kind in ranged_inputs(graph).values()]
    leaves = [x.requires_grad_() for x in given if x.is_floating_point()] + [*network.parameters()]
    torch.manual_seed(3)
    with torch.autocast(torch.device(device).type, torch.bfloat16, enabled=precision == "bf16"):
        found = network(*given)
    values = list(found.values()) if isinstance(found, dict) else [found]
    total = sum((one.float().square().mean() for one in values if one.requires_grad), torch.zeros((), device=device))
    if total.requires_grad:
        total.backward()
    return values, [one.grad for one in leaves if one.grad is not None]


INHERENT = {"ExpertLinear"}
"""What has to be waited for: how many rows each expert has says how large its product is."""
ROUNDED = {"rtol": 1e-5, "atol": 1e-6}
TOLERANCE = {"rtol": 1e-3, "atol": 1e-4} if REAL[0] else {}
"""A GPU that is there adds up in another order."""


@pytest.mark.parametrize("precision", with_soak(["float32", "bf16"], ["float32"]))
@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_operations_on_gpu_equal_cpu_with_expected_waits(case: Case, precision: str) -> None:
    graph = graph_of(*case)
    with gpu() as seen:
        there = outputs(graph, "cuda", precision)
        waits = [line for line in seen.waits if "archir_torch.lowering.operations" in line]
    assert bool(waits) == (type(case[0]).__name__ in INHERENT), waits
    assert seen.narrow == []
    drawn = REAL[0] and case[0].random  # other numbers than the CPU's
    if precision == "float32" and not drawn:
        for one, other in zip(outputs(graph, "cpu", precision), there, strict=True):
            for wanted, away in zip(one, other, strict=True):
                torch.testing.assert_close(here(away), wanted.detach(), **TOLERANCE)


# objectives and measures


@pytest.mark.parametrize("kind", [*SUPERVISED, "classification"])
def test_objectives_on_gpu_equal_cpu_without_waiting(kind: str) -> None:
    given, target = SUPERVISED.get(kind, (torch.eye(5), torch.tensor([0, 1, 2, 3, 3])))
    objective = create(kind, {})
    batch = Batch({"x": given}, {"y": target})
    loss, measured = objective.loss({"y": given}, batch, 0), objective.measure({"y": given}, batch, 0)
    with gpu() as seen:
        x, y = (one.to("cuda", non_blocking=True) for one in (given, target))
        there = Batch({"x": x}, {"y": y})
        found = {"loss": objective.loss({"y": x}, there, 0)}
        found |= objective.measure({"y": x}, there, 0)
        assert seen.waits == []
        assert {one.device.type for one in found.values()} == {"cuda"}
    for name, value in {"loss": loss, **measured}.items():
        torch.testing.assert_close(here(found[name]), value, **ROUNDED)


# proxies


@pytest.mark.parametrize("name", PROXIES)
def test_proxies_on_gpu_equal_cpu(name: str) -> None:
    graph = archir.loads(
        "net n {\n input x: f32[1, 8, 8]\n x = x |> conv(4) |> batch_norm |> relu |> conv(10) |> relu\n"
        " output y = x |> global_avg_pool\n}"
    ).graph
    batch = images(8, 8, 10)
    wanted = PROXIES[name](make_trial(graph, batch, 0))
    with gpu() as seen:
        there = make_trial(graph, batch.to("cuda"), 0)
        seen.waits.clear()
        found = PROXIES[name](there)
    assert found == pytest.approx(wanted, rel=1e-3)
    looks = [line for line in seen.waits if "copy" not in line and "proxies.untrained" not in line]  # there it is moved
    assert len(looks) <= MOST_LOOKS


MOST_LOOKS = 3
"""Numbers that a proxy looks at: its score, and whether the data fits."""


# samples


FILES = EncodedImages(lambda row: (f"{row}.png", PNG), 20, (1, 6, 6))


def png() -> bytes:
    """A grey picture."""
    from PIL import Image

    file = io.BytesIO()
    Image.fromarray(np.arange(36, dtype=np.uint8).reshape(6, 6)).save(file, "png")
    return file.getvalue()


PNG = png()
ARRAY = np.arange(20 * 36, dtype=np.float32).reshape(20, 1, 6, 6)
MEAN, STD = torch.zeros(1, 1, 1, 1), torch.ones(1, 1, 1, 1)
SAMPLES: dict[str, Pixels] = {
    "tensor": torch.from_numpy(ARRAY),
    "files": Normalised(DecodedFiles(FILES), (1, 6, 6), MEAN, STD),
    "some files": Normalised(RowSubset(DecodedFiles(FILES), torch.arange(20).flip(0)), (1, 6, 6), MEAN, STD),
    "array on the disk": Normalised(MemoryMapped(ARRAY), (1, 6, 6), MEAN, STD),
    "some of an array": RowSubset(MemoryMapped(ARRAY), torch.arange(20).flip(0)),
    "other numbers": Cast(RowSubset(MemoryMapped(ARRAY), torch.arange(20)), torch.float64),
    "bytes": Normalised(torch.arange(20 * 36).to(torch.uint8).reshape(20, 1, 6, 6), (1, 6, 6), MEAN, STD),
}


@pytest.mark.parametrize("kind", SAMPLES)
def test_batches_are_made_without_waiting(kind: str) -> None:
    split = Split.labelled(SAMPLES[kind], torch.arange(20) % 3)
    augment = Augment(shift=1, flip=True)
    wanted = [Feed(split, 6, seed=1, augment=augment).batch(index) for index in range(5)]
    with gpu() as seen:
        feed = Feed(split, 6, seed=1, augment=augment, device="cuda")
        assert feed._prefetcher is None or kind not in ("tensor",)
        seen.waits.clear()
        batches = [feed._batch_at(index) for index in range(5)]  # in this thread, whose tensors can be followed
        assert seen.waits == []
    for one, other in zip(wanted, batches, strict=True):
        torch.testing.assert_close(here(other.images), one.images, **ROUNDED)
        assert torch.equal(here(other.labels), one.labels)


def test_metrics_are_read_without_gpu_waits() -> None:
    with gpu() as seen:
        measured = MetricsQueue()
        for index in range(2 * WINDOW):
            measured.add(index, {"loss": torch.full((), float(index), device="cuda"), "rate": 0.5})
            measured.read()
        assert seen.waits == []
        assert [row["loss"] for _, row in measured.read(wait=True)][-1] == 2 * WINDOW - 1
