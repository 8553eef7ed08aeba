"""What only machines with GPUs meet, shown with devices that are made up: tensors without numbers, groups alone."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor
from torch._subclasses import FakeTensorMode
from torch.overrides import TorchFunctionMode
from torch.testing._internal.distributed.fake_pg import FakeStore

from archir.costs.latencies import machine
from archir.diagnostics.errors import ArchError, fail
from archir.language.elaboration.elaborate import elaborate
from archir.passes.relax import relax
from archir.recipes.augmentation import Augment
from archir.recipes.training import Training
from archir.search.executors import device_of
from archir.spaces.space import Space
from archir_torch.data import Split, pixels
from archir_torch.data.pixels import Device, Normalised, RowSubset
from archir_torch.lowering.depthwise import depthwise_conv
from archir_torch.lowering.operations.conv import conv
from archir_torch.lowering.precision import full_precision, resolve_precision
from archir_torch.search.job import create_strategy
from archir_torch.search.task import Task
from archir_torch.strategies.alphas import Alphas, SampledWeights
from archir_torch.strategies.relaxed import Relaxed
from archir_torch.strategies.trials import TrialStrategy
from archir_torch.supernet.mixture import MixedNetwork, TermWeights, lower_mixed
from archir_torch.training import distributed
from archir_torch.training.feed import Batch, Feed
from archir_torch.training.loop import run
from archir_torch.training.metrics import MetricsQueue
from tests.torch_backend.searches import images, job, strategy, tiny

DEPTHWISE = """
net wide() {
    input x: f32[1, 6, 6]
    x = x |> conv(4, kernel=3, bias=false)
    x = x |> choose a {
        far: conv(4, kernel=3, dilation=2, groups=4, bias=false)
        large: conv(4, kernel=5, groups=4, bias=false)
    }
    output logits = x |> batch_norm |> relu |> global_avg_pool |> linear(3)
}
"""


class _Moves(TorchFunctionMode):
    """Puts tensors on GPUs where torch was built without them, too."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function is Tensor.to and torch.device(args[1]).type == "cuda":
            return torch.empty(args[0].shape, dtype=args[0].dtype, device="cuda")
        if function is Tensor.copy_ and args[0].is_cuda:
            return args[0]
        return function(*args, **(kwargs or {}))


@contextmanager
def gpus() -> Iterator[None]:
    """Inside, there are GPUs, but tensors have no numbers."""
    with FakeTensorMode(allow_non_fake_inputs=True), _Moves():
        yield


# groups of processes


@pytest.fixture
def gpus_alone() -> Iterator[None]:
    """A group of two processes that meet on GPUs alone; the other one is not there."""
    dist.init_process_group("cuda:fake", store=FakeStore(), rank=0, world_size=2)
    yield
    dist.destroy_process_group()


@pytest.mark.usefixtures("gpus_alone")
def test_cpu_tensors_are_reduced_over_gpu_only_group() -> None:
    with gpus():
        here, there = torch.ones(3), torch.ones(3, device="cuda")
        distributed.average([here, there])
        distributed.add({"here": here, "there": there})
        assert (here.device.type, there.device.type) == ("cpu", "cuda")


@pytest.mark.usefixtures("gpus_alone")
def test_metrics_without_tensors_are_reduced_over_gpu_only_group() -> None:
    with gpus():
        measured = MetricsQueue()
        measured.add(0, {"failed": 1.0})
        monkey = pytest.MonkeyPatch()
        with monkey.context() as patch:
            patch.setattr("archir_torch.training.metrics._Transfer.wait", lambda self: [self._values.device.type])
            assert measured.read(wait=True) == ["cpu"]


