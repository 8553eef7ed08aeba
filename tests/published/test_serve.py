"""The serving example over loopback: load, rejected requests, limits, and shutdown."""

from __future__ import annotations

import asyncio
import io
import json
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper
from PIL import Image

import archir
from tests.conftest import EXAMPLES, ROOT
from tests.service import FOLDER, JSON, RAW, Answer, Running, ask, cases, command, load, running

NET = """
net tiny(classes = 10) {
    input image: f32[1, 8, 8]
    x = image |> conv(16, kernel=3) |> batch_norm |> relu |> conv(16, kernel=3, stride=2) |> relu
    output logits = x |> flatten |> linear(classes)
}
"""
LABELS = [f"digit {number}" for number in range(10)]
CLIENTS = 64


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "net.onnx"
    space = archir.loads(NET)
    network = space.specialize(space.sample(0))
    archir.export(network, path, archir.compile(network), metadata={"labels": json.dumps(LABELS)}, certified=True)
    return path


@pytest.fixture(scope="module")
def service(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(model, tmp_path_factory.mktemp("service"), "--timeout", "2") as one:
        yield one
        assert "Traceback" not in one.log.read_text("utf-8")


def handmade(path: Path, inputs: dict[str, tuple[int, list[Any]]], **metadata: str) -> Path:
    """A model whose outputs are its inputs as floats."""
    slots = [helper.make_tensor_value_info(name, kind, shape) for name, (kind, shape) in inputs.items()]
    results = [
        helper.make_tensor_value_info(f"{name}_out", TensorProto.FLOAT, shape) for name, (_, shape) in inputs.items()
    ]
    nodes = [helper.make_node("Cast", [name], [f"{name}_out"], to=TensorProto.FLOAT) for name in inputs]
    made = helper.make_model(
        helper.make_graph(nodes, "handmade", slots, results), ir_version=10, opset_imports=[helper.make_opsetid("", 20)]
    )
    helper.set_model_props(made, metadata)
    onnx.save(made, path)
    return path


# answers


def test_answers_match_model_outputs(model: Path, service: Running) -> None:
    for case in (*cases(model, 2), *cases(model, 66)[64:]):
        answer = service.ask(body=case.body, kind=case.kind)
        assert answer.status == 200
        assert case.right(answer)
        classes = answer.json["classes"]
        best = np.argsort(-case.wanted)[:5]
        assert [one["label"] for one in classes] == [LABELS[which] for which in best]
        chances = np.exp(case.wanted) / np.exp(case.wanted).sum()
        assert [one["probability"] for one in classes] == pytest.approx(chances[best], rel=1e-3)
    assert service.ask(body=cases(model, 1)[0].body, kind=f"{RAW.upper()}; charset=x").status == 200


def test_status_endpoints_describe_service(service: Running) -> None:
    assert service.ask("/healthz").json == {"status": "alive"}
    assert service.ask("/readyz").json == {"status": "ready"}
    told = service.ask("/metadata").json
    assert told["inputs"] == [{"name": "image", "type": "float32", "shape": [1, 8, 8]}]
    assert told["outputs"] == [{"name": "logits", "type": "float32", "shape": [10]}]
    assert told["metadata"]["net"] == "tiny"


def test_image_files_are_decoded(tmp_path: Path) -> None:
    path = handmade(tmp_path / "image.onnx", {"image": (TensorProto.UINT8, ["batch", 4, 6, 3])})
    pixels = np.random.default_rng(0).integers(0, 256, (4, 6, 3), np.uint8)

    def written(kind: str, array: Any = pixels) -> bytes:
        Image.fromarray(array).save(file := io.BytesIO(), kind)
        return file.getvalue()

    with running(path, tmp_path) as one:
        for kind in ("png", "jpeg"):
            answer = one.ask(body=written(kind), kind=f"image/{kind}")
            wanted = np.asarray(Image.open(io.BytesIO(written(kind))))
            assert answer.json == {"outputs": {"image_out": wanted.tolist()}}
        grey = np.arange(24, dtype=np.uint8).reshape(4, 6)
        answer = one.ask(body=written("png", grey), kind="image/png")
        assert answer.json["outputs"]["image_out"] == np.repeat(grey[..., None], 3, 2).tolist()
        assert one.ask(body=pixels.tobytes(), kind=RAW).json["outputs"]["image_out"] == pixels.tolist()
        assert one.ask(body=b"GIF", kind="image/png").json == {"error": "the body is not image/png"}
        answer = one.ask(body=written("png", pixels[:, :5]), kind="image/png")
        assert (answer.status, "5x4 pixels; the model takes 6x4" in answer.json["error"]) == (422, True)
        whole = written("png")
        wrong = [
            (written("png"), "image/jpeg"), (written("gif"), "image/png"), (whole[:-30], "image/png"),
            (b"", "image/png"), (whole, "image/gif"), (whole, "image"), (b"{}", JSON),
            (json.dumps({"inputs": (pixels.astype(int) - 1 - pixels).tolist()}).encode(), JSON),
            (json.dumps({"inputs": (pixels.astype(int) + 256).tolist()}).encode(), JSON),
            (json.dumps({"inputs": (pixels + 0.5).tolist()}).encode(), JSON),
        ]  # fmt: skip
        for body, kind in wrong:
            assert one.ask(body=body, kind=kind).status in (400, 415, 422), (kind, body)
        for position in range(0, len(whole), 3):
            damaged = whole[:position] + bytes([whole[position] ^ 255]) + whole[position + 1 :]
            assert one.ask(body=damaged, kind="image/png").status in (200, 422)
        assert "Traceback" not in one.log.read_text("utf-8")


def test_model_with_several_inputs_is_served(tmp_path: Path) -> None:
    inputs = {"words": (TensorProto.INT64, ["n", 3]), "mask": (TensorProto.BOOL, ["n", 2])}
    with running(handmade(tmp_path / "two.onnx", inputs), tmp_path) as one:

        def answered(values: Any) -> Answer:
            return one.ask(body=json.dumps({"inputs": values}).encode(), kind=JSON)

        answer = answered({"words": [1, -2, 2**40], "mask": [True, False]})
        assert answer.json == {"outputs": {"words_out": [1, -2, 2**40], "mask_out": [1, 0]}}
        for wrong in ({"words": [1, 2, 3]}, [1, 2, 3], {"words": [1, 2, 3], "mask": [1, 0]}, {
            "words": [1, 2, 2**63], "mask": [True, True]}, {"words": [1, 2, True], "mask": [True, True]}):  # fmt: skip
            assert answered(wrong).status == 422, wrong
        assert one.ask(body=b"abc", kind=RAW).status == 415


# what is refused

GOOD = np.zeros((1, 8, 8)).tolist()


def changed(number: Any) -> bytes:
    """A sample in JSON with something else for one number."""
    return json.dumps({"inputs": GOOD}).replace("0.0", "@", 1).replace("@", str(number)).encode()


MALFORMED: list[tuple[str, int, dict[str, Any]]] = [
    ("no such path", 404, {"path": "/predictions"}),
    ("GET", 405, {}),
    ("PUT", 405, {"method": "PUT", "body": b"{}", "kind": JSON}),
    ("an unknown method", 405, {"method": "BREW", "body": b"{}", "kind": JSON}),
    ("no content type", 415, {"body": b"{}"}),
    ("another content type", 415, {"body": b"{}", "kind": "text/plain"}),
    ("a form", 415, {"body": b"a=b", "kind": "multipart/form-data; boundary=x"}),
    ("an image for a model of floats", 415, {"body": b"\x89PNG", "kind": "image/png"}),
    ("compressed", 415, {"body": b"{}", "kind": JSON, "content_encoding": "gzip"}),
    ("no body", 400, {"body": b"", "kind": JSON}),
    ("no JSON", 400, {"body": b"{'inputs': 1}", "kind": JSON}),
    ("no UTF-8", 400, {"body": b'{"inputs": "\xff"}', "kind": JSON}),
    ("nested too deeply", 400, {"body": b"[" * 18_000, "kind": JSON}),
    ("a digit too many", 400, {"body": changed("1" * 5000), "kind": JSON}),
    ("a list", 422, {"body": b"[1]", "kind": JSON}),
    ("no inputs", 422, {"body": b'{"input": [1]}', "kind": JSON}),
    ("more than inputs", 422, {"body": b'{"inputs": [1], "x": 1}', "kind": JSON}),
    ("a number", 422, {"body": b'{"inputs": 1}', "kind": JSON}),
    ("null", 422, {"body": b'{"inputs": null}', "kind": JSON}),
    ("another input", 422, {"body": b'{"inputs": {"picture": []}}', "kind": JSON}),
    ("another shape", 422, {"body": json.dumps({"inputs": [[[0.0] * 7] * 8]}).encode(), "kind": JSON}),
    ("ragged", 422, {"body": changed("0, 0"), "kind": JSON}),
    ("deeper than the shape", 422, {"body": changed("[0]"), "kind": JSON}),
    ("a string", 422, {"body": changed('"1.5"'), "kind": JSON}),
    ("a boolean", 422, {"body": changed("true"), "kind": JSON}),
    ("an object", 422, {"body": changed("{}"), "kind": JSON}),
    ("no number", 422, {"body": changed("NaN"), "kind": JSON}),
    ("infinity", 422, {"body": changed("-Infinity"), "kind": JSON}),
    ("beyond float64", 422, {"body": changed("1e999"), "kind": JSON}),
    ("beyond float32", 422, {"body": changed("1e39"), "kind": JSON}),
    ("an integer beyond floats", 422, {"body": changed("1" * 400), "kind": JSON}),
    ("numbers that the model cannot bear", 422, {"body": np.full(64, 3e38, np.float32).tobytes(), "kind": RAW}),
    ("a byte too few", 422, {"body": bytes(255), "kind": RAW}),
    ("a byte too many", 413, {"body": bytes(257), "kind": RAW}),
    ("bytes of no numbers", 422, {"body": b"\xff" * 256, "kind": RAW}),
    ("too large", 413, {"body": bytes(20_001), "kind": RAW}),
]


@pytest.mark.parametrize(("status", "request_"), [case[1:] for case in MALFORMED], ids=[case[0] for case in MALFORMED])
def test_malformed_requests_are_refused(status: int, request_: dict[str, Any], service: Running) -> None:
    answer = service.ask(**request_)
    assert answer.status == status
    assert answer.json["error"]


def test_image_for_a_model_of_floats_names_the_cause(service: Running) -> None:
    error = service.ask(body=b"\x89PNG", kind="image/png").json["error"]
    assert "the model takes normalised float32 numbers: to send image files, write it by archir" in error
    assert "--preprocess" not in service.ask(body=b"{}", kind="text/plain").json["error"]


def raw(service: Running, data: bytes, end: bool = False) -> bytes:
    """What is answered to bytes on a connection of their own, after which nothing more may come (`end`)."""
    with socket.create_connection(("127.0.0.1", service.port), timeout=20) as connection:
        connection.sendall(data)
        if end:
            connection.shutdown(socket.SHUT_WR)
        return connection.recv(2**16)


POST = b"POST /predict HTTP/1.1\r\nhost: x\r\ncontent-type: application/octet-stream\r\n"


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400),
        (b"GET /healthz\r\n\r\n", 400),
        (b"GET /healthz HTTP/1.1\r\n\r\n", 400),
        (b"GET /%ff%00 HTTP/1.1\r\nhost: x\r\n\r\n", 404),
        (POST + b"content-length: many\r\n\r\n", 400),
        (POST + b"content-length: -1\r\n\r\n", 400),
        (POST + b"content-length: 5\r\ncontent-length: 6\r\n\r\nabcdef", 400),
        (POST + b"content-length: 99999999999999\r\n\r\n", 413),
        (POST + b"transfer-encoding: chunked\r\n\r\n" + b"ff\r\n" + bytes(255) + b"\r\n0\r\n\r\n", 422),
        (POST + b"transfer-encoding: chunked\r\n\r\n" + b"ffff\r\n" + bytes(65535) + b"\r\n", 413),
        (POST + b"x: " + b"y" * 2**17 + b"\r\n\r\n", 400),
        (POST + b"content-length: 256\r\n\r\nabc", 408),
        (b"GET /healthz HTTP/1.1\r\nhost: x\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\n", 200),
    ],
)  # fmt: skip
def test_malformed_http_is_refused(data: bytes, status: int, service: Running) -> None:
    assert raw(service, data).split(b" ")[1] == str(status).encode()


