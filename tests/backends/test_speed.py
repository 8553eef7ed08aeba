"""`archir bench` of whole networks."""

from __future__ import annotations

import json
import os
import re
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import onnx
import pytest
import torch
from click.testing import CliRunner, Result
from hypothesis import example, given
from hypothesis import strategies as st
from onnx import TensorProto, helper

import archir
from archir import backends
from archir.backends.speed import process as memory
from archir.backends.speed import turns
from archir.backends.speed.measurements import Latency, LeftOut, Speed, Speeds, Subject
from archir.backends.speed.picture import WIDTH, axis, format_milliseconds, picture
from archir.backends.speed.process import time_runs
from archir.backends.speed.turns import ROUNDS, Task
from archir.cli import main
from archir.costs.latencies.measurement import without_progress
from archir.diagnostics.errors import ArchError
from archir_onnx.measuring.speed import OnnxRuns
from tests.documents import PYTHONPATH
from tests.soak import with_soak

NET = """net tiny(width = 8) {
    input image: f32[3, 8, 8]
    output logits = image |> conv(width, kernel=3) |> batch_norm |> relu |> global_avg_pool |> linear(10)
}
"""
SPACE = NET.replace("kernel=3", "kernel=choose kernel(1, 3)")
SVG = "{http://www.w3.org/2000/svg}"
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="/proc tells of memory and processes")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """tiny.arch, space.arch, and tiny.onnx."""
    folder = tmp_path_factory.mktemp("networks")
    (folder / "tiny.arch").write_text(NET)
    (folder / "space.arch").write_text(SPACE)
    space = archir.load(folder / "tiny.arch")
    network = space.specialize(space.sample(0))
    archir.export(network, folder / "tiny.onnx", archir.compile(network))
    return folder


def run(*arguments: str | Path, code: int = 0) -> Result:
    quick = ["--threads", "1", "--seconds", "0.05"]
    done = CliRunner().invoke(main, ["bench", *map(str, arguments), *quick], catch_exceptions=False)
    assert done.exit_code == code, done.output + done.stderr
    return done


def handmade(path: Path, kind: int, shape: list[Any]) -> Path:
    """A model that copies its input."""
    x, y = (helper.make_tensor_value_info(name, kind, shape) for name in "xy")
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "copy", [x], [y])
    onnx.save(helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 20)]), path)
    return path


# figures


@given(st.lists(st.integers(1, 10**12), min_size=2, max_size=200))
def test_latency_statistics_equal_those_of_statistics_module(times: list[int]) -> None:
    latency = Latency.of(times)
    cuts = statistics.quantiles(times, n=100, method="inclusive")
    for percent in (1, 50, 90, 99):
        assert latency.percentile(percent) == pytest.approx(cuts[percent - 1], rel=1e-12)
    assert latency.spread == pytest.approx(cuts[74] - cuts[24], rel=1e-9, abs=1e-3)
    assert latency.least == min(times)
    assert latency.mean == pytest.approx(statistics.fmean(times))


def test_interval_of_a_percentile_covers_the_truth_between_noisy_rounds() -> None:
    rng, inside = np.random.default_rng(0), 0
    for _ in range(400):
        speeds = 1000 + 50 * rng.standard_normal(10)  # each round has a speed of its own
        latency = Latency.of(*((speed + rng.uniform(-50, 50, 40)).astype(int).tolist() for speed in speeds))
        margin = latency.margin(50)
        assert margin is not None
        inside += abs(np.mean([np.median(times) for times in latency.rounds]) - 1000) <= margin
    assert 0.92 <= inside / 400 <= 0.98
    assert Latency.of([1] * 10, [1] * 10, [1] * 10).margin(95) is None
    assert Latency.of([1] * 100, [1] * 100).margin(50) is None


def test_fewest_threads_with_almost_the_best_median_are_recommended() -> None:
    def speed(name: str, threads: int, median: int) -> Speed:
        return Speed(Subject(name, "torch", 1, threads), Latency.of([median] * 3), None, 0)

    speeds = Speeds((speed("a", 1, 104), speed("a", 2, 100), speed("b", 1, 110), speed("b", 2, 100)), (), {})
    chosen = {name: one.subject.threads for (name, _, _), one in speeds.recommended_threads.items()}
    assert chosen == {"a": 1, "b": 2}
    assert Speeds((speed("a", 1, 104),), (), {}).recommended_threads == {}


