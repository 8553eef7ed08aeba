"""Where elaboration stands: the frame, the scope, the condition under which code runs, and what went wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from archir.diagnostics import work
from archir.diagnostics.errors import FAULTS, ArchError, Diagnostic, Note, RuleError, Span
from archir.diagnostics.work import MOST_WORK, WorkError
from archir.diagrams.cases import Value, leaves, same, varies
from archir.diagrams.conditions import Restriction, both, narrowed
from archir.diagrams.lifting import CaseError, Excluded, lift
from archir.ir.graph import Constraint, Graph
from archir.language.elaboration.files import Module
from archir.language.elaboration.origins import origins
from archir.language.elaboration.values import POISON, Block

MOST_CALLS = 64
"""Depth of calls."""
MOST_DIAGNOSTICS = 50
WEIGHTS = "weights"
"""The argument that names weights which calls share, of all that has no parameter of that name itself."""
A_STEP, A_NODE, A_COPY, A_CALL = 2, 15, 8, 40
"""Units of work: of an expression or a statement, of a node, of one that is copied, of a call of a block."""


@dataclass(frozen=True)
class Limits:
    """What an expansion may take before it is refused."""

    nodes: int = 200_000
    work: int = MOST_WORK
    """Units of `archir.diagnostics.work`, where there is no budget yet."""
    guess: bool = False
    """Whether a node whose operands should be alike, and are not, has the type of the first one, so that what comes
    after it is looked at, too."""


class Problems:
    """Diagnostics in the order found; the same one at the same place is kept once."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, object, object], Diagnostic] = {}

    def add(self, diagnostic: Diagnostic) -> None:
        """Keep a diagnostic."""
        self._found.setdefault(_key(diagnostic.code, diagnostic.span), diagnostic)

    def known(self, code: str, span: Span) -> bool:
        """Whether there is one of a code at a place."""
        return _key(code, span) in self._found

    def __len__(self) -> int:
        return len(self._found)

    def raise_any(self) -> None:
        """Raise ArchError if anything was found, sorted by place within each file."""
        found = list(self._found.values())
        if found:
            files = list(dict.fromkeys(d.span.source.name if d.span else "" for d in found))
            found.sort(key=lambda d: (files.index(d.span.source.name), d.span.start) if d.span else (-1, 0))
            raise ArchError(*found[:MOST_DIAGNOSTICS])


def _key(code: str, span: Span | None) -> tuple[str, object, object]:
    return code, span and (span.source.name, span.start), span and span.end


