"""Recipes: what a search does, phase by phase, as TOML says it.

space = "darts.arch:darts"          # beside the recipe
[parameters]                        # of the net
[data]                              # what is trained on
[[phase]]                           # one after the other
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, model_validator

from archir.errors import Source, Span, fail, suggest
from archir_torch.engine.settings import Augment, Many, Optimizer, Settings, Training, parsed

NAME = r"^[A-Za-z0-9][\w-]*$"


class DataSettings(Settings):
    """Which images. `source` is what `archir_torch.data.load` takes."""

    source: str = "digits"
    limit: int | None = Field(default=None, ge=2)
    """At most so many images of the training part, and of the held-out part."""
    classes: int | None = Field(default=None, ge=2)
    """So many classes, drawn by the seed."""
    weights: float = Field(default=0.5, gt=0, lt=1)
    """The part of the training images that weights see in a search; what chooses sees the others."""
    augment: Augment = Augment()


class Start(Settings):
    """What a phase takes over from earlier ones, by their names."""

    alphas: str | None = None
    """Its architecture parameters start as those of this phase ended."""
    architecture: str | None = None
    """The architecture of this phase: what `train` trains; in a search, what choices that are not open are."""
    weights: str | None = None
    """Weights of the same name and shape; of a supernet, an architecture's part."""
    trials: str | None = None
    """What this phase tried, and what came of it."""


class SkipLimit(Settings):
    """How many alternatives with certain labels a cell may have (Chen et al. 2019, P-DARTS, section 3.3; Liang et al.
    2019, DARTS+, section 3.2). A cell is what comes before the first point of a choice's path."""

    labels: Annotated[tuple[str, ...], Many] = ("skip_connect",)
    most: int = Field(default=2, ge=0)
    stop: bool = False
    """Whether the search stops as soon as more would be derived."""


class Derive(Settings):
    """How an architecture is derived from architecture parameters (see `archir.search.derive`)."""

    exclude: Annotated[tuple[str, ...], Many] = ()
    """Labels of alternatives that are not derived, such as those of zeros."""
    limit: SkipLimit | None = None


class Phase(Settings):
    """A phase: a strategy and what it needs. `options` are the strategy's own."""

    name: str = Field(pattern=NAME)
    strategy: str
    space: str | None = None
    parameters: dict[str, Any] = Field(default_factory=dict)
    """Of the net, beside and before those of the recipe."""
    data: DataSettings | None = None
    augment: Augment | None = None
    """Instead of the data's."""
    objective: dict[str, Any] = Field(default_factory=lambda: {"kind": "classification"})
    also: Annotated[tuple[dict[str, Any], ...], Many] = ()
    """Objectives that are added, each with a `weight`."""
    open: Annotated[tuple[str, ...], Many] = ("*",)
    """Choices that are searched, as patterns of their paths (`stage[*].op`) or tags (`@edges`)."""
    fixed: dict[str, Any] = Field(default_factory=dict)
    """Labels of choices that are not open, by patterns as in `open`, later ones before earlier ones; `"largest"` and
    `"smallest"` are what costs most and least. They come before those of `start.architecture`."""
    start: Start = Start()
    training: Training = Training()
    weights: Optimizer = Optimizer()
    alphas: Optimizer = Optimizer(kind="adam", lr=3e-4, betas=(0.5, 0.999), weight_decay=1e-3, schedule="constant")
    derive: Derive = Derive()
    options: dict[str, Any] = Field(default_factory=dict)


class Recipe(Settings):
    """A search."""

    space: str
    """The file of the space, from the folder of the recipe, and maybe `:net`."""
    title: str = ""
    seed: int = 0
    parameters: dict[str, Any] = Field(default_factory=dict)
    data: DataSettings = DataSettings()
    phase: Annotated[tuple[Phase, ...], Field(strict=False, min_length=1)]
    threads: int | None = Field(default=None, ge=1)
    """Threads on the CPU, by default as many as torch takes. Small networks are often faster with one; and runs are the
    same to the bit for the same number."""
    export: bool = True
    """Whether the last network that was trained is written as ONNX, and verified."""
    opset: int | None = None

    @model_validator(mode="after")
    def _in_order(self) -> Recipe:
        known: list[str] = []
        for phase in self.phase:
            for what, name in phase.start:
                if name is not None and name not in known:
                    problem = f"phase `{phase.name}` starts from the {what} of `{name}`, which is no earlier phase"
                    raise ValueError(f"{problem}{f'; {hint}' if (hint := suggest(name, known)) else ''}")
            if phase.name in known:
                raise ValueError(f"two phases are named `{phase.name}`")
            known.append(phase.name)
        return self

    def data_of(self, phase: Phase) -> DataSettings:
        """The images of a phase: what its own settings leave out is as the recipe's say."""
        own = phase.data
        return (
            self.data
            if own is None
            else self.data.model_copy(update={n: getattr(own, n) for n in own.model_fields_set})
        )


def read(path: Path) -> tuple[Recipe, str]:
    """The recipe of a file, and its text. Raises ArchError: A2201 (it cannot be read), A1109 (it cannot be)."""
    try:
        text = path.read_text("utf-8")
    except (OSError, ValueError) as error:
        raise fail("A2201", f"cannot read the recipe {path}: {getattr(error, 'strerror', None) or error}") from None
    return parse(text, str(path)), text


def parse(text: str, name: str = "<recipe>") -> Recipe:
    """The recipe of a text. Raises ArchError (A2201, A1109)."""
    try:
        given = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise fail("A2201", f"this is no TOML: {_message(error)}", _place(text, name, error)) from None
    return made(given)


def made(given: Mapping[str, Any]) -> Recipe:
    """The recipe of what TOML says. Raises ArchError (A1109) with everything that is wrong, by the phases' names."""
    phases = given.get("phase")
    for phase in phases if isinstance(phases, list) else []:
        if isinstance(phase, dict):
            parsed(Phase, phase, f"phase `{phase.get('name', '?')}`: ")
    return parsed(Recipe, given)


def with_overrides(given: Mapping[str, Any], overrides: Mapping[str, str]) -> dict[str, Any]:
    """Settings with some of them replaced: `data.source`, or `search.training.epochs` for the phase `search`."""
    changed = dict(given)
    for key, value in overrides.items():
        target: Any = changed
        *parents, last = key.split(".")
        phases = {phase["name"]: phase for phase in changed.get("phase", [])}
        for position, part in enumerate(parents):
            target = phases[part] if position == 0 and part in phases else target.setdefault(part, {})
        target[last] = _value(value)
    return changed


def _value(text: str) -> Any:
    """A value as TOML has them; text that is none is a string."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _message(error: tomllib.TOMLDecodeError) -> str:
    return re.sub(r" \(at .*\)$", "", str(error))


def _place(text: str, name: str, error: tomllib.TOMLDecodeError) -> Span | None:
    found = re.search(r"\(at line (\d+), column (\d+)\)$", str(error))
    if found is None:
        return None
    line, column = map(int, found.groups())
    start = sum(len(part) for part in text.splitlines(keepends=True)[: line - 1]) + column - 1
    return Span(Source(name, text), start, min(len(text), start + 1))
