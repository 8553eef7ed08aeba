"""Safe file access: reads only regular files of bounded size, and writes files atomically."""

from __future__ import annotations

import errno
import hashlib
import io
import os
import secrets
import stat
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from archir.diagnostics.errors import describe_error, fail

Bytes: TypeAlias = bytes | memoryview
"""A bytes-like object that can be written to a file."""

_KINDS = {stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device"}
_READ_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
_CREATE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)


MAX_DIGESTS = 10_000
"""Maximum number of digests in the ledger of the files that archir wrote on this machine.

When the ledger is full, its older half is dropped.
"""

_allowed_folders: ContextVar[tuple[Path, ...] | None] = ContextVar("allowed_folders", default=None)


@contextmanager
def confined_to(folders: Iterable[Path]) -> Iterator[None]:
    """Restrict file access in the `with` block to these folders, after resolving symbolic links.

    Reading a file outside of the folders raises OSError; writing a file there raises ArchError (A0809).
    """
    token = _allowed_folders.set(tuple(folder.resolve() for folder in folders))
    try:
        yield
    finally:
        _allowed_folders.reset(token)


def _require_allowed(path: Path, opened: os.stat_result | None = None) -> None:
    """Raise OSError if a file lies outside of the allowed folders, or was replaced after it was opened.

    `opened` is the status of the file that was opened.
    """
    folders = _allowed_folders.get()
    if folders is None:
        return
    resolved = path.resolve()
    if not any(resolved.is_relative_to(folder) for folder in folders):
        raise OSError(errno.EACCES, "it lies outside of the folders that may be read", str(path))
    if opened is not None and not os.path.samestat(opened, os.lstat(resolved)):
        raise OSError(errno.EACCES, "it was exchanged while it was opened", str(path))


_read_observer: ContextVar[Callable[[Path], None] | None] = ContextVar("read_observer", default=None)


@contextmanager
def observe_reads(observer: Callable[[Path], None]) -> Iterator[None]:
    """Call `observer` with the path of each file that the `with` block reads.

    The call comes before the file is opened, so the observer also gets paths that cannot be opened.
    """
    token = _read_observer.set(observer)
    try:
        yield
    finally:
        _read_observer.reset(token)


@dataclass
class Outputs:
    """The files that one command reads and writes, recorded so that the command overwrites only what it may.

    `folders` are the folders of the outputs that the user named, `inputs` the files read so far, and `outputs` the
    files written so far. If `force` is set, any existing file may be replaced.
    """

    force: bool = False
    folders: set[Path] = field(default_factory=set)
    inputs: set[Path] = field(default_factory=set)
    outputs: set[Path] = field(default_factory=set)

    def add(self, path: Path, *, update: bool = False) -> None:
        """Register an output that the user named: existing files at `path` and in its folder are protected from now on.

        With `update`, the command may replace the file at `path` itself. Raises ArchError (A0809) if that file is
        protected.
        """
        self.folders.add(path.resolve().parent)
        if update:
            self.outputs.add(path.resolve())
        _require_ours(path)


_outputs: ContextVar[Outputs | None] = ContextVar("outputs", default=None)


@contextmanager
def protect_outputs() -> Iterator[Outputs]:
    """Protect existing files in the output folders during the `with` block.

    Only files that archir wrote are replaced. A file that was changed since archir wrote it is protected, too.
    Replacing a protected file raises ArchError (A0809).
    """
    token = _outputs.set(outputs := Outputs())
    try:
        yield outputs
    finally:
        _outputs.reset(token)


