"""The import layers: data flows one way, and torch and onnx stay in their backends."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import networkx as nx
import pytest

from tests.conftest import EXAMPLES, ROOT

LAYERS = [
    {"errors", "files", "types", "cases", "explain"},
    {"ir", "syntax"},
    {"ops"},
    {"build", "passes"},
    {"backends"},
    {"search"},
    {"api"},
    {"cli"},
]
"""Lowest first; a module imports from its own layer and those below."""

FRAMEWORKS = {"torch", "onnx", "onnxruntime", "safetensors", "archir_torch", "archir_onnx"}


def modules(package: Path) -> list[Path]:
    return sorted(package.rglob("*.py"))


def imported(path: Path, top_level_only: bool = False) -> set[str]:
    """Names of modules that a file imports."""
    tree = ast.parse(path.read_text())
    checking = {
        n
        for i in ast.walk(tree)
        if isinstance(i, ast.If) and "TYPE_CHECKING" in ast.unparse(i.test)
        for n in ast.walk(i)
    }
    nodes = tree.body if top_level_only else list(ast.walk(tree))
    found: set[str] = set()
    for node in nodes:
        if node in checking:
            continue
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
    return found


def layer(part: str) -> int | None:
    return next((i for i, names in enumerate(LAYERS) if part in names), None)


@pytest.mark.parametrize("path", modules(ROOT / "archir"), ids=lambda path: str(path.relative_to(ROOT)))
def test_archir_imports_downwards(path: Path) -> None:
    part = path.relative_to(ROOT / "archir").parts[0].removesuffix(".py")
    if part in ("__init__", "__main__"):
        return
    own = layer(part)
    assert own is not None, f"{part} has no layer: add it to LAYERS"
    for name in imported(path):
        first, *rest = name.split(".")
        if first == "archir" and rest and layer(rest[0]) is not None:
            assert (layer(rest[0]) or 0) <= own, f"{path.name} imports {name}, which is above it"


@pytest.mark.parametrize("path", modules(ROOT / "archir"), ids=lambda path: str(path.relative_to(ROOT)))
def test_archir_imports_no_framework_by_name(path: Path) -> None:
    assert not {name.split(".")[0] for name in imported(path)} & FRAMEWORKS


@pytest.mark.parametrize("name", ["archir_torch", "archir_onnx"])
def test_backends_know_neither_the_command_line_nor_each_other(name: str) -> None:
    other = {"archir_torch": "archir_onnx", "archir_onnx": "archir_torch"}[name]
    for path in modules(ROOT / "backends" / name):
        names = imported(path)
        assert not any(one.startswith(("archir.cli", "archir.api", other)) for one in names), path


def test_modules_do_not_import_each_other_in_rings() -> None:
    graph: nx.DiGraph[str] = nx.DiGraph()
    for package in (ROOT / "archir", ROOT / "backends" / "archir_torch", ROOT / "backends" / "archir_onnx"):
        names = {
            ".".join(p.relative_to(package.parent).with_suffix("").parts).removesuffix(".__init__"): p
            for p in modules(package)
        }
        for name, path in names.items():
            found = {other for other in imported(path, top_level_only=True) if other in names and other != name}
            packages = {other.rpartition(".")[0] for other in found}  # `from package import module` reads the module
            graph.add_edges_from((name, other) for other in found - packages)
    rings = [sorted(ring) for ring in nx.strongly_connected_components(graph) if len(ring) > 1]
    assert not rings


@pytest.mark.parametrize("command", ["check", "show", "count", "sample", "cost"])
def test_light_commands_load_no_framework(command: str, tmp_path: Path) -> None:
    file = EXAMPLES / ("resnet50.arch" if command == "cost" else "full_attention/full_attention.arch")
    program = (
        "import sys\nfrom archir.cli import main\n"
        f"try:\n    main([{command!r}, {str(file)!r}], prog_name='archir')\n"
        "except SystemExit as end:\n    assert not end.code, end.code\n"
        "print(sorted({'torch', 'onnx', 'onnxruntime'} & set(sys.modules)), file=sys.stderr)\n"
    )
    paths = [str(ROOT), str(ROOT / "backends"), str(ROOT / "grammar")]
    run = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={"PYTHONPATH": ":".join(paths)},
    )
    assert run.returncode == 0, run.stderr
    assert run.stderr.strip() == "[]"
