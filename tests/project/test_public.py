"""The public API is typed, documented, and has documented keyword options."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import MISSING, fields
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import archir
from archir_onnx.lowering.export_options import ExportOptions
from tests.conftest import ROOT

PLAIN = {"path", "graph", "space", "text", "name", "root", "limits", "parameters", "one", "other", "module", "model"}
"""Parameters that their names and types explain."""


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


@pytest.mark.parametrize("name", [name for name in CALLABLES if "." not in name])
def test_options_are_explained(name: str) -> None:
    said = inspect.getdoc(CALLABLES[name]) or ""
    known = inspect.signature(CALLABLES[name]).parameters.values()
    options = {one.name for one in known if one.kind is one.KEYWORD_ONLY} - PLAIN
    assert not [one for one in options if f"`{one}`" not in said and f"`{one}=" not in said and f"`{one}(" not in said]


RAISING = ["load", "loads", "compile", "train", "run", "resume", "export", "quantize", "bench", "measure", "score"]


@pytest.mark.parametrize("name", RAISING)
def test_errors_are_documented(name: str) -> None:
    assert "Raises ArchError" in " ".join((inspect.getdoc(CALLABLES[name]) or "").split())


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


def test_the_page_on_python_has_every_name() -> None:
    page = (ROOT / "docs" / "python.md").read_text("utf-8")
    assert not [name for name in archir.__all__ if name != "__version__" and f"`archir.{name}" not in page]


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
