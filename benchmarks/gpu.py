"""Check on a GPU that all results equal the CPU's, and measure the speed, in ten minutes.

    python benchmarks/gpu.py [--minutes 10] [--only tests,networks,search,...] [-o benchmarks/results/gpu.txt]

One page is written, part by part, so that finished parts are kept if time runs out. Parts that need something that this
machine lacks say so. No network is needed, and pytest for the first part only.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median
from typing import Any

import onnxruntime
import search_step
import supernet
import torch
import torch.nn.functional as F
from measure import Table, machine, medians
from networks import PAIRS, compiled
from torch import Tensor, nn

import archir
from archir.backends.input_ranges import ranged_inputs
from archir.diagnostics.errors import ArchError
from archir.ir.graph import Graph
from archir_torch.lowering.module import lower
from archir_torch.lowering.precision import autocast, full_precision
from archir_torch.lowering.replay import CALLS_BEFORE_RECORDING, GraphedNetwork
from archir_torch.measuring.latency import random_input
from archir_torch.supernet.tuning import Plan, lower_with_plan

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = ROOT / "examples"
DEVICE = "cuda"
NETWORKS: dict[str, dict[str, Any]] = {
    "resnet50.arch": {},
    "deit_tiny.arch": {},
    "mobilenet_v2.arch": {},
    "autoformer/autoformer.arch": {},
    "autola/autola.arch": {},
    "darts/darts.arch:darts": {},
    "full_attention/full_attention.arch": {},
    "glit/glit.arch": {},
    "mobilenet_v3_ofa/mobilenet_v3_ofa.arch": {},
    "nas_bench_101/nas_bench_101.arch": {},
    "nas_bench_201/nas_bench_201.arch": {},
    "nos/nos.arch:nos": {},
    "trionet/trionet.arch": {},
}
"""Networks whose outputs are compared, one architecture of each."""


def tests() -> Table:
    """Run, on this GPU, the tests that otherwise run on a simulated one, and those that need a GPU."""
    table = Table("tests on this device", ["which", "result", "not passed"])
    selections = {
        "operations, objectives, proxies, samples, steps and searches": ["--real-gpu", "tests/torch_backend/elsewhere"],
        "searches, processes, measuring, onnxruntime": [
            "-m", "gpu", "tests/torch_backend/lowering/test_gpu.py", "tests/cli/test_latency_command.py",
            "tests/backends/test_speed.py",
        ],
    }  # fmt: skip
    for name, selection in selections.items():
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "-p",
            "no:benchmark",
            "-n",
            "8",
            *selection,
        ]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        lines = done.stdout.strip().splitlines() or [done.stderr.strip()[-200:]]
        failed = [line.split(" - ")[0].split("::", 1)[-1] for line in lines if line.startswith(("FAILED", "ERROR"))]
        table.add(name, lines[-1].strip("= "), ", ".join(failed[:12]) or "-")
    return table


def networks() -> Table:
    """Compare outputs of examples' networks with the CPU's: in full float32, with TF32, and in bf16."""
    table = Table(
        "one architecture of each space, batch 2, largest difference from the CPU's outputs as a part of the largest",
        ["network", "float32", "TF32", "bf16", "peak, MiB"],
    )
    for name, parameters in NETWORKS.items():
        space = archir.load(EXAMPLES / name, **parameters)
        graph = space.specialize(space.sample(1)) if space.choices else space.graph
        network = lower(graph, generator=torch.Generator().manual_seed(0)).eval()
        numbers = torch.Generator().manual_seed(1)
        inputs = [random_input(kind, 2, numbers) for kind in ranged_inputs(graph).values()]
        with torch.no_grad():
            expected = _first(network(*inputs))
            network.to(DEVICE)
            torch.cuda.reset_peak_memory_stats()
            gpu_inputs = [value.to(DEVICE) for value in inputs]
            with full_precision(DEVICE):
                outputs = {"float32": _first(network(*gpu_inputs))}
            outputs["TF32"] = _first(network(*gpu_inputs))
            with autocast("bf16", DEVICE):
                outputs["bf16"] = _first(network(*gpu_inputs))
        differences = [
            f"{float((output.float().cpu() - expected).abs().max() / expected.abs().max()):.1e}"
            for output in outputs.values()
        ]
        table.add(name.split("/")[-1], *differences, f"{torch.cuda.max_memory_allocated() / 2**20:.0f}")
    return table


def _first(outputs: Any) -> Tensor:
    """Return a network's first output."""
    output: Tensor = next(iter(outputs.values())) if isinstance(outputs, dict) else outputs
    return output


