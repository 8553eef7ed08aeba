"""Calls in progress: frames of variables, and the scopes of the nodes that they add."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace

from archir.diagnostics.errors import Note, Span
from archir.diagrams.mdd import Value
from archir.language.elaboration.module import Block, Module


@dataclass
class Scope:
    """A place in the hierarchy of the net.

    `path` is the prefix of names of weights, `choices` that of names of choices; they differ inside of a cell. `loops`
    are the positions in the enclosing loops.
    """

    path: str = ""
    choices: str = ""
    loops: tuple[int, ...] = ()
    used: set[str] = field(default_factory=set)
    counts: dict[str, int] = field(default_factory=dict)
    depths: dict[str, int] = field(default_factory=dict)
    shared: set[str] = field(default_factory=set)
    """Names of weights that calls share in this scope."""

    def component(self, name: str) -> str:
        """Return a component that is new in this scope: `name`, `name_2`, ...; with the positions in the enclosing
        loops.

        A name is used either without positions or with the same number of them everywhere: as attributes of modules,
        `b` and `b[0]` could not be distinguished.
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
        """Return a new scope below this one."""
        component = self.component(name)
        return Scope(join(self.path, component), join(self.choices, component))


def join(path: str, component: str) -> str:
    """Return the path with one more component."""
    return f"{path}.{component}" if path else component


@dataclass
class Frame:
    """A call in progress: its variables, the module that resolves its names, and the values returned so far."""

    module: Module
    env: dict[str, Value] = field(default_factory=dict)
    block: Block | None = None
    call_span: Span | None = None
    caller: Frame | None = None
    returned: list[tuple[Value, Value]] = field(default_factory=list)
    """Pairs: the condition of a `return`, and its value."""
    local_names: frozenset[str] = frozenset()
    """Names that the body assigns somewhere."""
    base_scope: Scope = field(default_factory=Scope)
    """Scope of the call itself, without the loops and alternatives inside of it."""

    def user_span(self, span: Span) -> Span:
        """Return the place in the user's program: for code in archir's libraries the call, which the user can fix."""
        frame: Frame = self
        while frame.module.library and frame.block is not None and frame.caller is not None:
            span, frame = frame.call_span or span, frame.caller
        return span

    def location(self, span: Span) -> tuple[Span, tuple[Note, ...]]:
        """Return the place of a problem, and notes on the calls that led there."""
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


def _abridge(notes: list[Note]) -> tuple[Note, ...]:
    """Return at most 6 notes on calls: repeated calls once with their count, then the first and the last ones."""
    if len(notes) <= 6:
        return tuple(notes)
    times = Counter(note.text for note in notes)
    once = list({note.text: note for note in notes}.values())
    unique = [
        replace(entry, text=f"{entry.text} ({times[entry.text]} times)") if times[entry.text] > 1 else entry
        for entry in once
    ]
    return tuple(unique) if len(unique) <= 6 else (*unique[:3], Note(f"... {len(unique) - 5} more calls"), *unique[-2:])
