"""Objectives by their names."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from archir.diagnostics.errors import ArchError, fail, suggest
from archir.plugins import loading
from archir.reuse.teachers import TEACHER
from archir.utils.settings import Where, parsed
from archir_torch.objectives.objective import OBJECTIVES, Objective


def create(name: str, settings: Mapping[str, Any], *, folder: Path | None = None) -> Objective:
    """An objective, `NAME` or `MODULE:CLASS`, with its settings, whose relative paths start in the folder.

    Raises ArchError: A1901 (there is no such objective), A1109 (settings it cannot have).
    """
    kind = kind_of(name)
    return kind(parsed(kind.model, settings), folder)


def check(given: Mapping[str, Any], whose: str, where: Where) -> None:
    """Raise what `create` would of the `kind` and the settings of an objective, and where they are written."""
    settings = {key: value for key, value in given.items() if key not in ("kind", "phase")}
    try:
        model = kind_of(str(given.get("kind", "classification"))).model
    except ArchError as error:
        raise ArchError(*(replace(one, span=where(("kind",))) for one in error.diagnostics)) from None
    parsed(model, settings | (dict.fromkeys(TEACHER, "") if "phase" in given else {}), whose, where)


def kind_of(name: str) -> type[Objective]:
    """An objective's class, `NAME` or `MODULE:CLASS`. Raises ArchError (A1901)."""
    if ":" in name:
        return _of_module(name)
    if name not in OBJECTIVES:
        raise fail("A1901", f"there is no objective `{name}`", None, OBJECTIVES.hint(name))
    return OBJECTIVES[name]


def _of_module(name: str) -> type[Objective]:
    """The class of a module, which whoever named it has imported. Raises ArchError (A1901)."""
    module, _, attribute = name.partition(":")
    if not loading.allowed(module):
        text = f"`{name}` is an objective of a module that was not imported"
        raise fail("A1901", text, None, f"if it is yours, name it: `--plugin {module}`")
    found = getattr(sys.modules[module], attribute, None)
    if found is None:
        hint = suggest(attribute, vars(sys.modules[module]))
        raise fail("A1901", f"there is no objective `{name}`: `{module}` has no `{attribute}`", None, hint)
    if not (isinstance(found, type) and issubclass(found, Objective)) or found.__abstractmethods__:
        hint = "subclass archir_torch.objectives.Objective, with a `loss`"
        raise fail("A1901", f"`{name}` is no objective", None, hint)
    return found
