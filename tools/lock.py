"""Write requirements.lock: what constraints.txt pins, with the SHA-256 of every file that PyPI serves of it.

    pip install uv && python tools/lock.py

Not in it are torch, whose builds differ by index, and what its CUDA build alone needs.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "requirements.lock"
HEADER = """\
# What development and CI install, with hashes, for all platforms and versions of Python; `make lock` writes it from
# constraints.txt. Without torch: its CPU and CUDA builds differ, and constraints.txt pins its version.
"""
OF_TORCH = re.compile(r"(torch|triton|nvidia-[a-z0-9-]+|cuda-[a-z0-9-]+)==")


def locked(*left_out: str) -> str:
    """The lock file's text, without some packages."""
    command = [
        "uv", "pip", "compile", "pyproject.toml", "--extra", "dev", "--universal", "--python-version", "3.11.7",
        "--constraint", "constraints.txt", "--generate-hashes", "--no-header", "--no-annotate", "--quiet",
        *(part for name in left_out for part in ("--no-emit-package", name)),
    ]  # fmt: skip
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout


if __name__ == "__main__":
    names = {found[1] for line in locked().splitlines() if (found := OF_TORCH.match(line))}
    LOCK.write_text(HEADER + locked(*sorted(names)))