def test_clients_may_go_away(model: Path, service: Running) -> None:
    for part in (
        b"",
        POST,
        POST + b"content-length: 256\r\n\r\n" + bytes(100),
        POST + b"content-length: 256\r\n\r\n" + bytes(256),
    ):
        with socket.create_connection(("127.0.0.1", service.port)) as connection:
            connection.sendall(part)
    assert service.ask("/readyz").status == 200
    (case,) = cases(model, 1)
    assert case.right(service.ask(body=case.body, kind=case.kind))


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=8) | st.dictionaries(st.sampled_from(["inputs", "image"]), inner),
    max_leaves=20,
)


@given(
    st.binary(max_size=400) | ANYTHING.map(lambda value: json.dumps({"inputs": value}).encode()),
    st.sampled_from([JSON, RAW, "image/png", "text/plain", ""]),
)
def test_random_bodies_are_rejected(service: Running, body: bytes, kind: str) -> None:
    status = service.ask(body=body, kind=kind).status
    assert 400 <= status < 500 or (status == 200 and len(body) == 256)


def test_no_request_caused_server_error(model: Path, service: Running) -> None:
    assert {name for name in service.counted() if 'status="5' in name} == set()
    (case,) = cases(model, 1)
    assert case.right(service.ask(body=case.body, kind=case.kind))


