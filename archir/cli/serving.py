"""Pages of runs that follow them, for a browser on this machine."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from archir.diagnostics.errors import ArchError
from archir.runs import Run, Summary
from archir.runs.report.live import broken, live
from archir.runs.summaries import placed
from archir.search.fronts.figures import shown

HOST = "127.0.0.1"
SECONDS = 5
"""From one look to the next."""
MOST_DIGITS = 6
_STYLE = (
    ":root{color-scheme:light dark}body{margin:24px auto;max-width:1100px;padding:0 14px;font:15px/1.5 system-ui,"
    "sans-serif;overflow-wrap:anywhere}table{border-collapse:collapse;width:100%}td,th{text-align:left;padding:5px "
    "14px 5px 0;border-bottom:1px solid #8884;vertical-align:top}h1{font-size:22px}div{overflow-x:auto}"
)


class Server(ThreadingHTTPServer):
    """Answers on this machine alone, to requests that say so: a page from elsewhere cannot ask by another name."""

    daemon_threads = True

    def __init__(self, port: int, folders: Sequence[Path]) -> None:
        super().__init__((HOST, port), _Handler)
        self.folders = folders

    @property
    def address(self) -> str:
        """Where it is."""
        return f"http://{HOST}:{self.server_port}/"

    def runs(self) -> list[tuple[Path, Summary]]:
        """What there is now; a run's number is its place."""
        return [one for folder in self.folders for one in placed(folder)]


class _Handler(BaseHTTPRequestHandler):
    server: Server
    server_version, sys_version = "archir", ""

    def do_GET(self) -> None:
        """A list of the runs, or one by its number: no path of the request is one of the disk."""
        number = self.path.strip("/")
        if self.headers.get("Host") not in {f"{name}:{self.server.server_port}" for name in (HOST, "localhost")}:
            self._answer(HTTPStatus.FORBIDDEN, "<p>This page is for this machine alone.</p>")
        elif not number:
            self._answer(HTTPStatus.OK, _listed(self.server.runs()))
        elif (found := self._run(number)) is None:
            self._answer(HTTPStatus.NOT_FOUND, "<p>There is no such run.</p>")
        else:
            self._answer(HTTPStatus.OK, _page(*found), "'unsafe-inline'")  # of which the page allows its own alone

    def _run(self, number: str) -> tuple[Path, Summary] | None:
        runs = self.server.runs() if number.isdecimal() and len(number) < MOST_DIGITS else []
        return runs[int(number)] if runs and int(number) < len(runs) else None

    def _answer(self, status: HTTPStatus, text: str, script: str = "'none'") -> None:
        content = text.encode("utf-8", "replace")
        policy = f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src {script}"
        self.send_response(status)
        for name, value in (
            ("Content-Type", "text/html; charset=utf-8"), ("Content-Length", str(len(content))),
            ("Content-Security-Policy", policy), ("Cache-Control", "no-store"), ("Refresh", str(SECONDS)),
            ("X-Content-Type-Options", "nosniff"), ("Referrer-Policy", "no-referrer"),
        ):  # fmt: skip
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""


def _page(path: Path, summary: Summary) -> str:
    try:
        return live(Run.open(path), summary)
    except ArchError as error:
        return broken(summary.name, error)


def _listed(runs: Sequence[tuple[Path, Summary]]) -> str:
    rows = "".join(
        f'<tr><td><a href="/{number}">{escape(one.name)}</a></td><td>{escape(one.state)}</td>'
        f"<td>{escape(one.phase or '')}</td><td>{'' if one.epoch is None else one.epoch}</td>"
        f"<td>{_figure(one, one.validation)}</td><td>{_figure(one, one.score)}</td><td>{escape(one.changed)}</td></tr>"
        for number, (_, one) in enumerate(runs)
    )
    names = ("run", "state", "phase", "epoch", "validation", "held out", "last written")
    head = "".join(f"<th>{name}</th>" for name in names)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>runs</title><meta name="viewport" '
        f'content="width=device-width, initial-scale=1"><style>{_STYLE}</style></head><body><h1>Runs</h1><div>'
        f"<table><tr>{head}</tr>{rows}</table></div></body></html>"
    )


def _figure(one: Summary, value: float | None) -> str:
    return "" if value is None else escape(f"{one.criterion} {shown(one.criterion, value)}")
