"""What a page is told of a text: problems, layout, counts, pictures, architectures and what tells them apart.

Answers are made of texts, numbers, lists and objects, so that a server and a browser's own Python give the same ones.
Numbers that a browser might round are texts.
"""

from __future__ import annotations

import random
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from archir.api.loading import proved
from archir.diagnostics.errors import NOWHERE, ArchError, Diagnostic, fail
from archir.diagnostics.work import anew, bounded
from archir.ir.graph import Graph
from archir.language.formatter import canonical
from archir.passes.cost import cost
from archir.pictures import picture
from archir.spaces.architecture import Architecture
from archir.spaces.space import Space
from archir.tools.lsp.checking import Place
from archir.tools.lsp.completion import completions
from archir.tools.lsp.hover import hover
from archir.tools.lsp.nets import nets
from archir.tools.lsp.view import View
from archir.tools.studio.asked import MOST_DRAWN, Asked, AskedError, offset, units

Answer = dict[str, Any]

COSTS = ("params", "macs")
"""The costs that there are sliders for."""
MOST_COMPLETIONS = 200
_KEPT = 4


class Desk:
    """Answers questions about texts called `name`, whose imports start in `folder`; the last few texts are kept."""

    def __init__(self, name: str = "space.arch", folder: Path | None = None) -> None:
        self.place = Place(name, folder)
        self._read: OrderedDict[str, list[Space]] = OrderedDict()
        self._kinds: dict[str, Callable[[Asked], Answer]] = {
            "check": self._check, "format": self._format, "picture": self._picture, "costs": self._costs,
            "within": self._within, "sample": self._sample, "diff": self._diff, "hover": self._hover,
            "complete": self._complete,
        }  # fmt: skip

    @property
    def kinds(self) -> tuple[str, ...]:
        """What may be asked."""
        return tuple(self._kinds)

    def ask(self, kind: str, fields: Any) -> Answer:
        """The answer to a question; where something is wrong with the text or the question's bounds, its `problems`.

        Raises AskedError for a question that is none.
        """
        if kind not in self._kinds:
            raise AskedError(f"there are no questions `{kind}`")
        asked = Asked(fields)
        try:
            with bounded(self.place.limits.work), anew():
                return self._kinds[kind](asked)
        except ArchError as error:
            self._read.pop(asked.text(), None)  # what is half worked out is not used again
            return {"problems": [self._told(asked.text(), one) for one in error.diagnostics]}

    def _told(self, text: str, one: Diagnostic) -> Answer:
        """A diagnostic with its place in the text; one about another file has the first place."""
        here = one.span is not None and one.span is not NOWHERE and one.span.source.name == self.place.name
        start, end = (one.span.start, one.span.end) if here and one.span is not None else (0, 0)
        told: Answer = {
            "code": one.code, "severity": one.severity, "message": one.message, "hint": one.hint,
            "start": units(text, start), "end": units(text, end),
            "line": one.span.line if here and one.span is not None else 1,
            "notes": [f"{note.span}: {note.text}" if note.span else note.text for note in one.notes],
        }  # fmt: skip
        if one.edit is not None and here:
            told["edit"] = one.edit[1]
        return told

    def _spaces(self, text: str) -> list[Space]:
        """The spaces of the text's nets. Raises ArchError with all that is wrong."""
        if text not in self._read:
            place = self.place
            found = proved(text, place.folder, place.name, None, place.root, place.limits, {})
            self._read[text] = [Space(graph) for graph in found]
            while len(self._read) > _KEPT:
                self._read.popitem(last=False)
        self._read.move_to_end(text)
        return self._read[text]

    def _space(self, asked: Asked) -> Space:
        """The space that is asked about: of the net that is named, or of the last one."""
        spaces, name = self._spaces(asked.text()), asked.maybe("net")
        if not spaces:
            raise fail("A0808", "there is no net in this text", None, "begin with `net space(width = 16) { ... }`")
        return next((space for space in spaces if space.name == name), spaces[-1])

    def _check(self, asked: Asked) -> Answer:
        found = []
        for space in self._spaces(asked.text()):
            with anew():
                found.append({
                    "name": space.name, "size": str(space.satisfying), "choices": len(space.choices),
                    "bounded": space.bounded,
                })  # fmt: skip
        return {"problems": [], "nets": found}

    def _format(self, asked: Asked) -> Answer:
        return {"text": canonical(asked.text(), self.place.name)}

    def _hover(self, asked: Asked) -> Answer:
        view = View(asked.text(), self.place.name, self.place.folder)
        at = offset(view.text, asked.number("at", 0, len(view.text) * 2))
        return {"text": hover(view, at, nets(view))}

    def _complete(self, asked: Asked) -> Answer:
        view = View(asked.text(), self.place.name, self.place.folder)
        at = offset(view.text, asked.number("at", 0, len(view.text) * 2))
        return {"items": [asdict(item) for item in completions(view, at)[:MOST_COMPLETIONS]]}

    def _picture(self, asked: Asked) -> Answer:
        space, name, labels = self._space(asked), asked.maybe("heat"), asked.labels("architecture")
        if labels is not None:
            space = Space(space.specialize(space.architecture(labels)))
        heat = None
        if name is not None:
            from archir.tools.studio.amounts import heat_of  # arrays of numbers, which a picture does without

            heat = heat_of(space, name)
        return {"page": picture(space.graph, "html", asked.number("depth", 1, 9), None, heat)}

    def _costs(self, asked: Asked) -> Answer:
        from archir.tools.studio.amounts import costs_of

        space = self._space(asked)
        return {"costs": {name: costs_of(space, name) for name in COSTS}}

    def _within(self, asked: Asked) -> Answer:
        from archir.tools.studio.amounts import within

        space = self._space(asked)
        least, most = within(space, asked.bounds(COSTS))
        return {"least": str(least), "most": str(most), "of": str(space.satisfying)}

    def _sample(self, asked: Asked) -> Answer:
        space, bounds = self._space(asked), asked.bounds(COSTS)
        rng = random.Random(asked.number("seed", 0, 2**53))
        if bounds:
            from archir.tools.studio.amounts import narrowed

            space = narrowed(space, bounds)
        drawn = []
        for _ in range(asked.number("count", 1, MOST_DRAWN)):
            with anew():
                drawn.append(_told_of(space, space.sample(rng)))
        return {"architectures": drawn}

    def _diff(self, asked: Asked) -> Answer:
        from archir.spaces.diff import diff_architectures, diff_networks

        space = self._space(asked)
        one, other = (space.architecture(asked.labels(name) or {}) for name in ("one", "other"))
        found = diff_architectures(one, other)
        found += diff_networks(*(space.specialize(each) for each in (one, other)))
        return {"differences": [asdict(each) for each in found]}


def _told_of(space: Space, architecture: Architecture) -> Answer:
    network: Graph = space.specialize(architecture)
    return {"choices": dict(architecture), "costs": {name: f"{n:,}" for name, n in vars(cost(network)).items()}}
