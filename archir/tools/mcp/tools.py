"""MCP tools: functions of a workspace and the arguments of a request. Errors are returned as part of the answer."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import asdict
from functools import wraps
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, ParamSpec, TypeVar

from pydantic import Field

from archir.api.loading import load_checked
from archir.diagnostics.errors import ArchError, Diagnostic, fail
from archir.language.formatter import canonical
from archir.passes.cost import cost
from archir.tools.fixing.repair import repair_text
from archir.tools.mcp.answers import (
    Answer,
    CheckAnswer,
    CostAnswer,
    CountAnswer,
    FixAnswer,
    Net,
    Range,
    RunStatus,
    SampleAnswer,
    SampledArchitecture,
    StatusAnswer,
    TextAnswer,
    problem_fields,
    text_fields,
)
from archir.tools.mcp.explanations import explanation
from archir.tools.mcp.workspace import Program, Workspace
from archir.utils.files import write_atomic

P = ParamSpec("P")
A = TypeVar("A", bound=Answer)

MAX_SAMPLES, MAX_CHOICES, MAX_RUNS = 20, 50, 20
"""Maximum number of architectures, of choices and of runs in an answer."""
COSTS = ("params", "macs", "activation_bytes", "kernels")
"""Costs that the tool `cost` reports."""

Path_ = Annotated[str | None, Field(description="A file in the server's folders: `space.arch`, `a/b.arch:net`")]
"""Annotated types of the tools' parameters (`Path_`, `Text_`, ...), with the descriptions that clients see."""
Text_ = Annotated[str | None, Field(description="The program, instead of a path; it imports only archir's libraries")]
Net_ = Annotated[str | None, Field(description="The net to use, if the program has several")]
Parameters_ = Annotated[dict[str, Any] | None, Field(description='Parameters of the net, such as {"channels": 32}')]
Where_ = Annotated[str | None, Field(description="Bounds on costs, such as `macs <= 600M and params < 5M`")]
Seed_ = Annotated[int | None, Field(description="Use an architecture sampled with this seed", ge=0, le=2**62)]


def errors_as_answer(kind: type[A]) -> Callable[[Callable[P, A]], Callable[P, A]]:
    """Decorator for a tool: confine it to the workspace, and return its errors as an answer of class `kind`."""

    def decorate(tool: Callable[P, A]) -> Callable[P, A]:
        @wraps(tool)
        def run(*args: P.args, **kwargs: P.kwargs) -> A:
            workspace = args[0]
            assert isinstance(workspace, Workspace)
            try:
                with workspace.confined():
                    return tool(*args, **kwargs)
            except ArchError as error:
                return kind(**problem_fields(error.diagnostics))
            except OSError as error:
                problem = Diagnostic("A1206", f"{Path(str(error.filename or '')).name}: {error.strerror or error}")
                return kind(**problem_fields([problem]))

        return run

    return decorate


@errors_as_answer(CheckAnswer)
def check(workspace: Workspace, path: Path_ = None, text: Text_ = None, net: Net_ = None) -> CheckAnswer:
    """Prove that every architecture of a program is well-formed, or return the errors with their positions."""
    program = workspace.program(path, text, net)
    graphs = load_checked(program.text, program.folder, program.name, program.net, program.root, workspace.limits, None)
    return CheckAnswer(nets=[Net(graph.name, len(graph), len(graph.decisions)) for graph in graphs])


@errors_as_answer(FixAnswer)
def fix(
    workspace: Workspace, path: Path_ = None, text: Text_ = None,
    write: Annotated[bool, Field(description="Write the repaired text to the file")] = False,
) -> FixAnswer:  # fmt: skip
    """Repair simple errors: return the text with fewer errors, or unchanged; `problems` are the errors that remain."""
    program = workspace.program(path, text)
    checker = workspace.checker(program)
    repair = repair_text(program.text, program.name, checker.check, checker.check_names)
    is_written = write and bool(repair.changes) and _write(program, repair.text)
    return FixAnswer(
        **problem_fields(repair.remaining),
        **text_fields(repair.text),
        changes=[change.title for change in repair.changes],
        written=is_written,
    )


@errors_as_answer(TextAnswer)
def format(
    workspace: Workspace, path: Path_ = None, text: Text_ = None,
    write: Annotated[bool, Field(description="Write the text to the file")] = False,
) -> TextAnswer:  # fmt: skip
    """Format a program canonically: spaces, indentation, line breaks. Meaning and comments do not change."""
    program = workspace.program(path, text)
    formatted = canonical(program.text, program.name)
    if write and formatted != program.text:
        _write(program, formatted)
    return TextAnswer(**text_fields(formatted))


def _write(program: Program, text: str) -> bool:
    """Write the text to the program's file and return True. Raises ArchError (A2606) if it was not read from one."""
    if program.file is None:
        raise fail("A2606", "`write` needs a `path`; the program was passed as `text`")
    write_atomic(program.file, text.encode())
    return True