def _require_ours(path: Path, *, derived: bool = False, owner: Path | None = None) -> None:
    """Raise ArchError (A0809) if `path` is a protected file that archir did not write or this command reads.

    A `derived` path (one that the user did not type) is protected in any folder. A file that belongs to an `owner`,
    another file, is protected even if archir wrote it.
    """
    outputs, resolved = _outputs.get(), path.resolve()
    if outputs is None:
        if not derived:
            return
    elif (
        resolved in outputs.outputs
        or not (derived or resolved.parent in outputs.folders)
        or (outputs.force and resolved not in outputs.inputs)
    ):
        return
    if not path.is_file() or not path.stat().st_size:
        return
    if outputs is not None and resolved in outputs.inputs:
        raise fail("A0809", f"cannot write {path}: the command reads this file", None, "name another file")
    reason, other = "archir did not write the file that is there, or it was changed since", "name another file"
    if owner is not None:
        reason, other = f"it belongs to {owner}", f"use another name than {path.stem}, such as {path.stem}_2"
    elif _digest(path) in _ledger():
        return
    remedy = "move the existing one away" if outputs is None else "replace it with --force"
    raise fail("A0809", f"cannot write {path}: {reason}", None, f"{other}, or {remedy}")


def require_overwritable(path: Path, owner: Path | None = None) -> None:
    """Raise ArchError (A0809) if a file exists at `path` that archir did not write, that was changed afterwards, or
    that belongs to an `owner`, another file."""
    _require_ours(path, derived=True, owner=owner)


