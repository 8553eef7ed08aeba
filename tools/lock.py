"""Write requirements.lock: the packages pinned in constraints.txt, with the SHA-256 of each of their files on PyPI.

    pip install uv && python tools/lock.py

torch is left out, because its builds differ by index, and so are the packages that only its CUDA build needs.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "requirements.lock"
HEADER = """\
# Packages for development and CI, with hashes, for all platforms and versions of Python. `make lock` writes this file
# from constraints.txt. torch is left out, because its CPU and CUDA builds differ; constraints.txt pins its version.
"""
TORCH_PACKAGE = re.compile(r"(torch|triton|nvidia-[a-z0-9-]+|cuda-[a-z0-9-]+)==")
"""Pinned packages that come from torch's own index or that only its CUDA build needs."""


def lock_text(*excluded: str) -> str:
    """Return the text of the lock file without the packages `left_out`."""
    command = [
        "uv", "pip", "compile", "pyproject.toml", "--extra", "dev", "--universal", "--python-version", "3.11",
        "--constraint", "constraints.txt", "--generate-hashes", "--no-header", "--no-annotate", "--quiet",
        *(part for name in excluded for part in ("--no-emit-package", name)),
    ]  # fmt: skip
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout


if __name__ == "__main__":
    names = {match[1] for line in lock_text().splitlines() if (match := TORCH_PACKAGE.match(line))}
    LOCK.write_text(HEADER + lock_text(*sorted(names)))
