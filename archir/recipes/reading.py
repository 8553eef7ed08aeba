"""Recipes as they are written: read from TOML, checked, with a place for everything that is wrong."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from archir.diagnostics.errors import ArchError, Diagnostic, fail, suggest
from archir.language.kinds import require_kind
from archir.recipes.recipe import Phase, Recipe, elsewhere
from archir.utils import toml
from archir.utils.files import read_bytes
from archir.utils.settings import parsed
from archir.utils.toml import Document


@dataclass(frozen=True)
class Written:
    """A recipe, and the text that it is written in."""

    recipe: Recipe
    document: Document


def read(path: Path, overrides: Mapping[str, str] | None = None) -> Written:
    """The recipe of a file, some of whose settings are replaced (see `archir.utils.toml.overridden`).

    Raises ArchError: A2201 (it cannot be read), A1109 (it cannot be).
    """
    require_kind(path, ".toml", "A2201")
    try:
        text = read_bytes(path, 4 * toml.MOST_CHARACTERS).decode().replace("\r\n", "\n")
    except (OSError, ValueError) as error:
        raise fail("A2201", f"cannot read the recipe {path}: {getattr(error, 'strerror', None) or error}") from None
    return parse(text, str(path), overrides)


def parse(text: str, name: str = "<recipe>", overrides: Mapping[str, str] | None = None) -> Written:
    """The recipe of a text. Raises ArchError (A2201, A1109) with everything that is wrong, and where."""
    document = toml.read(text, name, "A2201")
    found = _made(document)  # an override mends no recipe
    if overrides:
        document = toml.overridden(document, overrides, "A1109")
        try:
            found = _made(document)
        except ArchError as error:
            raise ArchError(*(_of_phases(one, document) for one in error.diagnostics)) from None
    return Written(found, document)


def _made(document: Document) -> Recipe:
    def whose(path: tuple[str | int, ...]) -> tuple[str, tuple[str | int, ...]]:
        match path:
            case ("phase", int(number), _, *_):
                return f"phase `{document.data['phase'][number].get('name', number + 1)}`: ", path[2:]
        return "", path

    try:
        recipe = parsed(Recipe, document.data, whose, document.span)
    except ArchError as error:
        raise ArchError(*(_of_options(one) for one in error.diagnostics)) from None
    _check_order(recipe, document)
    return recipe


def _of_phases(said: Diagnostic, document: Document) -> Diagnostic:
    """What is wrong; a setting of the command line that the recipe does not have may be one of a phase."""
    if said.span is None or said.span.source.name != toml.COMMAND_LINE or not said.message.startswith("there is no `"):
        return said
    key = said.span.text.partition("=")[0].split(".")
    near = suggest(key[0], toml.named(document.data, "phase")) if len(key) > 1 else None
    if near is not None:
        return replace(said, hint=f"{near.removesuffix('`?')}.{'.'.join(key[1:])}`?")
    if key[0] in Recipe.model_fields or (said.hint and not said.hint.startswith("did you mean `phase")):
        return said
    known = key[0] in Phase.model_fields
    return replace(said, hint=toml.by_name(document.data, "phase", key if known else ("training", "epochs")))


def _of_options(said: Diagnostic) -> Diagnostic:
    """What is wrong; what stands in a phase and is none of its settings may be an option of its strategy."""
    if re.fullmatch(r"(phase `.*`: )?there is no `device`", said.message):
        return replace(said, hint="the command line has the device: `archir search RECIPE --device cuda`")
    name = re.fullmatch(r"phase `.*`: there is no `(\w+)`", said.message)
    if name is None:
        return said
    hint = f"an option of the strategy is `options.{name[1]}`"
    return replace(said, hint=hint if said.hint is None else f"{said.hint} {hint[0].upper()}{hint[1:]}")


def _of_another_run(what: str, name: str) -> str | None:
    """A hint on what is taken from a path, where only weights can be."""
    if not elsewhere(name):
        return None
    train = f"; `archir train SPACE --arch {name}/best.json` trains what a run found" if what == "architecture" else ""
    return f"weights alone come from another run{train}"


def _check_order(recipe: Recipe, document: Document) -> None:
    """Raise ArchError (A1109) for phases of one name, and for those that start from what is no earlier one."""
    problems = []
    known: list[str] = []
    for number, phase in enumerate(recipe.phase):
        for what, name in phase.start.phases.items():
            if name not in known and not (what == "weights" and elsewhere(name)):
                problem = f"phase `{phase.name}` starts from the {what} of `{name}`, which is no earlier phase"
                span = document.span(("phase", number, "start", what))
                problems.append(Diagnostic("A1109", problem, span, suggest(name, known) or _of_another_run(what, name)))
        if phase.name in known:
            span = document.span(("phase", number, "name"))
            problems.append(Diagnostic("A1109", f"two phases are named `{phase.name}`", span))
        known.append(phase.name)
    if problems:
        raise ArchError(*problems)