# load


def report(text: str) -> None:
    """Show a figure, also where nothing fails: `pytest -s`."""
    print(text)


@pytest.mark.parametrize("seconds", [1, pytest.param(30, marks=pytest.mark.soak)])
def test_many_concurrent_clients_get_right_answers(model: Path, tmp_path: Path, seconds: int) -> None:
    todo = cases(model, 10 * CLIENTS)
    with running(model, tmp_path, "--notice", "0") as one:
        before = one.counted()
        done = asyncio.run(load(one.port, todo, CLIENTS, seconds))
        after = one.counted()
        assert one.stop() == 0
    assert done.wrong == []
    samples, batches = (after[name] - before[name] for name in ("serve_samples_total", "serve_batches_total"))
    assert (
        after['serve_answers_total{status="200"}'] - samples == before.get('serve_answers_total{status="200"}', 0) + 1
    )
    assert samples == len(done.latencies) > 20 * seconds
    assert samples / batches > 2
    report(f"{done}, {len(done.latencies) / seconds:.0f} a second, batches of {samples / batches:.1f}")


def test_full_queue_rejects_requests(model: Path, tmp_path: Path) -> None:
    """Batches take 0.2 s. Of twelve requests three wait, or more where the first are computed as others come; for the
    rest there is no room."""
    (case,) = cases(model, 1)

    async def at_once(port: int) -> list[Answer]:
        return await asyncio.gather(*(ask(port, "/predict", case.body, case.kind) for _ in range(12)))

    with running(model, tmp_path, "--batch", "1", "--queue", "3", slow=0.2) as one:
        answers = asyncio.run(at_once(one.port))
        good, bad = ([a for a in answers if a.status == status] for status in (200, 503))
        assert 3 <= len(good) < 12
        assert len(good) + len(bad) == 12
        assert all(case.right(answer) for answer in good)
        assert all(answer.headers["retry-after"] == "1" and answer.json["error"] for answer in bad)
        assert one.counted()["serve_batches_total"] == len(good)


