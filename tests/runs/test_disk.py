"""Full disks give a diagnostic and no damage, and runs resume once there is room; pipes and devices are no files."""

from __future__ import annotations

import errno
import os
import resource
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from archir.diagnostics.errors import ArchError
from archir.runs import Run, summaries
from archir.runs.manifest import NAME
from archir.utils.files import read_bytes, sha256, staged_output, write_atomic
from tests.runs.scenario import outcome, work

FULL, OTHER, DONE = 3, 4, 0


def in_a_child(act: Callable[[], Any]) -> int:
    """What becomes of some work in a child: DONE, FULL (a diagnostic says so), or OTHER."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    code = OTHER
    try:
        act()
        code = DONE
    except ArchError as error:
        print(error, file=sys.stderr)
        code = FULL if all(one.code == "A0809" for one in error.diagnostics) else OTHER
    except BaseException as error:
        print(repr(error), file=sys.stderr)
    finally:
        os._exit(code)


def limited(folder: Path, most: int) -> None:
    """Work while no file can be longer."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, resource.RLIM_INFINITY))
    try:
        work(folder)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


def full_after(folder: Path, moment: int) -> None:
    """Work while nothing can be opened to be written from a moment on."""
    left = moment

    def touched(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal left
        if event == "os.mkdir" or (event == "open" and arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)):
            left -= 1
            if left < 0 and str(folder) in str(arguments[0]):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), arguments[0])

    sys.addaudithook(touched)
    work(folder)


@pytest.fixture(scope="module")
def wanted(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("whole") / "run"
    work(folder)
    return outcome(folder)


def goes_on(folder: Path, wanted: Any) -> None:
    if (folder / NAME).exists():
        assert summaries(folder)[0].state in ("interrupted", "finished"), summaries(folder)[0].problem
        Run.open(folder)
    work(folder)
    assert outcome(folder) == wanted


@pytest.mark.parametrize("most", [100, 1500, 12_000, 20_000, 30_000, 50_000, 60_000, 80_000])
def test_run_resumes_after_file_size_limit(most: int, wanted: Any, tmp_path: Path) -> None:
    """The journal is what grows: 70 kB of it."""
    code = in_a_child(lambda: limited(tmp_path / "run", most))
    assert code == FULL or (code == DONE and most > 40_000)
    goes_on(tmp_path / "run", wanted)


@pytest.mark.parametrize("moment", range(0, 60, 7))
def test_run_resumes_after_disk_became_full(moment: int, wanted: Any, tmp_path: Path) -> None:
    assert in_a_child(lambda: full_after(tmp_path / "run", moment)) == FULL
    goes_on(tmp_path / "run", wanted)


@pytest.mark.soak
def test_run_resumes_after_disk_became_full_at_any_write(wanted: Any, tmp_path: Path) -> None:
    moment = 0
    while in_a_child(lambda moment=moment: full_after(tmp_path / f"run{moment}", moment)) == FULL:
        goes_on(tmp_path / f"run{moment}", wanted)
        moment += 1
    assert moment > 50


@contextmanager
def umask(mask: int) -> Iterator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


@pytest.mark.parametrize(("mask", "mode"), [(0o022, 0o644), (0o027, 0o640), (0o077, 0o600), (0o002, 0o664)])
def test_written_files_have_mode_of_umask(mask: int, mode: int, tmp_path: Path) -> None:
    with umask(mask):
        write_atomic(tmp_path / "one", b"")
        with staged_output(tmp_path / "two") as draft:
            os.close(os.open(draft, os.O_CREAT, 0o600))
        work(tmp_path / "run")
    found = {path: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.rglob("*") if path.is_file()}
    assert {one for path, one in found.items() if path.name != ".lock"} == {mode}, found


def test_pipes_are_not_replaced_by_output_files(tmp_path: Path) -> None:
    """Who may write anywhere would have a file in the place of /dev/null."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(ArchError, match=r"cannot write .*: it is a pipe"):
        write_atomic(pipe, b"")
    with pytest.raises(ArchError, match=r"cannot write .*: it is a pipe"), staged_output(pipe) as draft:
        draft.touch()
    assert pipe.is_fifo()


def test_rejects_reading_pipes_devices_folders_and_large_files(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "large").write_bytes(b"x" * 1000)
    for path, text in ((tmp_path / "pipe", "a pipe"), (Path("/dev/zero"), "a device"), (tmp_path, "a folder")):
        with pytest.raises(OSError, match=text):
            read_bytes(path, 10)
        with pytest.raises(OSError, match=text):
            sha256(path)
    with pytest.raises(OSError, match="larger than 999"):
        read_bytes(tmp_path / "large", 999)
    assert len(read_bytes(tmp_path / "large", 1000)) == 1000
    with pytest.raises(OSError, match="larger than 0"):
        read_bytes(Path("/proc/self/status"), 0)  # it says that it is empty
    with pytest.raises(FileNotFoundError):
        read_bytes(tmp_path / "none", 10)
