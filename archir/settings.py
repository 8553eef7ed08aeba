"""Settings that are checked when they are read, and say what is wrong with them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from archir.errors import fail, suggest

Many = Field(strict=False)
"""TOML and JSON have lists where these settings have tuples."""


class Settings(BaseModel):
    """Settings that say nothing unknown and are of the types they should be: no text for a number."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


S = TypeVar("S", bound=BaseModel)


def parsed(kind: type[S], given: Mapping[str, Any], whose: str = "") -> S:
    """Settings of a kind. Raises ArchError (A1109) with everything that is wrong with them."""
    try:
        return kind.model_validate(dict(given))
    except ValidationError as error:
        lines = [_said(one["loc"], one["msg"], one["type"]) for one in error.errors()]
        unknown = [str(one["loc"][-1]) for one in error.errors() if one["type"] == "extra_forbidden"]
        hint = suggest(unknown[0], kind.model_fields) if unknown else None
        raise fail("A1109", f"{whose}these settings cannot be: {'; '.join(lines)}", None, hint) from None


def _said(place: tuple[int | str, ...], message: str, kind: str) -> str:
    if kind == "extra_forbidden":
        return f"there is no `{'.'.join(map(str, place))}`"
    text = message.removeprefix("Value error, ")
    return f"`{'.'.join(map(str, place))}`: {text[:1].lower()}{text[1:]}" if place else text
