"""Answers to the requests of the studio's page: diagnostics, formatting, counts, pictures, samples, differences.

Answers consist only of strings, numbers, lists and objects, so that the HTTP server and Python in a browser (the
playground) return the same JSON. Integers that a browser could round are strings.
"""

from __future__ import annotations

import random
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from archir.api.loading import load_checked
from archir.diagnostics.errors import NO_SPAN, ArchError, Diagnostic, fail
from archir.diagnostics.work import fresh_budget, work_budget
from archir.ir.graph import Graph
from archir.language.formatter import canonical
from archir.passes.cost import cost
from archir.pictures import picture
from archir.pictures.style import Heat
from archir.spaces.architecture import Architecture
from archir.spaces.space import Space
from archir.tools.lsp.checking import Checker
from archir.tools.lsp.completion import completions
from archir.tools.lsp.hover import hover
from archir.tools.lsp.nets import nets
from archir.tools.lsp.view import View
from archir.tools.studio.cost_statistics import cost_histogram, count_within, restricted

Answer = dict[str, Any]
"""JSON object that answers a request."""

COSTS = ("params", "macs")
"""Costs for which the page shows histograms and sliders."""
MAX_COMPLETIONS = 200
"""Maximum number of completion items in an answer."""
_MAX_TEXTS = 4
"""Maximum number of texts whose spaces are cached; the least recently used text is dropped first."""


MAX_TEXT = 400_000
"""Maximum number of characters of a program, about as many as the parser's work budget allows."""
MAX_NUMBER = 2**62
"""Largest value of a cost bound in a request."""
MAX_SAMPLES = 12
"""Maximum number of architectures that one request may sample."""


class RequestError(ValueError):
    """Raised for malformed requests, which the studio's own page never sends."""


class RequestFields:
    """Fields of a request's JSON object.

    All methods raise RequestError if a field is missing, or has a wrong type or size.
    """

    def __init__(self, fields: Any) -> None:
        if not isinstance(fields, dict):
            raise RequestError("a request must be a JSON object")
        self._fields: Mapping[str, Any] = fields

    def text(self, name: str = "text", max_length: int = MAX_TEXT) -> str:
        """Return a string field of at most `max_length` characters."""
        value = self._fields.get(name)
        if not isinstance(value, str) or len(value) > max_length:
            raise RequestError(f"`{name}` must be a string of at most {max_length:,} characters")
        try:
            value.encode()
        except UnicodeEncodeError:
            raise RequestError(f"`{name}` is not valid text: it contains an unpaired surrogate") from None
        return value

    def optional_text(self, name: str) -> str | None:
        """Return a string field of at most 200 characters, or None if it is missing or null."""
        return None if self._fields.get(name) is None else self.text(name, 200)

    def number(self, name: str, least: int, most: int) -> int:
        """Return an integer field from `least` to `most`, both inclusive."""
        return _number(name, self._fields.get(name), least, most)

    def labels(self, name: str) -> dict[str, Any] | None:
        """Return an object field that maps paths of choices to an architecture's labels; None if it is missing or
        null."""
        value = self._fields.get(name)
        if value is not None and not isinstance(value, dict):
            raise RequestError(f"`{name}` must be an object")
        return value

    def bounds(self, costs: tuple[str, ...]) -> dict[str, tuple[int, int]]:
        """Return the allowed range (minimum, maximum) of each cost in the field `bounds`; empty if the field is
        missing.

        `costs` are the costs that may occur.
        """
        value = self._fields.get("bounds", {})
        if not isinstance(value, dict) or not set(value) <= set(costs):
            raise RequestError(f"`bounds` must be an object with no keys but {', '.join(costs)}")
        bounds = {}
        for name, pair in value.items():
            if not isinstance(pair, list) or len(pair) != 2:
                raise RequestError(f"a bound on {name} must be a list of two numbers")
            low, high = (_number(name, end, 0, MAX_NUMBER) for end in pair)
            bounds[name] = low, high
        return bounds