def test_request_body_size_is_limited(model: Path, service: Running) -> None:
    """A sample has 64 numbers: 256 bytes; as JSON, what somebody may write for them."""
    assert service.ask(body=bytes(256), kind=RAW).status == 200
    assert service.ask(body=bytes(255), kind=RAW).status == 422
    assert service.ask(body=bytes(257), kind=RAW).status == 413
    numbers = np.full((1, 8, 8), -1.2345678901234567e-300).tolist()
    loose = json.dumps({"inputs": numbers}, indent=8).encode()
    assert service.ask(body=loose, kind=JSON).status == 200
    assert service.ask(body=loose + b" " * 20_000, kind=JSON).status == 413
    with socket.create_connection(("127.0.0.1", service.port), timeout=10) as one:
        one.sendall(b"POST /predict HTTP/1.1\r\nhost: x\r\ncontent-type: application/octet-stream\r\n")
        one.sendall(b"transfer-encoding: chunked\r\n\r\n101\r\n" + bytes(257) + b"\r\n")
        assert one.recv(64).startswith(b"HTTP/1.1 413")


def test_memory_has_a_limit(model: Path, tmp_path: Path) -> None:
    """Bodies that come slowly hold what they may take until they are answered."""
    head = b"POST /predict HTTP/1.1\r\nhost: x\r\ncontent-type: application/octet-stream\r\ncontent-length: 256\r\n\r\n"
    with running(model, tmp_path, "--memory", "3000", "--timeout", "5") as one:
        slow = [socket.create_connection(("127.0.0.1", one.port), timeout=10) for _ in range(2)]
        for each in slow:
            each.sendall(head + bytes(10))
        wanted = "serve_memory_bytes 2048"
        assert eventually(lambda: wanted in one.ask("/metrics").body.decode())
        refused = one.ask(body=bytes(256), kind=RAW)
        assert (refused.status, refused.headers["retry-after"]) == (503, "1")
        assert one.ask(body=b"[" * 10_000, kind=JSON).status == 413
        for each in slow:
            each.sendall(bytes(246))
            assert each.recv(64).startswith(b"HTTP/1.1 200")
            each.close()
        assert eventually(lambda: "serve_memory_bytes 0" in one.ask("/metrics").body.decode())
        assert one.ask(body=bytes(256), kind=RAW).status == 200


