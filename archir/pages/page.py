"""HTML pages, each a single file without external resources, and their parts.

Strings are text, and are escaped; HTML code has the class `Html`.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import sha256
from html import escape
from importlib.resources import files
from typing import NamedTuple


class Html(str):
    """HTML code, which is not escaped."""

    __slots__ = ()


class Number(NamedTuple):
    """Table cell that is sorted by a number; cells without one (None) come last."""

    text: str
    value: float | None


def html(content: object) -> str:
    """Return content as HTML code: unchanged if it is `Html`, else escaped."""
    return (
        content if isinstance(content, Html) else escape(content.text if isinstance(content, Number) else str(content))
    )


def document(title: str, style: str, script: str, body: str, reload: int = 0) -> str:
    """Return an HTML document, which allows no scripts and styles but its own; `body` is HTML code.

    `reload` is stored for the script: seconds between two reloads of the page, 0 for none.
    """
    attribute = f' data-reload="{reload}"' if reload else ""
    policy = f"default-src 'none'; img-src data:; style-src '{policy_hash(style)}'; script-src '{policy_hash(script)}'"
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{style}</style>\n</head>\n<body{attribute}>\n"
        f"{body}\n<script>{script}</script>\n</body>\n</html>\n"
    )


def policy_hash(source: str) -> str:
    """Return the content security policy hash that allows exactly this inline style or script."""
    return "sha256-" + b64encode(sha256(source.encode()).digest()).decode()


def page(title: str, subtitle: str, sections: Iterable[tuple[str, str]], reload: int = 0) -> str:
    """Return an HTML page of (heading, HTML code) sections, with links to them.

    With `reload`, the page reloads itself every `reload` seconds, and keeps how its tables are sorted and filtered.
    """
    resources = files("archir.pages")
    links, body = [], []
    for heading, content in sections:
        anchor = re.sub(r"\W+", "-", heading.lower()).strip("-")
        links.append(f'<a href="#{anchor}">{escape(heading)}</a>')
        body.append(f'<section id="{anchor}"><h2>{escape(heading)}</h2>{content}</section>')
    return document(
        title,
        (resources / "page.css").read_text("utf-8"),
        (resources / "page.js").read_text("utf-8"),
        f"<header><h1>{escape(title)}</h1><p>{escape(subtitle)}</p><nav>{''.join(links)}</nav></header>\n"
        f'<main>{"".join(body)}</main>\n<div id="tip" role="status" hidden></div>',
        reload,
    )


def table(head: Sequence[object], rows: Iterable[Sequence[object]], kind: str = "figures") -> Html:
    """Return a table of class `kind` that scrolls if it is too wide; the first cell of each row is its heading."""
    return Html(f'<div class="scroll" tabindex="0">{bare_table(head, rows, _sort_value, html, kind)}</div>')


def _sort_value(cell: object) -> str:
    return f' data-value="{"" if cell.value is None else float(cell.value)}"' if isinstance(cell, Number) else ""


def bare_table(
    head: Sequence[object],
    rows: Iterable[Sequence[object]],
    attributes: Callable[[object], str],
    content: Callable[[object], str],
    kind: str = "",
) -> str:
    """Return a table; `attributes` and `content` return the attributes and the HTML code of a cell.

    An empty text in `head` is a column without a heading.
    """
    top = "".join(
        f'<th scope="col"{attributes(cell)}>{content(cell)}</th>' if cell != "" else "<td></td>" for cell in head
    )
    lines = (
        f'<tr><th scope="row"{attributes(first)}>{content(first)}</th>'
        f"{''.join(f'<td{attributes(cell)}>{content(cell)}</td>' for cell in cells)}</tr>"
        for first, *cells in rows
    )
    thead, named = f"<thead><tr>{top}</tr></thead>" if head else "", f' class="{kind}"' if kind else ""
    return f"<table{named}>{thead}<tbody>{''.join(lines)}</tbody></table>"


def facts(values: Mapping[str, object]) -> Html:
    """Return a table of names and values."""
    return table((), ((name, value_html(value)) for name, value in values.items()), "facts")


def value_html(value: object) -> Html:
    """Format a value as HTML code: numbers with separators or four digits, mappings and lists item by item."""
    match value:
        case None:
            return Html("-")
        case bool():
            return Html("yes" if value else "no")
        case int():
            return Html(f"{value:,}")
        case float():
            return Html(f"{value:.4g}" if abs(value) < 1e4 else f"{value:,.0f}")
        case Mapping():
            return Html("<br>".join(f"{escape(str(name))} {value_html(item)}" for name, item in value.items()))
        case list() | tuple():
            return Html(", ".join(map(value_html, value)))
    return Html(html(value))


def sort_button(name: str) -> Html:
    """Return a column heading that sorts the table by this column."""
    return Html(f'<button type="button">{escape(name)}</button>')


def sortable_table(name: str, head: Sequence[str], rows: Sequence[Sequence[object]], kind: str = "figures") -> Html:
    """Return a table that sorts by a column when its heading is clicked, and shows the rows that contain a text.

    Numbers (`Number`) sort by value, other cells by text. `name` identifies the table on its page.
    """
    listed = table([*map(sort_button, head)], rows, f"{kind} sortable")
    label = escape(f"Filter {name}")
    return Html(
        f'<div class="filtered"><p><input type="search" placeholder="Filter" aria-label="{label}"> '
        f'<output aria-live="polite">{len(rows):,} rows</output></p>{listed}</div>'
    )


def progress_bar(done: int, total: int | None) -> Html:
    """Return a bar of `done` of `total` steps; empty if the total is unknown."""
    if not total:
        return Html("")
    return Html(f'<progress value="{done}" max="{total}" aria-label="{done} of {total}"></progress>')


def details(summary: str, content: str) -> Html:
    """Return HTML code that is shown when its summary is clicked."""
    return Html(f"<details><summary>{escape(summary)}</summary>{content}</details>")


def data_url(svg: str) -> str:
    """Return a data URL for an SVG document."""
    return f"data:image/svg+xml;base64,{b64encode(svg.encode()).decode()}"


def verdict(content: str, kind: str) -> Html:
    """Return a marked paragraph with a conclusion, given as HTML code; `kind` is good, neutral or poor."""
    return Html(f'<p class="verdict {kind}">{content}</p>')


def image(svg: str, alt: str) -> Html:
    """Return an SVG document as an image that scrolls if it is too large."""
    return Html(f'<div class="picture" tabindex="0"><img alt="{escape(alt)}" src="{data_url(svg)}"></div>')
