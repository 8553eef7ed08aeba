"""Creation of objectives by name."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from archir.diagnostics.errors import ArchError, fail
from archir.diagnostics.hints import suggest
from archir.plugins import loading
from archir.recipes.external_files import TEACHER
from archir.utils.settings import SpanOf, parse_settings
from archir_torch.objectives.objective import OBJECTIVES, Objective


def create(name: str, settings: Mapping[str, Any], *, folder: Path | None = None) -> Objective:
    """Create an objective with its settings; `name` is a registered name or `MODULE:CLASS`.

    Relative paths in the settings are resolved against `folder`. Raises ArchError: A1901 (there is no such
    objective), A1109 (invalid settings).
    """
    kind = kind_of(name)
    return kind(parse_settings(kind.model, settings), folder)


def check_settings(table: Mapping[str, Any], prefix: str, span_of: SpanOf) -> None:
    """Check the settings of an objective without creating the objective.

    The settings are a table that contains the `kind` of the objective. Raises the errors that `create` would raise,
    with the source span of the setting.
    """
    settings = {key: value for key, value in table.items() if key not in ("kind", "phase")}
    try:
        model = kind_of(str(table.get("kind", "classification"))).model
    except ArchError as error:
        raise ArchError(*(replace(diagnostic, span=span_of(("kind",))) for diagnostic in error.diagnostics)) from None
    parse_settings(model, settings | (dict.fromkeys(TEACHER, "") if "phase" in table else {}), prefix, span_of)


def kind_of(name: str) -> type[Objective]:
    """Return the class of an objective, by registered name or `MODULE:CLASS`.

    Raises ArchError (A1901) if there is no such objective.
    """
    if ":" in name:
        return _class_in_module(name)
    kind = OBJECTIVES.find(name)
    if kind is None:
        raise fail("A1901", f"there is no objective `{name}`", None, OBJECTIVES.hint(name))
    return kind


def _class_in_module(name: str) -> type[Objective]:
    """Return the class `MODULE:CLASS` from a module that is already imported.

    Raises ArchError (A1901) if there is no such class.
    """
    module, _, attribute = name.partition(":")
    if not loading.is_allowed(module):
        text = f"`{name}` is an objective of a module that was not imported"
        raise fail("A1901", text, None, f"if you trust it, import it with `--plugin {module}`")
    kind = getattr(sys.modules[module], attribute, None)
    if kind is None:
        hint = suggest(attribute, vars(sys.modules[module]))
        raise fail("A1901", f"there is no objective `{name}`: `{module}` has no `{attribute}`", None, hint)
    if not (isinstance(kind, type) and issubclass(kind, Objective)) or kind.__abstractmethods__:
        hint = "subclass archir_torch.objectives.Objective, with a `loss`"
        raise fail("A1901", f"`{name}` is not an objective: it must be a concrete subclass of Objective", None, hint)
    return kind
