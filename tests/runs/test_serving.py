"""`archir runs --serve`: a page that follows runs, on this machine alone."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from archir.cli import main
from archir.cli.runs_server import HOST, Server
from archir.runs import Run, Trial

HOSTILE = "<script>alert(1)</script>"
CHOICES = "a: conv(2), b: conv(3), c: conv(4)"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """One of a folder with a run that is being written."""
    with Server(0, [tmp_path]) as found:
        thread = threading.Thread(target=found.serve_forever, daemon=True)
        thread.start()
        yield found
        found.shutdown()
        thread.join()


def asked(server: Server, path: str, host: str | None = None, method: str = "GET") -> tuple[int, str]:
    connection = http.client.HTTPConnection(HOST, server.server_port, timeout=20)
    connection.request(method, path, headers={"Host": host or f"{HOST}:{server.server_port}"})
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, text


def test_served_page_follows_running_search(server: Server, tmp_path: Path) -> None:
    assert "<h1>Runs</h1>" in asked(server, "/")[1]
    recipe = f"title = {HOSTILE!r}\nspace = 'x.arch'\n[[phase]]\nname = 'evolve'\nstrategy = 'evolution'\n"
    space = f"net x {{\n input x: f32[1, 4, 4]\n output y = x |> choose op {{ {CHOICES} }}\n}}\n"
    inputs = {"recipe.toml": recipe, "overrides.json": "{}", "space/x.arch": space}
    with Run.create(tmp_path / "x", HOSTILE, inputs, {}) as run:
        phase = run.phase("evolve")
        phase.begin({"strategy": "evolution", "epochs": 4})
        for number in range(3):
            phase.record({"epoch": number, "validation_accuracy": number / 4, "seconds": 60.0}, {"op/a": number / 4})
            phase.put_trial(Trial(number, "h", {"op": "abc"[number]}, "done", {"accuracy": number / 4}))
            status, text = asked(server, "/0")
            assert status == 200
            assert '<body data-reload="5">' in text
            assert f"{number + 1} of 4" in text
            assert f"about {3 - number} min" in text
            assert text.partition('<section id="trials-of')[2].count("<details><summary>show</summary>") == number + 1
            assert "<h2>Architecture parameters</h2>" in text
            assert HOSTILE not in text
            assert "&lt;script&gt;" in text
        listed = asked(server, "/")[1]
        assert '<a href="/0">x</a>' in listed
        assert "running" in listed
    (tmp_path / "x" / "recipe.toml").write_text("changed")
    status, text = asked(server, "/0")
    assert status == 200
    assert "A1803" in text


def test_server_answers_local_hosts_and_known_paths_only(server: Server) -> None:
    assert server.server_address[0] == "127.0.0.1"
    for host in ("evil.example", f"evil.example:{server.server_port}", "127.0.0.1:1"):
        assert asked(server, "/", host)[0] == 403
    assert asked(server, "/", f"localhost:{server.server_port}")[0] == 200
    for path in ("/1", "/../x", "/%2e%2e/etc/passwd", "/-1", "/9999999999", "/x"):
        assert asked(server, path)[0] == 404
    assert asked(server, "/", method="POST")[0] == 501


def test_rejects_port_in_use(server: Server, tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["runs", str(tmp_path), "--serve", "--port", str(server.server_port)])
    assert done.exit_code == 2
    assert "name another --port" in done.output


def test_rejects_port_without_serve(tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["runs", str(tmp_path), "--port", "0"])
    assert done.exit_code == 2
    assert "--port needs --serve" in done.output
