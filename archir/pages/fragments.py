"""HTML fragments for notebooks, without scripts or external resources; all text is escaped.

Only badges set colours, both text and background, so that fragments are readable in light and dark mode.
Pictures are embedded as images, so that their styles do not affect the notebook.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from itertools import islice
from typing import TypeGuard

from archir.diagnostics.escaping import escape_unprintable
from archir.pages.page import bare_table, data_url

MAX_ROWS = 20
"""Maximum number of table rows to show."""
MAX_CHARACTERS = 400
"""Maximum length in characters of a text in a table cell."""
MAX_PICTURE_BYTES = 500_000
"""Maximum size in bytes of an embedded picture; larger ones must be written to files."""
_BADGE_STYLES = {"error": "background:#b3261e;color:#fff", "warning": "background:#f2b705;color:#000"}
"""CSS style of the badge for each severity."""


def text(raw: object, max_characters: int = MAX_CHARACTERS) -> str:
    """Escape a text for HTML and truncate it to `max_characters`."""
    shown = escape_unprintable(str(raw))
    return escape(shown if len(shown) <= max_characters else f"{shown[: max_characters - 1]}…")


def heading(kind: str, name: str = "", more: str = "") -> str:
    """Return a heading: the kind of object in bold, its name as code, and optional further text."""
    named = f" <code>{text(name)}</code>" if name else ""
    return f"<div><strong>{text(kind)}</strong>{named}{f' {text(more)}' if more else ''}</div>"


def facts(values: Mapping[str, object]) -> str:
    """Return a two-column table of names and values, without the entries whose value is empty."""
    return bare_table((), (item for item in values.items() if item[1] != ""), lambda _: _alignment(""), text)


def table(head: Sequence[str], rows: Iterable[Sequence[object]], count: int) -> str:
    """Return a table with column names `head` and the first MAX_ROWS of `count` rows; numbers are right-aligned."""
    more = f"<div>and {count - MAX_ROWS:,} more</div>" if count > MAX_ROWS else ""
    return _scrolled(bare_table(head, islice(rows, MAX_ROWS), _alignment, _cell) + more)


def _is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _alignment(value: object) -> str:
    return f' style="text-align:{"right" if _is_number(value) else "left"};padding-right:1em"'


def _cell(value: object) -> str:
    if not _is_number(value):
        return text(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:.6g}"


def folded(title: str, content: str, opened: bool = False) -> str:
    """Return a collapsible section."""
    return f"<details{' open' * opened}><summary>{text(title)}</summary>{content}</details>"


def image(svg: str, alt: str) -> str:
    """Return an SVG as an embedded image no wider than its container; `alt` is the alternative text."""
    return _scrolled(f'<img alt="{text(alt)}" style="max-width:100%;max-height:80vh" src="{data_url(svg)}">')


def _scrolled(content: str) -> str:
    return f'<div style="overflow:auto" tabindex="0">{content}</div>'


def severity_badge(severity: str) -> str:
    """Return a coloured badge with the word `error` or `warning`."""
    return (
        f'<span style="{_BADGE_STYLES[severity]};padding:0 .4em;border-radius:.2em;font-weight:600">{severity}</span>'
    )


def preformatted(raw: str) -> str:
    """Return preformatted text."""
    return f'<pre style="margin:.2em 0 .6em 1em;font-size:.9em">{escape(escape_unprintable(raw))}</pre>'


def fragment(*parts: str) -> str:
    """Join HTML parts to one fragment."""
    return f'<div class="archir">{"".join(parts)}</div>'
