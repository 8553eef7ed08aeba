"""Files that are read are ordinary ones of a known size; files that are written are whole or not there."""

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

from archir.diagnostics.errors import fail

Bytes: TypeAlias = bytes | memoryview

_KINDS = {stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device"}
_OPENED = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
_MADE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)


MOST_DIGESTS = 10_000
"""Outputs that archir remembers on a machine, to know them again."""

_within: ContextVar[tuple[Path, ...] | None] = ContextVar("within", default=None)


@contextmanager
def within(folders: Iterable[Path]) -> Iterator[None]:
    """What is read meanwhile lies in one of these folders, wherever a path or a link points: or it is an OSError."""
    token = _within.set(tuple(folder.resolve() for folder in folders))
    try:
        yield
    finally:
        _within.reset(token)


def _require_within(path: Path, facts: os.stat_result | None = None) -> None:
    """Raise OSError for a file that lies elsewhere; with what is known of an opened one, if it is another by now."""
    folders = _within.get()
    if folders is None:
        return
    real = path.resolve()
    if not any(real.is_relative_to(folder) for folder in folders):
        raise OSError(errno.EACCES, "it lies outside of the folders that may be read", str(path))
    if facts is not None and not os.path.samestat(facts, os.lstat(real)):
        raise OSError(errno.EACCES, "it was exchanged while it was opened", str(path))


_told: ContextVar[Callable[[Path], None] | None] = ContextVar("told", default=None)


@contextmanager
def telling(told: Callable[[Path], None]) -> Iterator[None]:
    """`told` is called with each path that is read meanwhile, before it is opened, which may fail."""
    token = _told.set(told)
    try:
        yield
    finally:
        _told.reset(token)


@dataclass
class Outputs:
    """The output files of one command: `folders` hold those that the user named, `inputs` are the files it has read,
    `written` those it has written. With `force`, any file is replaced."""

    force: bool = False
    folders: set[Path] = field(default_factory=set)
    inputs: set[Path] = field(default_factory=set)
    written: set[Path] = field(default_factory=set)

    def add(self, path: Path, *, update: bool = False) -> None:
        """Protect what is at `path`, and beside it. With `update`, the command goes on with that very file.

        Raises ArchError (A0809) if the file may not be replaced.
        """
        self.folders.add(path.resolve().parent)
        if update:
            self.written.add(path.resolve())
        _require_own(path)


_outputs: ContextVar[Outputs | None] = ContextVar("outputs", default=None)


@contextmanager
def protected() -> Iterator[Outputs]:
    """Until the end, a file in a folder of the outputs is replaced only if archir wrote it and nobody changed it.

    Raises ArchError (A0809) where a file would be lost.
    """
    token = _outputs.set(made := Outputs())
    try:
        yield made
    finally:
        _outputs.reset(token)


def _require_own(path: Path, *, derived: bool = False) -> None:
    """Raise ArchError (A0809) if a protected file is there that archir did not write, or that this command reads.

    A `derived` name, which the user did not say, is always protected.
    """
    outputs, place = _outputs.get(), path.resolve()
    if outputs is None:
        if not derived:
            return
    elif outputs.force or place in outputs.written or not (derived or place.parent in outputs.folders):
        return
    if not path.is_file() or not path.stat().st_size:
        return
    if outputs is not None and place in outputs.inputs:
        why = "the command reads this file"
    elif _digest(path) in _ledger():
        return
    else:
        why = "archir did not write the file that is there, or it was changed since"
    instead = "move this one away" if outputs is None else "replace it with --force"
    raise fail("A0809", f"cannot write {path}: {why}", None, f"name another file, or {instead}")


def require_own(path: Path) -> None:
    """Raise ArchError (A0809) if a file is there that archir did not write, or that was changed since."""
    _require_own(path, derived=True)


