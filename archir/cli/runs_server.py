"""Local web server of `archir runs --serve`: pages that show runs and reload themselves."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from archir.diagnostics.errors import ArchError
from archir.runs import Run, Summary
from archir.runs.report.run_page import error_page, run_page
from archir.runs.summaries import located_summaries
from archir.search.fronts.metric_format import format_metric

HOST = "127.0.0.1"
RELOAD_SECONDS = 5
"""Seconds between two automatic reloads of a page."""
MAX_DIGITS = 6
"""Exclusive upper bound on the number of digits of a run number in a URL."""
_STYLE = (
    ":root{color-scheme:light dark}body{margin:24px auto;max-width:1100px;padding:0 14px;font:15px/1.5 system-ui,"
    "sans-serif;overflow-wrap:anywhere}table{border-collapse:collapse;width:100%}td,th{text-align:left;padding:5px "
    "14px 5px 0;border-bottom:1px solid #8884;vertical-align:top}h1{font-size:22px}div{overflow-x:auto}"
)


class Server(ThreadingHTTPServer):
    """HTTP server that only this machine can reach.

    Requests with a non-local Host header are refused, which keeps other web sites out (DNS rebinding).
    """

    daemon_threads = True

    def __init__(self, port: int, folders: Sequence[Path]) -> None:
        super().__init__((HOST, port), _Handler)
        self.folders = folders

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
            self._answer(HTTPStatus.FORBIDDEN, "<p>This page is only available on this machine.</p>")
        elif not number:
            self._answer(HTTPStatus.OK, _index_page(self.server.runs()))
        elif (run := self._run(number)) is None:
            self._answer(HTTPStatus.NOT_FOUND, "<p>There is no such run.</p>")
        else:
            self._answer(HTTPStatus.OK, _page(*run), "'unsafe-inline'")  # the page's own policy allows only its scripts

    def _run(self, number: str) -> tuple[Path, Summary] | None:
        runs = self.server.runs() if number.isdecimal() and len(number) < MAX_DIGITS else []
        return runs[int(number)] if runs and int(number) < len(runs) else None

    def _answer(self, status: HTTPStatus, text: str, script: str = "'none'") -> None:
        content = text.encode("utf-8", "replace")
        policy = f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src {script}"
        self.send_response(status)
        for name, value in (
            ("Content-Type", "text/html; charset=utf-8"), ("Content-Length", str(len(content))),
            ("Content-Security-Policy", policy), ("Cache-Control", "no-store"), ("Refresh", str(RELOAD_SECONDS)),
            ("X-Content-Type-Options", "nosniff"), ("Referrer-Policy", "no-referrer"),
        ):  # fmt: skip
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """Suppress the default log line per request."""


def _page(path: Path, summary: Summary) -> str:
    """Return the page of a run, or an error page if the run cannot be read."""
    try:
        return run_page(Run.open(path), summary)
    except ArchError as error:
        return error_page(summary.name, error)


def _index_page(runs: Sequence[tuple[Path, Summary]]) -> str:
    """Return the HTML page that lists the runs."""
    rows = "".join(
        f'<tr><td><a href="/{number}">{escape(run.name)}</a></td><td>{escape(run.state)}</td>'
        f"<td>{escape(run.phase or '')}</td><td>{'' if run.epoch is None else run.epoch}</td>"
        f"<td>{_format_score(run, run.validation)}</td><td>{_format_score(run, run.score)}</td>"
        f"<td>{escape(run.changed)}</td></tr>"
        for number, (_, run) in enumerate(runs)
    )
    names = ("run", "state", "phase", "epoch", "validation", "held out", "last written")
    head = "".join(f"<th>{name}</th>" for name in names)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>runs</title><meta name="viewport" '
        f'content="width=device-width, initial-scale=1"><style>{_STYLE}</style></head><body><h1>Runs</h1><div>'
        f"<table><tr>{head}</tr>{rows}</table></div></body></html>"
    )


def _format_score(summary: Summary, value: float | None) -> str:
    """Format a score with the name of its measure; empty if there is none."""
    return "" if value is None else escape(f"{summary.criterion} {format_metric(summary.criterion, value)}")
