"""The public API is typed, and documented with arguments, returns, errors and an example that runs."""

from __future__ import annotations

import ast
import doctest
import inspect
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import MISSING, fields
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import archir
from archir.diagnostics.explain import codes
from archir_onnx.lowering.export_options import ExportOptions
from tests.conftest import ROOT
from tests.documents import snippets, unpack
from tests.soak import with_soak

REFERENCE = ROOT / "docs" / "api.md"


def public() -> Iterator[tuple[str, Callable[..., Any]]]:
    for name in archir.__all__:
        found = getattr(archir, name)
        if inspect.isclass(found):
            for method, member in vars(found).items():
                if not method.startswith("_") and inspect.isfunction(member):
                    yield f"{name}.{method}", member
        elif callable(found):
            yield name, found


CALLABLES = dict(public())


@pytest.mark.parametrize("name", CALLABLES)
def test_public_callables_are_typed_and_documented(name: str) -> None:
    found = CALLABLES[name]
    signature = inspect.signature(found)
    own = [one for one in signature.parameters.values() if one.name != "self"]
    assert signature.return_annotation is not inspect.Signature.empty
    assert all(one.annotation is not inspect.Parameter.empty for one in own)
    assert not [one for one in own if one.kind is one.VAR_KEYWORD and one.name != "parameters"]
    assert inspect.getdoc(found)


def referenced() -> list[str]:
    """The names on the pages of the reference."""
    pages = [path.read_text("utf-8") for path in sorted((ROOT / "docs" / "api").glob("*.md"))]
    return [name for page in pages for name in re.findall(r"^\.\. auto\w+:: (?:archir\.)?([\w.]+)", page, re.MULTILINE)]


FUNCTIONS = [name for name in referenced() if name[0].islower()]
WITHOUT_EXAMPLE = {"nevergrad.parametrization"}
"""They need a package that the tests do not install."""
SLOW_EXAMPLES = {
    "exact_front", "from_onnx", "latency_model", "LatencyModel", "bench", "quantize", "resume", "shrink", "train",
    "specialize", "trials", "validate",
}  # fmt: skip
"""Examples that train or measure for seconds, which other tests do as well."""


def public_object(name: str) -> Any:
    found: Any = archir
    for part in name.split("."):
        found = getattr(found, part)
    return found


def sections(name: str) -> dict[str, str]:
    """The sections of a docstring by title; the text before them has the title ""."""
    parts = re.split(
        r"^(Args|Returns|Raises|Examples):\n", inspect.getdoc(public_object(name)) or "", flags=re.MULTILINE
    )
    return {"": parts[0], **dict(zip(parts[1::2], parts[2::2], strict=True))}


def test_every_public_name_is_in_the_reference_once() -> None:
    modules = {name for name in archir.__all__ if inspect.ismodule(getattr(archir, name))}
    listed = [name for name in referenced() if name.partition(".")[0] not in modules]
    assert sorted(listed) == sorted(set(archir.__all__) - modules - {"__version__"})
    tables = re.findall(r"^   (?:archir\.)?([\w.]+)$", REFERENCE.read_text("utf-8"), re.MULTILINE)
    assert sorted(tables) == sorted(referenced())


@pytest.mark.parametrize("name", FUNCTIONS)
def test_arguments_and_returns_are_documented(name: str) -> None:
    signature, said = inspect.signature(public_object(name)), sections(name)
    names = {one.name for one in signature.parameters.values()}
    assert set(re.findall(r"^    \**(\w+): ", said.get("Args", ""), re.MULTILINE)) == names
    assert ("Returns" in said) == (signature.return_annotation != "None")


RAISING = [
    "load",
    "loads",
    "compile",
    "train",
    "run",
    "resume",
    "export",
    "quantize",
    "bench",
    "measure_operations",
    "score",
]


@pytest.mark.parametrize("name", RAISING)
def test_errors_are_documented(name: str) -> None:
    assert "ArchError: " in sections(name)["Raises"]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_documented_codes_exist(name: str) -> None:
    assert set(re.findall(r"\bA\d{4}\b", sections(name).get("Raises", ""))) <= set(codes())


EXAMPLES = [name for name in referenced() if name not in WITHOUT_EXAMPLE]


@pytest.mark.parametrize("name", with_soak(EXAMPLES, [name for name in EXAMPLES if name not in SLOW_EXAMPLES]))
def test_examples_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    unpack(REFERENCE, tmp_path)
    monkeypatch.chdir(tmp_path)
    first = [f">>> {line}" for line in snippets(REFERENCE, "python")[0].text.splitlines() if line]
    text = "\n".join([*first, inspect.cleandoc(sections(name)["Examples"])])
    example = doctest.DocTestParser().get_doctest(text, {}, name, None, None)
    assert len(example.examples) > len(first)
    said: list[str] = []
    doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(example, out=said.append)
    assert not said, "".join(said)


def test_export_has_all_export_options() -> None:
    options = inspect.signature(archir.export).parameters
    for field in fields(ExportOptions):
        default = None if field.default is MISSING else field.default
        assert options[field.name].default == default, field.name


def test_lazy_names_equal_star_imports() -> None:
    """They read the star imports; `archir` looks names up in the same modules."""
    tree = ast.parse(Path(archir.__file__).read_text())
    stars = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.names[0].name == "*"]
    homes = [import_module(node.module or "") for node in stars]
    seen = {name: getattr(home, name) for home in homes for name in home.__all__}
    assert len(seen) == sum(len(home.__all__) for home in homes) > 30
    assert dir(archir) == archir.__all__ == sorted([*seen, "__version__"])
    assert all(getattr(archir, name) is found for name, found in seen.items())
    with pytest.raises(AttributeError, match="no attribute 'nothing_of_the_kind'"):
        archir.nothing_of_the_kind  # noqa: B018


LAZY = """
import sys, archir
assert "networkx" not in sys.modules
from archir import backends
assert "archir.api" not in sys.modules, "a package was asked for, and all names were loaded"
archir.load
assert "archir.spaces.space" not in sys.modules, "classes are loaded when they are asked for"
assert not {"torch", "onnx"} & set(sys.modules)
"""


def test_names_are_loaded_when_they_are_asked_for() -> None:
    done = subprocess.run([sys.executable, "-c", LAZY], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
