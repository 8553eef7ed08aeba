"""Published spaces of over a hundred thousand nodes are checked within resource limits."""

from __future__ import annotations

import re
import resource
import subprocess
import sys

import pytest

from tests.conftest import ROOT

HNAS = ROOT / "tests" / "spaces" / "hnas.arch"
MOST_SECONDS = 60
"""Of processor time: about six times what an idle machine takes, that has other things to do besides."""
MOST_BYTES = 2**30


def limited() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (MOST_SECONDS, MOST_SECONDS))
    resource.setrlimit(resource.RLIMIT_DATA, (MOST_BYTES, MOST_BYTES))


@pytest.mark.soak
def test_a_hierarchical_space_is_checked() -> None:
    command = [sys.executable, "-m", "archir", "check", str(HNAS)]
    done = subprocess.run(command, capture_output=True, text=True, preexec_fn=limited)
    assert done.returncode == 0, done.stderr
    nodes, choices = (int(number.replace(",", "")) for number in re.findall(r"[\d,]+(?= nodes| choices)", done.stdout))
    assert choices == 28_329
    assert nodes > 120_000
