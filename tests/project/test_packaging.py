"""Wheel and sdist contain the required files, and work in an environment without anything else."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from collections.abc import Iterable, Iterator
from importlib.metadata import PathDistribution, distribution, distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import archir
from tests.conftest import EXAMPLES, ROOT
from tests.soak import with_soak


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return next(folder.glob("*.whl")), next(folder.glob("*.tar.gz"))


def test_the_wheel_holds_grammar_library_and_backends(built: tuple[Path, Path]) -> None:
    names = set(zipfile.ZipFile(built[0]).namelist())
    wanted = {
        "archir/py.typed",
        "archir/language/std/attention.arch",
        "archir/diagnostics/codes/A0401.md",
        "archir/pictures/page/page.js",
        "archir/pages/page.js",
        "archir_grammar/arch.lark",
        "archir_grammar/ir.lark",
        "archir_torch/lowering/kernels/source/library.cpp",
        "archir_torch/lowering/kernels/source/maps.h",
        "archir_torch/lowering/local_attention.py",
        "archir/data/readers/digits/digits.npz",
        "archir_torch/py.typed",
        "archir_onnx/lowering/operations/attention.py",
        "archir_onnx/py.typed",
    }
    assert wanted <= names
    for package in (ROOT / "archir", *(ROOT / "backends").glob("archir_*"), *(ROOT / "grammar").glob("archir_*")):
        files = [p for p in package.rglob("*") if p.suffix in {".py", ".arch", ".md", ".lark", ".npz"}]
        assert {str(p.relative_to(package.parent)) for p in files} <= names
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {
        "archir",
        "archir_grammar",
        "archir_onnx",
        "archir_torch",
    }


def test_the_sdist_holds_the_sources(built: tuple[Path, Path]) -> None:
    with tarfile.open(built[1]) as archive:
        names = {name.split("/", 1)[-1] for name in archive.getnames()}
    wanted = {
        "pyproject.toml", "Makefile", "README.md", "LICENSE", "constraints.txt",
        "CITATION.cff", "SECURITY.md", "requirements.lock", "archir/language/std/attention.arch",
        "grammar/archir_grammar/arch.lark", "archir/data/readers/digits/digits.npz",
        "backends/archir_onnx/lowering/model.py",
        "examples/full_attention/full_attention.arch", "tests/project/test_packaging.py",
    }  # fmt: skip
    assert wanted <= names


def needed(names: Iterable[str], seen: set[str]) -> Iterator[Path]:
    """Yield the files and folders at the top of packages and of all that they require, without extras."""
    for requirement in map(Requirement, names):
        applies = requirement.marker is None or requirement.marker.evaluate({"extra": ""})
        if applies and canonical(requirement.name) not in seen:
            seen.add(canonical(requirement.name))
            package = distribution(requirement.name)
            for top in {file.parts[0] for file in package.files or ()} - {"..", "__pycache__"}:
                yield Path(str(package.locate_file(top)))
            yield from needed(package.requires or (), seen)


@pytest.fixture(params=["wheel", "sdist"])
def installed(request: pytest.FixtureRequest, built: tuple[Path, Path], tmp_path: Path) -> Path:
    """The programs of an environment with archir, what archir says that it requires, and nothing else.

    Packages that are required are links to those of this environment, so that nothing is downloaded.
    """
    wheel, sdist = built
    (metadata,) = (path for path in zipfile.Path(wheel).iterdir() if path.name.endswith(".dist-info"))
    names = [*(PathDistribution(metadata).requires or ()), *["hatchling"] * (request.param == "sdist")]
    links, environment = tmp_path / "requirements", tmp_path / "environment"
    links.mkdir()
    for path in needed(names, set()):
        if not (links / path.name).exists():
            (links / path.name).symlink_to(path)
    venv.create(environment)
    programs = environment / "bin"
    site = subprocess.run(
        [programs / "python", "-c", "import site; print(site.getsitepackages()[0])"], capture_output=True, text=True
    ).stdout.strip()
    (Path(site) / "requirements.pth").write_text(f"{links}\n")
    command = [sys.executable, "-m", "pip", "--python", str(programs / "python"), "install", "--quiet", "--no-index"]
    options = ["--no-deps", "--no-build-isolation", "--disable-pip-version-check", "--root-user-action=ignore"]
    done = subprocess.run(
        [*command, *options, str(wheel if request.param == "wheel" else sdist)],
        capture_output=True,
        text=True,
        env=CLEAN,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return programs


CLEAN = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
"""The environment variables without those by which this checkout is found."""
TRIED = """
import archir, archir_onnx, sys
assert archir.__file__.startswith(sys.prefix) and archir_onnx.__file__.startswith(sys.prefix)
space = archir.load("net.arch", size=32, classes=10)
module = archir.compile(space.specialize(space.sample()))
print(archir.export(space.graph, "net.onnx", module))
"""


@pytest.mark.parametrize("installed", with_soak(["wheel", "sdist"], ["wheel"]), indirect=True)
def test_installed_in_an_empty_environment(installed: Path, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """The commands and, in the soak, what needs torch and onnxruntime."""
    (tmp_path / "net.arch").write_text((EXAMPLES / "mobilenet_v2.arch").read_text())

    def run(*command: str) -> str:
        done = subprocess.run(
            [installed / command[0], *command[1:]], cwd=tmp_path, env=CLEAN, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    assert run("archir", "--version").strip().endswith(VERSION)
    assert "every architecture is well-formed" in run("archir", "check", "net.arch")
    if "sdist" in request.node.name:
        assert "checked" in run("python", "-c", TRIED)


VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]


def test_version_is_the_same_everywhere() -> None:
    assert archir.__version__ == VERSION
    assert f"\nversion: {VERSION}\n" in (ROOT / "CITATION.cff").read_text("utf-8")
    assert f"version = {{{VERSION}}}" in (ROOT / "docs" / "citation.md").read_text("utf-8")
    assert re.findall(r"^## \[(.*?)\]", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)[0] == VERSION


LOCK = (ROOT / "requirements.lock").read_text("utf-8")
NAME = r"^([A-Za-z0-9][\w.-]*)==(\S+)"
NOT_LOCKED = {"torch", "onnxsim", "onnxslim", "highspy", "pulp"}
"""torch, whose builds differ by index, and the extra `bench`."""


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def pinned(text: str) -> dict[str, str]:
    return {canonical(name): version for name, version in re.findall(NAME, text, re.MULTILINE)}


def test_lock_file_versions_equal_constraints() -> None:
    constraints = pinned((ROOT / "constraints.txt").read_text("utf-8"))
    assert pinned(LOCK) == {name: version for name, version in constraints.items() if name not in NOT_LOCKED}


def test_every_locked_package_has_its_hashes() -> None:
    blocks = re.split(r"\n(?=[A-Za-z0-9])", LOCK)[1:]
    assert len(blocks) == len(pinned(LOCK))
    for block in blocks:
        lines = block.strip().splitlines()
        assert len(lines) >= 2
        assert all(re.fullmatch(r"    --hash=sha256:[0-9a-f]{64}( \\)?", line) for line in lines[1:])
    assert "://" not in LOCK  # whichever index pip is set up with is asked


def test_build_backend_version_is_pinned() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    (requirement,) = project["build-system"]["requires"]
    assert requirement == f"hatchling=={pinned(LOCK)['hatchling']}"


NO_COPYLEFT = {"docutils"}
"""Only an Emacs mode beside it is under the GPL."""


def test_no_dependency_is_under_the_gpl() -> None:
    needed = pinned((ROOT / "constraints.txt").read_text("utf-8"))
    for found in distributions():
        if canonical(found.name) in needed.keys() - NO_COPYLEFT:
            said = [str(found.metadata.get(key, ""))[:80] for key in ("License-Expression", "License")]
            said += [one for one in found.metadata.get_all("Classifier") or [] if one.startswith("License")]
            assert "GPL" not in " ".join(said), found.name
