"""How notebooks show archir's values: printers that IPython looks up by class."""

from __future__ import annotations

from typing import Any

from archir.diagnostics.errors import ArchError
from archir.diagnostics.visible import one_line

SHOWN = (
    "archir.diagnostics.errors:Diagnostic",
    "archir.diagnostics.errors:Diagnostics",
    "archir.utils.frames:Framed",
    "archir.ir.graph:Graph",
    "archir.passes.cost:Cost",
    "archir.costs.account:Account",
    "archir.costs.latencies.fill:Validation",
    "archir.costs.latencies.model:LatencyModel",
    "archir.tabular.table:Results",
    "archir.spaces.scores:Scores",
    "archir.spaces.architecture:Architecture",
    "archir.spaces.optimal.membership:Membership",
    "archir.spaces.space:Space",
    "archir.api.opening:Opened",
    "archir.tools.notebook.counts:Counts",
    "archir.api.drawing:Picture",
    "archir_onnx.verification.verify:Report",
)
"""Classes that are shown as tables and pictures, with their subclasses; other values are shown as text."""


def register(shell: Any) -> None:
    """Let an IPython shell show archir's values as HTML where it can, and as text."""
    formatters = shell.display_formatter.formatters
    for place in SHOWN:
        module, _, name = place.partition(":")
        formatters["text/html"].for_type_by_name(module, name, html)
        formatters["text/plain"].for_type_by_name(module, name, _print_text)


def html(value: object) -> str | None:
    """The value as HTML; None if its text says all of it, or if it cannot be counted or drawn."""
    from archir.tools.notebook.pages import page

    try:
        return page(value)
    except ArchError:
        return None


def text(value: object) -> str:
    """The value as plain text, control characters made visible."""
    return "\n".join(map(one_line, repr(value).split("\n")))


def _print_text(value: object, printer: Any, cycle: bool) -> None:
    printer.text(text(value))
