"""Executors answer every key exactly once, whatever happens to tasks and workers."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import ray

from archir.diagnostics.errors import ArchError
from archir.search.executors import Done, Executor, Failed, Outcome, Work, executor
from archir.search.executors.cluster import RAY_ENVIRONMENT, ActorPool
from archir.search.executors.processes import _exit_reason
from archir.search.executors.supervised import DiedError, Supervised, Worker, WorkerPool
from archir.search.executors.tasks import Packed, Ready
from tests.search.works import Large, Obedient, OutOfMemoryError, Poison, Slow, Unprepared

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="processes are killed by signals")

RAY_FOR_LONG = ["processes:2", pytest.param("ray", marks=pytest.mark.soak)]
"""Where Ray's workers, which start slowly, do what they do in another test of the suite."""


@pytest.fixture(scope="module", autouse=True)
def _cluster() -> Iterator[None]:
    """One cluster of two cores for all tests of this file that use Ray: executors take the one that is there."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in RAY_ENVIRONMENT.items():
            patch.setenv(name, value)
        ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
        yield
        assert ray.is_initialized()
        ray.shutdown()


@pytest.fixture
def work(tmp_path: Path) -> Obedient:
    return Obedient(tmp_path)


def ran(workers: Executor, work: Work, tasks: Sequence[Any]) -> dict[str, Outcome]:
    """Outcomes by key, after a look that every key is there once."""
    found = list(workers.run(work, [(str(key), task) for key, task in enumerate(tasks)]))
    assert sorted(int(outcome.key) for outcome in found) == list(range(len(tasks)))
    return {outcome.key: outcome for outcome in found}


@pytest.mark.parametrize(("cores", "gpus", "size"), [(0, 0, 2), (2, 0, 3), (1, 1, 2)])
def test_pool_size_counts_live_ray_nodes_only(
    cores: float, gpus: float, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    machines = [(True, {"CPU": 4, "GPU": 2}), (False, {"CPU": 8, "GPU": 8}), (True, {"CPU": 2})]
    nodes = [{"Alive": alive, "Resources": resources} for alive, resources in machines]
    monkeypatch.setattr(ray, "nodes", lambda: nodes)
    assert ActorPool(None, cores, gpus).size() == size


@pytest.mark.parametrize("name", ["local", "processes:2", "ray"])
def test_scores_are_plain_numbers(name: str, work: Obedient) -> None:
    with executor(name) as workers:
        found = ran(workers, work, [("value", number) for number in range(50)])
        assert not ran(workers, work, [])
    for key, outcome in found.items():
        assert isinstance(outcome, Done)
        assert outcome.scores == {"value": float(key), "double": 2 * float(key)}
        assert {type(value) for value in outcome.scores.values()} == {float}
        assert int(outcome.worker.rpartition(":")[2]) in work.noted("prepared")
        assert 0 <= outcome.seconds < 60


FAILURES: list[tuple[tuple[Any, ...], str, str]] = [
    (("fail", ValueError("bad\nheads")), "exception", "ValueError: bad heads"),
    (("fail", SystemExit(3)), "exception", "SystemExit: 3"),
    (("fail", MemoryError("all of it")), "memory", "MemoryError: all of it"),
    (("fail", OutOfMemoryError("CUDA")), "memory", "tests.search.works.OutOfMemoryError: CUDA"),
    (("allocate",), "memory", "DefaultCPUAllocator"),
    (("value", float("nan")), "nan", "`value` is nan, `double` is nan"),
    (("value", float("-inf")), "nan", "`value` is -inf"),
    (("missing",), "exception", "AttributeError"),
]


@pytest.mark.parametrize("name", ["local", *RAY_FOR_LONG])
def test_failures_are_recorded_and_stop_nobody(name: str, work: Obedient) -> None:
    with executor(name) as workers:
        found = ran(workers, work, [*(task for task, _, _ in FAILURES), ("value", 1.0)])
    for key, (_, reason, message) in enumerate(FAILURES):
        outcome = found[str(key)]
        assert isinstance(outcome, Failed)
        assert outcome.reason == reason
        assert message in outcome.message
        assert "\n" not in outcome.message
    assert isinstance(found[str(len(FAILURES))], Done)


@pytest.mark.parametrize("name", RAY_FOR_LONG)
def test_a_task_whose_worker_died_is_tried_again(name: str, work: Obedient) -> None:
    tasks = [("value", 0.0), ("killed", "once", 1), ("killed", "always", 99), ("end", 0), *[("value", 1.0)] * 20]
    with executor(name, retries=1) as workers:
        found = ran(workers, work, tasks)
    failed = {key: outcome for key, outcome in found.items() if isinstance(outcome, Failed)}
    assert failed.keys() == {"2", "3"}
    assert all(outcome.reason == "died" and "2 times" in outcome.message for outcome in failed.values())
    if name != "ray":
        assert (failed["2"].message, failed["3"].message) == (
            "its worker died 2 times: killed by SIGKILL",
            "its worker died 2 times: it ended with code 0",
        )
    for what in ("once", "always", "end0"):  # on Ray once more, if it was sent with others at first
        assert len(work.noted(what)) in ((2, 3) if name == "ray" else (2,))


@pytest.mark.parametrize("name", RAY_FOR_LONG)
def test_workers_killed_from_outside_lose_nothing(name: str, work: Obedient) -> None:
    over = threading.Event()

    def kill() -> None:
        killed: set[int] = set()
        while len(killed) < 4 and not over.wait(0.05):
            for worker in set(work.noted("prepared")) - killed:
                time.sleep(0.1)
                os.kill(worker, signal.SIGKILL)
                killed.add(worker)

    with executor(name, retries=9) as workers:
        killer = threading.Thread(target=kill)
        killer.start()
        try:
            found = ran(workers, work, [("busy", 0.02, float(number)) for number in range(100)])
        finally:
            over.set()
            killer.join()
    assert {key: outcome.scores["value"] for key, outcome in found.items() if isinstance(outcome, Done)} == {
        str(number): float(number) for number in range(100)
    }
    assert len(work.noted("prepared")) > 2


@pytest.mark.parametrize("name", RAY_FOR_LONG)
def test_task_over_time_limit_fails_and_others_finish(name: str, work: Obedient) -> None:
    tasks = [("busy", 60.0, 0.0), *[("busy", 0.05, 1.0)] * 10]
    with executor(name, limit=1.0) as workers:
        found = ran(workers, work, tasks)
        slow = found.pop("0")
        assert isinstance(slow, Failed)
        assert (slow.reason, slow.message) == ("time", "took more than 1 s")
        assert 1.0 <= slow.seconds < 30
        assert all(isinstance(outcome, Done) for outcome in found.values())
        begin = iter(workers.run(work, [(str(key), task) for key, task in enumerate(tasks[1:])]))
        first = next(begin)
        time.sleep(1.3)  # whoever reads outcomes may take longer than the limit
        assert all(isinstance(outcome, Done) for outcome in [first, *begin])


@pytest.mark.soak
@pytest.mark.parametrize("wrong", [("killed", "always", 99), ("busy", 60.0, 0.0)], ids=str)
def test_tasks_sharing_batch_with_failing_task_succeed(wrong: tuple[Any, ...], work: Obedient) -> None:
    """Short tasks go to Ray's workers in portions."""
    tasks: list[tuple[Any, ...]] = [("value", 1.0)] * 200
    tasks[100] = wrong
    with executor("ray", limit=2.0, retries=0) as workers:
        found = ran(workers, work, tasks)
    failed = {key: outcome.reason for key, outcome in found.items() if isinstance(outcome, Failed)}
    assert failed == {"100": "died" if wrong[0] == "killed" else "time"}