@dataclass
class Scope:
    """A place in the hierarchy: `path` names weights, `choices` names choices (they part inside a cell)."""

    path: str = ""
    choices: str = ""
    loops: tuple[int, ...] = ()
    used: set[str] = field(default_factory=set)
    counts: dict[str, int] = field(default_factory=dict)
    depths: dict[str, int] = field(default_factory=dict)
    shared: set[str] = field(default_factory=set)
    """Names of weights that calls share here."""

    def component(self, name: str) -> str:
        """A component that is new here: `name`, `name_2`, ...; with the positions of the enclosing loops.

        One name is either alone or a list, as deep everywhere: `b` and `b[0]` would not be told apart as attributes.
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
        """A new scope below this one."""
        component = self.component(name)
        return Scope(join(self.path, component), join(self.choices, component))


def join(path: str, component: str) -> str:
    """A path one component longer."""
    return f"{path}.{component}" if path else component


@dataclass
class Frame:
    """A call in progress: variables, the file its names come from, and what it returned so far."""

    module: Module
    env: dict[str, Value] = field(default_factory=dict)
    block: Block | None = None
    called: Span | None = None
    caller: Frame | None = None
    returned: list[tuple[Value, Value]] = field(default_factory=list)
    local: frozenset[str] = frozenset()
    """Names that the body gives a value to, somewhere."""
    home: Scope = field(default_factory=Scope)
    """Where the call stands, whatever loops and alternatives it is in."""

    def place(self, span: Span) -> Span:
        """The place in what the user wrote: of what is in a library, where it is called; there it can be mended."""
        frame: Frame = self
        while frame.module.library and frame.block is not None and frame.caller is not None:
            span, frame = frame.called or span, frame.caller
        return span

    def head(self, span: Span) -> tuple[Span, tuple[Note, ...]]:
        """The place of a problem, and how the program came there."""
        place = self.place(span)
        notes: list[Note] = []
        if self.block is not None and place is not span:
            notes.append(Note(f"in `{self.block.name}`", span))
        walk: Frame | None = self
        while walk is not None and walk.block is not None:
            if walk.called is not place:
                notes.append(Note(f"in `{walk.block.name}`, called at {walk.called}"))
            walk = walk.caller
        return place, _few(notes)


def _few(notes: list[Note]) -> tuple[Note, ...]:
    """Calls, as many as are read: those of one place once, for what recurs comes from the call that is there once."""
    if len(notes) <= 6:
        return tuple(notes)
    times = Counter(note.text for note in notes)
    once = list({note.text: note for note in notes}.values())
    few = [replace(one, text=f"{one.text} ({times[one.text]} times)") if times[one.text] > 1 else one for one in once]
    return tuple(few) if len(few) <= 6 else (*few[:3], Note(f"... {len(few) - 5} more calls"), *few[-2:])


def _elsewhere(notes: Sequence[Note], shown: Sequence[Span | None]) -> tuple[Note, ...]:
    """Notes on lines that are not shown already, one of each."""
    lines = {(one.source.name, one.line) for one in shown if one is not None}
    left = {(one.span.source.name, one.span.line): one for one in notes if one.span is not None}
    return tuple(one for line, one in left.items() if line not in lines)


def _chosen(error: CaseError, shown: Sequence[Span | None]) -> tuple[Note, ...]:
    """Where numbers are chosen for which a rule refuses what comes of them."""
    plain = [c for c in error.assignment if c.take is None and not any(isinstance(a, str) for a in c.alternatives)]
    return _elsewhere([Note(f"`{choice}` is chosen here", choice.span) for choice in plain], shown)[:2]


def _place(error: CaseError, span: Span) -> Span | None:
    """Where the alternative is written that a rule refuses, if it is one and elsewhere."""
    places = [choice.places[o] for choice, o in error.assignment.items() if choice.take is None and choice.places]
    return places[0] if len(places) == 1 == len(error.assignment) and str(places[0]) != str(span) else None


def unseen(context: Context, span: Span, value: Value) -> None:
    """Nobody looks on."""


class LimitError(Exception):
    """A limit was passed: elaboration cannot go on."""


class Context:
    """State and reporting, under everything that elaborates."""

    def __init__(self, limits: Limits, module: Module, name: str) -> None:
        self.limits = limits
        self.graph = Graph(name)
        self.problems = Problems()
        self.scope = Scope()
        self.frame = Frame(module, home=self.scope)
        self.path: Value = True
        """The condition under which the code at hand runs."""
        self.given: list[Value] = []
        """What the requirements so far say of choices. It excuses what they rule out; what exists depends on `path`
        alone."""
        self._stated: set[Constraint] = set()
        self._restriction = Restriction()
        self.budget = work.current()
        self.seen: Callable[[Context, Span, Value], None] = unseen
        """Is told what pipes and names come to."""

    def error(self, code: str, message: str, span: Span, hint: str | None = None, *notes: Note) -> Value:
        """Report a problem; the value to go on with. Raises Excluded where requirements rule the code at hand out."""
        if self.given and narrowed(self.path, self.given) is False:
            raise Excluded
        return self.complain(code, message, span, hint, *notes)

    def complain(self, code: str, message: str, span: Span, hint: str | None = None, *notes: Note) -> Value:
        """Report a problem, whatever is required."""
        place, chain = self.frame.head(span)
        self.problems.add(Diagnostic(code, message, place, hint, (*notes, *chain)))
        return POISON

    def refuse(self, error: RuleError, span: Span, prefix: str = "", made: Sequence[Note] = ()) -> Value:
        """Report a rule's refusal at a place, with the choices that lead to it, and where is `made` what it refuses."""
        if isinstance(error, WorkError):
            self.stop(error.code, error.message, span, error.hint)
        notes: tuple[Note, ...] = ()
        if isinstance(error, CaseError) and error.assignment:
            notes = (error.note(_place(error, span)),)
        if not self.problems.known(error.code, self.frame.place(span)):
            written = origins(self.frame, span, error.message, notes, bool(made))
            shown = (span, self.frame.place(span), *(note.span for note in (*notes, *written)))
            notes += (*written, *_elsewhere(made, shown))
            if not notes[1:] and isinstance(error, CaseError):
                notes += _chosen(error, shown)
        return self.error(error.code, f"{prefix}{error.message}", span, error.hint, *notes)

    def stop(self, code: str, message: str, span: Span, hint: str | None = None) -> None:
        """Report that a limit was passed, and give up."""
        self.complain(code, message, span, hint)
        raise LimitError

    def step(self, span: Span) -> None:
        """Count a step of elaboration."""
        self.budget.left -= A_STEP
        if self.budget.left < 0:
            self.refuse(WorkError(), span)

    def spend(self, amount: float, span: Span) -> None:
        """Count work; stop at a place if there is none left."""
        try:
            self.budget.spend(amount)
        except WorkError as error:
            self.refuse(error, span)

    def lift(self, span: Span, rule: Callable[..., Value], *values: Value) -> Value:
        """`rule` on values that may depend on choices; refusals are reported at `span`."""
        for value in values:
            if value is POISON:
                return POISON
        try:
            return lift(rule, *values, under=self.path, given=self.given)
        except RuleError as error:
            return self.refuse(error, span)

    def here(self, value: Value) -> Value:
        """A value where the code at hand runs; elsewhere whatever makes it small."""
        return self._restriction.of(value, self.path)

    def checked(self, span: Span, rule: Callable[..., Value], value: Value) -> Value:
        """As `lift`, of a rule that leaves most values as they are, or refuses them."""
        if varies(value):
            value = self.here(value)
            try:
                if all(same(rule(leaf), leaf) for leaf in leaves(value)):
                    return value
            except (RuleError, *FAULTS):
                pass
        return self.lift(span, rule, value)

    def constrain(self, constraint: Constraint) -> None:
        """Add a constraint; a cell states its own in every call."""
        if constraint not in self._stated:
            self._stated.add(constraint)
            self.graph.constraints.append(constraint)
            if constraint.cost is None and constraint.condition is not True:
                self.given.append(constraint.condition)

    @contextmanager
    def under(self, condition: Value) -> Iterator[bool]:
        """Code that runs only where `condition` holds too; yields whether it can run at all.

        Code that turns out to run under no combination that the requirements allow is left where it is.
        """
        before = self.path
        self.path = both(before, condition)
        try:
            yield self.path is not False
        except Excluded:
            pass
        finally:
            self.path = before

    @contextmanager
    def inside(self, scope: Scope) -> Iterator[None]:
        """Code in another scope."""
        before, self.scope = self.scope, scope
        try:
            yield
        finally:
            self.scope = before
