"""Print the test files near a change: `near.py [REVISION]`, by default the changes since the last commit.

A test file is near if it was changed, if it imports a changed module, or if its folder has the name of a changed
package (`archir/costs` and `tests/costs`). The suite is what proves a change; this is what to run while writing it.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def changed_files(revision: str) -> list[Path]:
    """Return the files that differ from a revision, untracked ones included, relative to the root."""
    commands = (["diff", "--name-only", revision], ["ls-files", "--others", "--exclude-standard"])
    outputs = [subprocess.check_output(["git", *command], cwd=ROOT, text=True) for command in commands]
    return [Path(line) for output in outputs for line in output.splitlines()]


def module_name(path: Path) -> str:
    """Return the dotted name of a Python file, such as `archir.costs.rules`."""
    parts = path.with_suffix("").parts
    parts = parts[1:] if parts[0] in ("backends", "grammar") else parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported_modules(path: Path) -> Iterator[str]:
    """Yield the modules that a file imports, with each imported name as if it were a module."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def near(changed: list[Path]) -> list[Path]:
    """Return the test files near the changed files, sorted."""
    code = [path for path in changed if path.suffix == ".py" and path.parts[0] in ("archir", "backends", "grammar")]
    modules, packages = {module_name(path) for path in code}, {part for path in code for part in path.parts[1:-1]}
    return [
        test.relative_to(ROOT)
        for test in sorted((ROOT / "tests").rglob("test_*.py"))
        if test.relative_to(ROOT) in changed
        or packages & {*test.relative_to(ROOT).parts[1:-1]}
        or modules & {*imported_modules(test)}
    ]


if __name__ == "__main__":
    print(*near(changed_files(*sys.argv[1:2] or ["HEAD"])), sep="\n")
