"""Scripts that no test runs: what they import from archir exists."""

from __future__ import annotations

import ast
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.conftest import ROOT

SCRIPTS = sorted(path for folder in ("benchmarks", "tools", "docs") for path in (ROOT / folder).glob("*.py"))


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_script_imports_names_that_exist(script: Path) -> None:
    for node in ast.walk(ast.parse(script.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in (
            "archir", "archir_torch", "archir_onnx", "archir_grammar", "tests",
        ):  # fmt: skip
            module = import_module(node.module or "")
            missing = [
                alias.name
                for alias in node.names
                if not hasattr(module, alias.name) and find_spec(f"{node.module}.{alias.name}") is None
            ]
            assert missing == [], f"{node.module} has no {missing}"
