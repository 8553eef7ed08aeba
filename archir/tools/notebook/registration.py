"""Registration of HTML and text formatters for archir's classes with IPython, which looks up classes by name."""

from __future__ import annotations

from typing import Any

from archir.diagnostics.errors import ArchError
from archir.diagnostics.escaping import escape_to_line

DISPLAYED_CLASSES = (
    "archir.diagnostics.errors:Diagnostic",
    "archir.diagnostics.errors:Diagnostics",
    "archir.utils.frames:Tabular",
    "archir.ir.graph:Graph",
    "archir.passes.cost:Cost",
    "archir.costs.account:Account",
    "archir.costs.latencies.measurement:Validation",
    "archir.costs.latencies.model:LatencyModel",
    "archir.tabular.results:Results",
    "archir.spaces.scores:AdditiveScores",
    "archir.spaces.architecture:Architecture",
    "archir.spaces.optimal.membership:Membership",
    "archir.spaces.space:Space",
    "archir.api.opening:Opened",
    "archir.tools.notebook.html_pages:Counts",
    "archir.api.drawing:Picture",
    "archir_onnx.verification.verify:Report",
)
"""Classes (`module:name`) that notebooks display as HTML, including subclasses.

Other values are displayed as text.
"""


def register(shell: Any) -> None:
    """Register formatters for archir's classes with an IPython shell.

    They return HTML, and plain text with control characters escaped.
    """
    formatters = shell.display_formatter.formatters
    for place in DISPLAYED_CLASSES:
        module, _, name = place.partition(":")
        formatters["text/html"].for_type_by_name(module, name, html)
        formatters["text/plain"].for_type_by_name(module, name, _print_text)


def html(value: object) -> str | None:
    """Return a value as HTML, or None to fall back to its `repr`.

    None is returned if the `repr` is sufficient, or if creating the HTML raises ArchError.
    """
    from archir.tools.notebook.html_pages import to_html

    try:
        return to_html(value)
    except ArchError:
        return None


def text(value: object) -> str:
    """Return a value's `repr` with control characters escaped."""
    return "\n".join(map(escape_to_line, repr(value).split("\n")))


def _print_text(value: object, printer: Any, cycle: bool) -> None:
    """Plain-text formatter in the form that IPython calls."""
    printer.text(text(value))
