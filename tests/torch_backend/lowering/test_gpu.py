"""A first look at a GPU: kinds of phases for an epoch, two processes, models on onnxruntime (`make test-gpu`)."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from math import isfinite
from pathlib import Path
from typing import Any

import onnxruntime
import pytest
import torch

import archir
from archir.backends import get
from archir_torch.search.job import create_strategy
from archir_torch.search.run import execute
from tests.conftest import EXAMPLES, ROOT
from tests.torch_backend.searches import command, job, surroundings
from tests.torch_backend.searches import recipe as written

DEVICE = "cuda"
GPUS = torch.cuda.device_count()
onnxruntime_for_gpus = pytest.mark.skipif(
    "CUDAExecutionProvider" not in onnxruntime.get_available_providers(), reason="this onnxruntime is not for GPUs"
)
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not GPUS, reason="torch sees no CUDA device here")]

PHASE = """
space = "tiny.arch"

[data]
source = "digits"
limit = 190
augment = { shift = 1 }
"""
RELAXED = """
[[phase]]
name = "search"
strategy = "{strategy}"
training = {{ epochs = 1, batch = 32, precision = "{precision}" }}
alphas = {{ lr = 3e-3 }}
options = {{ {options} }}

[[phase]]
name = "retrain"
strategy = "train"
start = {{ architecture = "search" }}
training = {{ epochs = 1, batch = 32, ema = 0.9, precision = "{precision}" }}
"""
SCORED = """
[[phase]]
name = "supernet"
strategy = "spos"
training = { epochs = 1, batch = 32 }

[[phase]]
name = "search"
strategy = "evolution"
start = { weights = "supernet" }
training = { batch = 32 }
options = { population = 4, parents = 2, mutations = 2, crossovers = 2, generations = 2, executor = "EXECUTOR" }
"""


def searched(folder: Path, phases: str) -> dict[str, Any]:
    """The summary of a search on the GPU."""
    path = written(folder)
    path.write_text(PHASE + phases)
    return dict(
        execute(path, folder / "run", resume=False, fall_back=False, overrides={}, device=DEVICE, callback=None)
    )  # fmt: skip


@pytest.mark.parametrize("precision", ["float32", "bf16", "fp16"])
@pytest.mark.parametrize(
    ("strategy", "options"),
    [
        ("darts", "order = 1"),
        ("darts", "order = 2"),
        ("darts", "tune = true"),
        ("gdas", ""),
        ("pc_darts", "alpha_warmup_epochs = 0, partial = 2"),
    ],
)
def test_relaxed_search_and_retraining_run_on_gpu(strategy: str, options: str, precision: str, tmp_path: Path) -> None:
    summary = searched(tmp_path, RELAXED.format(strategy=strategy, options=options, precision=precision))
    assert set(summary["phases"]) == {"search", "retrain"}


@pytest.mark.parametrize("executor", ["local", "processes:2"])
def test_supernet_and_inherited_scoring_run_on_gpu(executor: str, tmp_path: Path) -> None:
    summary = searched(tmp_path, SCORED.replace("EXECUTOR", executor))
    assert set(summary["phases"]) == {"supernet", "search"}


@pytest.mark.skipif(GPUS < 2, reason=f"NCCL takes a GPU for each process, and there are {GPUS}")
@pytest.mark.parametrize(
    "phases",
    [RELAXED.format(strategy="darts", options="order = 2", precision="auto"), SCORED.replace("EXECUTOR", "local")],
)
def test_search_runs_on_two_gpus(phases: str, tmp_path: Path) -> None:
    path = written(tmp_path)
    path.write_text(PHASE + phases)
    asked = command(path, "-o", tmp_path / "run", "--device", DEVICE, processes=2)
    done = subprocess.run(asked, env=surroundings(), cwd=ROOT, capture_output=True, text=True, timeout=250)
    assert done.returncode == 0, done.stderr


def test_gpu_alpha_gradient_equals_cpu_gradient() -> None:
    def logits(device: str, order: int) -> torch.Tensor:
        trainee: Any = create_strategy(replace(job("darts", {"order": order}), device=device))
        trainee.step(0)
        found: torch.Tensor = trainee.alphas.logits.grad
        return found.cpu()

    for order in (1, 2):
        torch.testing.assert_close(logits(DEVICE, order), logits("cpu", order), rtol=2e-2, atol=2e-3)


@onnxruntime_for_gpus
@pytest.mark.parametrize("options", [{}, {"precision": "float16"}, {"precision": "bfloat16"}, {"dynamic": ()}])
@pytest.mark.parametrize("name", ["autoformer/autoformer.arch", "nas_bench_201/nas_bench_201.arch"])
def test_exported_networks_run_on_onnxruntime_cuda(name: str, options: dict[str, Any], tmp_path: Path) -> None:
    space = archir.load(EXAMPLES / name)
    graph = space.specialize(space.sample(1))

    def export() -> archir.Report:
        module = archir.compile(graph)
        return archir.export(graph, tmp_path / "net.onnx", module, providers=("CUDAExecutionProvider",), **options)

    if options.get("precision") == "bfloat16" and name.startswith("nas_bench_201"):
        with pytest.raises(archir.ArchError, match=r"A0914.*lacks a kernel on CUDA .* needs: BatchNormalization node"):
            export()
    else:
        report = export()
        assert report.providers == ("CUDAExecutionProvider",)
        assert isfinite(report.relative)


@onnxruntime_for_gpus
def test_doctor_reports_working_onnxruntime_cuda() -> None:
    rows = {what: (found, trouble) for what, found, trouble in get("onnx").devices()}
    assert rows["onnxruntime cuda"] == ("works", "")


@pytest.mark.parametrize("on", ["torch-cuda", pytest.param("onnxruntime-cuda", marks=onnxruntime_for_gpus)])
def test_speeds_are_measured(on: str) -> None:
    graph = archir.load(EXAMPLES / "deit_tiny.arch").graph
    (found,) = archir.bench(graph, on=[on], seconds=1).measurements
    assert found.subject.on == on
