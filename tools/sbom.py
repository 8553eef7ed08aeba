"""Write a software bill of materials (CycloneDX 1.6, JSON) of what `pip install archir` brings: `sbom.py FILE`.

It is that of this environment. Hashes are those of requirements.lock: one of them is that of what was installed.
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

LOCK = Path(__file__).resolve().parent.parent / "requirements.lock"
OURS = "archir"
PROJECT = tomllib.loads((LOCK.parent / "pyproject.toml").read_text("utf-8"))["project"]


def needed(found: Distribution) -> list[str]:
    """What a distribution needs here, without its extras."""
    environment: dict[str, str] = {**default_environment(), "extra": ""}  # type: ignore[dict-item]
    own = canonicalize_name(found.name) == OURS  # what was installed may be older than what is built
    requirements = map(Requirement, PROJECT["dependencies"] if own else found.requires or [])
    return sorted(
        {canonicalize_name(one.name) for one in requirements if not one.marker or one.marker.evaluate(environment)}
    )


def closure(name: str) -> dict[str, Distribution]:
    """A distribution and all that it needs and that is installed, by their names."""
    found: dict[str, Distribution] = {}
    left = [name]
    while left:
        one = left.pop()
        if one not in found:
            try:
                found[one] = distribution(one)
            except PackageNotFoundError:
                continue
            left += needed(found[one])
    return dict(sorted(found.items()))


def hashes() -> dict[str, list[str]]:
    """The SHA-256 of each package's files, by name and version."""
    found: dict[str, list[str]] = {}
    for block in re.split(r"\n(?=[A-Za-z0-9])", LOCK.read_text("utf-8")):
        if (head := re.match(r"([\w.-]+)==(\S+)", block)) is not None:
            found[f"{canonicalize_name(head[1])}@{head[2]}"] = re.findall(r"sha256:([0-9a-f]{64})", block)
    return found


def licence(found: Distribution) -> str:
    """What a distribution says of its licence."""
    meta = found.metadata
    classifiers = [
        text.rsplit(" :: ", 1)[1] for text in meta.get_all("Classifier") or [] if text.startswith("License ::")
    ]
    said = meta.get("License-Expression") or " and ".join(classifiers) or meta.get("License") or "unknown"
    return str(said).strip().splitlines()[0]


def component(name: str, found: Distribution, known: dict[str, list[str]]) -> dict[str, Any]:
    """One package."""
    reference = f"pkg:pypi/{name}@{found.version}"
    made: dict[str, Any] = {
        "type": "application" if name == OURS else "library",
        "bom-ref": reference,
        "name": name,
        "version": found.version,
        "purl": reference,
        "licenses": [{"license": {"name": licence(found)}}],
    }
    if listed := known.get(f"{name}@{found.version}"):
        made["hashes"] = [{"alg": "SHA-256", "content": one} for one in listed]
    return made


def bill() -> dict[str, Any]:
    """The bill of materials."""
    found, known = closure(OURS), hashes()
    parts = {name: component(name, one, known) for name, one in found.items()}
    references = {name: part["bom-ref"] for name, part in parts.items()}
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": parts.pop(OURS)},
        "components": list(parts.values()),
        "dependencies": [
            {"ref": references[name], "dependsOn": [references[other] for other in needed(one) if other in references]}
            for name, one in found.items()
        ],
    }


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(bill(), indent=1) + "\n")
    print(f"wrote {path}: {len(bill()['components'])} components")