@pytest.mark.parametrize("name", RAY_FOR_LONG)
def test_workers_prepare_once(name: str, work: Obedient, tmp_path: Path) -> None:
    with executor(name) as workers:
        for _ in range(3):
            ran(workers, work, [("meet", 2)] * 8)
        assert len(work.noted("prepared")) == 2
        assert len(set(work.noted("prepared"))) == 2
        ran(workers, Obedient(tmp_path), [("value", 1.0)])
        assert len(work.noted("prepared")) == 3


def test_local_executor_prepares_work_once(work: Obedient) -> None:
    with executor("local") as workers:
        for _ in range(3):
            ran(workers, work, [("value", 1.0)] * 3)
    assert work.noted("prepared") == [os.getpid()]


@pytest.mark.parametrize("name", ["local", *RAY_FOR_LONG])
def test_failing_preparation_is_an_executor_error(name: str, tmp_path: Path) -> None:
    with (
        executor(name) as workers,
        pytest.raises(ArchError, match=r"A2604.*cannot prepare: FileNotFoundError: no data"),
    ):
        ran(workers, Unprepared(tmp_path, "raises"), [("value", 1.0)] * 3)


@pytest.mark.parametrize("name", RAY_FOR_LONG)
def test_workers_dying_in_preparation_are_an_executor_error(name: str, tmp_path: Path) -> None:
    with executor(name, retries=1) as workers, pytest.raises(ArchError, match=r"A2604.*die before they are prepared"):
        ran(workers, Unprepared(tmp_path, "dies"), [("value", 1.0)] * 3)


