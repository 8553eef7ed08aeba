"""What a package of torch (`.pt2`) holds, without loading it, which would run code.

A package is a zip archive that holds its parts as they are. What `archir export` writes has the network's inputs and
weights described in JSON, which can be compared with what a certificate says of them.
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

from archir.diagnostics.errors import ArchError, fail
from archir.ir.types import TensorType
from archir.utils.files import reading
from archir_torch.export.package import Form

MOST_READ = 1 << 24
"""Bytes of an archive's list of parts, and of a part that is parsed."""
MOST_AXES = 64

_DTYPES = {4: "i32", 5: "i64", 6: "f16", 7: "f32", 12: "bool", 13: "bf16"}
_SIZES = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 6: 2, 7: 4, 8: 8, 12: 1, 13: 2}
"""Torch's numbers for element types, as its packages have them."""


class Package:
    """An archive, and the names of its parts below the one folder that it has. Raises ArchError (A0919) throughout."""

    def __init__(self, path: Path, archive: ZipFile) -> None:
        self.path, self._archive = path, archive
        self.sizes: dict[str, int] = {}
        roots = {entry.filename.partition("/")[0] for entry in archive.infolist()}
        for entry in archive.infolist():
            name = entry.filename.partition("/")[2]
            parts = name.split("/")
            if len(roots) > 1 or not name or {"", ".", ".."} & {*parts} or "\\" in name or not name.isprintable():
                raise self.wrong(f"it has a part {entry.filename!r}, which torch does not write")
            if name in self.sizes:
                raise self.wrong(f"it has {name!r} twice: readers may take either")
            if entry.compress_type != ZIP_STORED or entry.flag_bits & 1 or entry.file_size != entry.compress_size:
                raise self.wrong(f"its part {name!r} is packed, which torch does not do")
            self.sizes[name] = entry.file_size
        self._root = next(iter(roots), "")

    def wrong(self, what: str) -> ArchError:
        """What is wrong with the package."""
        hint = "export the network again; `archir export` writes packages with their certificates"
        return fail("A0919", f"{self.path} is not the package that its certificate describes: {what}", None, hint)

    def text(self, name: str) -> bytes:
        """A part that is small."""
        if self.sizes.get(name, MOST_READ + 1) > MOST_READ:
            raise self.wrong(f"its part {name!r} is {'too large' if name in self.sizes else 'missing'}")
        with self._archive.open(f"{self._root}/{name}") as stream:
            return stream.read(MOST_READ)

    def json(self, name: str) -> Any:
        """A part that is JSON."""
        return json.loads(self.text(name))


class _Bounded(BufferedReader):
    """A file of which at most a little is read at once: an archive says itself how much its list of parts is."""

    def read(self, size: int | None = -1, /) -> bytes:
        if size is not None and size > MOST_READ:
            raise BadZipFile("it says that its list of parts is very long")
        return super().read(MOST_READ if size is None or size < 0 else size)


@contextmanager
def opened(path: Path) -> Iterator[Package]:
    """A package, to be looked at. Raises ArchError (A0919) for what is none."""
    try:
        with reading(path) as stream, _Bounded(stream.raw) as bounded, ZipFile(bounded) as archive:
            yield Package(path, archive)
    except (OSError, BadZipFile, ValueError, ArithmeticError, RuntimeError, EOFError, StructError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise fail("A0919", f"{path} is no package of torch: {reason}") from None


def require_as_described(
    path: Path,
    form: Form,
    inputs: Mapping[str, TensorType],
    outputs: Sequence[str],
    metadata: Mapping[str, str],
) -> None:
    """Raise ArchError (A0919) unless a package is one of this form, with these inputs, outputs and metadata.

    Nothing of it is unpickled or run. Of what it computes, nothing is known then.
    """
    with opened(path) as package:
        try:
            if form == "exported":
                _exported(package, inputs, outputs, metadata)
            else:
                _compiled(package, metadata)
        except (KeyError, TypeError, AttributeError, IndexError, ValueError, RecursionError):
            raise package.wrong("its description cannot be read") from None


def _exported(
    package: Package, inputs: Mapping[str, TensorType], outputs: Sequence[str], metadata: Mapping[str, str]
) -> None:
    if package.json("extra/archir.json") != metadata:
        raise package.wrong("it says something else of itself")
    for folder, listing in (("weights", "model_weights_config"), ("constants", "model_constants_config")):
        for name, entry in package.json(f"data/{folder}/{listing}.json")["config"].items():
            if entry["use_pickle"]:
                raise package.wrong(f"its weight {name!r} is pickled")
            sizes = [size["as_int"] for size in entry["tensor_meta"]["sizes"]]
            if len(sizes) > MOST_AXES or any(type(size) is not int or not 0 <= size < 2**48 for size in sizes):
                raise package.wrong(f"its weight {name!r} has a shape that no tensor has")
            wanted = prod(sizes) * _SIZES[entry["tensor_meta"]["dtype"]]
            if package.sizes.get(f"data/{folder}/{entry['path_name']}", -1) < wanted:
                raise package.wrong(f"its weight {name!r} is not there, or is cut")
    module = package.json("models/model.json")["graph_module"]
    values, signature = module["graph"]["tensor_values"], module["signature"]
    names = [one["user_input"]["arg"]["as_tensor"]["name"] for one in signature["input_specs"] if "user_input" in one]
    found = [(_DTYPES[values[name]["dtype"]], [size.get("as_int") for size in values[name]["sizes"]]) for name in names]
    if found != [(kind.dtype, [None, *kind.shape]) for kind in inputs.values()]:
        raise package.wrong("its inputs are others")
    if sum("user_output" in one for one in signature["output_specs"]) != len(outputs):
        raise package.wrong("its outputs are others")


def _compiled(package: Package, metadata: Mapping[str, str]) -> None:
    folder = "data/aotinductor/model/"
    if sum(name.startswith(folder) and name.endswith(".so") for name in package.sizes) != 1:
        raise package.wrong("it has not one compiled network")
    said = [package.json(name) for name in package.sizes if name.endswith("wrapper_metadata.json")]
    if len(said) != 1 or {name: said[0].get(name) for name in metadata} != metadata:
        raise package.wrong("it says something else of itself")
