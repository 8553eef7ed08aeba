"""Import layers: modules import only lower layers, and torch and onnx stay in their backends."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import networkx as nx
import pytest

from tests.conftest import EXAMPLES, ROOT

PACKAGES = (
    "diagnostics", "utils", "plugins", "diagrams", "ir", "ops", "passes", "equivalence", "language", "costs", "spaces",
    "search", "pages", "pictures", "runs", "backends", "data", "tabular", "recipes", "scoring", "reuse", "linting",
    "api",
)  # fmt: skip
LAYERS = [*({name} for name in PACKAGES), {"tools", "studies"}, {"cli"}]
"""The packages of archir, lowest first; a module imports from its own and those below."""

BACKENDS = {
    "archir_onnx": [{"files"}, {"lowering", "running", "reading"}, {"verification", "measuring"}, {"quantization"}],
    "archir_torch": [
        {"lowering"},
        {"importing"},
        {"data", "supernet"},
        {"augmentation"},
        {"training"},
        {"objectives", "proxies"},
        {"reuse", "search", "strategies"},
        {"export", "measuring"},
    ],
}
"""The packages of each backend, lowest first."""

FRAMEWORKS = {"torch", "onnx", "onnxruntime", "safetensors", "archir_torch", "archir_onnx"}


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


@cache
def imported(path: Path, types: bool = True) -> frozenset[str]:
    """Names of modules that a file imports, by default also those for type checkers alone.

    `from package import module` reads the module, not the package.
    """
    found: set[str] = set()
    left: list[ast.AST] = [parsed(path)]
    while left:
        node = left.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test) and not types:
            left += node.orelse
        elif isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {name if name in MODULES or node.module == "archir" else node.module for name in inner}
        elif not isinstance(node, ast.expr):
            left += ast.iter_child_nodes(node)
    return frozenset(found)


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def layer(part: str, layers: list[set[str]] = LAYERS) -> int | None:
    return next((i for i, names in enumerate(layers) if part in names), None)


def upwards(package: Path, layers: list[set[str]]) -> Iterator[str]:
    """What the modules of a package import that is above them, or has no layer."""
    for path in modules(package):
        part = path.relative_to(package).parts[0].removesuffix(".py")
        if part in ("__init__", "__main__"):
            continue
        own = layer(part, layers)
        if own is None:
            yield f"{package.name}/{part} has no layer: add it to LAYERS or BACKENDS"
            continue
        for name in imported(path):
            first, *rest = name.split(".")
            if first == package.name and rest != ["__version__"]:
                other = layer(rest[0], layers) if rest else None
                if other is None:
                    yield f"{path} imports {name}, which has no layer: what it needs has a module"
                elif other > own:
                    yield f"{path} imports {name}, which is above it"


def test_archir_imports_downwards() -> None:
    assert [*upwards(ROOT / "archir", LAYERS)] == []


def test_archir_imports_no_framework_by_name() -> None:
    found = {
        path: {name.split(".")[0] for name in imported(path, types=False)} & FRAMEWORKS
        for path in modules(ROOT / "archir")
    }
    assert {path: names for path, names in found.items() if names} == {}


@pytest.mark.parametrize("name", ["archir_torch", "archir_onnx"])
def test_backends_know_neither_the_command_line_nor_each_other(name: str) -> None:
    other = {"archir_torch": "archir_onnx", "archir_onnx": "archir_torch"}[name]
    for path in modules(ROOT / "backends" / name):
        names = imported(path)
        assert not any(one.startswith(("archir.cli", "archir.api", other)) for one in names), path


@pytest.mark.parametrize("name", sorted(BACKENDS))
def test_backends_import_downwards(name: str) -> None:
    assert [*upwards(ROOT / "backends" / name, BACKENDS[name])] == []


def loaded(name: str) -> set[str]:
    """The modules that a module needs: those that it imports, and the packages that they are in and it is not."""
    found = imported(MODULES[name]) & MODULES.keys() - {name}
    if "import_all(__name__)" in MODULES[name].read_text().splitlines():  # when it is imported, not in a function
        found |= {one for one in MODULES if one.startswith(f"{name}.")}
    packages = {one.rsplit(".", up)[0] for one in found for up in range(1, one.count(".") + 1)}
    return found | {one for one in packages & MODULES.keys() if not f"{name}.".startswith(f"{one}.")}


def test_modules_do_not_import_each_other_in_rings() -> None:
    """Neither when they are loaded nor inside functions nor for type checkers.

    archir's own modules name types of the backends, which import archir; these edges do not count.
    """
    graph: nx.DiGraph[str] = nx.DiGraph()
    for name in MODULES:
        graph.add_edges_from(
            (name, other) for other in loaded(name) if name.startswith("archir_") or not other.startswith("archir_")
        )
    rings = [sorted(ring) for ring in nx.strongly_connected_components(graph) if len(ring) > 1]
    assert not rings


@pytest.mark.parametrize("folder", ["archir", "backends", "grammar", "examples", "benchmarks"])
def test_nothing_is_unpickled_or_evaluated(folder: str) -> None:
    for path in modules(ROOT / folder):
        assert not {name.split(".")[0] for name in imported(path)} & FORBIDDEN, path
        calls = [node.func for node in ast.walk(parsed(path)) if isinstance(node, ast.Call)]
        assert not [call.id for call in calls if isinstance(call, ast.Name) and call.id in ("eval", "exec")], path


SLOW_TO_IMPORT = {"networkx", "numpy", "pydantic"}
"""Together they take as long as a short command; what uses them imports them when it does."""


def run_alone(program: str, cwd: Path) -> str:
    """What a program says on stderr, in a fresh interpreter: `loaded(names)` says which of these it has imported."""
    paths = os.pathsep.join(str(path) for path in (ROOT, ROOT / "backends", ROOT / "grammar"))
    begin = "import sys\ndef loaded(names):\n    print(sorted(names & set(sys.modules)), file=sys.stderr)\n"
    run = subprocess.run(
        [sys.executable, "-c", begin + program], capture_output=True, text=True, cwd=cwd, env={"PYTHONPATH": paths}
    )
    assert run.returncode == 0, run.stderr
    return run.stderr


def test_importing_archir_loads_no_framework(tmp_path: Path) -> None:
    program = f"import archir, archir.api\nloaded({FRAMEWORKS | SLOW_TO_IMPORT})\n"
    program += f"import archir.spaces.space, archir.runs\nloaded({FRAMEWORKS})\n"
    assert run_alone(program, tmp_path) == "[]\n[]\n"


def test_onnx_sandbox_imports_no_slow_modules(tmp_path: Path) -> None:
    assert (
        run_alone(f"import archir_onnx.verification.sandbox\nloaded({SLOW_TO_IMPORT - {'numpy'}})\n", tmp_path)
        == "[]\n"
    )


def test_light_commands_load_no_framework(tmp_path: Path) -> None:
    program = "from archir.cli import main\n"
    for command in ("--help", "check", "show", "count", "sample", "cost"):
        file = EXAMPLES / ("resnet50.arch" if command == "cost" else "full_attention/full_attention.arch")
        none = FRAMEWORKS | SLOW_TO_IMPORT if command in ("--help", "check") else FRAMEWORKS
        program += (
            f"try:\n    main([{command!r}, {str(file)!r}], prog_name='archir')\n"
            f"except SystemExit as end:\n    assert not end.code, end.code\nloaded({none})\n"
        )
    assert run_alone(program, tmp_path) == "[]\n" * 6


def imported_modules(folder: Path, *arguments: str) -> int:
    """Return how many of archir's modules a command imports."""
    program = (
        "from archir.cli import main\n"
        f"try:\n    main({list(arguments)!r}, prog_name='archir')\n"
        "except SystemExit as end:\n    assert not end.code, end.code\n"
        "print(sum(name.split('.')[0].startswith('archir') for name in sys.modules), file=sys.stderr)\n"
    )
    return int(run_alone(program, folder).splitlines()[-1])