def test_throughput_counts_samples() -> None:
    speed = Speed(Subject("net", "torch", 8, 1), Latency.of([1_000_000, 3_000_000]), None, 0)
    assert speed.throughput == pytest.approx(8 / 0.002)


@given(st.lists(st.integers(1, 1000), min_size=1, max_size=50), st.integers(0, 5000))
def test_runs_are_timed_singly_until_time_is_over(lasting: list[int], ns: int) -> None:
    """The clock goes on by what a run lasts, and by one at each look before a run."""
    now, runs = 0, 0

    def clock() -> int:
        return now

    def work() -> None:
        nonlocal now, runs
        now += lasting[runs % len(lasting)]
        runs += 1

    found = time_runs(work, ns, clock)
    assert found == [lasting[i % len(lasting)] for i in range(len(found))]
    assert sum(found[:-1]) < max(ns, 1) <= max(sum(found), 1)
    assert runs == len(found)


# turns


class FakeProcess:
    """Writes down what it is asked; `bad` ones cannot be started, `late` ones fail in their third round."""

    log: list[str]

    def __init__(self, task: Task, _: object) -> None:
        self.task, self.name, self.rounds = task, task.subject.name, 0

    def __enter__(self) -> FakeProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.log.append(f"end {self.name}")

    def start(self) -> dict[str, str]:
        self.log.append(f"start {self.name}")
        if self.name == "bad":
            raise archir.ArchError(archir.Diagnostic("A1508", "no"))
        return {self.name: "1"}

    def round(self, seconds: float) -> None:
        self.log.append(self.name)
        self.rounds += 1
        if self.name == "late" and self.rounds == 3:
            raise archir.ArchError(archir.Diagnostic("A1508", "too late"))

    def speed(self) -> Speed:
        return Speed(self.task.subject, Latency.of([1]), None, 0)


def tasks(*names: str, needed: bool = False) -> list[Task]:
    return [Task(Subject(name, "torch", 1, 1), Path(name), "torch", {}, needed) for name in names]


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    FakeProcess.log = []
    monkeypatch.setattr(turns, "_Process", FakeProcess)
    return FakeProcess.log


def test_subjects_are_measured_in_alternating_rounds(log: list[str]) -> None:
    found, left_out, machine = turns.measure(tasks("a", "bad", "b", "late"), 1.0, without_progress)
    assert [one.subject.name for one in found] == ["a", "b"]
    assert left_out == [
        LeftOut(Subject("bad", "torch", 1, 1), "no"),
        LeftOut(Subject("late", "torch", 1, 1), "too late"),
    ]
    assert machine == {"a": "1", "b": "1", "late": "1"}
    rounds = [*["a", "b", "late"] * 3, *["a", "b"] * (ROUNDS - 3)]
    assert log == ["start a", "start bad", "start b", "start late", *rounds, *["end late", "end b", "end bad", "end a"]]


def test_number_of_concurrent_processes_is_limited(log: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "MAX_PROCESSES", 2)
    found, _, _ = turns.measure(tasks("a", "b", "c"), 1.0, without_progress)
    assert [one.subject.name for one in found] == ["a", "b", "c"]
    assert log.index("end a") < log.index("start c")


@pytest.mark.parametrize("name", ["bad", "late"])
def test_failure_of_requested_subject_is_an_error(name: str, log: list[str]) -> None:
    with pytest.raises(ArchError, match="A1508"):
        turns.measure(tasks("a", name, needed=True), 1.0, without_progress)
    assert sorted(log[-2:]) == sorted(["end a", f"end {name}"])


def test_exit_of_measuring_process_becomes_diagnostic(monkeypatch: pytest.MonkeyPatch) -> None:
    program = "import sys; print('its last words', file=sys.stderr); sys.exit(3)"
    monkeypatch.setattr(turns, "COMMAND", ("-c", program))
    with pytest.raises(ArchError, match=r"A1508.*`a` on torch, batch 1, 1 thread: .* ended with 3: its last words"):
        turns.measure(tasks("a", needed=True), 1.0, without_progress)


def test_backend_exception_becomes_diagnostic() -> None:
    with pytest.raises(ArchError, match="A0903"):
        turns.measure([Task(Subject("x", "y", 1, 1), Path("x"), "nonsense", {}, True)], 1.0, without_progress)
    with pytest.raises(ArchError, match=r"A1508.*TypeError"):
        turns.measure([Task(Subject("x", "y", 1, 1), Path("x"), "onnx", {"colour": 1}, True)], 1.0, without_progress)


