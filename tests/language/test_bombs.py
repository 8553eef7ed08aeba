"""Programs that demand much work are handled or rejected within the work budget."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from pathlib import Path

import pytest

from archir.api import analysis, loading
from archir.diagnostics.errors import ArchError, Span
from archir.diagnostics.work import MAX_WORK, WorkError, current_budget, spend, work_budget
from archir.diagrams.diagram import Value
from archir.ir.graph import Graph
from archir.language.elaboration.context import Context, Limits
from archir.language.elaboration.elaborate import elaborate, net_graph, survey
from archir.language.elaboration.files import Loader
from archir.language.elaboration.parameters import parse_parameter
from archir.language.formatter import canonical
from archir.language.syntax.parse import parse
from archir.pictures import picture
from archir.spaces.space import Space
from tests.conftest import EXAMPLES, ROOT
from tests.language.bombs import BOMBS
from tests.soak import with_soak

SMALL = 8_000
"""Of the usual budget, a two hundredth: the suite runs every bomb, and none gets far."""
GENEROUS = 10.0
"""Seconds of processor time for what takes a tenth: machines are loaded."""

USES: dict[str, Callable[[Graph], object]] = {
    "count": lambda graph: (Space(graph).size, Space(graph).satisfying),
    "sample": lambda graph: Space(graph).sample(random.Random(0)),
    "show": analysis.print_graph,
    "picture": lambda graph: picture(graph, "svg", 1, None, None),
}


@pytest.mark.parametrize("name", BOMBS)
def test_bombs_are_handled_or_rejected_within_small_budget(name: str) -> None:
    """A graph or diagnostics, of elaboration, counting, drawing, showing and laying out, and soon."""
    text, found = BOMBS[name], []
    begin = time.process_time()
    with work_budget(SMALL):
        found += refused(lambda: survey(text, "bomb.arch"))
        graphs: list[Graph] = []
        found += refused(lambda: graphs.append(elaborate(text, "bomb.arch")))
        for graph, use in product(graphs, USES.values()):
            found += refused(partial(use, graph))
    with work_budget(SMALL):
        found += refused(lambda: canonical(text))
    assert all(len(said) < 100_000 for said in found)
    assert time.process_time() - begin < GENEROUS


def refused(work: Callable[[], object]) -> list[str]:
    """What is said of a program, if anything is."""
    try:
        work()
    except ArchError as error:
        return [str(error)]
    return []


FILES = sorted(EXAMPLES.rglob("*.arch"))


@pytest.mark.parametrize(
    "path", [f if f.stat().st_size < 1_000 else pytest.param(f, marks=pytest.mark.soak) for f in FILES]
)
def test_examples_elaborate_within_the_budget(path: Path) -> None:
    with work_budget(MAX_WORK / 1.15):
        loading.graphs(path)


def test_exhausted_budget_stays_exhausted() -> None:
    with work_budget(10) as work:
        spend(4)
        with work_budget(1_000) as inner:
            assert inner is work, "a budget is never larger than the one around it"
        with pytest.raises(WorkError):
            spend(7)
        with pytest.raises(WorkError):
            spend(0)
    spend(10**9)
    assert current_budget().left == float("inf")


def test_work_limit_error_has_position_where_budget_ended() -> None:
    text = "net n {\n input x: f32[4]\n a = 1\n for i in 0..100_000 {\n  b = [i, a]\n }\n output y = x\n}\n"
    with pytest.raises(ArchError) as caught, work_budget(20_000):
        elaborate(text, "n.arch")
    (problem,) = caught.value.diagnostics
    assert problem.code == "A0602"
    assert problem.span is not None
    assert problem.span.line in (4, 5)
    assert problem.hint == "raise the limit with --max-work UNITS"


@pytest.mark.parametrize("most", [0, 5])
def test_rejects_parameter_beyond_work_limit(most: int) -> None:
    with pytest.raises(ArchError, match="exceeds the work limit"), work_budget(most):
        parse_parameter("x=[1, 2, 3]")
    assert parse_parameter("x=[1, 2, 3]") == ("x", (1, 2, 3))


def test_text_is_parsed_once_per_budget() -> None:
    text = "".join(f"net n{i} {{\n input x: f32[1]\n output y = x\n}}\n" for i in range(3))
    with work_budget(1e9) as work:
        survey(text, "n.arch")
        elaborate(text, "n.arch", net="n1")
        assert len([key for key in work.cache if key[0] == "parse"]) == 1  # type: ignore[index]


def test_cached_text_is_checked_against_new_size_limit() -> None:
    text = "net n {\n input x: f32[1]\n output y = x\n}\n"
    with work_budget(1e9):
        parse(text)
        with pytest.raises(ArchError, match=r"A0105.*larger than 10 bytes"):
            parse(text, max_bytes=10)


ENDS_EARLY = {
    "return before a loop": "if n == 0 {\nreturn x\n}\nrepeat 300000 {\nx = x |> relu\n}\nreturn x",
    "return in a loop": "for i in 0..90000 {\nif i == 2 {\nreturn x\n}\nx = x |> relu |> relu |> relu\n}\nreturn x",
    "return in a repeat": "repeat 90000 as i {\nif i == 2 {\nreturn x\n}\nx = x |> relu |> relu |> relu\n}\nreturn x",
    "return in a loop over a list": "for op in [relu, big] {\nreturn x |> op\n}",
    "local variable": "big = gelu\nreturn x |> big |> big",
    "local variable in a loop": "big = gelu\nrepeat 2 {\nx = x |> big\n}\nreturn x",
    "loop's variable assigned": "for op in [big, big] {\nop = relu\nx = x |> op\n}\nreturn x",
    "inner loop's variable": "for op in [big] {\nfor op, k in [[relu, 1], [relu, 2]] {\nx = x |> op\n}\n}\nreturn x",
    "parameter": "return g(x, relu)",
    "parameters after a pipe": "return x |> twice(relu, big)",
}
"""Bodies of a block of a few nodes, beside a block of more nodes than fit twice."""


@pytest.mark.parametrize("body", ENDS_EARLY.values(), ids=ENDS_EARLY.keys())
def test_bodies_are_measured_without_what_is_not_executed(body: str) -> None:
    others = (
        "block big(x) {\nrepeat 150000 {\nx = x |> relu\n}\nreturn x\n}\nblock g(x, big) {\nreturn x |> big |> big\n}\n"
        "block twice(x, op, other) {\nreturn x |> op |> op\n}"
    )
    text = f"{others}\nblock f(x, n) {{\n{body}\n}}\nnet n {{\ninput x: f32[4]\noutput y = f(x, 0)\n}}"
    assert len(elaborate(text)) < 10


def test_loop_of_net_uses_its_variables() -> None:
    big = "block big(x) {\nrepeat 150000 {\nx = x |> relu\n}\nreturn x\n}"
    body = "big = gelu\nrepeat 3 {\nx = x |> big\n}\noutput y = x"
    assert len(elaborate(f"{big}\nnet n {{\ninput x: f32[4]\n{body}\n}}")) == 4


@pytest.mark.parametrize("error", [WorkError(), RecursionError()], ids=["work", "recursion"])
def test_errors_found_before_limit_are_reported(error: Exception) -> None:
    text = "net n {\n input x: f32[4]\n a = x |> unknown\n b = x |> relu\n output y = b\n}\n"

    def observe(context: Context, span: Span, value: Value) -> None:
        if span.text == "b":
            raise error

    loader = Loader(None)
    with pytest.raises(ArchError) as caught:
        net_graph(loader.load(text, "n.arch", None), loader, None, {}, Limits(), observe)
    assert {problem.code for problem in caught.value.diagnostics} == {"A0201", "A0602"}


@pytest.mark.parametrize("name", ["a" * 1_000 + "/b.arch", "a/" * 20_000 + "b.arch"])
def test_invalid_import_paths_are_rejected_with_position(name: str, tmp_path: Path) -> None:
    (tmp_path / "n.arch").write_text(f'import "{name}"\n')
    with pytest.raises(ArchError) as caught:
        loading.graphs(tmp_path / "n.arch")
    (problem,) = caught.value.diagnostics
    assert problem.code == "A0801"
    assert problem.span is not None
    assert problem.span.line == 1


FEW = ["ten million nodes", "open lists", "list nesting", "two megabytes"]
"""Those that the suite gives a process of their own; the soak does so with all."""
ALONE = """
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, (2**30, 2**30))
import archir.ops
from archir.language.elaboration.elaborate import elaborate
from archir.diagnostics.errors import ArchError
text = sys.stdin.read()
begin = resource.getrusage(resource.RUSAGE_SELF).ru_utime
try:
    elaborate(text, "bomb.arch")
    said = "fine"
