"""Local web server of `archir runs --serve`: pages that show runs and reload themselves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from html import escape
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from archir.diagnostics.errors import ArchError
from archir.pages.page import Html, Number, page, sortable_table
from archir.recipes.run_report import RELOAD_SECONDS, report_of_run
from archir.runs import Run, Summary, manifest
from archir.runs.report import PhaseRows, Report, report_page
from archir.runs.summaries import located_summaries, read_training
from archir.spaces.space import Space
from archir.utils.metrics import format_metric

HOST = "127.0.0.1"
MAX_DIGITS = 6
"""Exclusive upper bound on the number of digits of a run number in a URL."""


class Server(ThreadingHTTPServer):
    """HTTP server that only this machine can reach.

    Requests with a non-local Host header are refused, which keeps other web sites out (DNS rebinding).
    """

    daemon_threads = True

    def __init__(self, port: int, folders: Sequence[Path]) -> None:
        super().__init__((HOST, port), _Handler)
        self.folders = folders
        self.spaces: dict[Path, dict[str, Space]] = {}
        """Loaded spaces of the runs that were shown; a run keeps its space as long as it exists."""

    @property
    def address(self) -> str:
        """URL of the server."""
        return f"http://{HOST}:{self.server_port}/"

    def runs(self) -> list[tuple[Path, Summary]]:
        """Return the runs that currently exist; the number of a run in a URL is its index in this list."""
        return located_summaries(*self.folders)


class _Handler(BaseHTTPRequestHandler):
    server: Server
    server_version, sys_version = "archir", ""

    def do_GET(self) -> None:
        """Answer with the list of runs, or with one run, selected by its number.

        The request path is never used as a file path.
        """
        number = self.path.strip("/")
        if self.headers.get("Host") not in {f"{name}:{self.server.server_port}" for name in (HOST, "localhost")}:
            self._answer(HTTPStatus.FORBIDDEN, "This page is only available on this machine.")
        elif not number:
            self._answer(HTTPStatus.OK, _index_page(self.server.runs()))
        elif (run := self._run(number)) is None:
            self._answer(HTTPStatus.NOT_FOUND, "There is no such run.")
        else:
            self._answer(HTTPStatus.OK, _run_page(*run, self.server.spaces.setdefault(run[0], {})))

    def _run(self, number: str) -> tuple[Path, Summary] | None:
        runs = self.server.runs() if number.isdecimal() and len(number) < MAX_DIGITS else []
        return runs[int(number)] if runs and int(number) < len(runs) else None

    def _answer(self, status: HTTPStatus, text: str) -> None:
        """Answer with a page, which has a content security policy, or with a plain message."""
        content, kind = text.encode("utf-8", "replace"), "html" if status is HTTPStatus.OK else "plain"
        self.send_response(status)
        for name, value in (
            ("Content-Type", f"text/{kind}; charset=utf-8"), ("Content-Length", str(len(content))),
            ("Cache-Control", "no-store"), ("X-Content-Type-Options", "nosniff"), ("Referrer-Policy", "no-referrer"),
        ):  # fmt: skip
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """Suppress the default log line per request."""


def _run_page(folder: Path, summary: Summary, spaces: dict[str, Space]) -> str:
    """Return the page of a run; if it cannot be read, with the diagnostics."""
    try:
        report = _read_run(folder, summary, spaces)
    except ArchError as error:
        report = Report(summary.name, result={each.code: each.message for each in error.diagnostics})
    return report_page(replace(report, reload=report.reload or RELOAD_SECONDS))


def _read_run(folder: Path, summary: Summary, spaces: dict[str, Space]) -> Report:
    """Return the report of a run that may still be running, or of a training, from recorded numbers only; no code of
    the run is executed. Raises ArchError if it is damaged."""
    state = f"{summary.state}, last written {summary.changed}"
    if not (folder / manifest.NAME).exists():
        rows = read_training(folder).get("history", ())
        value = {} if summary.score is None else {
            f"{summary.criterion}, held out": format_metric(summary.criterion, summary.score)
        }  # fmt: skip
        return Report(summary.name, f"training: {state}", [PhaseRows("train", rows)], result=value)
    run = Run.open(folder)
    report = report_of_run(run, spaces=spaces, pictures=run.finished)
    return replace(report, title=summary.name, subtitle=f"{run.title}: {state}")


def _index_page(runs: Sequence[tuple[Path, Summary]]) -> str:
    head = ["run", "recipe", "state", "phase", "epoch", "validation", "held out", "last written"]
    rows = [
        [Html(f'<a href="/{number}">{escape(run.name)}</a>'), run.recipe, run.state, run.phase or "",
         Number("" if run.epoch is None else str(run.epoch), run.epoch),
         Number(_format_score(run, run.validation), run.validation), Number(_format_score(run, run.score), run.score),
         run.changed]
        for number, (_, run) in enumerate(runs)
    ]  # fmt: skip
    return page(
        "Runs",
        ", ".join(dict.fromkeys(str(path.parent) for path, _ in runs)),
        [("All runs", sortable_table("runs", head, rows, "texts"))],
        RELOAD_SECONDS,
    )


def _format_score(summary: Summary, value: float | None) -> str:
    """Format a score with the name of its measure; empty if there is none."""
    return "" if value is None else f"{summary.criterion} {format_metric(summary.criterion, value)}"
