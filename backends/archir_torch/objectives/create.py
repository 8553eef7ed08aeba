"""Objectives by their names."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from archir.errors import fail, listed, suggest
from archir_torch.engine.settings import parsed
from archir_torch.objectives.attention_transfer import AttentionTransfer
from archir_torch.objectives.classification import Classification
from archir_torch.objectives.context_autoregression import ContextAutoregression
from archir_torch.objectives.objective import Objective

OBJECTIVES: dict[str, type[Objective]] = {
    "classification": Classification,
    "context_autoregression": ContextAutoregression,
    "attention_transfer": AttentionTransfer,
}
"""Those that come with archir."""


def create(name: str, settings: Mapping[str, Any], *, folder: Path | None = None) -> Objective:
    """An objective, `NAME` or `MODULE:CLASS`, with its settings, whose relative paths start in the folder.

    Raises ArchError: A1901 (there is no such objective), A1109 (settings it cannot have).
    """
    kind = _imported(name) if ":" in name else OBJECTIVES.get(name)
    if kind is None:
        hint = suggest(name, OBJECTIVES) or f"objectives are {listed(list(OBJECTIVES))}, or MODULE:CLASS"
        raise fail("A1901", f"there is no objective `{name}`", None, hint)
    return kind(parsed(kind.model, settings), folder)


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
