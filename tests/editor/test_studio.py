"""`archir studio`: answers to its page, access control, and saving."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import archir
from archir.diagnostics.errors import ArchError
from archir.diagnostics.work import spend, work_budget
from archir.tools.lsp.lexer import KEYWORDS
from archir.tools.studio.server import HOST, Studio, page_file
from archir.tools.studio.session import COSTS, MAX_TEXT, RequestError, Session, from_utf16_offset, to_utf16_offset
from tests.conftest import EXAMPLES, ROOT
from tests.studio import served

NB201 = (EXAMPLES / "nas_bench_201" / "nas_bench_201.arch").read_text()
SMALL = """net small {
    input image: f32[3, 8, 8]
    x = image |> conv(choose width(4, 8, 16), kernel=choose size(1, 3))
    output y = x |> global_avg_pool |> linear(10)
}
"""


@pytest.fixture(scope="module")
def desk() -> Session:
    return Session()


def test_studio_check_equals_archir_check(desk: Session, tmp_path: Path) -> None:
    broken = SMALL.replace("global_avg_pool", "global_avg_poll")
    (tmp_path / "space.arch").write_text(broken)
    found = desk.ask("check", {"text": broken})["problems"]
    said = archir.check(tmp_path / "space.arch")
    assert [(one["code"], one["message"], one["hint"], one["line"]) for one in found] == [
        (one.code, one.message, one.hint, one.span.line if one.span else 0) for one in said
    ]
    (problem,) = found
    mended = broken[: problem["start"]] + problem["edit"] + broken[problem["end"] :]
    assert mended == SMALL
    assert desk.ask("check", {"text": mended}) == {
        "problems": [],
        "nets": [{"name": "small", "size": "6", "choices": 2, "bounded": False}],
    }


def test_studio_handles_texts_without_net_and_with_several(desk: Session) -> None:
    assert desk.ask("check", {"text": "# nothing yet\n"}) == {"problems": [], "nets": []}
    assert desk.ask("costs", {"text": ""})["problems"][0]["code"] == "A0808"
    both = SMALL + SMALL.replace("net small", "net other").replace("4, 8, 16", "4, 8")
    assert [one["size"] for one in desk.ask("check", {"text": both})["nets"]] == ["6", "4"]
    assert desk.ask("within", {"text": both, "net": "small", "bounds": {}})["of"] == "6"
    assert desk.ask("within", {"text": both, "net": "other", "bounds": {}})["of"] == "4"


def test_studio_counts_within_bounds_equal_brute_force(desk: Session) -> None:
    space = archir.loads(NB201)
    costs = space.cost(list(space.enumerate()), COSTS)
    told = desk.ask("costs", {"text": NB201})["costs"]
    for name in COSTS:
        assert (int(told[name]["least"]), int(told[name]["greatest"])) == (costs[name].min(), costs[name].max())
        assert max(told[name]["bars"]) == 1.0
        half = int(told[name]["median"])
        assert (costs[name] <= half).mean() >= 0.5 > (costs[name] < half).mean()
    middle = {name: int(costs[name].max() + costs[name].min()) // 3 for name in COSTS}
    for names in (["macs"], ["params"], ["params", "macs"]):
        bounds = {name: ["0", str(middle[name])] for name in names}
        fine = sum(all(costs[name][i] <= middle[name] for name in names) for i in range(len(costs["macs"])))
        assert desk.ask("within", {"text": NB201, "bounds": bounds}) == {
            "least": str(fine),
            "most": str(fine),
            "of": "15625",
        }


def test_requirements_of_the_net_combine_with_page_bounds(desk: Session) -> None:
    bounded = SMALL.replace("    output", "    require params <= 500\n    output")
    space = archir.loads(SMALL)
    params = sorted(int(one) for one in space.cost(list(space.enumerate()), ["params"])["params"])
    fine = [one for one in params if one <= 500]
    assert 0 < len(fine) < 6
    assert desk.ask("check", {"text": bounded})["nets"][0]["bounded"]
    assert desk.ask("within", {"text": bounded})["most"] == str(len(fine))
    assert desk.ask("within", {"text": bounded, "bounds": {"params": [fine[1], 10**6]}})["most"] == str(len(fine) - 1)
    assert desk.ask("within", {"text": bounded, "bounds": {"params": [10**6, 10**7]}})["most"] == "0"


def test_sampled_architectures_keep_bounds_and_are_compared(desk: Session) -> None:
    bounds = {"macs": ["0", "40000000"]}
    drawn = desk.ask("sample", {"text": NB201, "bounds": bounds, "seed": 3, "count": 4})["architectures"]
    assert len(drawn) == 4
    assert all(int(one["costs"]["macs"].replace(",", "")) <= 40_000_000 for one in drawn)
    again = desk.ask("sample", {"text": NB201, "bounds": bounds, "seed": 3, "count": 4})["architectures"]
    assert again == drawn
    space = archir.loads(NB201)
    one, other = (space.architecture(each["choices"]) for each in drawn[:2])
    asked = {"text": NB201, "one": drawn[0]["choices"], "other": drawn[1]["choices"]}
    found = desk.ask("diff", asked)["differences"]
    assert [each for each in found if each["kind"] == "choice"] == [
        {"kind": d.kind, "scope": d.scope, "name": d.name, "before": d.before, "after": d.after}
        for d in archir.diff(one, other)
    ]
    assert {each["name"] for each in found if each["kind"] == "cost"} == {
        name for name, cost in drawn[0]["costs"].items() if cost != drawn[1]["costs"][name]
    }
    picture = desk.ask("picture", {"text": NB201, "architecture": drawn[0]["choices"], "heat": "macs", "depth": 1})
    assert "choices" not in picture["page"].partition("<p>")[2].partition("</p>")[0]
    wrong = desk.ask("diff", asked | {"one": {"nothing": 1}})
    assert wrong["problems"][0]["code"] == "A1002"


def test_studio_answers_hover_and_completion(desk: Session) -> None:
    at = SMALL.index("conv(") + 2
    assert "conv" in desk.ask("hover", {"text": SMALL, "at": at})["text"]
    typed = SMALL.replace("global_avg_pool", "glob")
    items = desk.ask("complete", {"text": typed, "at": typed.index("glob") + 4})["items"]
    assert "global_avg_pool" in [one["label"] for one in items]


def test_problem_positions_are_utf16_offsets(desk: Session) -> None:
    text = "# 🎈 and é\n" + SMALL.replace("linear", "lineer")
    (problem,) = desk.ask("check", {"text": text})["problems"]
    wide = text.encode("utf-16-le")
    assert wide[2 * problem["start"] : 2 * problem["end"]].decode("utf-16-le") == "lineer"
    assert all(from_utf16_offset(text, to_utf16_offset(text, at)) == at for at in range(len(text)))


def test_studio_formats_program(desk: Session) -> None:
    assert desk.ask("format", {"text": SMALL.replace("    ", "  ")})["text"] == archir.format(SMALL)
    assert desk.ask("format", {"text": "net {"})["problems"]


def test_studio_reports_exceeded_work_limit(desk: Session) -> None:
    text = SMALL.replace("    output", "    for i in 0..1000000 { x = x |> relu |> conv(8) |> gelu }\n    output")
    for kind in ("check", "costs"):
        (problem,) = desk.ask(kind, {"text": text})["problems"]
        assert problem["code"] in ("A0601", "A0602")


WRONG: list[tuple[str, Any]] = [
    ("check", []),
    ("check", {}),
    ("check", {"text": 3}),
    ("check", {"text": "x" * (MAX_TEXT + 1)}),
    ("check", {"text": "\ud800"}),
    ("destroy", {"text": ""}),
    ("within", {"text": SMALL, "bounds": {"latency": [0, 1]}}),
    ("within", {"text": SMALL, "bounds": {"macs": [0]}}),
    ("within", {"text": SMALL, "bounds": {"macs": [0, 10**30]}}),
    ("sample", {"text": SMALL, "seed": 0, "count": 10**9}),
    ("sample", {"text": SMALL, "seed": "1" * 5000, "count": 1}),
    ("picture", {"text": SMALL, "depth": True}),
    ("hover", {"text": SMALL, "at": -1}),
    ("diff", {"text": SMALL, "one": [], "other": {}}),
]


@pytest.mark.parametrize(("kind", "fields"), WRONG)
def test_rejects_malformed_page_requests(desk: Session, kind: str, fields: Any) -> None:
    with pytest.raises(RequestError):
        desk.ask(kind, fields)


# The server.


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("studio") / "small.arch"
    found.write_text(SMALL)
    return found


@pytest.fixture(scope="module")
def studio(file: Path) -> Iterator[Studio]:
    with served(file) as found:
        yield found


def asked(
    studio: Studio, path: str, fields: Any = None, headers: dict[str, str] | None = None, body: bytes | None = None
) -> tuple[int, Any, http.client.HTTPMessage]:
    connection = http.client.HTTPConnection(HOST, studio.port, timeout=30)
    usual = {"Authorization": f"Bearer {studio.token}", "Content-Type": "application/json"} | (headers or {})
    content = body if body is not None else None if fields is None else json.dumps(fields).encode()
    connection.request("GET" if content is None else "POST", path, content, usual)
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    is_json = answer.headers.get_content_type() == "application/json"
    return answer.status, json.loads(text) if is_json else text, answer.headers


def test_page_opens_only_with_its_token(studio: Studio) -> None:
    assert asked(studio, f"/?token={studio.token}")[0] == 200
    assert asked(studio, "/")[0] == 403
    assert asked(studio, "/?token=x")[0] == 403
    assert asked(studio, f"/?token={studio.token}", headers={"Host": "evil.example"})[0] == 403
    assert asked(studio, "/text", headers={"Authorization": "Bearer x"})[0] == 403
    status, text, headers = asked(studio, "/studio.js", headers={"Authorization": ""})
    assert (status, text) == (200, page_file("studio.js").decode())
    policy = headers["Content-Security-Policy"]
    assert "unsafe" not in policy
    assert "http:" not in policy
    assert headers["X-Frame-Options"] == "DENY"
    assert headers["Cache-Control"] == "no-store"


def test_rejects_requests_of_other_origins(studio: Studio) -> None:
    fields = {"text": SMALL, "page": "1"}
    assert asked(studio, "/ask/check", fields)[1]["problems"] == []
    own = {"Origin": f"http://{HOST}:{studio.port}"}
    assert asked(studio, "/ask/check", fields, own)[0] == 200
    for headers in (
        {"Origin": "http://evil.example"}, {"Origin": "null"}, {"Host": "evil.example:80"}, {"Authorization": ""},
    ):  # fmt: skip
        assert asked(studio, "/ask/check", fields, headers)[0] == 403


def test_rejects_malformed_http_requests(studio: Studio) -> None:
    assert asked(studio, "/ask/check", {"text": SMALL, "page": "1"}, {"Content-Type": "text/plain"})[0] == 400
    assert asked(studio, "/ask/check", body=b"[" * 100_000)[0] == 400
    assert asked(studio, "/ask/check", body=b"\xff")[0] == 400
    assert asked(studio, "/ask/check", {"text": "x" * 3 * MAX_TEXT, "page": "1"})[0] == 400
    assert asked(studio, "/ask/check", {"text": SMALL})[0] == 400
    assert asked(studio, "/ask/destroy", {"text": SMALL, "page": "1"})[0] == 404
    assert asked(studio, "/small.arch")[0] == 404
    assert asked(studio, "/../../etc/passwd")[0] == 404


def test_save_rejects_file_changed_elsewhere(studio: Studio, file: Path) -> None:
    begun = asked(studio, "/text")[1]
    assert (begun["name"], begun["text"]) == ("small.arch", SMALL)
    longer = SMALL + "# more\n"
    status, said, _ = asked(studio, "/save", {"text": longer, "digest": begun["digest"]})
    assert (status, file.read_text()) == (200, longer)
    file.write_text("# by another\n")
    assert asked(studio, "/save", {"text": SMALL, "digest": said["digest"]})[0] == 409
    assert file.read_text() == "# by another\n"
    file.write_text(SMALL)


def test_nothing_is_saved_without_a_file(tmp_path: Path) -> None:
    with served() as studio:
        assert asked(studio, "/text")[1]["text"] is None
        assert asked(studio, "/save", {"text": SMALL, "digest": ""})[0] == 403


def test_newer_request_interrupts_older_one() -> None:
    studio = Studio(0)
    begun, ended = threading.Event(), threading.Event()

    def endless(kind: str, fields: Any) -> dict[str, Any]:
        if fields["text"] == "new":
            return {"fine": True}
        begun.set()
        try:
            with work_budget():
                while True:
                    spend(0)  # more than any budget, if nobody stops it
        finally:
            ended.set()

    studio._session.ask = endless  # type: ignore[method-assign]
    older: list[Any] = []

    def ask() -> None:
        try:
            older.append(studio._answer(("page", "check"), {"text": "old"}))
        except ArchError as error:
            older.append(error.diagnostics[0].code)

    thread = threading.Thread(target=ask)
    thread.start()
    assert begun.wait(20)
    assert studio._answer(("page", "check"), {"text": "new"}) == {"fine": True}
    assert ended.wait(20)
    thread.join(20)
    assert older == ["A0602"]


# The page's sources.


def test_page_highlights_keywords_of_the_parser() -> None:
    source = (ROOT / "editors" / "studio" / "src" / "language.js").read_text()
    listed = source.partition("new Set(")[2].partition("]")[0]
    assert {word.strip(' ",\n') for word in listed.partition("[")[2].split(",")} - {""} == KEYWORDS


def test_links_contain_programs_as_long_as_those_of_requests() -> None:
    source = (ROOT / "editors" / "studio" / "src" / "link.js").read_text()
    assert f"const MAX_TEXT = {MAX_TEXT:_};" in source


def test_page_loads_no_external_resources() -> None:
    for name in ("index.html", "studio.css"):
        text = page_file(name).decode()
        assert "http:" not in text
        assert "https:" not in text
        assert "style=" not in text
    assert "sourceMappingURL" not in page_file("studio.js").decode()


def test_licenses_of_bundled_packages_are_included() -> None:
    text = page_file("LICENSES.txt").decode()
    lock = json.loads((ROOT / "editors" / "studio" / "package-lock.json").read_text())["packages"]
    for name in ("@codemirror/view", "@codemirror/state", "@lezer/common", "style-mod", "crelt"):
        assert f"{name} {lock[f'node_modules/{name}']['version']} (MIT)" in text
