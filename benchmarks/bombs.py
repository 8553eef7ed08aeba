"""Measure processor time and memory of each command on programs that were written to waste them.

python benchmarks/bombs.py [-o FILE]

Each program is refused or processed in a process of its own; figures exclude the start of the process. The programs are
in `tests/language/bombs.py`.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from measure import machine  # noqa: E402

from tests.language.bombs import BOMBS  # noqa: E402
from tests.language.test_bombs import CHILD  # noqa: E402

COMMANDS = ("check", "count", "sample", "cost", "fmt --check", "show")
SECONDS, MEBIBYTES = 1.0, 256.0


def measure_command(text: str, command: str, folder: Path) -> tuple[float, float]:
    """Return the seconds and MiB of a command on a program."""
    path = folder / "bomb.arch"
    path.write_text(text, newline="")
    search = os.pathsep.join(str(HERE.parent / part) for part in ("", "backends", "grammar"))
    done = subprocess.run(
        [sys.executable, "-c", CHILD, *command.split(), str(path)], capture_output=True, text=True, errors="replace",
        env={**os.environ, "PYTHONPATH": search}, check=True,
    )  # fmt: skip
    _, seconds, mebibytes = map(float, done.stderr.strip().splitlines()[-1].split())
    return seconds, mebibytes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=Path, help="the file to write")
    output = parser.parse_args().output
    lines, small = [], 0
    with tempfile.TemporaryDirectory() as folder:
        for name, text in BOMBS.items():
            figures = [measure_command(text, command, Path(folder)) for command in COMMANDS]
            small += all(seconds <= SECONDS and mebibytes <= MEBIBYTES for seconds, mebibytes in figures)
            cells = "  ".join(f"{seconds:6.2f} s {mebibytes:4.0f} MiB" for seconds, mebibytes in figures)
            lines.append(f"{name:40} {cells}")
            print(lines[-1], flush=True)
    head = f"{machine('cpu')}\n{small} of {len(BOMBS)} take at most 1 s and 256 MiB in each of {', '.join(COMMANDS)}\n"
    print(f"\n{head}")
    if output is not None:
        output.write_text(head + "\n" + "\n".join(lines) + "\n", "utf-8")


if __name__ == "__main__":
    main()