def _record(path: Path, *, derived: bool = False) -> None:
    """Note the content of an output, so that archir may replace it later."""
    outputs, place = _outputs.get(), path.resolve()
    if outputs is not None and (derived or place.parent in outputs.folders):
        outputs.written.add(place)
    elif not derived:
        return
    known = _ledger()
    if (digest := _digest(path)) in known:
        return
    lines = [*known][-MOST_DIGESTS // 2 :] if len(known) >= MOST_DIGESTS else []
    with suppress(OSError):  # without it, the file is replaced with --force only
        _ledger_path().parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _ledger_path().open("w" if lines else "a", encoding="ascii") as stream:
            stream.write("".join(f"{line}\n" for line in (*lines, digest)))


def _digest(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _ledger_path() -> Path:
    return cache() / "written"


def _ledger() -> dict[str, None]:
    """The SHA-256 of every output that archir wrote on this machine, the oldest first."""
    try:
        return dict.fromkeys(_ledger_path().read_text("ascii").split())
    except (OSError, ValueError):
        return {}


def cache() -> Path:
    """The folder of what archir keeps for itself on this machine."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "archir"


@contextmanager
def reading(path: Path, most: int | None = None) -> Iterator[io.BufferedReader]:
    """An ordinary file, to be read.

    Raises OSError for what is none, such as a pipe, which would be waited for, or a device, which never ends; for a
    file of more than `most` bytes; and for one that is not `within` the folders at hand.
    """
    if (told := _told.get()) is not None:
        told(path)
    if (outputs := _outputs.get()) is not None:
        outputs.inputs.add(path.resolve())
    _require_within(path)
    _require_ordinary(path, os.stat(path).st_mode)  # before it is opened, which some devices act upon
    with os.fdopen(os.open(path, _OPENED), "rb") as stream:
        facts = os.fstat(stream.fileno())
        _require_within(path, facts)
        _require_ordinary(path, facts.st_mode)
        if most is not None and facts.st_size > most:
            raise _too_large(path, most)
        yield stream


def read_bytes(path: Path, most: int) -> bytes:
    """What an ordinary file of at most so many bytes holds. Raises OSError as `reading` does."""
    with reading(path, most) as stream:
        data = stream.read(os.fstat(stream.fileno()).st_size)
        while more := stream.read(1 << 16):  # it grew, or says nothing of its size
            data += more
            if len(data) > most:
                raise _too_large(path, most)
    return data


def _require_ordinary(path: Path, mode: int) -> None:
    if stat.S_ISDIR(mode):
        raise OSError(errno.EISDIR, "it is a folder", str(path))
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, f"it is {_KINDS.get(stat.S_IFMT(mode), 'no file')}", str(path))


def _too_large(path: Path, most: int) -> OSError:
    return OSError(errno.EFBIG, f"it is larger than {most:,} bytes", str(path))


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """What the system refuses while `path` is written is a diagnostic, as is what is not `within` the folders at hand.
    Raises ArchError (A0809)."""
    try:
        _require_within(path)
        yield
    except OSError as error:
        above = next((folder for folder in path.parents if folder.exists() and not folder.is_dir()), None)
        reason = error.strerror or str(error) if above is None else f"{above} is no folder"
        raise fail("A0809", f"cannot write {path}: {reason}") from None


def require_writable(path: Path) -> None:
    """Raise ArchError (A0809) if a file could not be written there, before the work is done whose result it will be."""
    with writing(path):
        _require_replaceable(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=path.parent).close()


def write_atomic(path: Path, data: Bytes | Iterable[Bytes]) -> None:
    """Write a file in one step: at any moment, and after any crash, there is the old content or the new one.

    Raises ArchError (A0809) if that cannot be.
    """
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        _write(path, data)
        _record(path)


def _require_replaceable(path: Path) -> None:
    """A device or a pipe stays: a file must not take its place, which who may write anywhere could have it do."""
    mode = path.lstat().st_mode if path.exists() else 0
    if stat.S_IFMT(mode) in _KINDS:
        raise OSError(errno.EINVAL, f"it is {_KINDS[stat.S_IFMT(mode)]}", str(path))
    _require_own(path)


def _write(path: Path, data: Bytes | Iterable[Bytes]) -> None:
    _require_replaceable(path)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    with os.fdopen(os.open(temporary, _MADE, 0o666), "wb") as stream:  # which may read it is for the umask to say
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
def drafts(path: Path, about: Iterable[Path] = (), *, derived: bool = False) -> Iterator[Path]:
    """A path of the same name in an empty folder beside it. Files that are made there take the place of those of the
    same names beside `path` at the end, and files `about` what was there that are not made again are gone; if anything
    is raised before, nothing has changed. Names other than that of `path`, and with `derived` that one, too, are those
    of files that archir wrote, or free. Raises ArchError (A0809)."""
    require_writable(path)
    with writing(path), tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.name}.") as folder:
        draft = Path(folder) / path.name
        yield draft
        made = sorted(Path(folder).iterdir(), key=lambda file: file == draft)
        goals = {path.parent / file.name for file in made} | {*about}
        for goal in goals:
            _require_own(goal, derived=derived or goal != path)
        mode = _usual_mode(Path(folder))
        for file in made:
            file.chmod(mode)
            with file.open("rb+") as stream:
                os.fsync(stream.fileno())
        for file in about:
            if file.name not in {one.name for one in made}:
                file.unlink(missing_ok=True)
        for file in made:  # what belongs to the file that was asked for comes before it
            os.replace(file, path.parent / file.name)
            _record(path.parent / file.name, derived=derived or file != draft)
    sync_folder(path.parent)


def _usual_mode(folder: Path) -> int:
    """Who may read and write a new file, as the umask has it: libraries make theirs for the user alone."""
    path = folder / f".{secrets.token_hex(8)}"
    os.close(os.open(path, _MADE, 0o666))
    mode = stat.S_IMODE(path.stat().st_mode)
    path.unlink()
    return mode


def sync_folder(folder: Path) -> None:
    """Have the names in a folder on the disk."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def sha256(path: Path) -> str:
    """The SHA-256 of an ordinary file's content, in hexadecimal."""
    with reading(path) as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
