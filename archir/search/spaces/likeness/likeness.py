"""Which architectures compute the same, in steps that cost more the more they tell apart."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from archir.base.errors import ArchError
from archir.ir.choices.cases import EntangledError
from archir.ir.graph import Decision, Graph
from archir.passes.equivalence.canonical import Canonical
from archir.search.spaces.architecture import Architecture
from archir.search.spaces.likeness.forms import Form, Forms, forms
from archir.search.spaces.likeness.liveness import Needs, needs
from archir.search.spaces.likeness.marks import Marks, marks
from archir.search.spaces.likeness.steps import Codes, Number, chosen
from archir.search.spaces.likeness.values import Values, values

Mark = int | str | tuple[int, ...]


class Likeness:
    """What architectures of a space that compute the same have alike: their marks and values. And what only such have
    alike: their settled codes and forms. What none of these tells, `hashed` does, the canonical hash."""

    marks: Marks | None = None
    _values: Values | None = None
    _forms: Forms | None = None
    _settled: Callable[[Codes], tuple[int, ...]] | None = None

    def __init__(
        self,
        graph: Graph,
        order: Sequence[Decision],
        canonical: Canonical,
        hashed: Callable[[Architecture], str],
    ) -> None:
        self._hashed = hashed
        try:
            found = needs(graph, order)
            self.marks = marks(found, canonical) if found is not None else None
            if found is not None and self.marks is not None:
                self._settled = _settling(found)
                self._values = values(found)
                self._forms = forms(found)
        except (ArchError, EntangledError):
            pass  # hashes tell

    def mark(self, architecture: Architecture) -> Mark:
        """What is equal for architectures that compute the same, and seldom for others: microseconds."""
        return self._hashed(architecture) if self.marks is None else self.marks.of(architecture)

    def value(self, architecture: Architecture) -> int | str:
        """As a mark, but of what reads what, too: tens of microseconds."""
        return self._hashed(architecture) if self._values is None else self._values.of(architecture.codes)

    def settled(self, architecture: Architecture) -> tuple[int, ...]:
        """The codes of the choices that matter to an architecture, and -1 for the others: architectures that have these
        alike are the same network."""
        return architecture.codes if self._settled is None else self._settled(architecture.codes)

    def form(self, architecture: Architecture) -> Form | str:
        """What only architectures that compute the same have alike, but not all of these; their hash, where there is
        nothing faster."""
        return self._hashed(architecture) if self._forms is None else self._forms.of(architecture.codes)


def _settling(found: Needs) -> Callable[[Codes], tuple[int, ...]]:
    return chosen([Number(value, found.index) if value is not True else None for value in found.mattering()])
