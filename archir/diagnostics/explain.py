"""Explanation pages of diagnostics, by code (`archir/diagnostics/codes/*.md`)."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from archir.diagnostics.errors import fail
from archir.diagnostics.hints import suggest


@cache
def codes() -> tuple[str, ...]:
    """Return all diagnostics codes, sorted."""
    return tuple(
        sorted(
            entry.name[:-3] for entry in (files("archir.diagnostics") / "codes").iterdir() if entry.name.endswith(".md")
        )
    )


def page(code: str) -> str:
    """Return the Markdown page of a code. Raises ArchError (A1201) if there is no such code."""
    if code not in codes():
        raise fail("A1201", f"there is no diagnostic `{code}`", None, suggest(code, codes()))
    return (files("archir.diagnostics") / "codes" / f"{code}.md").read_text("utf-8")


def title(code: str) -> str:
    """Return the one-line title of a code's page."""
    return page(code).splitlines()[0].removeprefix(f"# {code}:").strip()
