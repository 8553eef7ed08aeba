"""Shared fixtures and settings of all tests: golden files, examples, and hypothesis' profiles."""

from __future__ import annotations

import difflib
import gc
import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import hypothesis
import pytest

import archir.ops  # noqa: F401  (declares the operations)
from archir.costs.latencies.measurement import OPERATION_EFFORT
from archir.costs.latencies.timing import DEFAULT_EFFORT
from archir.plugins import loading

ROOT = Path(__file__).resolve().parent.parent
GOLDEN = ROOT / "tests" / "golden"
EXAMPLES = ROOT / "examples"
DESELECTED_SOAK: list[str] = []
"""Tests of the soak that were collected and deselected."""

MEMORY_FOLDER = Path("/dev/shm")
"""A file system in memory: tests' folders are there if it has space and allows execution, because waiting for disks
took a third of the time."""
if (
    MEMORY_FOLDER.is_dir()
    and shutil.disk_usage(MEMORY_FOLDER).free > 4 << 30
    and not os.statvfs(MEMORY_FOLDER).f_flag & os.ST_NOEXEC
):
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY_FOLDER))

os.environ.pop(
    "PYTHONDONTWRITEBYTECODE", None
)  # tests start hundreds of processes, each of which would compile all modules again
sys.dont_write_bytecode = False

if (
    signal.getsignal(signal.SIGINT) is signal.SIG_IGN
):  # so in a shell's background; the tests' child processes inherit it
    signal.signal(signal.SIGINT, signal.default_int_handler)

gc.set_threshold(100_000, 50, 100)  # graphs are large and hardly cyclic: garbage collection takes a tenth of the time
hypothesis.settings.register_profile("archir", deadline=None, derandomize=True, max_examples=25)
hypothesis.settings.register_profile("long", deadline=None, derandomize=True, max_examples=500)
hypothesis.settings.load_profile("archir")

for effort in (DEFAULT_EFFORT, OPERATION_EFFORT):
    object.__setattr__(effort, "max_ns", 3e7)  # tests do not need precise latencies


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write golden files instead of comparing with them")
    parser.addoption("--real-gpu", action="store_true", help="run tests of the simulated GPU on a real one")


def pytest_configure(config: pytest.Config) -> None:
    """Limit torch to one thread, because tests run in several processes.

    The process that only distributes tests does not import torch, since all others wait for it.
    """
    if hasattr(config, "workerinput") or not config.getoption("numprocesses", None):
        import torch

        from tests.torch_backend.elsewhere import gpu

        torch.set_num_threads(1)
        gpu.REAL[0] = config.getoption("--real-gpu")


def pytest_deselected(items: list[pytest.Item]) -> None:
    DESELECTED_SOAK.extend(item.nodeid for item in items if item.get_closest_marker("soak"))


def pytest_collection_finish() -> None:
    """Exclude all imported and collected objects from garbage collection."""
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> Iterator[None]:
    """Create only one of each function's soak tests if the soak is deselected, because there are thousands."""
    yield
    if metafunc.config.getoption("markexpr") == "not soak":
        is_soak = metafunc.definition.get_closest_marker("soak") is not None
        quick_calls = [
            call for call in metafunc._calls if not is_soak and all(mark.name != "soak" for mark in call.marks)
        ]
        metafunc._calls = quick_calls or metafunc._calls[:1]


@pytest.fixture(autouse=True)
def _forget_requested_plugins() -> Iterator[None]:
    """Forget the plugins that a test requested."""
    yield
    loading._REQUESTED.clear()


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Compare a text with `tests/golden/NAME`, or write it with --update-golden."""

    def compare(name: str, text: str) -> None:
        path = GOLDEN / name
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            return
        assert path.exists(), f"{path} is missing: run pytest --update-golden and look at what it writes"
        wanted = path.read_text(encoding="utf-8")
        if text != wanted:
            lines = difflib.unified_diff(wanted.splitlines(), text.splitlines(), "golden", "now", lineterm="")
            pytest.fail(f"{name} changed:\n" + "\n".join(lines))

    return compare


@pytest.fixture
def examples() -> Path:
    """The folder of the examples."""
    return EXAMPLES
