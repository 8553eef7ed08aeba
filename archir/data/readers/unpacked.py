"""Image columns of large Parquet files, copied once into files from which each image can be read alone.

A row of a Parquet file can only be read with its whole row group, often a hundred images. An Arrow file is mapped into
memory instead, and a row is a slice of it.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from archir.data.readers.source import read_error, require_package
from archir.utils.files import cache_folder


def unpacked_column(path: Path, file: Any, column: str) -> list[Any]:
    """Return the record batches of a column of a Parquet file, one for each row group, mapped into memory.

    `file` is the open file. The copy is in archir's cache folder and is made again if the file changes. Raises
    ArchError (A1101) if the copy does not fit on the disk.
    """
    arrow = require_package("pyarrow", "data", "Parquet")
    ipc = require_package("pyarrow.ipc", "data", "Parquet")
    status = path.stat()
    key = f"{path.resolve()}\n{status.st_size}\n{status.st_mtime_ns}\n{column}"
    copy = cache_folder() / "images" / f"{hashlib.sha256(key.encode()).hexdigest()[:32]}.arrow"
    copy.parent.mkdir(parents=True, exist_ok=True)
    with _locked(copy.with_suffix(".lock")):
        if not copy.exists():
            free = shutil.disk_usage(copy.parent).free
            if status.st_size > free:
                size = f"{status.st_size / 1e9:.1f} GB, and {copy.parent} has {free / 1e9:.1f} GB"
                text = f"its images are copied once to be read one by one, which takes {size}; set XDG_CACHE_HOME"
                raise read_error(path, text)
            partial = copy.with_suffix(f".{os.getpid()}")
            try:
                _write(ipc, file, column, partial)
                os.replace(partial, copy)
            finally:
                partial.unlink(missing_ok=True)
    reader = ipc.open_file(arrow.memory_map(str(copy)))
    return [reader.get_batch(number).column(0) for number in range(reader.num_record_batches)]


def _write(ipc: Any, file: Any, column: str, path: Path) -> None:
    """Write a column as an Arrow file with one record batch for each row group."""
    schema = file.schema_arrow
    schema = schema.remove_metadata().empty_table().select([column]).schema
    with ipc.new_file(str(path), schema) as writer:
        for group in range(file.metadata.num_row_groups):
            table = file.read_row_group(group, columns=[column]).cast(schema).combine_chunks()
            writer.write_table(table, max_chunksize=max(1, table.num_rows))


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold a lock, so that one of several processes makes a copy; on Windows, each makes its own."""
    if sys.platform == "win32":
        yield
        return
    import fcntl

    with path.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