@pytest.mark.usefixtures("gpus_alone")
def test_held_out_measures_are_reduced_on_their_device(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[set[str]] = []

    class AddedError(Exception):
        pass

    def add(totals: dict[str, Tensor]) -> None:
        added(totals)
        seen.append({total.device.type for total in totals.values()})
        raise AddedError

    added = distributed.add
    monkeypatch.setattr(distributed, "add", add)
    one = replace(job("train"), device="cuda")
    task = Task(one, tiny().specialize(tiny().sample()))  # what is checked before training is read on the CPU
    with gpus(), pytest.raises(AddedError):
        task.measure(lambda images: torch.zeros(len(images), 3, device="cuda"), one.data.held_out)
    assert seen == [{"cuda"}]


def test_gpu_processes_use_gloo_and_nccl(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("LOCAL_RANK", "1")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "set_device", lambda device: None)
    monkeypatch.setattr(dist, "init_process_group", asked.append)
    monkeypatch.setattr(dist, "new_group", lambda **_: None)
    assert distributed.start("cuda") == "cuda:1"
    assert asked == ["cpu:gloo,cuda:nccl"]


# sixteen bits


def test_bfloat16_that_is_emulated_is_not_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation=True: including_emulation)
    assert resolve_precision("auto", "cuda") == "float32"


def test_full_precision_disables_tf32_and_autocast() -> None:
    x = torch.randn(8, 8)
    with torch.autocast("cpu", torch.bfloat16), full_precision("cpu"):
        assert not torch.backends.cudnn.allow_tf32
        assert (x @ x).dtype == torch.float32
    assert torch.backends.cudnn.allow_tf32


def test_second_order_gradient_in_bf16_equals_float32() -> None:
    def gradient(precision: str) -> Tensor:
        trainee = strategy("darts", {"order": 2}, precision=precision)
        assert isinstance(trainee, Relaxed)
        trainee.step(0)
        assert trainee.alphas.logits.grad is not None
        return trainee.alphas.logits.grad

    torch.testing.assert_close(gradient("bf16"), gradient("float32"), rtol=0, atol=0)


def test_first_order_step_uses_training_precision_and_accumulation(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[bool, int]] = []

    def loss(self: Relaxed, batch: Batch, drawn: SampledWeights, index: int, *, freeze_weights: bool = False) -> Tensor:
        seen.append((torch.is_autocast_enabled("cpu"), len(batch)))
        return plain(self, batch, drawn, index, freeze_weights=freeze_weights)

    plain = Relaxed._loss
    monkeypatch.setattr(Relaxed, "_loss", loss)
    training = Training(batch=8, precision="bf16", accumulate=2)
    strategy("darts", training=training).step(0)
    assert seen == [(True, 4)] * 4


def test_accumulated_first_order_gradient_equals_full_batch_gradient() -> None:
    def gradient(parts: int) -> Tensor:
        text = "net n() { input x: f32[1, 6, 6]; y = x |> choose a(relu, identity, tanh)"
        text += "; output logits = y |> global_avg_pool |> linear(3) }"
        one = Space(elaborate(text.replace("; ", "\n"), "n.arch"))
        trainee = strategy("darts", space=one, training=Training(batch=8, accumulate=parts))
        trainee.step(0)
        return trainee.alphas.logits.grad

    torch.testing.assert_close(gradient(3), gradient(1))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_mixture_weights_stay_float32_under_autocast(dtype: torch.dtype) -> None:
    given = torch.tensor([0.1247, 0.1253, 0.75])
    shares = TermWeights({"a": 3}, [(("a", (number,)),) for number in range(3)])
    with torch.autocast("cpu", dtype):
        assert torch.equal(torch.stack(shares({"a": given})), given)


def test_subset_weights_stay_float32_under_autocast() -> None:
    alphas = Alphas(tiny().choices, ["pair", "first"], "normal", torch.Generator().manual_seed(0))
    plain = alphas.sample().weights
    with torch.autocast("cpu", torch.bfloat16):
        for name, found in alphas.sample().weights.items():
            assert torch.equal(found, plain[name])
        assert {n: p.dtype for n, p in alphas.outcome_probabilities().items()} == dict.fromkeys(
            alphas.outcome_probabilities(), torch.float32
        )


