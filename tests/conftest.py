"""What all tests share: golden files, examples, and how hypothesis runs."""

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
from archir.plugins import loading

ROOT = Path(__file__).resolve().parent.parent
GOLDEN = ROOT / "tests" / "golden"
EXAMPLES = ROOT / "examples"
LEFT_OUT: list[str] = []
"""Tests of the soak that were made, and are not asked for."""

MEMORY = Path("/dev/shm")
"""Folders of tests are there, where there is room and programs may run: waiting for disks took a third of the time."""
if MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > 4 << 30 and not os.statvfs(MEMORY).f_flag & os.ST_NOEXEC:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))

os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # tests start hundreds of processes, which would compile all each time
sys.dont_write_bytecode = False

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # in a shell's background; programs of tests inherit it
    signal.signal(signal.SIGINT, signal.default_int_handler)

gc.set_threshold(100_000, 50, 100)  # graphs are large and hardly cyclic: looking for garbage takes a tenth of the time
hypothesis.settings.register_profile("archir", deadline=None, derandomize=True, max_examples=25)
hypothesis.settings.register_profile("long", deadline=None, derandomize=True, max_examples=500)
hypothesis.settings.load_profile("archir")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write golden files instead of comparing with them")
    parser.addoption("--real-gpu", action="store_true", help="run on a GPU what else runs on one that is not there")


def pytest_configure(config: pytest.Config) -> None:
    """Tests run in several processes: more threads than cores would be many times slower. The process that only hands
    tests out does not import torch: the others wait for it."""
    if hasattr(config, "workerinput") or not config.getoption("numprocesses", None):
        import torch

        from tests.torch_backend.elsewhere import gpu

        torch.set_num_threads(1)
        gpu.REAL[0] = config.getoption("--real-gpu")


def pytest_deselected(items: list[pytest.Item]) -> None:
    LEFT_OUT.extend(item.nodeid for item in items if item.get_closest_marker("soak"))


def pytest_collection_finish() -> None:
    """What was imported and collected stays to the end: nobody looks for garbage in it."""
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> Iterator[None]:
    """Of each function one test of the soak is made where the soak is left out, and deselected: there are thousands."""
    yield
    if metafunc.config.getoption("markexpr") == "not soak":
        whole = metafunc.definition.get_closest_marker("soak") is not None
        few = [call for call in metafunc._calls if not whole and all(mark.name != "soak" for mark in call.marks)]
        metafunc._calls = few or metafunc._calls[:1]


@pytest.fixture(autouse=True)
def _plugins_of_one_test() -> Iterator[None]:
    """What one test asked for, later ones did not."""
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
