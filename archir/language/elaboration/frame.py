"""Calls in progress: call frames with their variables, the scopes for the nodes that they add, and cells."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, replace

from archir.diagnostics.errors import Note, Span
from archir.diagrams.diagram import Choice, Diagram, Value
from archir.ir.graph import NodeId
from archir.language.elaboration.module import Block, Module


@dataclass
class Scope:
    """Scope in the hierarchy of the net, such as a block call.

    `path` is the prefix of the names of weights, `choices` the prefix of the names of choices; the two differ inside a
    cell. `loops` are the current iteration indices of the enclosing loops.
    """

    path: str = ""
    choices: str = ""
    loops: tuple[int, ...] = ()
    used: set[str] = field(default_factory=set)
    counts: dict[str, int] = field(default_factory=dict)
    depths: dict[str, int] = field(default_factory=dict)
    shared: set[str] = field(default_factory=set)
    """Names of shared weights, given by `weights=`, in this scope."""

    def component(self, name: str) -> str:
        """Return a component that is unique in this scope: `name` or `name_2`, ..., then the loop indices.

        Each name always has the same number of indices, because `b` and `b[0]` could not both be attributes of a
        module.
        """
        place = "".join(f"[{i}]" for i in self.loops)
        number = self.counts.get(name + place, 0)
        while True:
            number += 1
            base = name if number == 1 else f"{name}_{number}"
            if base + place not in self.used and self.depths.setdefault(base, len(self.loops)) == len(self.loops):
                break
        self.counts[name + place] = number
        self.used.add(base + place)
        return base + place

    def child(self, name: str) -> Scope:
        """Return a new child scope with a unique component."""
        component = self.component(name)
        return Scope(join(self.path, component), join(self.choices, component))


def join(path: str, component: str) -> str:
    """Append a component to a dotted path."""
    return f"{path}.{component}" if path else component


@dataclass
class Frame:
    """Call frame: its variables, the module in which its names are looked up, and the values returned so far."""

    module: Module
    env: dict[str, Value] = field(default_factory=dict)
    block: Block | None = None
    call_span: Span | None = None
    caller: Frame | None = None
    returned: list[tuple[Value, Value]] = field(default_factory=list)
    """For each executed `return`, its condition and value."""
    local_names: frozenset[str] = frozenset()
    """Names that are assigned anywhere in the body."""
    base_scope: Scope = field(default_factory=Scope)
    """Scope of the call itself, outside of its loops and alternatives."""

    def user_span(self, span: Span) -> Span:
        """Return the span to report to the user: for code in archir's own libraries, the span of the user's call into
        them."""
        frame: Frame = self
        while frame.module.library and frame.block is not None and frame.caller is not None:
            span, frame = frame.call_span or span, frame.caller
        return span

    def location(self, span: Span) -> tuple[Span, tuple[Note, ...]]:
        """Return the span at which to report a problem, and notes for the chain of calls that led there."""
        place = self.user_span(span)
        notes: list[Note] = []
        if self.block is not None and place is not span:
            notes.append(Note(f"in `{self.block.name}`", span))
        frame: Frame | None = self
        while frame is not None and frame.block is not None:
            if frame.call_span is not place:
                notes.append(Note(f"in `{frame.block.name}`, called at {frame.call_span}"))
            frame = frame.caller
        return place, _abridge(notes)


@dataclass(frozen=True)
class Recording:
    """Nodes that a cell call added: those numbered `start` to `stop - 1`, below `scope`, with the argument nodes
    `arguments`."""

    start: NodeId
    stop: NodeId
    scope: str
    arguments: tuple[NodeId, ...]
    blocks: tuple[tuple[str, str], ...]
    """Block calls inside the cell call: (path relative to the scope, block name)."""
    selected: Mapping[NodeId, Diagram]
    """Maps each recorded select node to the choice-dependent value that it implements."""
    result: Value


@dataclass
class CellState:
    """State of a cell during elaboration.

    A cell is a block whose choices are shared by all of its calls: the first call makes the choices, and later calls
    must make the same choices.
    """

    first: Span
    """Span of the first call."""
    what: str
    """The cell's name in messages, such as "cell `c`"."""
    guard: Value = True
    """Condition under which the first call is evaluated."""
    choices: dict[str, tuple[Choice, Value]] = field(default_factory=dict)
    """Choices of the first call by path, each with the condition under which it is active."""
    met: dict[str, Value] = field(default_factory=dict)
    """Choices that the current call has made so far: maps each path to the condition of the choice."""
    complete: bool = False
    """True once the first call has ended, so that `choices` has all choices of the cell."""
    calls: dict[Hashable, Recording] = field(default_factory=dict)
    """Recorded nodes of earlier calls, by `call_key`."""


def _abridge(notes: list[Note]) -> tuple[Note, ...]:
    """Shorten call notes to at most 6: merge repeated calls, stating the count, then keep only the first and last
    ones."""
    if len(notes) <= 6:
        return tuple(notes)
    times = Counter(note.text for note in notes)
    once = list({note.text: note for note in notes}.values())
    unique = [
        replace(entry, text=f"{entry.text} ({times[entry.text]} times)") if times[entry.text] > 1 else entry
        for entry in once
    ]
    return tuple(unique) if len(unique) <= 6 else (*unique[:3], Note(f"... {len(unique) - 5} more calls"), *unique[-2:])