def test_connections_have_a_limit(model: Path, tmp_path: Path) -> None:
    with running(model, tmp_path, "--connections", "4") as one:
        idle = [socket.create_connection(("127.0.0.1", one.port), timeout=10) for _ in range(6)]
        assert eventually(lambda: one.ask("/healthz").status == 503)
        for each in idle:
            each.close()
        assert eventually(lambda: one.ask("/healthz").status == 200)


def eventually(right: Callable[[], bool]) -> bool:
    """Whether something is so before long."""
    until = time.monotonic() + 20
    while not right() and time.monotonic() < until:
        time.sleep(0.05)
    return right()


def test_requests_that_take_too_long_are_given_up(model: Path, tmp_path: Path) -> None:
    (case,) = cases(model, 1)
    with running(model, tmp_path, "--timeout", "0.2", slow=0.5) as one:
        assert one.ask(body=case.body, kind=case.kind).status == 503
        assert one.ask("/healthz").status == 200


# stopping


def test_stopping_service_answers_accepted_requests(model: Path, tmp_path: Path) -> None:
    todo = cases(model, 2 * CLIENTS)

    async def stopped_under_load(one: Running) -> tuple[Any, Answer]:
        loading = asyncio.create_task(load(one.port, todo, CLIENTS, 20))
        await asyncio.sleep(0.4)
        one.process.send_signal(signal.SIGTERM)
        await asyncio.sleep(0.3)
        return await ask(one.port, "/readyz"), await loading

    with running(model, tmp_path, "--notice", "1", slow=0.05) as one:
        ready, done = asyncio.run(stopped_under_load(one))
        assert one.process.wait(20) == 0
        assert "Traceback" not in one.log.read_text("utf-8")
    assert (ready.status, ready.json) == (503, {"status": "draining"})
    assert done.wrong == []
    assert len(done.latencies) >= CLIENTS


def test_running_batch_finishes_after_shutdown_notice(model: Path, tmp_path: Path) -> None:
    (case,) = cases(model, 1)

    async def asked_late(one: Running) -> Answer:
        asking = asyncio.create_task(ask(one.port, "/predict", case.body, case.kind))
        await asyncio.sleep(0.3)
        one.process.send_signal(signal.SIGTERM)
        await asyncio.sleep(0.5)
        with pytest.raises(ConnectionRefusedError):
            await ask(one.port, "/healthz")
        return await asking

    with running(model, tmp_path, "--notice", "0", slow=1.0) as one:
        begin = time.monotonic()
        assert case.right(asyncio.run(asked_late(one)))
        assert time.monotonic() - begin > 0.9
        assert one.process.wait(20) == 0


