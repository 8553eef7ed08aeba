"""A small run whose result is known, in a process that can be killed.

python -m tests.runs.scenario FOLDER          works on the run in FOLDER until it is finished
python -m tests.runs.scenario FOLDER every N  is killed at every N-th of the moments at which files are touched, in turn
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from archir.runs import Run, Trial, journal, tensorboard
from archir.runs.manifest import NAME

EPOCHS = 5
HAS_TENSORBOARD = find_spec("tensorboard") is not None
if HAS_TENSORBOARD:
    with TemporaryDirectory() as name:
        tensorboard.EventFile(Path(name)).close()  # what it imports is not a moment to kill at
TOUCHES = {"open", "os.rename", "os.remove", "os.mkdir", "os.truncate", "os.chmod", "os.rmdir", "sqlite3.connect"}
"""What a kill may come before (see Python's table of audit events)."""


def begin(folder: Path) -> Run:
    """Return the run in a folder, or a new one."""
    if (folder / NAME).exists():
        run = Run.resume(folder)
    else:
        inputs = {"recipe.toml": "epochs = 5\n", "space/net.arch": "net tiny {}\n"}
        run = Run.create(folder, "scenario", inputs, {"python": "3"})
    run.tensorboard = HAS_TENSORBOARD
    return run


def work(folder: Path) -> None:
    """Continue a run until it is finished; a sum of squares stands for training."""
    with begin(folder) as run:
        for name in ("search", "retrain"):
            phase = run.phase(name)
            if phase.done is not None:
                continue
            phase.begin({"epochs": EPOCHS})
            last = phase.last()
            done, total = (0, 0) if last is None else (last.facts["epoch"], int(last.read("bin").decode()))
            for epoch in range(done, EPOCHS):
                total += epoch * epoch
                phase.put_trial(Trial(epoch, f"hash {epoch}", {"op": epoch}, "done", {"accuracy": total / 100}))
                phase.record({"epoch": epoch, "loss": 1 / (1 + total), "accuracy": total / 100})
                run.write({"report.html": f"{name} {total}", "best.json": f"{total}"})
                phase.save({"epoch": epoch + 1}, {"bin": str(total).encode()})
            phase.finish({"total": total})
        run.finish()


def outcome(folder: Path) -> Mapping[str, Any]:
    """Return everything that a finished run must contain; reading verifies it."""
    run = Run.open(folder)
    names = sorted(run.entries)
    phases = [(phase.name, phase.done, phase.rows(), phase.trials()) for phase in run.phases()]
    exact = [name for name in names if name != "metrics.sqlite"]
    files = {name: run.content(name) for name in exact}
    return {"finished": run.finished, "names": names, "phases": phases, "files": files}


def killed_at(folder: Path, moment: int) -> bool:
    """Work in a child process that kills itself at a moment, and return whether it came that far."""
    child = os.fork()
    if not child:
        left = moment

        def touched(event: str, _: tuple[Any, ...]) -> None:
            nonlocal left
            if event in TOUCHES:
                left -= 1
                if left < 0:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(touched)
        work(folder)
        os._exit(0)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


def sweep(folder: Path, every: int) -> int:
    """Kill a run at every moment, each in a folder of its own, and a second time while it is resumed."""
    os.fsync, journal.SYNCHRONOUS = lambda _: None, "OFF"  # a killed process does not lose written data
    work(folder / "whole")
    wanted = outcome(folder / "whole")
    moment = 0
    while killed_at(run := folder / f"run{moment}", moment):
        for again in (moment // 3, 7, None):
            if (run / NAME).exists():
                Run.open(run)
            if again is None:
                work(run)
            else:
                killed_at(run, again)
        assert outcome(run) == wanted, moment
        moment += every
    assert outcome(run) == wanted
    return moment


if __name__ == "__main__":
    if sys.argv[2:]:
        print(sweep(Path(sys.argv[1]), int(sys.argv[3])))
    else:
        work(Path(sys.argv[1]))