# memory


@LINUX
def test_peak_memory_excludes_parent_process_and_resets() -> None:
    program = (
        "from archir.backends.speed import process as memory\n"
        "before = memory.resident()\n"
        "block = bytearray(b'x') * 80_000_000\n"
        "del block\n"
        "print(memory.peak() - before, memory.resident() - before)\n"
        "memory.reset_peak()\n"
        "print(memory.peak() - before, memory.peak())\n"
    )
    block = np.ones(50_000_000)  # of this process, whose peak must not be taken for the other's
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": PYTHONPATH}
    )
    assert done.returncode == 0, done.stderr
    peak, left, again, whole = map(int, done.stdout.split())
    assert 75e6 < peak < 130e6
    assert left < 40e6
    assert again < 40e6 or again == peak  # where the system does not let peaks be forgotten
    assert whole < 300e6 < (memory.peak() or 0)
    assert block[-1] == 1


def test_memory_is_none_without_proc_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(memory, "_STATUS", tmp_path / "missing")
    monkeypatch.setattr(memory, "_RESET", tmp_path / "missing" / "missing")
    memory.reset_peak()
    assert memory.resident() is memory.peak() is None


@LINUX
@pytest.mark.parametrize("on", with_soak(["torch", "onnxruntime-cpu"], ["onnxruntime-cpu"]))
def test_measured_memory_is_that_of_the_network(on: str) -> None:
    """A map of 3,000 features onto as many has 36 MB of weights."""
    text = "net n(width) { input x: f32[width]\noutput y = x |> linear(width) }"
    graphs = {str(width): archir.loads(text, width=width).graph for width in (30, 3000)}
    small, large = (one.memory or 0 for one in archir.bench(graphs, on=[on], threads=1, seconds=0.05).measurements)
    assert 30e6 < large - small < 150e6
    assert small < 60e6


# the command


def test_bench_measures_program_and_onnx_file(folder: Path) -> None:
    arch, model = folder / "tiny.arch", folder / "tiny.onnx"
    svg = folder / "out.svg"
    done = run(arch, model, "--batch", "2", "--on", "torch", "--on", "onnxruntime-cpu", "--json", "--picture", svg)
    data = json.loads(done.stdout)
    assert [(one["network"], one["on"], one["batch"]) for one in data["measured"]] == [
        (str(arch), "torch", 2), (str(arch), "onnxruntime-cpu", 2), (str(model), "onnxruntime-cpu", 2),
    ]  # fmt: skip
    for one in data["measured"]:
        latency = one["latency"]
        assert 0 < latency["min"] <= latency["p50"] <= latency["p95"] <= latency["p99"]
        assert one["throughput"] == pytest.approx(1e9 * one["batch"] / latency["mean"])
        assert one["runs"] >= ROUNDS
        assert one["threads"] == 1
        assert one["first"] > 0
        assert one["memory"] is None or one["memory"] < 10**9
    assert {"processor", "cores", "torch", "onnxruntime", "python"} <= data["machine"].keys()
    assert data["left_out"] == []
    assert len(list(ElementTree.parse(svg).iter(f"{SVG}g"))) == 3


def test_each_batch_and_backend_is_measured_once(folder: Path, log: list[str]) -> None:
    twice = ["torch", "onnxruntime-cpu", "torch"]
    networks = {"tiny.arch": archir.load(folder / "tiny.arch").graph, "tiny.onnx": folder / "tiny.onnx"}
    found = archir.bench(networks, on=twice, batches=[2, 1, 2]).measurements
    assert [(one.subject.name, one.subject.on, one.subject.batch) for one in found] == [
        (name, on, batch)
        for batch in (2, 1)
        for name, on in (("tiny.arch", "torch"), ("tiny.arch", "onnxruntime-cpu"), ("tiny.onnx", "onnxruntime-cpu"))
    ]


def test_bench_prints_table_of_percentiles_and_throughput(folder: Path) -> None:
    done = run(folder / "space.arch", "--seed", "1", "--on", "onnxruntime-cpu", "--picture", folder / "out.svg")
    assert re.search(r"^ *on +p50, us +p95, us +p99, us +per s +MB *$", done.stdout, re.MULTILINE)
    assert re.search(r"^ *onnxruntime-cpu( +[\d.,]+( ± [\d.,]+)?){5} *$", done.stdout, re.MULTILINE)
    assert "1 thread; processor" in done.stdout
    assert f"wrote {folder / 'out.svg'}" in " ".join(done.stdout.split())


