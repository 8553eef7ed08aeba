"""Plugins are imported only when named, and their errors have a place in the source."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from archir.cli import main
from archir.diagnostics.errors import ArchError
from archir.ir.op import OPS
from archir.plugins import installed, loading
from archir.plugins.registry import Registry
from tests.plugins import forgotten

OPERATION = """\
from dataclasses import dataclass

from archir.ir.op import Free
from archir.ir.types import TensorType


@dataclass(frozen=True)
class Quadruple(Free):
    def infer(self, x: TensorType) -> TensorType:
        return x
"""
PROGRAM = """\
net tiny {
    input image: f32[1, 8, 8]
    output y = image |> quadruple
}
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    with forgotten(tmp_path):
        yield tmp_path


def run(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(main, list(arguments))
    return done.exit_code, done.output


@pytest.mark.parametrize("where", [".", "beside"])
@pytest.mark.parametrize("flag", [["--plugin", "fourfold"], ["--plugin=fourfold"]])
@pytest.mark.parametrize("first", [True, False])
def test_plugin_flag_before_or_after_command_loads_module(
    folder: Path, where: str, flag: list[str], first: bool
) -> None:
    """In the current folder, and beside the program."""
    (folder / where).mkdir(exist_ok=True)
    (folder / where / "fourfold.py").write_text(OPERATION)
    (folder / "beside").mkdir(exist_ok=True)
    (folder / "beside" / "net.arch").write_text(PROGRAM)
    words = ["check", "beside/net.arch:tiny"]
    code, said = run(*flag, *words) if first else run(*words, *flag)
    assert code == 0, said
    assert loading.loaded().keys() == {"fourfold"}


def test_plugin_flag_requires_a_module(folder: Path) -> None:
    code, said = run("explain", "A0101", "--plugin")
    assert (code, "Option '--plugin' requires an argument" in said) == (2, True)
    assert "A3101" in run("explain", "--plugin", "A0101")[1]


def test_unnamed_plugin_is_suggested_but_not_imported(folder: Path) -> None:
    (folder / "fourfold.py").write_text(OPERATION)
    (folder / "net.arch").write_text(PROGRAM)
    code, said = run("check", "net.arch")
    assert code == 1
    assert "A0201" in said
    assert "`fourfold.py` defines it: name the plugin, `--plugin fourfold`" in said
    assert not loading.loaded()
    assert "quadruple" not in OPS


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "import not_there_at_all\n",
            "mine.py:1:1: error[A3102]: the plugin `mine` cannot be imported: ModuleNotFound",
        ),
        ("x = [1,\n", "mine.py:1:5: error[A3102]: the plugin `mine` cannot be imported: SyntaxError"),
        ("def f():\n    return 1 / 0\n\n\nf()\n", "mine.py:2:12: error[A3102]"),
        ("raise SystemExit(3)\n", "mine.py:1:1: error[A3102]: the plugin `mine` cannot be imported: SystemExit: 3"),
        (
            OPERATION.replace("Quadruple", "Relu"),
            "mine.py:8:1: error[A3103]: two operations are named `relu`: `Relu` of",
        ),
    ],
)
def test_plugin_errors_point_into_plugin_source(folder: Path, text: str, said: str) -> None:
    (folder / "mine.py").write_text(text)
    (folder / "net.arch").write_text(PROGRAM)
    code, found = run("check", "net.arch", "--plugin", "mine")
    assert code == 1
    assert said in found
    assert "Traceback" not in found


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("mein", "[A3101]: there is no plugin `mein`: no module has this name\n  hint: did you mean `mine`?"),
        ("mine.py", "[A3101]: `mine.py` is not a module name"),
        (
            "./mine.py",
            "[A3101]: `./mine.py` is not a module name\n  hint: modules are named as `import` does: `mine`",
        ),
        ("mien.sub", "[A3101]: there is no plugin `mien`"),
        ("json", "[A3104]: several modules are named `json`"),
    ],
)
def test_rejects_names_that_are_no_plugin_module(folder: Path, name: str, said: str) -> None:
    (folder / "mine.py").write_text(OPERATION)
    (folder / "json.py").write_text(OPERATION)
    code, found = run("explain", "A0101", "--plugin", name)
    assert code == 1
    assert said in found
    assert "quadruple" not in OPS


def test_exception_in_plugin_is_reported_as_plugin_failure(folder: Path) -> None:
    """No exception of a plugin is a bug of archir's."""
    wrong = OPERATION + "\n    def kernels(self, *operands):\n        raise RuntimeError('no table')\n"
    (folder / "fourfold.py").write_text(wrong)
    (folder / "net.arch").write_text(PROGRAM)
    code, said = run("cost", "net.arch", "--plugin", "fourfold")
    assert code == 1
    assert "fourfold.py:13:9: error[A3106]: the plugin `fourfold` failed: RuntimeError: no table" in said


def test_missing_name_loads_entry_point_plugins(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in {"fourfold": OPERATION, "broken": "import not_there_at_all\n"}.items():
        (folder / f"{name}.py").write_text(text)
        (folder / f"{name}-1.0.dist-info").mkdir()
        (folder / f"{name}-1.0.dist-info" / "entry_points.txt").write_text(f"[archir.plugins]\n{name} = {name}\n")
    (folder / "net.arch").write_text(PROGRAM)
    monkeypatch.setattr(installed, "_problems", None)
    monkeypatch.syspath_prepend(str(folder))
    assert "quadruple" not in OPS
    assert OPS.get("quadruple") is None
    assert loading.loaded() == {}
    assert run("check", "net.arch")[0] == 0
    assert loading.loaded().keys() == {"fourfold"}
    (folder / "net.arch").write_text(PROGRAM.replace("quadruple", "zzzzzzz"))
    assert "cannot be imported: `broken`" in run("check", "net.arch")[1]


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Registry[str, object]:
    """A registry that `archir doctor` does not list."""
    monkeypatch.setattr("archir.plugins.registry.REGISTRIES", [])
    return Registry("thing", "things")


def test_registry_accepts_same_object_twice_but_not_another(registry: Registry[str, object]) -> None:

    def one() -> None:
        """The first."""

    def two() -> None:
        """The second."""

    registry.register("a", one)
    registry.register("a", one)
    heard: list[str] = []
    registry.subscribe(lambda name, thing: heard.append(name))
    registry.register("b", two)
    assert heard == ["a", "b"]
    with pytest.raises(ArchError, match=r"A3103.*two things are named `a`: `.*one` of tests.*, and `.*two` of tests"):
        registry.register("a", two)


def test_entries_put_back_have_an_origin(registry: Registry[str, object]) -> None:
    registry.register("a", run)
    del registry["a"]
    registry["a"] = run
    assert registry.origins["a"].name == "run"