class Scripted(Worker):
    """A worker that is no process; the one numbered 0 dies in its preparation, before the others are prepared."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.batch: Sequence[Packed] | None = None

    def send(self, batch: Sequence[Packed]) -> None:
        self.batch = batch

    def receive(self) -> Ready | list[Outcome]:
        if self.number == 0:
            raise DiedError("it ended with code 3")
        if self.batch is None:
            return Ready(str(self.number), None)
        return [Done(key, {"value": 1.0}, 0.1, str(self.number)) for key, _ in self.batch]

    def kill(self) -> None:
        pass


class ScriptedPool(WorkerPool[Scripted]):
    max_batch = 1

    def __init__(self, number: int) -> None:
        self.number = number
        self.spawned = 0

    def open(self) -> None:
        pass

    def close(self) -> None:
        pass

    def size(self) -> int:
        return self.number

    def load(self, work: Work) -> None:
        pass

    def pack(self, task: Any) -> bytes:
        return b""

    def spawn(self) -> Scripted:
        self.spawned += 1
        return Scripted(self.spawned - 1)

    def ready(self, workers: Sequence[Scripted], timeout: float | None) -> list[Scripted]:
        return list(workers[:1])


def test_worker_that_dies_early_stops_none_that_still_prepare(work: Obedient) -> None:
    pool = ScriptedPool(4)
    with Supervised(pool, None, 0) as workers:
        found = list(workers.run(work, [(str(key), None) for key in range(8)]))
    assert len(found) == 8
    assert pool.spawned == 4
    with Supervised(ScriptedPool(1), None, 0) as workers, pytest.raises(ArchError, match=r"A2604.*die before"):
        list(workers.run(work, [("0", None)]))


@pytest.mark.skipif(sys.platform != "linux", reason="signals have Linux's numbers")
@pytest.mark.parametrize(
    ("exitcode", "reason"), [(-9, "killed by SIGKILL"), (-35, "killed by signal 35"), (3, "it ended with code 3")]
)
def test_end_of_process_is_described(exitcode: int, reason: str) -> None:
    assert _exit_reason(exitcode) == reason


@pytest.mark.parametrize("name", RAY_FOR_LONG)
def test_unpicklable_tasks_and_work_are_reported(name: str, work: Obedient, tmp_path: Path) -> None:
    with executor(name) as workers:
        found = ran(workers, work, [("value", threading.Lock()), ("value", Poison()), ("value", 1.0)])
        assert [outcome.reason for outcome in found.values() if isinstance(outcome, Failed)] == ["exception"] * 2
        refused, poisoned = found["0"], found["1"]
        assert isinstance(refused, Failed)
        assert "pickle" in refused.message
        assert isinstance(poisoned, Failed)
        assert poisoned.message.endswith("division by zero")
        with pytest.raises(ArchError, match=r"A2604.*the work cannot be sent to workers: TypeError"):
            ran(workers, Obedient(threading.Lock()), [("value", 1.0)])  # type: ignore[arg-type]
        with pytest.raises(ArchError, match=r"A2604.*cannot prepare: .*division by zero$"):
            ran(workers, Obedient(Poison()), [("value", 1.0)])  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["local", *RAY_FOR_LONG])
def test_executor_is_reusable_after_early_stop(name: str, work: Obedient) -> None:
    with executor(name) as workers:
        for outcome in workers.run(work, [(str(number), ("busy", 0.05, number)) for number in range(20)]):
            assert isinstance(outcome, Done)
            break
        found = ran(workers, work, [("value", number) for number in range(100, 120)])
    assert [found[str(key)].scores["value"] for key in range(20)] == list(range(100, 120))  # type: ignore[union-attr]


@pytest.mark.soak
@pytest.mark.skipif(sys.platform != "linux", reason="memory is read in /proc")
def test_ray_workers_share_array_memory() -> None:
    array = np.ones(2**24, np.float32) * 3
    with executor("ray") as workers:
        ran(workers, Large(array[:16]), [0] * 4)
        small = ran(workers, Large(array[:16]), [0] * 4)
        large = ran(workers, Large(array), [0] * 20)
    alone = max(outcome.scores["own"] for outcome in small.values() if isinstance(outcome, Done))
    for outcome in large.values():
        assert isinstance(outcome, Done)
        assert outcome.scores["total"] == 3 * 2**24
        assert not outcome.scores["writeable"]
        assert outcome.scores["own"] < alone + 32, "half the array's 64 MiB"


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("proceses:4", "did you mean `processes`"),
        ("rya", "did you mean `ray`"),
        ("slurm", "the executors are `local`, `processes`, `ray`"),
        ("", "the executors are `local`"),
        ("local:2", "did you mean `local`"),
        ("processes:", "four processes"),
        ("processes:0", "four processes"),
        ("processes:many", "four processes"),
        ("ray:", "`ray:HOST:PORT`"),
        ("ray:head", "`ray:HOST:PORT`"),
        ("ray://head", "`ray:HOST:PORT`"),
    ],
)
def test_rejects_unknown_executor_name_with_hint(text: str, hint: str) -> None:
    with pytest.raises(ArchError, match="A2601") as caught:
        executor(text)
    assert hint in str(caught.value)


@pytest.mark.parametrize("wrong", [{"limit": 0.0}, {"retries": -1}, {"cores": -1.0}, {"gpus": -0.5}])
def test_rejects_invalid_executor_settings(wrong: dict[str, Any]) -> None:
    with pytest.raises(ArchError, match=f"A2601.*`{next(iter(wrong))}` of an executor must be"):
        executor("ray", **wrong)


def test_local_executor_rejects_time_limit() -> None:
    with pytest.raises(ArchError, match=r"A2603(.|\n)*use `processes:1`"):
        executor("local", limit=1.0)


@pytest.mark.parametrize(("name", "package"), [("ray", "ray"), ("ray://head:10001", "grpc")])
def test_missing_executor_package_is_reported_with_install_hint(
    name: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ArchError, match=r"A2602(.|\n)*pip install"):
        executor(name)


def test_rejects_more_gpus_than_any_machine_has(work: Obedient) -> None:
    with executor("ray", gpus=64) as workers, pytest.raises(ArchError, match=r"A2605.*1 cores and 64 GPUs"):
        ran(workers, work, [("value", 1.0)])


@pytest.mark.parametrize("name", ["ray:127.0.0.1:1", "ray://127.0.0.1:1", "ray:nowhere.invalid:6379"])
def test_reports_no_ray_cluster_at_address(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setitem(sys.modules, "grpc", ModuleType("grpc"))
    with pytest.raises(ArchError, match=r"A2605.*no Ray cluster answers"), executor(name):
        raise AssertionError("joined")


def test_processes_take_all_cores_by_default(work: Obedient) -> None:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    with executor("processes") as workers:
        ran(workers, work, [("meet", cores)] * (2 * cores))
    assert len(work.noted("prepared")) == cores


def test_the_end_does_not_wait_for_workers_that_still_prepare(tmp_path: Path) -> None:
    begin = time.monotonic()
    with executor("processes:2") as workers:
        ran(workers, Slow(tmp_path), [("value", 1.0)] * 20)
    assert time.monotonic() - begin < 30