def test_threads_are_compared_and_recommended(folder: Path) -> None:
    done = run(folder / "tiny.onnx", "--on", "onnxruntime-cpu", "--threads", "2", "--picture", folder / "threads.svg")
    assert re.search(r"recommended for .*tiny.onnx on onnxruntime-cpu: [12] thread", " ".join(done.stdout.split()))
    assert re.search(r"^ *on +threads +p50", done.stdout, re.MULTILINE)
    assert "1, 2 threads" in (folder / "threads.svg").read_text()


def test_unavailable_backends_are_left_out_with_reason(folder: Path) -> None:
    fixed = handmade(folder / "fixed.onnx", TensorProto.FLOAT, [1, 3])
    done = run(fixed, "--batch", "1", "--batch", "2")
    assert len(re.findall(r"^ *onnxruntime-cpu ", done.stdout, re.MULTILINE)) == 1
    skipped = f"left out: `{fixed}` on onnxruntime-cpu, batch 2, 1 thread: "
    assert f"{skipped}`x` only accepts batches of 1, not of 2: use --batch 1" in done.stderr
    if not torch.cuda.is_available():
        assert "left out: onnxruntime-cuda, tensorrt: no NVIDIA GPU is seen here" in done.stderr


def test_bench_rejects_subjects_it_cannot_measure(folder: Path) -> None:
    def complaint(*arguments: str | Path) -> str:
        return run(*arguments, code=1).stderr

    model = folder / "tiny.onnx"
    fixed = handmade(folder / "fixed.onnx", TensorProto.FLOAT, [1, 3])
    assert "A1508" in complaint(fixed, "--batch", "2", "--on", "onnxruntime-cpu")
    assert "torch runs no ONNX file" in complaint(model, "--on", "torch")
    assert "A0916" in complaint(folder / "missing.onnx")
    (folder / "damaged.onnx").write_bytes(model.read_bytes()[:-20])
    assert "A0916" in complaint(folder / "damaged.onnx", "--on", "onnxruntime-cpu")
    assert "A1203" in complaint(folder / "space.arch")
    with pytest.raises(ArchError, match="nothing to measure"):
        archir.bench({})
    with pytest.raises(ArchError, match=r"A1505(.|\n)*did you mean `torch-cuda`"):
        archir.bench(model, on=["torch-cude"])
    if torch.cuda.is_available():
        return
    with pytest.raises(ArchError, match="A1505"):
        backends.get("torch").runs(archir.load(folder / "tiny.arch").graph, device="cuda", batch=1, threads=1)
    assert "A0914" in complaint(model, "--on", "onnxruntime-cpu", "--on", "tensorrt")


def test_onnx_runner_rejects_models_it_cannot_feed(folder: Path) -> None:
    """What their processes answer with."""

    def refused(path: Path) -> str:
        with pytest.raises(ArchError) as error:
            OnnxRuns(path, batch=2, threads=1, device="cpu")
        return str(error.value)

    open_ = handmade(folder / "open.onnx", TensorProto.FLOAT, ["batch", "height", 3])
    assert "has open axes height" in refused(open_)
    assert "only accepts batches of 1" in refused(handmade(folder / "fixed.onnx", TensorProto.FLOAT, [1, 3]))
    assert "cannot be filled with random numbers" in refused(
        handmade(folder / "string.onnx", TensorProto.STRING, ["batch", 3])
    )


def test_onnx_runner_accepts_integer_and_half_inputs(folder: Path) -> None:
    """They are told apart where their inputs are drawn."""
    for kind in (TensorProto.UINT8, TensorProto.INT64, TensorProto.FLOAT16):
        model = handmade(folder / "copy.onnx", kind, ["batch", 3])
        OnnxRuns(model, batch=4, threads=1, device="cpu").run()


@pytest.mark.soak
def test_compiled_networks_are_measured(folder: Path) -> None:
    done = run(folder / "tiny.arch", "--json")
    assert [one["on"] for one in json.loads(done.stdout)["measured"]][:3] == [
        "torch",
        "torch-compile",
        "onnxruntime-cpu",
    ]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