# starting


def refused(path: Path) -> str:
    """What the service says that does not start, without a process of its own."""
    from service import main  # of examples/serve

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", command(path)[3:])
        with pytest.raises(SystemExit) as caught:
            main()
    return str(caught.value)


def test_rejects_unusable_models_at_start(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES / "serve"))
    data = model.read_bytes()
    path = tmp_path / "net.onnx"
    path.write_bytes(b"nonsense")
    done = subprocess.run(command(path), capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (1, f"{refused(path)}\n")
    path.write_bytes(data[:-9] + bytes([data[-9] ^ 1]) + data[-8:])
    certificate = Path(f"{path}.json")
    certificate.write_bytes(Path(f"{model}.json").read_bytes())
    assert "certifies: net.onnx" in refused(path)
    path.write_bytes(data)
    renamed = tmp_path / "renamed.onnx"
    renamed.write_bytes(data + b"\0")
    Path(f"{renamed}.json").write_bytes(certificate.read_bytes())
    assert "certifies net.onnx: a model keeps its name" in refused(renamed)  # though net.onnx is there, too
    certificate.write_text("[]")
    assert "not a certificate" in refused(path)
    certificate.unlink()
    path.write_bytes(b"nonsense")
    assert "onnxruntime cannot load" in refused(path)
    assert "there is no such file" in refused(tmp_path / "missing.onnx")
    floats = TensorProto.FLOAT
    assert "must be dynamic" in refused(handmade(path, {"x": (floats, [1, 3])}))
    assert "must be dynamic" in refused(handmade(path, {"x": (floats, ["n", "m"])}))
    assert "must be dynamic" in refused(handmade(path, {"x": (floats, [])}))
    assert "uint16" in refused(handmade(path, {"x": (TensorProto.UINT16, ["n", 3])}))
    assert "4 labels" in refused(handmade(path, {"x": (floats, ["n", 3])}, labels='["a", "b", "c", "d"]'))
    from model import Model  # of examples/serve

    named = Model(handmade(path, {"x": (floats, ["n", 3])}, labels='["a", "b"]'), 1)
    assert named.labels == ["a", "b", "2"]  # there were no data of the last class
    assert "JSON list" in refused(handmade(path, {"x": (floats, ["n", 3])}, labels="a, b"))
    assert "JSON list" in refused(handmade(path, {"x": (floats, ["n", 3])}, labels="[" * 100_000))
    proto = onnx.load(handmade(path, {"x": (floats, ["n", 3])}))
    proto.graph.node[0].CopyFrom(helper.make_node("Compress", ["x", "first"], ["x_out"], axis=0))
    proto.graph.initializer.append(helper.make_tensor("first", TensorProto.BOOL, [1], [True]))
    proto.graph.output[0].type.tensor_type.shape.dim[0].dim_param = "m"
    onnx.save(proto, path)
    assert "computes no batch of 32" in refused(path)


def test_the_service_needs_neither_archir_nor_torch() -> None:
    folder = EXAMPLES / "serve"
    imported = {
        name for file in folder.glob("*.py") for name in re.findall(r"^(?:from|import) (\w+)", file.read_text(), re.M)
    }
    needed = {re.split("[>=]", line)[0] for line in (folder / "requirements.txt").read_text().split()}
    own = {file.stem for file in folder.glob("*.py")}
    standard = imported & sys.stdlib_module_names
    assert {name.replace("PIL", "pillow") for name in imported - own - standard} == needed


def test_requirements_of_the_service_are_the_tested_versions() -> None:
    tested = (ROOT / "constraints.txt").read_text().splitlines()
    assert [line for line in (FOLDER / "requirements.txt").read_text().splitlines() if line not in tested] == []
    assert "--no-index --find-links /wheels" in (FOLDER / "Dockerfile").read_text()
