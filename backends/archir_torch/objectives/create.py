"""Objectives by their names."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from archir.base.errors import ArchError, fail, listed, suggest
from archir.base.settings import Where, parsed
from archir_torch.objectives.attention_transfer import AttentionTransfer
from archir_torch.objectives.classification import Classification
from archir_torch.objectives.context_autoregression import ContextAutoregression
from archir_torch.objectives.multilabel import Multilabel
from archir_torch.objectives.objective import Objective
from archir_torch.objectives.places import NextToken, Segmentation, Tagging
from archir_torch.objectives.regression import Regression

OBJECTIVES: dict[str, type[Objective]] = {
    "classification": Classification,
    "context_autoregression": ContextAutoregression,
    "attention_transfer": AttentionTransfer,
    "multilabel": Multilabel,
    "next_token": NextToken,
    "regression": Regression,
    "segmentation": Segmentation,
    "tagging": Tagging,
}
"""Those that come with archir."""


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
    parsed(model, settings | (dict.fromkeys(_TEACHER, "") if "phase" in given else {}), whose, where)


_TEACHER = ("teacher", "weights")
"""What an objective is told of the network that an earlier phase trained."""


def kind_of(name: str) -> type[Objective]:
    """An objective's class, `NAME` or `MODULE:CLASS`. Raises ArchError (A1901)."""
    kind = _imported(name) if ":" in name else OBJECTIVES.get(name)
    if kind is None:
        hint = suggest(name, OBJECTIVES) or f"objectives are {listed(list(OBJECTIVES))}, or MODULE:CLASS"
        raise fail("A1901", f"there is no objective `{name}`", None, hint)
    return kind


def _imported(name: str) -> type[Objective]:
    module, _, attribute = name.partition(":")
    try:
        found = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise fail("A1901", f"there is no objective `{name}`: {error}") from None
    if not (isinstance(found, type) and issubclass(found, Objective)) or found.__abstractmethods__:
        hint = "subclass archir_torch.objectives.Objective, with `reads` and `loss`"
        raise fail("A1901", f"`{name}` is no objective", None, hint)
    return found
