"""Parses recipes from TOML; every error has a span in the recipe."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from archir.diagnostics.errors import ArchError, Diagnostic, describe_error, fail
from archir.diagnostics.hints import suggest, suggest_file
from archir.language.file_kinds import require_kind
from archir.recipes.recipe import Phase, Recipe, Start, is_external
from archir.runs import Run
from archir.runs.folder import OVERRIDES, RECIPE
from archir.utils import toml
from archir.utils.files import read_bytes
from archir.utils.settings import RENAMED, parse_settings
from archir.utils.toml import Document
from archir.utils.toml import Path as Place


@dataclass(frozen=True)
class RecipeFile:
    """Recipe, with the TOML document from which it was parsed."""

    recipe: Recipe
    document: Document

    def place(self, number: int, *path: str | int) -> Place:
        """Return the path in the document of a setting of the phase with this index: in the recipe's own table if the
        phase inherits the setting from there."""
        table: Any = self.document.data["phase"][number]
        for key in path[: _INHERITED.get(path[0], 0) if path else 0]:
            if not isinstance(table, Mapping) or key not in table:
                return path
            table = table[key]
        return ("phase", number, *path)

    def augment_place(self, number: int) -> Place:
        """Return the path in the document of the augmentation of the phase with this index."""
        own = self.recipe.phase[number].augment
        return self.place(number, "data", "augment") if own is None else ("phase", number, "augment")


_INHERITED: Mapping[str | int, int] = {"data": 2, "objective": 1, "evaluate": 1}
"""Tables that phases inherit from the recipe: 2 if a phase inherits each setting that it omits, 1 if it inherits only
the whole table."""


def read(path: Path, overrides: Mapping[str, str] | None = None) -> RecipeFile:
    """Read a recipe file; `overrides` replace some of its settings (see `archir.utils.toml`).

    Raises ArchError: A2201 (the file cannot be read or parsed), A1109 (a setting is invalid).
    """
    require_kind(path, ".toml", "A2201")
    try:
        text = read_bytes(path, 4 * toml.MAX_CHARACTERS).decode().replace("\r\n", "\n")
    except (OSError, ValueError) as error:
        text = f"cannot read the recipe {path}: {describe_error(error)}"
        raise fail("A2201", text, None, suggest_file(path)) from None
    return parse(text, str(path), overrides)


def parse(text: str, name: str = "<recipe>", overrides: Mapping[str, str] | None = None) -> RecipeFile:
    """Parse a recipe. Raises ArchError (A2201, A1109) with a diagnostic for every mistake."""
    document = toml.parse_toml(text, name, "A2201")
    if document.data.keys() & {"task", "arms"} and "phase" not in document.data:
        hint = f"`archir study {name}` runs a study; a recipe has a `space` and tables `[[phase]]`"
        raise fail("A2201", f"{name} is a study, and not a recipe", None, hint)
    recipe = _validate(document)  # a recipe must be valid without its overrides
    if overrides:
        document = toml.apply_overrides(document, overrides, "A1109")
        try:
            recipe = _validate(document)
        except ArchError as error:
            raise ArchError(*(_phase_hint(diagnostic, document) for diagnostic in error.diagnostics)) from None
    return RecipeFile(recipe, document)


def recipe_of_run(run: Run) -> RecipeFile:
    """Return the recipe of a run, with its overrides applied."""
    return parse(run.content(RECIPE).decode(), RECIPE, json.loads(run.content(OVERRIDES)))


def open_run(source: str) -> tuple[Run, str]:
    """Open the run in `RUN` or `RUN:PHASE`; return it and the name of the phase, "" if none is named."""
    folder, colon, phase = source.rpartition(":")
    has_phase = colon and "/" not in phase
    return Run.open(Path(folder if has_phase else source)), phase if has_phase else ""


def _validate(document: Document) -> Recipe:
    """Validate a document as a recipe. Raises ArchError (A1109)."""

    def whose(path: tuple[str | int, ...]) -> tuple[str, tuple[str | int, ...]]:
        """Return the phase to which a setting belongs, as a prefix for messages, and the setting's path within it."""
        match path:
            case ("phase", int(number), _, *_):
                return f"phase `{document.data['phase'][number].get('name', number + 1)}`: ", path[2:]
        return "", path

    try:
        recipe = parse_settings(Recipe, document.data, whose, document.span)
    except ArchError as error:
        raise ArchError(*(_option_hint(diagnostic) for diagnostic in error.diagnostics)) from None
    _check_order(recipe, document)
    return recipe


