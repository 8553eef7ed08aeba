"""The import layers: data flows one way, and torch and onnx stay in their backends."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import networkx as nx
import pytest

from tests.conftest import EXAMPLES, ROOT

ROOMS = ("base", "ir", "ops", "passes", "language", "costs", "pictures", "backends", "search", "api", "cli")
LAYERS = [{name} for name in ROOMS]
"""The rooms of archir, lowest first; a module imports from its own and those below."""

BACKENDS = {
    "archir_onnx": [{"files"}, {"lowering", "running", "reading"}, {"verification", "measuring"}, {"int8"}],
    "archir_torch": [
        {"lowering"},
        {"importing"},
        {"data", "supernet"},
        {"training"},
        {"objectives"},
        {"search"},
        {"export", "measuring"},
    ],
}
"""The rooms of each backend, lowest first."""

MOST_ENTRIES = 14
"""What a folder holds at most: more is not taken in at a look."""
ROOMY = {
    "archir/base/codes": 300,  # a page per diagnostic
    "backends/archir_torch": 11,
}
"""Folders that hold more, or less, and what they may hold."""

FRAMEWORKS = {"torch", "onnx", "onnxruntime", "safetensors", "archir_torch", "archir_onnx"}


LATER = [("archir.base.errors", "archir.base.work")]
"""What is imported inside a function, and imports what imports it: a comment there says why."""

FORBIDDEN = {"pickle", "marshal", "shelve", "dill", "yaml"}
"""Formats whose reading runs code."""


def modules(package: Path) -> list[Path]:
    return sorted(package.rglob("*.py"))


MODULES = {
    ".".join(path.relative_to(package.parent).with_suffix("").parts).removesuffix(".__init__"): path
    for package in (ROOT / "archir", *(ROOT / "backends").glob("archir_*"), *(ROOT / "grammar").glob("archir_*"))
    for path in modules(package)
}
"""Every module that is shipped."""


def imported(path: Path, top_level_only: bool = False) -> set[str]:
    """Names of modules that a file imports: `from package import module` reads the module, not the package."""
    found: set[str] = set()
    left: list[ast.AST] = [ast.parse(path.read_text())]
    while left:
        node = left.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            left += node.orelse
        elif isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {name if name in MODULES or node.module == "archir" else node.module for name in inner}
        elif not (top_level_only and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)):
            left += ast.iter_child_nodes(node)
    return found


def layer(part: str, layers: list[set[str]] = LAYERS) -> int | None:
    return next((i for i, names in enumerate(layers) if part in names), None)


@pytest.mark.parametrize("path", modules(ROOT / "archir"), ids=lambda path: str(path.relative_to(ROOT)))
def test_archir_imports_downwards(path: Path) -> None:
    part = path.relative_to(ROOT / "archir").parts[0].removesuffix(".py")
    if part in ("__init__", "__main__"):
        return
    own = layer(part)
    assert own is not None, f"{part} has no layer: add it to LAYERS"
    for name in imported(path):
        first, *rest = name.split(".")
        if first == "archir" and rest != ["__version__"]:
            other = layer(rest[0]) if rest else None
            assert other is not None, f"{path.name} imports {name}, which has no layer: what it needs has a module"
            assert other <= own, f"{path.name} imports {name}, which is above it"


@pytest.mark.parametrize("path", modules(ROOT / "archir"), ids=lambda path: str(path.relative_to(ROOT)))
def test_archir_imports_no_framework_by_name(path: Path) -> None:
    assert not {name.split(".")[0] for name in imported(path)} & FRAMEWORKS


@pytest.mark.parametrize("name", ["archir_torch", "archir_onnx"])
def test_backends_know_neither_the_command_line_nor_each_other(name: str) -> None:
    other = {"archir_torch": "archir_onnx", "archir_onnx": "archir_torch"}[name]
    for path in modules(ROOT / "backends" / name):
        names = imported(path)
        assert not any(one.startswith(("archir.cli", "archir.api", other)) for one in names), path


@pytest.mark.parametrize("name", sorted(BACKENDS))
def test_backends_import_downwards(name: str) -> None:
    for path in modules(ROOT / "backends" / name):
        part = path.relative_to(ROOT / "backends" / name).parts[0].removesuffix(".py")
        if part == "__init__":
            continue
        own = layer(part, BACKENDS[name])
        assert own is not None, f"{name}/{part} has no layer: add it to BACKENDS"
        for one in imported(path):
            first, *rest = one.split(".")
            if first == name:
                other = layer(rest[0], BACKENDS[name]) if rest else None
                assert other is not None, f"{path} imports {one}, which has no layer"
                assert other <= own, f"{path} imports {one}, which is above it"


def written(folder: Path) -> list[Path]:
    """The files of a folder that somebody wrote."""
    return [one for one in folder.rglob("*") if one.is_file() and "__pycache__" not in one.parts]


def folders() -> list[Path]:
    found = [ROOT / "archir", ROOT / "backends", ROOT / "grammar"]
    return [one for root in found for one in (root, *root.rglob("*")) if one.is_dir() and one.name != "__pycache__"]


@pytest.mark.parametrize("folder", folders(), ids=lambda folder: str(folder.relative_to(ROOT)))
def test_folders_are_taken_in_at_a_look(folder: Path) -> None:
    entries = [one for one in folder.iterdir() if one.is_file() or any(written(one))]
    assert len(entries) <= ROOMY.get(str(folder.relative_to(ROOT)), MOST_ENTRIES)


def loaded(name: str) -> set[str]:
    """The modules that a module needs: those that it imports, and the packages that they are in and it is not."""
    found = imported(MODULES[name]) & MODULES.keys() - {name}
    if "import_all(__name__)" in MODULES[name].read_text().splitlines():  # when it is imported, not in a function
        found |= {one for one in MODULES if one.startswith(f"{name}.")}
    packages = {one.rsplit(".", up)[0] for one in found for up in range(1, one.count(".") + 1)}
    return found | {one for one in packages & MODULES.keys() if not f"{name}.".startswith(f"{one}.")}


def test_modules_do_not_import_each_other_in_rings() -> None:
    """Neither when they are loaded nor later, inside functions."""
    graph: nx.DiGraph[str] = nx.DiGraph()
    for name in MODULES:
        graph.add_edges_from((name, other) for other in loaded(name))
    graph.remove_edges_from(LATER)
    rings = [sorted(ring) for ring in nx.strongly_connected_components(graph) if len(ring) > 1]
    assert not rings


@pytest.mark.parametrize("folder", ["archir", "backends", "grammar", "examples", "benchmarks"])
def test_nothing_is_unpickled_or_evaluated(folder: str) -> None:
    for path in modules(ROOT / folder):
        assert not {name.split(".")[0] for name in imported(path)} & FORBIDDEN, path
        calls = [node.func for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
        assert not {call.id for call in calls if isinstance(call, ast.Name)} & {"eval", "exec"}, path


FRAMEWORKS = {"torch", "onnx", "onnxruntime"}
SLOW_TO_IMPORT = {"networkx", "pydantic"}
"""Together a third of what a short command takes; what uses them imports them when it does."""


def run_alone(program: str, cwd: Path, looked_for: set[str] = FRAMEWORKS) -> str:
    """What a program says on stderr at last: which of these a fresh interpreter has loaded by then."""
    program += f"print(sorted({looked_for} & set(sys.modules)), file=sys.stderr)\n"
    paths = os.pathsep.join(str(path) for path in (ROOT, ROOT / "backends", ROOT / "grammar"))
    run = subprocess.run(
        [sys.executable, "-c", "import sys\n" + program],
        capture_output=True,
        text=True,
        cwd=cwd,
        env={"PYTHONPATH": paths},
    )
    assert run.returncode == 0, run.stderr
    return run.stderr.strip()


def test_importing_archir_loads_no_framework(tmp_path: Path) -> None:
    assert run_alone("import archir\n", tmp_path) == "[]"
    assert run_alone("import archir.api, archir.search.spaces.space, archir.search.runs\n", tmp_path) == "[]"
    assert run_alone("import archir.api\n", tmp_path, SLOW_TO_IMPORT) == "[]"
    assert run_alone("import archir_onnx.verification.sandbox\n", tmp_path, SLOW_TO_IMPORT) == "[]"


@pytest.mark.parametrize("command", ["check", "show", "count", "sample", "cost"])
def test_light_commands_load_no_framework(command: str, tmp_path: Path) -> None:
    file = EXAMPLES / ("resnet50.arch" if command == "cost" else "full_attention/full_attention.arch")
    program = (
        "from archir.cli import main\n"
        f"try:\n    main([{command!r}, {str(file)!r}], prog_name='archir')\n"
        "except SystemExit as end:\n    assert not end.code, end.code\n"
    )
    assert run_alone(program, tmp_path, FRAMEWORKS | (SLOW_TO_IMPORT if command == "check" else set())) == "[]"
