"""The tools: functions of a room and of what is asked, each to an answer; what is wrong is a part of it."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import asdict
from functools import wraps
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, ParamSpec, TypeVar

from pydantic import Field

from archir.api.loading import proved
from archir.diagnostics.errors import ArchError, Diagnostic, fail
from archir.language.formatter import canonical
from archir.passes.cost import cost
from archir.tools.fixing.repair import repaired
from archir.tools.mcp.answers import (
    Answer,
    Checked,
    Costs,
    Counted,
    Drawn,
    Mended,
    Net,
    Range,
    Run,
    Sampled,
    Status,
    Text,
    cut,
    told,
)
from archir.tools.mcp.explaining import explained
from archir.tools.mcp.room import Room
from archir.utils.files import write_atomic

P = ParamSpec("P")
A = TypeVar("A", bound=Answer)

MOST_DRAWN, MOST_CHOICES, MOST_RUNS = 20, 50, 20
COSTS = ("params", "macs", "activation_bytes", "kernels")

Path_ = Annotated[str | None, Field(description="A file of the server's folders: `space.arch`, `a/b.arch:net`")]
Text_ = Annotated[str | None, Field(description="The program, in place of a path; it imports the library alone")]
Net_ = Annotated[str | None, Field(description="The net that is meant, if there are several")]
Parameters_ = Annotated[dict[str, Any] | None, Field(description='The net\'s parameters, such as {"channels": 32}')]
Where_ = Annotated[str | None, Field(description="Bounds on costs, such as `macs <= 600M and params < 5M`")]
Seed_ = Annotated[int | None, Field(description="Draws one architecture with this seed", ge=0, le=2**62)]


def answering(kind: type[A]) -> Callable[[Callable[P, A]], Callable[P, A]]:
    """What a tool raises is its answer."""

    def decorate(tool: Callable[P, A]) -> Callable[P, A]:
        @wraps(tool)
        def answered(*args: P.args, **kwargs: P.kwargs) -> A:
            room = args[0]
            assert isinstance(room, Room)
            try:
                with room.entered():
                    return tool(*args, **kwargs)
            except ArchError as error:
                return kind(**told(error.diagnostics))
            except OSError as error:
                problem = Diagnostic("A1206", f"{Path(str(error.filename or '')).name}: {error.strerror or error}")
                return kind(**told([problem]))

        return answered

    return decorate


@answering(Checked)
def check(room: Room, path: Path_ = None, text: Text_ = None, net: Net_ = None) -> Checked:
    """Prove every architecture of a program well-formed, or say what is wrong and where."""
    program = room.program(path, text, net)
    found = proved(program.text, program.folder, program.name, program.net, program.root, room.limits, None)
    return Checked(nets=[Net(one.name, len(one), len(one.decisions)) for one in found])


@answering(Mended)
def fix(
    room: Room, path: Path_ = None, text: Text_ = None,
    write: Annotated[bool, Field(description="Write the mended text to the file")] = False,
) -> Mended:  # fmt: skip
    """Mend what can be mended: the text comes back with fewer mistakes, or as it was; `problems` are left."""
    program = room.program(path, text)
    place = room.place(program)
    repair = repaired(program.text, program.name, place.check, place.check_names)
    written = write and bool(repair.changes) and _written(room, path, repair.text)
    return Mended(
        **told(repair.left), **cut(repair.text), changes=[one.title for one in repair.changes], written=written
    )


@answering(Text)
def format(
    room: Room, path: Path_ = None, text: Text_ = None,
    write: Annotated[bool, Field(description="Write the text to the file")] = False,
) -> Text:  # fmt: skip
    """Lay out a program canonically: spaces, indentation, line breaks. Meaning and comments stay."""
    program = room.program(path, text)
    made = canonical(program.text, program.name)
    if write and made != program.text:
        _written(room, path, made)
    return Text(**cut(made))


def _written(room: Room, path: str | None, text: str) -> bool:
    if path is None:
        raise fail("A2606", "a text is no file that could be written")
    write_atomic(room.located(path)[0], text.encode())
    return True


@answering(Counted)
def count(
    room: Room, path: Path_ = None, text: Text_ = None, net: Net_ = None, parameters: Parameters_ = None,
    where: Where_ = None,
) -> Counted:  # fmt: skip
    """Count the architectures of a space, exactly, and list its choices."""
    space = room.space(room.program(path, text, net), parameters, where)
    size, kept = space.size, space.satisfying
    within = sorted({str(one) for one in space.count()}, key=int) if space.bounded else [str(kept)]
    choices = [
        {"path": one.path, "alternatives": [str(label) for label in one.alternatives[:MOST_CHOICES]]}
        | ({} if one.take is None else {"take": one.take})
        for one in space.choices[:MOST_CHOICES]
    ]
    more = max(0, len(space.choices) - MOST_CHOICES)
    return Counted(net=space.name, size=str(size), within=within, choices=choices, more_choices=more)


@answering(Costs)
def cost_of(
    room: Room, path: Path_ = None, text: Text_ = None, net: Net_ = None, parameters: Parameters_ = None,
    where: Where_ = None, seed: Seed_ = None,
    choices: Annotated[
        dict[str, Any] | None, Field(description="An architecture: labels by choice, as `sample` gives them")
    ] = None,
) -> Costs:  # fmt: skip
    """Parameters, multiply-accumulates, bytes of activations and kernels: of a network or an architecture exactly, of a
    space the least and the greatest."""
    space = room.space(room.program(path, text, net), parameters, where)
    if choices is None and seed is None and space.choices:
        ranges = {name: Range(*(int(end.bound) for end in space.account.extremes(name))) for name in COSTS}
        return Costs(net=space.name, ranges=ranges)
    architecture = space.architecture(choices) if choices is not None else space.sample(seed or 0)
    found = cost(space.specialize(architecture))
    return Costs(net=space.name, costs={name: int(getattr(found, name)) for name in COSTS})


@answering(Sampled)
def sample(
    room: Room, path: Path_ = None, text: Text_ = None, net: Net_ = None, parameters: Parameters_ = None,
    where: Where_ = None,
    number: Annotated[int, Field(description="How many", ge=1, le=MOST_DRAWN)] = 1,
    seed: Annotated[int, Field(ge=0, le=2**62)] = 0,
) -> Sampled:  # fmt: skip
    """Draw architectures uniformly from those that keep all bounds, with what they cost."""
    space, rng = room.space(room.program(path, text, net), parameters, where), random.Random(seed)
    found = [space.sample(rng) for _ in range(number)]
    known = space.cost(found, COSTS[:2])
    return Sampled(
        architectures=[
            Drawn(dict(one.items()), {name: int(values[i]) for name, values in known.items()})
            for i, one in enumerate(found)
        ]
    )


@answering(Text)
def show(
    room: Room, path: Path_ = None, text: Text_ = None, net: Net_ = None, parameters: Parameters_ = None,
    seed: Seed_ = None,
    block: Annotated[str | None, Field(description="This block alone: its scope or its name")] = None,
    form: Annotated[str, Field(description="`text`, `mermaid` or `svg`", pattern="^(text|mermaid|svg)$")] = "text",
) -> Text:  # fmt: skip
    """The graph of a net: as text with the type of every value, or as a picture."""
    from archir.ir.printer import print_graph
    from archir.pictures import picture

    space = room.space(room.program(path, text, net), parameters)
    graph = space.graph if seed is None else space.specialize(space.sample(seed))
    if form == "text" and block is None:
        return Text(**cut(print_graph(graph)))
    return Text(**cut(picture(graph, "mermaid" if form == "text" else form, 1, block, None)))


@answering(Text)
def explain(
    room: Room,
    what: Annotated[str, Field(description="A code as A0402, an operation, a library as std.cells, or a block")],
) -> Text:
    """What a diagnostic's code, an operation, a library or a block of it means, and how it is called."""
    return Text(**cut(explained(what)))


@answering(Status)
def status(
    room: Room,
    folder: Annotated[str, Field(description="A run, or a folder of runs, in the server's folders")] = "runs",
) -> Status:
    """How far searches came: running, interrupted or finished, the phase and what it scores."""
    from archir.runs.summaries import placed

    place, _ = room.located(folder)
    if not place.is_dir():
        raise fail("A2606", f"{folder!r} is no folder")
    links = (one for one in islice(place.rglob("*"), 100_000) if one.is_symlink())
    if (link := next(links, None)) is not None:
        raise fail("A2606", f"{link.relative_to(place)} is a link, which is not followed")
    found = placed(place)
    runs = [
        Run(**{key: value for key, value in asdict(one).items() if key in Run.__dataclass_fields__})
        for _, one in found[:MOST_RUNS]
    ]
    return Status(runs=runs, more_runs=max(0, len(found) - MOST_RUNS))


TOOLS: dict[str, Callable[..., Answer]] = {
    "check": check, "fix": fix, "format": format, "count": count, "cost": cost_of, "sample": sample, "show": show,
    "explain": explain, "status": status,
}  # fmt: skip
"""By the names that clients call them."""
CHANGING = {"fix", "format"}
"""Those that may write."""
