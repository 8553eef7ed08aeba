"""Event files, read by a decoder of their own, down to the bits of their checksums."""

from __future__ import annotations

import shutil
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from archir.runs import Run
from archir.runs.report import tensorboard


def crc(data: bytes) -> int:
    """CRC-32C by long division of polynomials over GF(2), as its definition has it."""
    polynomial = 0x11EDC6F41
    bits = [byte >> place & 1 for byte in data for place in range(8)] + [0] * 32
    for place in range(32):
        bits[place] ^= 1
    rest = 0
    for bit in bits:
        rest = rest << 1 | bit
        if rest >> 32:
            rest ^= polynomial
    return int(f"{rest:032b}"[::-1], 2) ^ 0xFFFFFFFF


def unmasked(masked: int) -> int:
    turned = (masked - 0xA282EAD8) % 2**32
    return (turned << 15 | turned >> 17) % 2**32


def records(data: bytes) -> Iterator[bytes]:
    while data:
        (length, of_length) = struct.unpack("<QI", data[:12])
        body, (of_body,) = data[12 : 12 + length], struct.unpack("<I", data[12 + length : 16 + length])
        assert unmasked(of_length) == crc(data[:8])
        assert unmasked(of_body) == crc(body)
        yield body
        data = data[16 + length :]


def fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """The fields of a protocol buffer: numbers, and bytes, doubles, floats or integers by wire type."""

    def varint() -> int:
        nonlocal data
        value = shift = 0
        while True:
            byte, data = data[0], data[1:]
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while data:
        number, wire = divmod(varint(), 8)
        if wire == 0:
            yield number, varint()
            continue
        size = {1: 8, 5: 4}.get(wire) or varint()
        part, data = data[:size], data[size:]
        yield number, struct.unpack("<d", part)[0] if wire == 1 else struct.unpack("<f", part)[0] if wire == 5 else part


def test_checksums() -> None:
    assert tensorboard.crc32c(b"123456789") == crc(b"123456789") == 0xE3069283
    assert tensorboard.crc32c(bytes(32)) == 0x8A9136AA  # RFC 3720, B.4
    assert tensorboard.crc32c(b"\xff" * 32) == 0x62A8AB43


def test_scalars() -> None:
    values = {"loss": 0.1, "accuracy": -2.5e10, "learning rate/größte": 3.0}
    file = tensorboard.header(12.5) + tensorboard.scalars(13.0, 2**40 + 3, values) + tensorboard.scalars(14.0, 0, {})
    head, first, second = (list(fields(record)) for record in records(file))
    assert head == [(1, 12.5), (3, b"brain.Event:2")]
    assert first[:2] == [(1, 13.0), (2, 2**40 + 3)]
    found = [dict(fields(value)) for _, value in fields(first[2][1])]
    assert [one[1].decode() for one in found] == list(values)
    assert [one[2] for one in found] == [struct.unpack("<f", struct.pack("<f", v))[0] for v in values.values()]
    assert second == [(1, 14.0), (2, 0), (5, b"")]


def steps(folder: Path) -> list[int]:
    [file] = (folder / "tensorboard" / "search").iterdir()
    assert ".tfevents." in file.name
    found = [dict(fields(record)) for record in records(file.read_bytes())]
    return [event[2] for event in found[1:]]


def shown(folder: Path) -> list[dict[str, float]]:
    """The scalars of a search, by tag, for each event."""
    [file] = (folder / "tensorboard" / "search").iterdir()
    events = [dict(fields(record)) for record in records(file.read_bytes())][1:]
    scalars = [[dict(fields(value)) for _, value in fields(event[5])] for event in events]
    return [{one[1].decode(): one[2] for one in event} for event in scalars]


def test_a_run_writes_its_epochs_once(tmp_path: Path) -> None:
    with Run.create(tmp_path, "digits", {}, {}) as run:
        for epoch in range(3):
            run.phase("search").record({"epoch": epoch, "loss": 1.0, "finished": "early"})
    assert steps(tmp_path) == [0, 1, 2]
    with Run.resume(tmp_path) as run:
        run.phase("search").record({"epoch": 3, "loss": 1.0})
    assert steps(tmp_path) == [0, 1, 2, 3]


def test_numbers_beside_the_figures(tmp_path: Path) -> None:
    with Run.create(tmp_path, "digits", {}, {}) as run:
        run.phase("search").record({"epoch": 2, "loss": 0.5}, {"edge[0].op/skip": 0.25})
        assert run.phase("search").rows() == [{"epoch": 2, "loss": 0.5}]
    assert shown(tmp_path) == [{"loss": 0.5, "edge[0].op/skip": 0.25}]


def test_what_was_appended_after_the_last_checkpoint_is_written_anew(tmp_path: Path) -> None:
    killed = tmp_path / "killed"
    with Run.create(tmp_path / "run", "digits", {}, {}) as run:
        run.phase("search").record({"epoch": 0, "loss": 1.0})
        run.phase("search").save({}, {})
        run.phase("search").record({"epoch": 1, "loss": 1.0})
        shutil.copytree(run.folder, killed)
    assert steps(killed) == [0, 1]
    with Run.resume(killed) as run:
        run.phase("search").record({"epoch": 1, "loss": 1.0})
    assert steps(killed) == [0, 1]
