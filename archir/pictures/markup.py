"""Fragments of HTML for notebooks: nothing runs in them, nothing is fetched, and whatever is named is escaped.

They have no colours of their own but for marks whose text and ground both are, so that they are read by day and by
night; pictures lie in images, where their styles are theirs alone.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from html import escape

from archir.diagnostics.visible import visible

MOST_ROWS = 20
MOST_CHARACTERS = 400
"""Of a text in a cell of a table."""
MOST_PICTURE = 500_000
"""Bytes of a picture; larger ones are for files."""
_LEFT = 'style="text-align:left;padding-right:1em"'
_MARKS = {"error": "background:#b3261e;color:#fff", "warning": "background:#f2b705;color:#000"}


def text(raw: object, most: int = MOST_CHARACTERS) -> str:
    """A text as HTML."""
    shown = visible(str(raw))
    return escape(shown if len(shown) <= most else f"{shown[: most - 1]}…")


def heading(kind: str, name: str = "", more: str = "") -> str:
    """What something is, and what it is called."""
    named = f" <code>{text(name)}</code>" if name else ""
    return f"<div><strong>{text(kind)}</strong>{named}{f' {text(more)}' if more else ''}</div>"


def facts(of: Mapping[str, object]) -> str:
    """Names and values, one below the other; what is empty is left out."""
    rows = (
        f'<tr><th scope="row" {_LEFT}>{text(name)}</th><td {_LEFT}>{text(value)}</td></tr>'
        for name, value in of.items()
        if value != ""
    )
    return f"<table><tbody>{''.join(rows)}</tbody></table>"


def table(head: Sequence[str], rows: Iterable[Sequence[object]], count: int) -> str:
    """The first of `count` rows, below their names; numbers stand to the right."""
    top = "".join(f'<th scope="col" {_LEFT}>{text(name)}</th>' for name in head)
    shown = [row for _, row in zip(range(MOST_ROWS), rows, strict=False)]
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in shown)
    more = f"<div>and {count - len(shown):,} more</div>" if count > len(shown) else ""
    return _scrolled(f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>{more}")


def _cell(value: object) -> str:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    shown = f"{value:,}" if isinstance(value, int) and number else f"{value:.6g}" if number else value
    return f'<td style="text-align:{"right" if number else "left"};padding-right:1em">{text(shown)}</td>'


def folded(title: str, content: str, opened: bool = False) -> str:
    """What is there to be opened."""
    return f"<details{' open' * opened}><summary>{text(title)}</summary>{content}</details>"


def image(svg: str, said: str) -> str:
    """A picture, as wide as there is room; `said` is what it says to those who do not see it."""
    data = b64encode(svg.encode()).decode()
    shown = f'<img alt="{text(said)}" style="max-width:100%;max-height:80vh" src="data:image/svg+xml;base64,{data}">'
    return _scrolled(shown)


def _scrolled(content: str) -> str:
    """What may be wider than the page."""
    return f'<div style="overflow:auto">{content}</div>'


def mark(severity: str) -> str:
    """The word `error` or `warning` on its colour."""
    return f'<span style="{_MARKS[severity]};padding:0 .4em;border-radius:.2em;font-weight:600">{severity}</span>'


def lines(raw: str) -> str:
    """Text whose characters stand below each other as they were written."""
    return f'<pre style="margin:.2em 0 .6em 1em;font-size:.9em">{escape(visible(raw))}</pre>'


def whole(*parts: str) -> str:
    """A fragment of several parts."""
    return f'<div class="archir">{"".join(parts)}</div>'