def _number(name: str, value: Any, least: int, most: int) -> int:
    """Return an integer given as a JSON number or a decimal string. Raises RequestError if it is out of range."""
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 20:
        value = int(value)  # a browser sends integers beyond 2^53 as strings
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise RequestError(f"`{name}` must be an integer from {least} to {most}")
    return value


def to_utf16_offset(text: str, offset: int) -> int:
    """Convert an offset in characters to one in UTF-16 code units, in which browsers count.

    Characters above U+FFFF count twice.
    """
    return offset + sum(char > "\uffff" for char in text[:offset]) if not text.isascii() else offset


def from_utf16_offset(text: str, units: int) -> int:
    """Convert an offset in UTF-16 code units, in which browsers count, to characters."""
    if text.isascii():
        return min(units, len(text))
    return len(text.encode("utf-16-le")[: 2 * units].decode("utf-16-le", "ignore"))


class Session:
    """Answers requests about successive texts of the file `name`, and caches the spaces of the latest ones.

    Relative imports start in `folder`.
    """

    def __init__(self, name: str = "space.arch", folder: Path | None = None) -> None:
        self.checker = Checker(name, folder)
        self._spaces_of: OrderedDict[str, list[Space]] = OrderedDict()
        self._handlers: dict[str, Callable[[RequestFields], Answer]] = {
            "check": self._check, "format": self._format, "picture": self._picture, "costs": self._costs,
            "within": self._within, "sample": self._sample, "diff": self._diff, "hover": self._hover,
            "complete": self._complete,
        }  # fmt: skip

    @property
    def kinds(self) -> tuple[str, ...]:
        """Kinds of requests that can be answered."""
        return tuple(self._handlers)

    def ask(self, kind: str, fields: Any) -> Answer:
        """Return the answer to a request.

        Errors of the text or of its bounds are reported in the answer's field `problems`. Raises RequestError if the
        request is malformed.
        """
        if kind not in self._handlers:
            raise RequestError(f"there are no requests of kind `{kind}`")
        request = RequestFields(fields)
        try:
            with work_budget(self.checker.limits.work), fresh_budget():
                return self._handlers[kind](request)
        except ArchError as error:
            self._spaces_of.pop(request.text(), None)  # its spaces may hold incomplete results
            return {"problems": [self._problem(request.text(), problem) for problem in error.diagnostics]}

    def _problem(self, text: str, diagnostic: Diagnostic) -> Answer:
        """Return a diagnostic as JSON, with offsets in UTF-16 code units.

        Offsets are 0 if the diagnostic is about another file.
        """
        is_here = (
            diagnostic.span is not None
            and diagnostic.span is not NO_SPAN
            and diagnostic.span.source.name == self.checker.name
        )
        start, end = (diagnostic.span.start, diagnostic.span.end) if is_here and diagnostic.span is not None else (0, 0)
        answer: Answer = {
            "code": diagnostic.code, "severity": diagnostic.severity, "message": diagnostic.message,
            "hint": diagnostic.hint,
            "start": to_utf16_offset(text, start), "end": to_utf16_offset(text, end),
            "line": diagnostic.span.line if is_here and diagnostic.span is not None else 1,
            "notes": [f"{note.span}: {note.text}" if note.span else note.text for note in diagnostic.notes],
        }  # fmt: skip
        if diagnostic.edit is not None and is_here:
            answer["edit"] = diagnostic.edit[1]
        return answer

    def _spaces(self, text: str) -> list[Space]:
        """Return the spaces of all nets in a text, from the cache if possible.

        Raises ArchError with all errors of the text.
        """
        if text not in self._spaces_of:
            checker = self.checker
            graphs = load_checked(text, checker.folder, checker.name, None, checker.root, checker.limits, {})
            self._spaces_of[text] = [Space(graph) for graph in graphs]
            while len(self._spaces_of) > _MAX_TEXTS:
                self._spaces_of.popitem(last=False)
        self._spaces_of.move_to_end(text)
        return self._spaces_of[text]

    def _space(self, request: RequestFields) -> Space:
        """Return the space of the net named in the request, by default the last net of the text.

        Raises ArchError (A0808) if the text has no net.
        """
        spaces, name = self._spaces(request.text()), request.optional_text("net")
        if not spaces:
            raise fail("A0808", "the program has no net", None, "add one: `net space(width = 16) { ... }`")
        return next((space for space in spaces if space.name == name), spaces[-1])

    def _check(self, request: RequestFields) -> Answer:
        nets_found = []
        for space in self._spaces(request.text()):
            with fresh_budget():
                nets_found.append({
                    "name": space.name, "size": str(space.satisfying), "choices": len(space.choices),
                    "bounded": space.has_cost_bounds,
                })  # fmt: skip
        return {"problems": [], "nets": nets_found}

    def _format(self, request: RequestFields) -> Answer:
        return {"text": canonical(request.text(), self.checker.name)}

    def _view(self, request: RequestFields) -> tuple[View, int]:
        """Return the text, and the position in it that the request is about."""
        view = View(request.text(), self.checker.name, self.checker.folder)
        return view, from_utf16_offset(view.text, request.number("at", 0, len(view.text) * 2))

    def _hover(self, request: RequestFields) -> Answer:
        view, position = self._view(request)
        return {"text": hover(view, position, nets(view))}

    def _complete(self, request: RequestFields) -> Answer:
        view, position = self._view(request)
        return {"items": [asdict(item) for item in completions(view, position)[:MAX_COMPLETIONS]]}

    def _picture(self, request: RequestFields) -> Answer:
        """Answer with a picture, as an HTML page, of the space or of one architecture.

        `heat` is a cost to colour nodes by.
        """
        space, name, labels = self._space(request), request.optional_text("heat"), request.labels("architecture")
        if labels is not None:
            space = Space(space.specialize(space.architecture(labels)))
        with fresh_budget():
            heat = None if name is None else Heat.of(space, name)
        return {"page": picture(space.graph, "html", request.number("depth", 1, 9), None, heat)}

    def _costs(self, request: RequestFields) -> Answer:
        space = self._space(request)
        return {"costs": {name: cost_histogram(space, name) for name in COSTS}}

    def _within(self, request: RequestFields) -> Answer:
        """Answer with limits on the number of architectures within given cost bounds, and the total number.

        The total number is counted without these bounds.
        """
        space = self._space(request)
        least, most = count_within(space, request.bounds(COSTS))
        return {"least": str(least), "most": str(most), "of": str(space.satisfying)}

    def _sample(self, request: RequestFields) -> Answer:
        space, bounds = self._space(request), request.bounds(COSTS)
        rng = random.Random(request.number("seed", 0, 2**53))
        if bounds:
            space = restricted(space, bounds)
        samples = []
        for _ in range(request.number("count", 1, MAX_SAMPLES)):
            with fresh_budget():
                samples.append(_architecture_answer(space, space.sample(rng)))
        return {"architectures": samples}

    def _diff(self, request: RequestFields) -> Answer:
        from archir.spaces.diff import diff_architectures, diff_networks

        space = self._space(request)
        before, after = (space.architecture(request.labels(name) or {}) for name in ("one", "other"))
        differences = diff_architectures(before, after)
        differences += diff_networks(*(space.specialize(architecture) for architecture in (before, after)))
        return {"differences": [asdict(architecture) for architecture in differences]}


def _architecture_answer(space: Space, architecture: Architecture) -> Answer:
    network: Graph = space.specialize(architecture)
    return {"choices": dict(architecture), "costs": {name: f"{n:,}" for name, n in vars(cost(network)).items()}}
