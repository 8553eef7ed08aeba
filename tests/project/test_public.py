"""What `archir` offers: annotated, documented, and with options that have names."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import fields
from typing import Any

import pytest

import archir
from archir_onnx.lowering.form import Form

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
def test_what_is_public_is_typed_and_documented(name: str) -> None:
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
    assert not [one for one in options if f"`{one}`" not in said and f"`{one}=" not in said]


RAISING = ["load", "loads", "compile", "train", "run", "resume", "export", "quantize", "bench", "measure", "score"]


@pytest.mark.parametrize("name", RAISING)
def test_errors_are_documented(name: str) -> None:
    assert "Raises ArchError" in " ".join((inspect.getdoc(CALLABLES[name]) or "").split())


def test_export_has_the_options_of_a_models_form() -> None:
    options = inspect.signature(archir.export).parameters
    for field in fields(Form):
        assert options[field.name].default == field.default, field.name
