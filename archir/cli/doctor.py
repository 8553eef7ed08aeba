"""`archir doctor`."""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterator
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
from archir.plugins.registry import REGISTRIES, spelled

_PACKAGES = ("torch", "numpy", "networkx", "lark", "onnx", "safetensors", "onnxruntime-gpu", "onnxruntime")


@dataclass(frozen=True)
class Finding:
    """Something that was looked at."""

    what: str
    found: str
    trouble: str = ""
    source: str = ""
    """Who registered what was found: archir, or a module and its file."""


def findings() -> Iterator[Finding]:
    """Versions, backends, devices, and what is wrong with them."""
    yield Finding("archir", __version__)
    yield Finding("python", f"{platform.python_version()} on {platform.system()} {platform.machine()}")
    versions = {name: _version(name) for name in _PACKAGES}
    for name, found in versions.items():
        if found is not None:
            yield Finding(name, found)
        elif not name.startswith("onnxruntime"):
            yield Finding(name, "missing", f"install it: pip install {name}")
    yield _runtimes(versions)
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
            for what, found, trouble in backend.devices():
                yield Finding(what, found, trouble)
    yield from _registered()


def _registered() -> Iterator[Finding]:
    """The plugins there are, and by kind what they and archir register."""
    broken = installed.load()
    for name, problem in broken.items():
        yield Finding(f"plugin {name}", "broken", str(problem))
    for plugin in loading.loaded().values():
        yield Finding(f"plugin {plugin.name}", "loaded", source=str(plugin.homes[0]) if plugin.homes else "")
    for registry in REGISTRIES:
        homes: dict[str, list[str]] = {}
        for key, origin in registry.origins.items():
            homes.setdefault(origin.home, []).append(spelled(key))
        for home, names in sorted(homes.items(), key=lambda pair: (pair[0] != "archir", pair[0])):
            yield Finding(registry.kinds, ", ".join(sorted(names)), source=home)
    for name in library_names():
        yield Finding("library", name, source=str(library_file(name)))


def _runtimes(versions: dict[str, str | None]) -> Finding:
    """onnxruntime and onnxruntime-gpu install the same files: together, both are broken."""
    installed = [name for name in ("onnxruntime-gpu", "onnxruntime") if versions[name]]
    if len(installed) == 2:
        cure = "the second overwrote the first: pip uninstall -y onnxruntime onnxruntime-gpu, then install one of them"
        return Finding("onnxruntime packages", "both installed", cure)
    if not installed:
        return Finding("onnxruntime packages", "none", "pip install onnxruntime-gpu")
    return Finding("onnxruntime packages", f"{installed[0]} alone")


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


@click.command("doctor")
@json_option
def doctor_command(as_json: bool) -> None:
    """Report versions, backends and devices, what is registered and by whom, and installation traps; exits with 1 if
    something is wrong."""
    found = list(findings())
    if as_json:
        emit([_as_json(finding) for finding in found])
    else:
        table("", ["what", "found", "from", "trouble"], [(f.what, f.found, f.source, f.trouble) for f in found])
    if any(finding.trouble for finding in found):
        sys.exit(1)
    if not as_json:
        say("nothing is wrong")


def _as_json(finding: Finding) -> dict[str, Any]:
    said = {"what": finding.what, "found": finding.found, "trouble": finding.trouble or None}
    return said | ({"from": finding.source} if finding.source else {})