def search() -> Table:
    """Measure a step of DARTS, as `search_step.py` defines it."""
    table = Table(
        "a search step (architecture and weights) of the 8-cell, 16-channel network of DARTS, batch 64",
        ["network", "ms", "times as fast", "memory, MiB"],
    )
    batches = search_step._batches(64, DEVICE)
    relaxed = search_step.graph(16)

    def ours(plan: Plan, precision: str = "float32", *, replayed: bool = False) -> search_step.Search:
        return search_step.from_graph(lower_with_plan(relaxed, plan), DEVICE, replayed=replayed, precision=precision)

    batched = Plan(channels_last=True, batch=True)
    factories: dict[str, Callable[[], search_step.Search]] = {
        "by hand": lambda: search_step.by_hand(DEVICE),
        "by hand, channels last, gradients where needed": lambda: search_step.by_hand(
            DEVICE, channels_last=True, sparing=True
        ),
        "archir": lambda: ours(Plan()),
        "archir, replayed": lambda: ours(Plan(), replayed=True),
        "archir, channels last, batch, replayed": lambda: ours(batched, replayed=True),
        "archir, bf16": lambda: ours(Plan(), "bf16"),
        "archir, bf16, replayed": lambda: ours(Plan(), "bf16", replayed=True),
        "archir, bf16, channels last, batch, replayed": lambda: ours(batched, "bf16", replayed=True),
    }
    searches, memory = {}, {}
    for name, make in factories.items():
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        reserved, used = torch.cuda.memory_reserved(), torch.cuda.memory_allocated()
        searches[name] = step = make()
        for _ in range(CALLS_BEFORE_RECORDING + 2):
            step.step(*batches)
        memory[name] = torch.cuda.max_memory_allocated() - used
        if step.run is not None and step.run.possible:  # recorded graphs keep their memory in a separate pool
            torch.cuda.empty_cache()
            memory[name] = torch.cuda.memory_reserved() - reserved
    times = search_step._time_in_turns(searches, batches, 3, DEVICE)
    for name, step in searches.items():
        ratio = median(theirs / mine for mine, theirs in zip(times[name], times["by hand"], strict=True))
        table.add(
            name + _not_recorded(step), f"{median(times[name]):.1f}", f"{ratio:.2f}", f"{memory[name] / 2**20:.0f}"
        )
    return table


def _not_recorded(search: Any) -> str:
    """Return a remark if a search step could not be recorded."""
    return f" (not recorded: {search.run.refused})" if getattr(search.run, "refused", "") else ""


def training() -> Table:
    """Measure training steps of networks: forward, backward, SGD."""
    table = Table(
        "a step of training (SGD), ms",
        ["network", "batch", "precision", "by hand", "archir", "archir, replayed", "by hand / replayed"],
    )
    small = archir.load(EXAMPLES / "nas_bench_201" / "nas_bench_201.arch")
    graphs = {name: archir.load(EXAMPLES / f"{name}.arch").graph for name in PAIRS}
    graphs["nas_bench_201, an architecture"] = small.specialize(small.sample(1))
    for name, graph in graphs.items():
        for precision in ("float32", "bf16"):
            batch = 64 if name in PAIRS else 256
            steps = {"archir": _training(lower(graph), graph, batch, precision, replayed=False)}
            steps["replayed"] = _training(lower(graph), graph, batch, precision, replayed=True)
            if name in PAIRS:
                steps["hand"] = _training(PAIRS[name](), graph, batch, precision, replayed=False)
            times = medians(steps, 5, DEVICE, warm=8)
            theirs = f"{times['hand']:.1f}" if "hand" in times else "-"
            against = times.get("hand", times["archir"]) / times["replayed"]
            table.add(
                name,
                str(batch),
                precision,
                theirs,
                f"{times['archir']:.1f}",
                f"{times['replayed']:.1f}",
                f"{against:.2f}",
            )
    return table