def _phase_hint(diagnostic: Diagnostic, document: Document) -> Diagnostic:
    """Improve the hint of a diagnostic if an override on the command line lacks the name of its phase."""
    if (
        diagnostic.span is None
        or diagnostic.span.source.name != toml.COMMAND_LINE
        or not diagnostic.message.startswith("there is no `")
    ):
        return diagnostic
    key = diagnostic.span.text.partition("=")[0].split(".")
    correction = suggest(key[0], toml.table_names(document.data, "phase")) if len(key) > 1 else None
    if correction is not None:
        return replace(diagnostic, hint=f"{correction.removesuffix('`?')}.{'.'.join(key[1:])}`?")
    if key[0] in Recipe.model_fields or (diagnostic.hint and not diagnostic.hint.startswith("did you mean `phase")):
        return diagnostic
    is_phase_setting = key[0] in Phase.model_fields
    return replace(
        diagnostic, hint=toml.override_hint(document.data, "phase", key if is_phase_setting else ("training", "epochs"))
    )


def _option_hint(diagnostic: Diagnostic) -> Diagnostic:
    """Improve the hint of a diagnostic if an unknown setting of a phase may be an option of its strategy."""
    if re.fullmatch(r"(phase `.*`: )?there is no `device`", diagnostic.message):
        return replace(diagnostic, hint="the command line has the device: `archir search RECIPE --device cuda`")
    name = re.fullmatch(r"phase `.*`: there is no `(\w+)`", diagnostic.message)
    if name is None:
        return diagnostic
    if name[1] in RENAMED:
        table = "start" if RENAMED[name[1]] in Start.model_fields else "options"
        return replace(diagnostic, hint=f"`{name[1]}` is `{table}.{RENAMED[name[1]]}` now")
    hint = f"an option of the strategy is `options.{name[1]}`"
    return replace(
        diagnostic, hint=hint if diagnostic.hint is None else f"{diagnostic.hint} {hint[0].upper()}{hint[1:]}"
    )


def _other_run_hint(what: str, name: str) -> str | None:
    """Return a hint for a `start` setting that names another run, from which only weights can be taken; else None."""
    if not is_external(name):
        return None
    train = f"; `archir train SPACE --arch {name}/best.json` trains what a run found" if what == "architecture" else ""
    return f"only weights can come from another run{train}"


def _check_order(recipe: Recipe, document: Document) -> None:
    """Raise ArchError (A1109) for duplicate phase names, and for phases that start from a phase that does not
    precede them."""
    problems = []
    earlier: list[str] = []
    for number, phase in enumerate(recipe.phase):
        for what, name in phase.start.phases.items():
            if name not in earlier and not (what == "weights" and is_external(name)):
                problem = f"phase `{phase.name}` starts from the {what} of `{name}`, which is not an earlier phase"
                span = document.span(("phase", number, "start", what))
                problems.append(
                    Diagnostic("A1109", problem, span, suggest(name, earlier) or _other_run_hint(what, name))
                )
        if phase.name in earlier:
            span = document.span(("phase", number, "name"))
            problems.append(Diagnostic("A1109", f"two phases are named `{phase.name}`", span))
        earlier.append(phase.name)
    if problems:
        raise ArchError(*problems)
