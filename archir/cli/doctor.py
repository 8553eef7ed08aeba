"""Command `archir doctor`: report versions, devices, plugins and installation problems."""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import click

from archir import __version__, backends
from archir.cli.options import json_option
from archir.cli.output import emit, say, table
from archir.diagnostics.errors import ArchError
from archir.plugins import installed, loading
from archir.plugins.libraries import library_file, library_names
from archir.plugins.registry import REGISTRIES, key_name

_PACKAGES = ("torch", "numpy", "networkx", "lark", "onnx", "safetensors", "onnxruntime-gpu", "onnxruntime")
"""Python packages whose versions are reported."""
_OWN = "archir"
"""Source of names that archir itself registers."""


@dataclass(frozen=True)
class Finding:
    """One row of the report: what was checked, the result, and a description of the problem ("" if there is none)."""

    what: str
    value: str
    problem: str = ""
    source: str = ""
    """Where a registered name comes from: archir, or a module and its file."""


def findings() -> Iterator[Finding]:
    """Yield one row each for versions, backends, devices, plugins and registered names, including any problems."""
    yield Finding("archir", __version__)
    yield Finding("python", f"{platform.python_version()} on {platform.system()} {platform.machine()}")
    versions = {name: _version(name) for name in _PACKAGES}
    for name, value in versions.items():
        if value is not None:
            yield Finding(name, value)
        elif not name.startswith("onnxruntime"):
            yield Finding(name, "missing", f"install it: pip install {name}")
    yield _onnxruntime_packages(versions)
    for name in backends.names():
        try:
            backend = backends.get(name)
        except ArchError as error:
            yield Finding(f"backend {name}", "broken", error.diagnostics[0].message)
            continue
        yield Finding(f"backend {name}", "found")
        if hasattr(backend, "complete"):
            backend.complete()
        if hasattr(backend, "devices"):
            for what, value, trouble in backend.devices():
                yield Finding(what, value, trouble)
    yield from _registered()


def _registered() -> Iterator[Finding]:
    """Yield the installed plugins, and for each registry the names registered by archir and by each plugin."""
    broken = installed.load()
    for name, problem in broken.items():
        yield Finding(f"plugin {name}", "broken", str(problem))
    for plugin in loading.loaded().values():
        yield Finding(f"plugin {plugin.name}", "loaded", source=str(plugin.own_paths[0]) if plugin.own_paths else "")
    for registry in REGISTRIES:
        names_by_origin: dict[str, list[str]] = {}
        for key in registry:  # which imports the modules that register them
            origin = registry.origins[key]
            names_by_origin.setdefault(origin.location, []).append(key_name(key))
        for origin_name, names in sorted(names_by_origin.items(), key=lambda pair: (pair[0] != _OWN, pair[0])):
            yield Finding(registry.kinds, ", ".join(sorted(names)), source=origin_name)
    for name in library_names():
        yield Finding("library", name, source=str(library_file(name)))


def _onnxruntime_packages(versions: dict[str, str | None]) -> Finding:
    """Check that only one of onnxruntime and onnxruntime-gpu is installed: they overwrite each other's files."""
    installed = [name for name in ("onnxruntime-gpu", "onnxruntime") if versions[name]]
    if len(installed) == 2:
        cure = "the second overwrote the first: pip uninstall -y onnxruntime onnxruntime-gpu, then install one of them"
        return Finding("onnxruntime packages", "both installed", cure)
    if not installed:
        return Finding("onnxruntime packages", "none", "pip install onnxruntime-gpu")
    return Finding("onnxruntime packages", f"{installed[0]} alone")


def _version(name: str) -> str | None:
    """Return the installed version of a package, or None."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None


@click.command("doctor")
@click.option("--all", "everything", is_flag=True, help="Also list the operations, strategies, ... of archir itself.")
@json_option
def doctor_command(everything: bool, as_json: bool) -> None:
    """Report versions, backends, devices, plugins and installation problems; exits with 1 if there is a problem.

    \b
    archir doctor
    archir doctor --all                         also all operations, strategies, proxies, ...
    archir doctor --plugin my_operations        also what this module registers
    """
    rows = list(findings())
    if as_json:
        emit([_as_json(finding) for finding in rows])
    else:
        _print(rows if everything else [*_shortened(rows)])
    if any(finding.problem for finding in rows):
        sys.exit(1)
    if not as_json:
        say("no problems found")


def _print(rows: Sequence[Finding]) -> None:
    """Print the rows as a table, without columns that are empty."""
    columns = {
        "what": [row.what for row in rows],
        "found": [row.value for row in rows],
        "from": [row.source for row in rows],
        "trouble": [row.problem for row in rows],
    }
    filled = {name: cells for name, cells in columns.items() if any(cells)}
    table("", [*filled], [*zip(*filled.values(), strict=True)])


def _shortened(rows: Sequence[Finding]) -> Iterator[Finding]:
    """Yield the rows in short: packages in one row, and everything that archir itself registers in another one."""
    packages = [row for row in rows if row.what in _PACKAGES and not row.problem]
    registered = [row for row in rows if row.source == _OWN]
    for row in rows:
        if row is packages[0]:
            yield Finding("packages", ", ".join(f"{package.what} {package.value}" for package in packages))
        elif row not in packages and row not in registered:
            yield row
    counts = {row.what: row.value.count(", ") + 1 for row in registered}
    operations = counts.pop("operations")
    others = f"{sum(counts.values())} strategies, objectives, ..."
    yield Finding("registered by archir", f"{operations} operations, {others} (--all lists them)")


def _as_json(finding: Finding) -> dict[str, Any]:
    row = {"what": finding.what, "found": finding.value, "trouble": finding.problem or None}
    return row | ({"from": finding.source} if finding.source else {})