def _training(network: nn.Module, graph: Graph, batch: int, precision: str, *, replayed: bool) -> Callable[[], None]:
    network = network.to(DEVICE).train()
    call: Callable[..., Any] = GraphedNetwork(network) if replayed else network
    (number,) = graph.inputs.values()
    x = torch.randn(batch, *archir.ir.typing.infer(graph)[number].shape, device=DEVICE)
    y = torch.randint(10, (batch,), device=DEVICE)
    optimizer = torch.optim.SGD(network.parameters(), 0.01, momentum=0.9)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        with autocast(precision, DEVICE):
            loss = F.cross_entropy(call(x), y)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()

    return step


def exports() -> Table:
    """Run exported networks on this device: `torch.export`, and onnxruntime if it was built for GPUs."""
    table = Table("exports on this device, largest relative difference", ["network", "form", "result"])
    providers = set(onnxruntime.get_available_providers())
    for name in ("resnet50.arch", "deit_tiny.arch", "nas_bench_201/nas_bench_201.arch"):
        space = archir.load(EXAMPLES / name)
        graph = space.specialize(space.sample(1)) if space.choices else space.graph
        network = lower(graph, generator=torch.Generator().manual_seed(0)).eval()
        inputs = [
            random_input(kind, 2, torch.Generator().manual_seed(1)).to(DEVICE) for kind in ranged_inputs(graph).values()
        ]
        module = network.to(DEVICE)
        program = torch.export.export(module, tuple(inputs)).module()
        with torch.no_grad(), full_precision(DEVICE):
            eager, exported = _first(module(*inputs)), _first(program(*inputs))
        table.add(name, "torch.export", f"{float((eager - exported).abs().max() / eager.abs().max()):.1e}")
        for provider in ("CUDAExecutionProvider", "TensorrtExecutionProvider"):
            if provider not in providers:
                table.add(name, provider, "this onnxruntime was built without it")
                continue
            for opset in (23, 21):
                with tempfile.TemporaryDirectory() as folder:
                    path = Path(folder) / "net.onnx"
                    try:
                        report = archir.export(graph, path, network.cpu(), providers=(provider,), opset=opset)
                        table.add(name, f"{provider}, opset {opset}", f"{report.relative:.1e}")
                    except ArchError as error:
                        table.add(name, f"{provider}, opset {opset}", error.diagnostics[0].message)
    return table


PARTS: Mapping[str, Callable[[], Table]] = {
    "tests": tests,
    "networks": networks,
    "search": search,
    "training": training,
    "supernet": lambda: supernet.run(DEVICE, True),
    "exports": exports,
    "compiled": lambda: compiled(DEVICE, False),
}
"""The parts of the page, by name."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10, help="no part starts after so many minutes")
    parser.add_argument("--only", default=",".join(PARTS), help="parts, separated by commas")
    parser.add_argument("-o", "--output", type=Path, default=ROOT / "benchmarks" / "results" / "gpu.txt")
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("torch sees no CUDA device here")
    begin = time.perf_counter()
    page = [machine(DEVICE)]
    for name in arguments.only.split(","):
        start = time.perf_counter()
        if start - begin > 60 * arguments.minutes:
            page.append(f"{name}: not begun, the time was over")
            continue
        try:
            text = str(PARTS[name]())
        except Exception as error:  # the parts are independent of each other
            text = f"{name}: {type(error).__name__}: {error}"
        page.append(f"{text}\n({time.perf_counter() - start:.0f} s)")
        print(f"\n{page[-1]}", flush=True)
        arguments.output.write_text("\n\n".join(page) + "\n")
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
