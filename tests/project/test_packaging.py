"""Wheel and sdist contain the required files, and the installed wheel works outside the checkout."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from importlib.metadata import distributions
from pathlib import Path

import pytest

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
        "SECURITY.md", "requirements.lock", "archir/language/std/attention.arch",
        "grammar/archir_grammar/arch.lark", "archir/data/readers/digits/digits.npz",
        "backends/archir_onnx/lowering/model.py",
        "examples/full_attention/full_attention.arch", "tests/project/test_packaging.py",
    }  # fmt: skip
    assert wanted <= names


WHAT_NEEDS_TORCH = """
space = archir.load("net.arch", size=32, classes=10)
module = archir.compile(space.specialize(space.sample()))
print(archir.export(space.graph, "net.onnx", module))
"""


@pytest.mark.parametrize("more", with_soak(["", WHAT_NEEDS_TORCH], [""]), ids=["", "torch"])
def test_the_installed_wheel_works_elsewhere(more: str, built: tuple[Path, Path], tmp_path: Path) -> None:
    site, elsewhere = tmp_path / "site", tmp_path / "elsewhere"
    elsewhere.mkdir()
    install = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--no-index",
        "--target",
        str(site),
        str(built[0]),
    ]
    subprocess.run(install, check=True, capture_output=True)
    (elsewhere / "net.arch").write_text((EXAMPLES / "mobilenet_v2.arch").read_text())
    program = """
import archir, archir_onnx, sys
from archir import backends
assert archir.__file__.startswith(sys.argv[1]) and archir_onnx.__file__.startswith(sys.argv[1])
assert [e.name for e in backends.entry_points(group=backends.GROUP) if e.value.startswith("archir_")] != []
"""
    environment = {**os.environ, "PYTHONPATH": str(site)}
    done = subprocess.run(
        [sys.executable, "-c", program + more, str(site)],
        cwd=elsewhere,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "checked" in done.stdout or not more
    checked = subprocess.run(
        [sys.executable, "-m", "archir", "check", "net.arch"],
        cwd=elsewhere,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert checked.returncode == 0, checked.stderr


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
