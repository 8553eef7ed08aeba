"""Pages that explain diagnostics, by code."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from archir.diagnostics.errors import fail, suggest


@cache
def codes() -> tuple[str, ...]:
    """All codes, in order."""
    return tuple(
        sorted(
            entry.name[:-3] for entry in (files("archir.diagnostics") / "codes").iterdir() if entry.name.endswith(".md")
        )
    )


def page(code: str) -> str:
    """The page of a code, in Markdown. Raises ArchError (A1201) if there is none."""
    if code not in codes():
        raise fail("A1201", f"there is no diagnostic `{code}`", None, suggest(code, codes()))
    return (files("archir.diagnostics") / "codes" / f"{code}.md").read_text("utf-8")


def title(code: str) -> str:
    """What a code stands for, in a line."""
    return page(code).splitlines()[0].removeprefix(f"# {code}:").strip()