def _record(path: Path, *, derived: bool = False) -> None:
    """Add the digest of a file that archir just wrote to the ledger, so that later commands may replace the file."""
    outputs, resolved = _outputs.get(), path.resolve()
    if outputs is not None and (derived or resolved.parent in outputs.folders):
        outputs.outputs.add(resolved)
    elif not derived:
        return
    ledger = _ledger()
    if (digest := _digest(path)) in ledger:
        return
    kept = [*ledger][-MAX_DIGESTS // 2 :] if len(ledger) >= MAX_DIGESTS else []
    with suppress(OSError):  # without a ledger entry, the file is only replaced with --force
        _ledger_path().parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _ledger_path().open("w" if kept else "a", encoding="ascii") as stream:
            stream.write("".join(f"{line}\n" for line in (*kept, digest)))


def _digest(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _ledger_path() -> Path:
    return cache_folder() / "outputs"


def _ledger() -> dict[str, None]:
    """Return the ledger: the SHA-256 digests of the outputs that archir wrote on this machine.

    The digests are the keys of a dictionary, oldest first.
    """
    try:
        return dict.fromkeys(_ledger_path().read_text("ascii").split())
    except (OSError, ValueError):
        return {}


def cache_folder() -> Path:
    """Return archir's cache folder on this machine."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "archir"


@contextmanager
def open_regular(path: Path, max_bytes: int | None = None) -> Iterator[io.BufferedReader]:
    """Open a regular file for reading.

    Raises OSError for anything but a regular file (a pipe would block, a device may be endless), for a file larger than
    `max_bytes`, and for a file outside of the folders that `confined_to` allows.
    """
    if (observer := _read_observer.get()) is not None:
        observer(path)
    if (outputs := _outputs.get()) is not None:
        outputs.inputs.add(path.resolve())
    _require_allowed(path)
    _require_regular(path, os.stat(path).st_mode)  # before opening it: some devices react to being opened
    with os.fdopen(os.open(path, _READ_FLAGS), "rb") as stream:
        status = os.fstat(stream.fileno())
        _require_allowed(path, status)
        _require_regular(path, status.st_mode)
        if max_bytes is not None and status.st_size > max_bytes:
            raise _too_large(path, max_bytes)
        yield stream


def read_bytes(path: Path, max_bytes: int) -> bytes:
    """Return the content of a regular file of at most `max_bytes` bytes. Raises OSError as `open_regular` does."""
    with open_regular(path, max_bytes) as stream:
        data = stream.read(os.fstat(stream.fileno()).st_size)
        while block := stream.read(1 << 16):  # the file grew, or its file system reports no size
            data += block
            if len(data) > max_bytes:
                raise _too_large(path, max_bytes)
    return data


def _require_regular(path: Path, mode: int) -> None:
    if stat.S_ISDIR(mode):
        raise OSError(errno.EISDIR, "it is a folder", str(path))
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, f"it is {_KINDS.get(stat.S_IFMT(mode), 'not a file')}", str(path))


def _too_large(path: Path, max_bytes: int) -> OSError:
    return OSError(errno.EFBIG, f"it is larger than {max_bytes:,} bytes", str(path))


@contextmanager
def report_write_errors(path: Path) -> Iterator[None]:
    """Convert an OSError that the `with` block raises while it writes `path` into ArchError (A0809).

    Raises ArchError (A0809) at once if `path` is outside of the folders that `confined_to` allows.
    """
    try:
        _require_allowed(path)
        yield
    except OSError as error:
        obstacle = next((folder for folder in path.parents if folder.exists() and not folder.is_dir()), None)
        reason = describe_error(error) if obstacle is None else f"{obstacle} is not a folder"
        raise fail("A0809", f"cannot write {path}: {reason}") from None


def require_writable(path: Path) -> None:
    """Raise ArchError (A0809) if no file can be written at `path`; call this before computing the content."""
    with report_write_errors(path):
        _require_writable_target(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=path.parent).close()


def write_atomic(path: Path, data: Bytes | Iterable[Bytes]) -> None:
    """Write a file atomically: even after a crash, it has either the complete old content or the complete new one.

    Raises ArchError (A0809) if the file cannot be written.
    """
    with report_write_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        _write(path, data)
        _record(path)


def _require_writable_target(path: Path) -> None:
    """Raise OSError if `path` is a device or a pipe, which root could otherwise replace by a file.

    Raises ArchError (A0809) as `_require_ours` does.
    """
    mode = path.lstat().st_mode if path.exists() else 0
    if stat.S_IFMT(mode) in _KINDS:
        raise OSError(errno.EINVAL, f"it is {_KINDS[stat.S_IFMT(mode)]}", str(path))
    _require_ours(path)


def _write(path: Path, data: Bytes | Iterable[Bytes]) -> None:
    _require_writable_target(path)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    with os.fdopen(os.open(temporary, _CREATE_FLAGS, 0o666), "wb") as stream:  # the umask decides who may read it
        try:
            stream.writelines([data] if isinstance(data, bytes | memoryview) else data)
            stream.flush()
            os.fsync(stream.fileno())
            os.replace(temporary, path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
    sync_folder(path.parent)


@contextmanager
def staged_output(path: Path, replaced: Iterable[Path] = (), *, derived: bool = False) -> Iterator[Path]:
    """Yield a path with the name of `path` in an empty temporary folder beside it; publish the files written there.

    At the end of the `with` block, all files in the temporary folder are moved into the folder of `path`, and files in
    `replaced` (earlier outputs) that were not written again are deleted. If the block raises, nothing changes. Raises
    ArchError (A0809) if a file that archir did not write would be replaced; `path` itself is only checked if it is
    `derived` (not typed by the user).
    """
    require_writable(path)
    with report_write_errors(path), tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.name}.") as folder:
        draft = Path(folder) / path.name
        yield draft
        files = sorted(Path(folder).iterdir(), key=lambda file: file == draft)
        targets = {path.parent / file.name for file in files} | {*replaced}
        for target in targets:
            _require_ours(target, derived=derived or target != path)
        mode = _default_mode(Path(folder))
        for file in files:
            file.chmod(mode)
            with file.open("rb+") as stream:
                os.fsync(stream.fileno())
        for file in replaced:
            if file.name not in {staged.name for staged in files}:
                file.unlink(missing_ok=True)
        for file in files:  # `path` itself comes last: its companion files are in place by then
            os.replace(file, path.parent / file.name)
            _record(path.parent / file.name, derived=derived or file != draft)
    sync_folder(path.parent)


def _default_mode(folder: Path) -> int:
    """Return the permissions of a new file under the umask, to be set on temporary files.

    This is needed because libraries create temporary files that only the user can read.
    """
    path = folder / f".{secrets.token_hex(8)}"
    os.close(os.open(path, _CREATE_FLAGS, 0o666))
    mode = stat.S_IMODE(path.stat().st_mode)
    path.unlink()
    return mode


def sync_folder(folder: Path) -> None:
    """Flush a folder's directory entries to disk (`fsync`)."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def sha256(path: Path) -> str:
    """Return the SHA-256 digest of a regular file's content, in hexadecimal."""
    with open_regular(path) as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