def test_bf16_mixture_resolves_small_weight_differences() -> None:
    text = "net n() {\n input x: f32[4, 8, 8]\n y = x |> conv(64)\n output y = y |> choose a(identity, tanh)\n}"
    network = lower_mixed(relax(elaborate(text, "n.arch")))
    x = torch.randn(8, 4, 8, 8, generator=torch.Generator().manual_seed(1))

    def mixed(first: float) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16), torch.no_grad():
            found: Tensor = network(x, weights={"a": torch.tensor([first, 1 - first])})
        assert found.dtype == torch.bfloat16
        return found.double().flatten()

    apart = mixed(1.0) - mixed(0.0)
    step = (mixed(0.1253) - mixed(0.1247)) @ apart / (apart @ apart)
    assert float(step) == pytest.approx(0.0006, rel=0.2)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize(("stride", "dilation", "kernel"), [(2, 1, 3), (1, 2, 5), (1, 1, 7)])
def test_depthwise_gradients_in_16_bits_match_float32(
    dtype: torch.dtype, stride: int, dilation: int, kernel: int
) -> None:
    numbers = torch.Generator().manual_seed(0)
    x = torch.randn(2, 4, 8, 8, generator=numbers, requires_grad=True)
    weight = torch.randn(4, 1, kernel, kernel, generator=numbers, requires_grad=True)
    settings = {"stride": stride, "pads": (dilation * (kernel // 2),) * 4, "dilation": dilation, "groups": 4}
    wanted = torch.autograd.grad(conv(x, weight, **settings).square().mean(), (x, weight))
    with torch.autocast("cpu", dtype):
        found = depthwise_conv(x, weight, **settings)
        assert found.dtype == dtype
    for one, other in zip(torch.autograd.grad(found.float().square().mean(), (x, weight)), wanted, strict=True):
        assert one.dtype == torch.float32
        assert float((one - other).norm() / other.norm()) < 0.02


def test_plans_are_measured_in_the_precision_of_training(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[bool] = []

    def forward(self: MixedNetwork, *inputs: Tensor, **more: Any) -> Any:
        seen.append(torch.is_autocast_enabled("cpu"))
        return plain(self, *inputs, **more)

    plain = MixedNetwork.forward
    monkeypatch.setattr(MixedNetwork, "forward", forward)
    training = Training(batch=8, precision="bf16")
    trainee = strategy("darts", {"tune": True}, space=Space(elaborate(DEPTHWISE, "wide.arch")), training=training)
    assert seen
    assert all(seen)
    trainee.step(0)


# workers and machines


@pytest.mark.parametrize(
    ("name", "own", "gpus", "wanted"),
    [("local", "cuda:1", 0, "cuda:1"), ("processes:2", "cuda", 0, "cuda"), ("ray", "cuda:1", 0, "cpu"),
     ("ray", "cuda:1", 0.5, "cuda"), ("ray:host:1", "cpu", 1, "cuda"), ("ray://host:1", "cuda", 0, "cpu")],
)  # fmt: skip
def test_worker_device_follows_executor_and_gpus(name: str, own: str, gpus: float, wanted: str) -> None:
    assert device_of(name, own, gpus) == wanted


def test_ray_candidates_are_scored_on_cpu_by_default() -> None:
    options = {"trials": 4, "batch": 2, "executor": "ray", "scorer": {"kind": "proxies"}}
    given = replace(job("random", options), device="cuda")
    trainee = create_strategy(given)
    assert isinstance(trainee, TrialStrategy)
    assert trainee._scoring_work.device == "cpu"


def test_gpu_names_fall_back_to_nvidia_smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "nvidia-smi"
    program.write_text('#!/bin/sh\necho "NVIDIA GeForce RTX 4090"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    machine._gpus_from_smi.cache_clear()
    try:
        assert machine._gpus_from_smi() == ["NVIDIA GeForce RTX 4090"]
        monkeypatch.setattr(machine, "_gpus_in_proc", lambda folder: [])
        assert machine.gpu() == "NVIDIA GeForce RTX 4090"
        program.write_text("#!/bin/sh\nexit 9\n")
        machine._gpus_from_smi.cache_clear()
        assert machine._gpus_from_smi() == []
    finally:
        machine._gpus_from_smi.cache_clear()


# images


class Asked:
    """Pixels that remember which rows they were asked for; one of them cannot be read."""

    def __init__(self, images: Tensor, broken: int = -1) -> None:
        self.images, self.broken, self.rows = images, broken, list[list[int]]()

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, rows: Tensor) -> Tensor:
        self.rows.append(rows.tolist())
        if self.broken in rows.tolist():
            raise fail("A1104", "it is not an image")
        return self.images[rows]

    def to(self, device: Device) -> Asked:
        return self


def test_prefetched_batches_equal_synchronous_ones() -> None:
    plain, augment = images(20), Augment(shift=1, mixup=0.3)
    asked = Asked(plain.images)
    ahead = Feed(Split.labelled(asked, plain.labels), 6, seed=1, augment=augment)
    wanted = Feed(plain, 6, seed=1, augment=augment)
    for index in (0, 1, 2, 3, 4, 9, 2, 3):
        one, other = ahead.batch(index), wanted.batch(index)
        assert torch.equal(one.images, other.images)
        assert torch.equal(one.labels, other.labels)
    assert ahead._prefetched is not None
    ahead._prefetched[1].result()
    made = asked.rows
    assert len(made) == 8 + 3  # nothing twice, but for what was made ahead of a jump, and of the end


def test_unreadable_image_fails_only_at_its_batch() -> None:
    plain = images(20)
    asked = Asked(plain.images)
    feed = Feed(Split.labelled(asked, plain.labels), 6, seed=1)
    feed.batch(0)
    feed._prefetched[1].result()  # type: ignore[index]
    asked.broken = Feed(Split.labelled(Asked(plain.images), plain.labels), 6, seed=1)._rows(0).host[13].item()  # type: ignore[assignment]
    feed.batch(1)
    with pytest.raises(ArchError, match="A1104"):
        feed.batch(2)


def test_data_halves_share_one_device_copy() -> None:
    raw = torch.zeros(20, 1, 6, 6, dtype=torch.uint8)
    whole = Normalised(raw, (1, 6, 6), torch.zeros(1, 1, 1, 1), torch.ones(1, 1, 1, 1))
    halves = [RowSubset(whole, torch.arange(10)), RowSubset(whole, torch.arange(10, 20))]
    with gpus():
        first, second = (half.to("cuda") for half in halves)
        assert first.pixels is second.pixels
        assert first.pixels.raw.device.type == "cuda"  # type: ignore[attr-defined]
        del first, second
        gc.collect()
    assert not pixels._DEVICE_COPIES[whole]


@pytest.mark.parametrize(("kind", "wanted"), [("train", True), ("darts", True), ("spos", False)])
def test_cudnn_benchmark_is_on_only_for_fixed_shapes(kind: str, wanted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    space = Space(elaborate(DEPTHWISE, "wide.arch"))
    one = job(kind, space=space, epochs=1)
    trainee = create_strategy(replace(one, architecture=dict(space.sample(0))) if kind == "train" else one)
    seen: list[bool] = []
    monkeypatch.setattr(trainee, "step", lambda index: seen.append(torch.backends.cudnn.benchmark) or {"loss": 0.0})
    monkeypatch.setattr(trainee, "evaluate", lambda epoch: {})
    run(trainee, epochs=1, steps=1)
    assert seen == [wanted]
    assert not torch.backends.cudnn.benchmark