def test_networks_are_measured_on_a_gpu(folder: Path) -> None:
    found = archir.bench(archir.load(folder / "tiny.arch").graph, on=["torch-cuda", "onnxruntime-cuda"]).measurements
    assert found[0].memory


# Ctrl-C


def children(process: int) -> list[int]:
    try:
        return [int(one) for one in Path(f"/proc/{process}/task/{process}/children").read_text().split()]
    except OSError:
        return []


def waited(condition: Callable[[], bool]) -> bool:
    """Whether something becomes true within half a minute."""
    return any(condition() or time.sleep(0.1) for _ in range(300))


@LINUX
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_interrupted_bench_leaves_no_child_process(number: signal.Signals, folder: Path) -> None:
    options = ["--on", "onnxruntime-cpu", "--threads", "1", "--seconds", "10", "--batch", "1", "--batch", "2"]
    process = subprocess.Popen(
        [sys.executable, "-m", "archir", "bench", str(folder / "tiny.onnx"), *options],
        env={**os.environ, "PYTHONPATH": PYTHONPATH},
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert waited(lambda: len(children(process.pid)) == 2)
        own = children(process.pid)
        process.send_signal(number)
        said = process.communicate(timeout=30)[1]
    finally:
        process.kill()
        process.communicate()
    assert process.returncode != 0
    assert "Traceback" not in said
    assert waited(lambda: not any(Path(f"/proc/{one}").exists() for one in own))


# the picture


def speeds_of(*medians: float) -> Speeds:
    found = tuple(
        Speed(
            Subject("a < b.arch", f"on {i}", 1, 2), Latency.of([round(median * k / 10) for k in range(9, 20)]), None, 0
        )
        for i, median in enumerate(medians)
    )
    return Speeds(found, (), {"processor": "abacus & sons"})


@pytest.mark.parametrize("medians", [(1e6,), (1e6, 3e6), (2e3, 5e7, 1e9), (1e3, 1e11)])
def test_picture_has_a_row_for_each_subject(medians: tuple[float, ...]) -> None:
    drawn = ElementTree.fromstring(picture(speeds := speeds_of(*medians)))
    rows = list(drawn.iter(f"{SVG}g"))
    texts = [one.text or "" for one in drawn.iter(f"{SVG}text")]
    assert len(rows) == len(medians)
    assert {"a < b.arch", "Latency, abacus & sons, 2 threads"} <= set(texts)
    places = []
    for row, one in zip(rows, speeds.measurements, strict=True):
        (title,) = row.iter(f"{SVG}title")
        assert f"p50 {format_milliseconds(one.latency.percentile(50))}," in (title.text or "")
        (half,) = (path.get("d", "") for path in row.iter(f"{SVG}path") if path.get("class") == "half")
        places.append(float(half[1:].split(",")[0]))
    assert places == sorted(places)
    assert all(0 < place < WIDTH for place in places)


@example(100.0, 100.00000000000001)
@example(99.99999999999999, 1e5)
@given(st.floats(1e2, 1e11), st.floats(1, 1e5))
def test_axis_contains_all_values_and_ticks(least: float, times: float) -> None:
    shown = axis(least, least * times)
    marks, x = [tick for tick, _ in shown.ticks], shown.at
    assert 2 <= len(marks) <= 13
    assert marks == sorted(marks)
    assert x(least) < x(least * times) + 1e-6
    assert axis_left() - 1e-6 <= x(least) <= x(least * times) <= WIDTH
    assert x(marks[-1]) <= WIDTH


def axis_left() -> float:
    """Where zero lies on an axis that begins there."""
    return axis(1.0, 2.0).at(0)


@pytest.mark.parametrize(
    ("ns", "text"), [(3_821, "0.003821"), (1.5e6, "1.5"), (123_456_789, "123.5"), (12e9, "12,000")]
)
def test_times_are_shown_with_four_digits(ns: float, text: str) -> None:
    assert format_milliseconds(ns) == text


def test_progress_callback_sees_every_round(folder: Path) -> None:
    seen: list[tuple[int, str]] = []

    def watch(items: Iterable[Any], total: int, what: str) -> Iterator[Any]:
        seen.append((total, what))
        yield from items

    archir.bench(folder / "tiny.onnx", on=["onnxruntime-cpu"], seconds=0.02, progress=watch)
    assert seen == [(ROUNDS + 1, "measuring")]
