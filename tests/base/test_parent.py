"""Child processes end when their parent is killed, whatever they are doing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
from onnx import TensorProto, helper, save

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are found in /proc")

ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
STARTS = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, *sys.argv[2:]], stdin=subprocess.PIPE)
child.stdin.write(sys.argv[1].encode() + b"\\n")
child.stdin.flush()
time.sleep(600)
"""
"""Starts a program, and tells it something."""
VERIFIES = "from archir_onnx.verification import sandbox as s; s.run_sandboxed(s.Path({!r}), [s.CPU], {{}}, 0)"
SPINS = "from archir.utils import parent; assert next(parent.parent_lines()) == 'go\\n'\nwhile True: pass"


def slow(path: Path) -> Path:
    """A model that takes minutes to load: what is constant is computed there."""
    side = helper.make_tensor("side", TensorProto.INT64, [2], [2000, 2000])
    nodes = [helper.make_node("ConstantOfShape", ["side"], ["x0"])]
    nodes += [helper.make_node("MatMul", [f"x{i}", f"x{i}"], [f"x{i + 1}"]) for i in range(2000)]
    output = helper.make_tensor_value_info("x2000", TensorProto.FLOAT, [2000, 2000])
    graph = helper.make_graph(nodes, "slow", [], [output], [side])
    save(helper.make_model(graph, ir_version=9, opset_imports=[helper.make_opsetid("", 17)]), path)
    return path


def child(process: int) -> int:
    """The process that a process has started; itself before that."""
    found = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    return int(found[0]) if found else process


def busy(process: int) -> float:
    """Seconds of a processor that a process has taken; 0 if it is gone."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return 0.0 if fields[0] == "Z" else int(fields[11]) / os.sysconf("SC_CLK_TCK")


@pytest.mark.parametrize("kind", ["spins", "loads"])
def test_child_process_ends_when_parent_is_killed(kind: str, tmp_path: Path) -> None:
    """In the midst of work, in Python and where libraries compute."""
    verifies = ["-c", VERIFIES.format(str(slow(tmp_path / "slow.onnx")))] if kind == "loads" else []
    command = verifies or ["-c", STARTS, "go", "-c", SPINS]
    started = subprocess.Popen([sys.executable, *command], env=ENVIRONMENT)
    try:
        while (own := child(started.pid)) == started.pid or busy(own) < 1:
            assert started.poll() is None
            time.sleep(0.05)
    finally:
        started.kill()
        started.wait()
    try:
        begun = busy(own)
        while busy(own):
            assert busy(own) < begun + 5
            time.sleep(0.05)
    finally:
        with suppress(ProcessLookupError):
            os.kill(own, signal.SIGKILL)