@errors_as_answer(CountAnswer)
def count(
    workspace: Workspace, path: Path_ = None, text: Text_ = None, net: Net_ = None, parameters: Parameters_ = None,
    where: Where_ = None,
) -> CountAnswer:  # fmt: skip
    """Count the architectures of a space exactly, and list its choices."""
    space = workspace.space(workspace.program(path, text, net), parameters, where)
    size, satisfying = space.size, space.satisfying
    within = sorted({str(item) for item in space.count()}, key=int) if space.has_cost_bounds else [str(satisfying)]
    choices = [
        {"path": item.path, "alternatives": [str(label) for label in item.alternatives[:MAX_CHOICES]]}
        | ({} if item.k is None else {"take": item.k})
        for item in space.choices[:MAX_CHOICES]
    ]
    left_out = max(0, len(space.choices) - MAX_CHOICES)
    return CountAnswer(net=space.name, size=str(size), within=within, choices=choices, more_choices=left_out)


@errors_as_answer(CostAnswer)
def cost_of(
    workspace: Workspace, path: Path_ = None, text: Text_ = None, net: Net_ = None, parameters: Parameters_ = None,
    where: Where_ = None, seed: Seed_ = None,
    choices: Annotated[
        dict[str, Any] | None, Field(description="An architecture: labels by choice, as `sample` returns them")
    ] = None,
) -> CostAnswer:  # fmt: skip
    """Compute parameters, multiply-accumulates, bytes of activations and kernels.

    For a network or an architecture, the values are exact; for a space, the minimum and maximum of each cost are
    returned.
    """
    space = workspace.space(workspace.program(path, text, net), parameters, where)
    if choices is None and seed is None and space.choices:
        ranges = {name: Range(*(int(extreme.bound) for extreme in space.account.extremes(name))) for name in COSTS}
        return CostAnswer(net=space.name, ranges=ranges)
    architecture = space.architecture(choices) if choices is not None else space.sample(seed or 0)
    values = cost(space.specialize(architecture))
    return CostAnswer(net=space.name, costs={name: int(getattr(values, name)) for name in COSTS})


@errors_as_answer(SampleAnswer)
def sample(
    workspace: Workspace, path: Path_ = None, text: Text_ = None, net: Net_ = None, parameters: Parameters_ = None,
    where: Where_ = None,
    number: Annotated[int, Field(description="Number of architectures", ge=1, le=MAX_SAMPLES)] = 1,
    seed: Annotated[int, Field(ge=0, le=2**62)] = 0,
) -> SampleAnswer:  # fmt: skip
    """Sample architectures uniformly from those that satisfy all bounds, and return them with their costs."""
    space, rng = workspace.space(workspace.program(path, text, net), parameters, where), random.Random(seed)
    samples = [space.sample(rng) for _ in range(number)]
    costs = space.cost(samples, COSTS[:2])
    return SampleAnswer(
        architectures=[
            SampledArchitecture(dict(architecture.items()), {name: int(values[i]) for name, values in costs.items()})
            for i, architecture in enumerate(samples)
        ]
    )


@errors_as_answer(TextAnswer)
def show(
    workspace: Workspace, path: Path_ = None, text: Text_ = None, net: Net_ = None, parameters: Parameters_ = None,
    seed: Seed_ = None,
    block: Annotated[str | None, Field(description="Show only this block, by its scope or its name")] = None,
    form: Annotated[str, Field(description="`text`, `mermaid` or `svg`", pattern="^(text|mermaid|svg)$")] = "text",
) -> TextAnswer:  # fmt: skip
    """Return the graph of a net, as text with the type of every value or as a picture."""
    from archir.ir.printer import print_graph
    from archir.pictures import picture

    space = workspace.space(workspace.program(path, text, net), parameters)
    graph = space.graph if seed is None else space.specialize(space.sample(seed))
    if form == "text" and block is None:
        return TextAnswer(**text_fields(print_graph(graph)))
    return TextAnswer(**text_fields(picture(graph, "mermaid" if form == "text" else form, 1, block, None)))


@errors_as_answer(TextAnswer)
def explain(
    workspace: Workspace,
    what: Annotated[
        str, Field(description="A code such as A0402, an operation, a library such as std.cells, or a block")
    ],
) -> TextAnswer:
    """Explain a diagnostic code, an operation, a library or a library's block, with signature and example."""
    return TextAnswer(**text_fields(explanation(what)))


@errors_as_answer(StatusAnswer)
def status(
    workspace: Workspace,
    folder: Annotated[str, Field(description="A run, or a folder of runs, in the server's folders")] = "runs",
) -> StatusAnswer:
    """Return the progress of searches: running, interrupted or finished, the current phase, and scores."""
    from archir.runs.summaries import located_summaries

    location, _ = workspace.resolve(folder)
    if not location.is_dir():
        raise fail("A2606", f"{folder!r} is not a folder")
    links = (item for item in islice(location.rglob("*"), 100_000) if item.is_symlink())
    if (link := next(links, None)) is not None:
        raise fail("A2606", f"{link.relative_to(location)} is a symbolic link; the server does not follow links")
    summaries = located_summaries(location)
    runs = [
        RunStatus(**{key: value for key, value in asdict(item).items() if key in RunStatus.__dataclass_fields__})
        for _, item in summaries[:MAX_RUNS]
    ]
    return StatusAnswer(runs=runs, more_runs=max(0, len(summaries) - MAX_RUNS))


TOOLS: dict[str, Callable[..., Answer]] = {
    "check": check, "fix": fix, "format": format, "count": count, "cost": cost_of, "sample": sample, "show": show,
    "explain": explain, "status": status,
}  # fmt: skip
"""Tools by the name under which clients call them."""
WRITING_TOOLS = {"fix", "format"}
"""Tools that may write files."""
