"""Checks of a torch package (`.pt2`) against its certificate without loading it, since loading would run code.

A package is a zip archive with uncompressed entries. In packages written by `archir export`, JSON entries describe
the network's inputs and weights; the checks compare these with the certificate.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import BufferedReader
from math import prod
from pathlib import Path
from struct import error as StructError
from typing import Any
from zipfile import ZIP_STORED, BadZipFile, ZipFile

from archir.diagnostics.errors import ArchError, describe_error, fail
from archir.ir.types import TensorType
from archir.utils.files import open_regular
from archir_torch.export.package import PackageFormat

MAX_READ_BYTES = 1 << 24
"""Maximum size in bytes of the archive's directory, and of an entry that is parsed."""
MAX_AXES = 64
"""Maximum number of axes of a tensor."""

_DTYPES = {4: "i32", 5: "i64", 6: "f16", 7: "f32", 12: "bool", 13: "bf16"}
"""archir's element type by its number in torch packages."""
_SIZES = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 6: 2, 7: 4, 8: 8, 12: 1, 13: 2}
"""Bytes per element by the element type's number in torch packages."""


class Package:
    """An open package; `sizes` maps the names of its entries, below the single top-level folder, to their sizes.

    Methods raise ArchError (A0919).
    """

    def __init__(self, path: Path, archive: ZipFile) -> None:
        self.path, self._archive = path, archive
        self.sizes: dict[str, int] = {}
        roots = {entry.filename.partition("/")[0] for entry in archive.infolist()}
        for entry in archive.infolist():
            name = entry.filename.partition("/")[2]
            parts = name.split("/")
            if len(roots) > 1 or not name or {"", ".", ".."} & {*parts} or "\\" in name or not name.isprintable():
                raise self.error(f"its part {entry.filename!r} has a name that torch does not write")
            if name in self.sizes:
                raise self.error(f"it has two parts named {name!r}")
            if entry.compress_type != ZIP_STORED or entry.flag_bits & 1 or entry.file_size != entry.compress_size:
                raise self.error(f"its part {name!r} is compressed or encrypted; torch stores parts as they are")
            self.sizes[name] = entry.file_size
        self._root = next(iter(roots), "")

    def error(self, problem: str) -> ArchError:
        """Return the error (A0919) that the package differs from its certificate; `problem` says how."""
        hint = "export the network again; `archir export` writes packages with their certificates"
        return fail("A0919", f"{self.path} is not the package that its certificate describes: {problem}", None, hint)

    def text(self, name: str) -> bytes:
        """Read a small entry. Raises ArchError (A0919) if it is missing or larger than MAX_READ_BYTES."""
        if self.sizes.get(name, MAX_READ_BYTES + 1) > MAX_READ_BYTES:
            raise self.error(f"its part {name!r} is {'too large' if name in self.sizes else 'missing'}")
        with self._archive.open(f"{self._root}/{name}") as stream:
            return stream.read(MAX_READ_BYTES)

    def json(self, name: str) -> Any:
        """Parse a JSON entry."""
        return json.loads(self.text(name))


class _BoundedReader(BufferedReader):
    """File reader that limits the size of each read, as an untrusted archive states its directory's length."""

    def read(self, size: int | None = -1, /) -> bytes:
        """Read at most MAX_READ_BYTES bytes. Raises BadZipFile if more are requested."""
        if size is not None and size > MAX_READ_BYTES:
            raise BadZipFile(f"its directory is longer than {MAX_READ_BYTES} bytes")
        return super().read(MAX_READ_BYTES if size is None or size < 0 else size)


@contextmanager
def open_package(path: Path) -> Iterator[Package]:
    """Context manager that opens a package for inspection.

    Raises ArchError (A0919) if the file is not a torch package.
    """
    try:
        with open_regular(path) as stream, _BoundedReader(stream.raw) as bounded, ZipFile(bounded) as archive:
            yield Package(path, archive)
    except (OSError, BadZipFile, ValueError, ArithmeticError, RuntimeError, EOFError, StructError) as error:
        raise fail("A0919", f"{path} is not a torch package: {describe_error(error)}") from None


def require_matching(
    path: Path,
    form: PackageFormat,
    inputs: Mapping[str, TensorType],
    outputs: Sequence[str],
    metadata: Mapping[str, str],
) -> None:
    """Raise ArchError (A0919) unless a package has the given format, inputs, outputs and metadata.

    Nothing in the package is unpickled or run, so what it computes is not checked.
    """
    with open_package(path) as package:
        try:
            if form == "exported":
                _check_exported(package, inputs, outputs, metadata)
            else:
                _check_compiled(package, metadata)
        except (KeyError, TypeError, AttributeError, IndexError, ValueError, RecursionError):
            raise package.error("its description cannot be read") from None


def _check_exported(
    package: Package, inputs: Mapping[str, TensorType], outputs: Sequence[str], metadata: Mapping[str, str]
) -> None:
    """Check a `torch.export` package: metadata, weights (complete and not pickled), inputs, and number of outputs."""
    if package.json("extra/archir.json") != metadata:
        raise package.error("its metadata differ")
    for folder, listing in (("weights", "model_weights_config"), ("constants", "model_constants_config")):
        for name, entry in package.json(f"data/{folder}/{listing}.json")["config"].items():
            if entry["use_pickle"]:
                raise package.error(f"its weight {name!r} is pickled")
            sizes = [size["as_int"] for size in entry["tensor_meta"]["sizes"]]
            if len(sizes) > MAX_AXES or any(type(size) is not int or not 0 <= size < 2**48 for size in sizes):
                raise package.error(f"its weight {name!r} has an invalid shape")
            min_bytes = prod(sizes) * _SIZES[entry["tensor_meta"]["dtype"]]
            if package.sizes.get(f"data/{folder}/{entry['path_name']}", -1) < min_bytes:
                raise package.error(f"its weight {name!r} is missing or truncated")
    module = package.json("models/model.json")["graph_module"]
    values, signature = module["graph"]["tensor_values"], module["signature"]
    names = [
        spec["user_input"]["arg"]["as_tensor"]["name"] for spec in signature["input_specs"] if "user_input" in spec
    ]
    types = [(_DTYPES[values[name]["dtype"]], [size.get("as_int") for size in values[name]["sizes"]]) for name in names]
    if types != [(kind.dtype, [None, *kind.shape]) for kind in inputs.values()]:
        raise package.error("its inputs have other types or shapes")
    if sum("user_output" in spec for spec in signature["output_specs"]) != len(outputs):
        raise package.error(f"it does not have {len(outputs)} outputs")


def _check_compiled(package: Package, metadata: Mapping[str, str]) -> None:
    """Check that an AOTInductor package has exactly one shared library and the expected metadata."""
    folder = "data/aotinductor/model/"
    if sum(name.startswith(folder) and name.endswith(".so") for name in package.sizes) != 1:
        raise package.error("it does not have exactly one compiled network")
    descriptions = [package.json(name) for name in package.sizes if name.endswith("wrapper_metadata.json")]
    if len(descriptions) != 1 or {name: descriptions[0].get(name) for name in metadata} != metadata:
        raise package.error("its metadata differ")