def test_compile_imports_at_most_200_modules(tmp_path: Path) -> None:
    """There were 452 before methods imported what only they need, and registries the module of the name."""
    (tmp_path / "net.arch").write_text("net n { input x: f32[3, 8, 8]\n output y = x |> conv(4) |> relu }")
    assert imported_modules(tmp_path, "compile", "net.arch", "-o", "net.onnx") <= 200


def test_registries_find_all_entries_of_archir(tmp_path: Path) -> None:
    """Where the modules that register entries are not among a registry's packages, a name works only sometimes."""
    program = (
        "from importlib import import_module\n"
        "from archir.plugins import registry\n"
        "import archir.data.sources, archir_onnx, archir_torch.objectives, archir_torch.proxies, archir_torch.reuse\n"
        "import archir_torch.search.job\n"
        "before = {each.kind: set(map(registry.key_name, each)) for each in registry.REGISTRIES}\n"
        "for package in ('archir.data', 'archir.search', 'archir_torch', 'archir_onnx'):\n"
        "    registry.import_all(package)\n"
        "after = {each.kind: set(map(registry.key_name, each)) for each in registry.REGISTRIES}\n"
        "print({kind: after[kind] - before[kind] for kind in before if after[kind] != before[kind]}, file=sys.stderr)\n"
    )
    assert run_alone(program, tmp_path).splitlines()[-1] == "{}"


SPACE = """
net tiny() {
    input image: f32[1, 8, 8]
    x = image |> choose op { near: conv(4), far: conv(4, dilation=2), none: identity }
    output logits = x |> global_avg_pool |> linear(10)
}
"""
PHASE = """
[[phase]]
strategy = "{0}"
name = "{0}"
training = {{ epochs = 1, batch = 256 }}
weights = {{ kind = "sgd", lr = 0.1 }}
"""
SEARCHES = {
    "shared weights": (
        PHASE.format("spos")
        + '[[phase]]\nname = "try"\nstrategy = "evolution"\nstart = { weights = "spos" }\noptions = { trials = 4 }\n',
        350,
    ),
    "architecture parameters": (
        PHASE.format("darts")
        + 'alphas = { kind = "adam", lr = 3e-3 }\n'
        + PHASE.format("train")
        + 'start = { architecture = "darts" }\n',
        375,
    ),
}
"""Phases of searches, and how many modules of archir they may import: 25 more write the found network as a program."""


@pytest.mark.parametrize(("phases", "most"), SEARCHES.values(), ids=SEARCHES)
def test_search_imports_few_modules(phases: str, most: int, tmp_path: Path) -> None:
    """There were 589 before; the second search exports its network, too."""
    (tmp_path / "space.arch").write_text(SPACE)
    (tmp_path / "recipe.toml").write_text(f'space = "space.arch"\nthreads = 1\n[data]\nsource = "digits"\n{phases}')
    assert imported_modules(tmp_path, "search", "recipe.toml", "-o", "run", "--device", "cpu") <= most