except ArchError as error:
    said = error.diagnostics[0].code
print(said, resource.getrusage(resource.RUSAGE_SELF).ru_utime - begin)
"""


@pytest.mark.parametrize("name", with_soak(BOMBS, FEW))
def test_bombs_end_within_time_and_memory(name: str) -> None:
    """A diagnostic within 6 s of processor time and 1 GiB; what is large but right may take longer."""
    environment = {"PYTHONPATH": ":".join(str(ROOT / part) for part in ("", "backends", "grammar"))}
    done = subprocess.run(
        [sys.executable, "-c", ALONE], input=BOMBS[name], capture_output=True, text=True, env=environment, timeout=60
    )
    assert done.returncode == 0, done.stderr[-2000:]
    said, seconds = done.stdout.split()
    assert said == "fine" or said.startswith("A0")
    assert float(seconds) < (10 if said == "fine" else 6), (said, seconds)


CHILD = """
import gc, resource, sys, time
import archir.ops, archir.api, archir.spaces.space, archir.pictures, archir.costs.account
from archir.cli import main
from archir.cli import check
from archir.cli import cost
from archir.cli import fmt
from archir.cli import show
from archir.cli import count_sample as spaces
from archir.cli import options
options.TIMES = 1  # what a unit takes does not depend on how many there are
def peak():  # ru_maxrss would be what the process that started this one held, if that is more
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))
def unit():  # how fast this machine is just now
    begin, known = time.process_time(), {}
    for i in range(300_000):
        known[i, i % 7] = i, known.get((i // 2, i % 7))
    return time.process_time() - begin
unit = min(unit(), unit())
before, held = resource.getrusage(resource.RUSAGE_SELF), peak()
resource.setrlimit(resource.RLIMIT_CPU, (60, 60))
resource.setrlimit(resource.RLIMIT_AS, (4 * 2**30, 4 * 2**30))
gc.disable()
code = 0
try:
    main(sys.argv[1:])
except SystemExit as stop:
    code = stop.code
after = resource.getrusage(resource.RUSAGE_SELF)
seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
print(code, seconds, (peak() - held) / 1024, unit, file=sys.stderr)
"""
UNIT = 0.15
"""Seconds that `unit` takes on the machine that the limits are for; on slower ones, they are longer."""
COMMANDS = [["check"], ["check", "--lint"], ["count"], ["sample"], ["cost"], ["fmt", "--check"], ["show"]]


WHOLE = {
    "sum of ranges",
    "sum of choices",
    "sum of forty choices",
    "depth",
    "depth of choices",
    "cells that differ",
    "convolutions",
    "volumes",
    "recurrence",
    "recursion of choices",
    "recursion with choices as arguments",
    "repeats in comprehensions",
    "experts",
}
"""Those that make what ordinary spaces are made of, nodes and choices, until the budget is spent or they are done: that
takes up to two seconds, as the largest examples do. What the sums and depths cost is worked out after that, with a
budget for each end of each cost: up to four seconds."""


@pytest.mark.soak
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
@pytest.mark.parametrize("name", BOMBS)
def test_bombs_in_commands_end_within_time_and_memory(name: str, command: list[str], tmp_path: Path) -> None:
    """Each in a process of its own, with a service's budget: a second of processor time and 256 MiB, on an idle machine
    that is fast; three times that here, for those that are not idle, and as much more as this one is slower."""
    path = tmp_path / "bomb.arch"
    path.write_text(BOMBS[name], newline="")
    most = 12 if name in WHOLE and command == ["cost"] else 6 if name in WHOLE else 3
    seconds, mebibytes = zip(*measured([*command, str(path)], most), strict=True)
    assert min(seconds) < most, (seconds, mebibytes)
    assert max(mebibytes) < 3 * 256, (seconds, mebibytes)


def measured(arguments: list[str], most: float) -> Iterator[tuple[float, float]]:
    """Seconds and mebibytes that a command takes; once more, and again, if that were more seconds than `most`: what
    else a machine does adds to them, and takes nothing away."""
    folders = os.pathsep.join(str(ROOT / part) for part in ("", "backends", "grammar"))
    for _ in range(3):
        done = subprocess.run(
            [sys.executable, "-c", CHILD, *arguments], capture_output=True, text=True, errors="replace",
            env={**os.environ, "PYTHONPATH": folders},
        )  # fmt: skip
        said = done.stderr.strip().splitlines()[-1:]
        assert done.returncode == 0, done.stderr[-1000:]
        code, seconds, mebibytes, unit = map(float, said[0].split())
        assert code in (0, 1), done.stderr[-1000:]
        seconds /= max(1.0, unit / UNIT)
        yield seconds, mebibytes
        if seconds < most:
            return
