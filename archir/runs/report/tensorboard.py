"""Write scalars in TensorBoard's file format: records of TensorFlow, each with a protocol buffer `Event`.

A record is the length of its data (8 bytes, little-endian), the masked CRC-32C of the length, the data, and the masked
CRC-32C of the data (tensorflow/core/lib/io/record_writer.h). Of `Event` (tensorflow/core/util/event.proto) the fields
wall_time (1), step (2), file_version (3) and summary (5) are written; of a summary's values, tag (1) and simple_value
(2).
"""

from __future__ import annotations

import struct
from collections.abc import Mapping

_POLYNOMIAL = 0x82F63B78
"""Castagnoli polynomial with reversed bits."""


def _table() -> list[int]:
    """Compute the CRC-32C of each byte value."""
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (_POLYNOMIAL if byte & 1 else 0)
        table.append(byte)
    return table


_TABLE = _table()


def crc32c(data: bytes) -> int:
    """Return the CRC-32C of some bytes (RFC 3720, appendix B.4)."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ _TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def header(wall_time: float) -> bytes:
    """Return the first record of an event file."""
    return _record(_double(1, wall_time) + _bytes(3, b"brain.Event:2"))


def scalars(wall_time: float, step: int, values: Mapping[str, float]) -> bytes:
    """Return the record of some scalars at a step."""
    summary = b"".join(_bytes(1, _bytes(1, tag.encode()) + _float(2, value)) for tag, value in values.items())
    return _record(_double(1, wall_time) + _varint(2 << 3) + _varint(step) + _bytes(5, summary))


def _record(data: bytes) -> bytes:
    """Return data as a record of TensorFlow."""
    length = struct.pack("<Q", len(data))
    return length + _masked(length) + data + _masked(data)


def _masked(data: bytes) -> bytes:
    """Return the masked CRC-32C of some bytes, 4 bytes, little-endian."""
    crc = crc32c(data)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def _varint(value: int) -> bytes:
    """Encode an integer as a varint of protocol buffers."""
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*encoded, value])


def _double(field: int, value: float) -> bytes:
    """Encode a field of type `double`."""
    return _varint(field << 3 | 1) + struct.pack("<d", value)


def _float(field: int, value: float) -> bytes:
    """Encode a field of type `float`."""
    return _varint(field << 3 | 5) + struct.pack("<f", value)


def _bytes(field: int, value: bytes) -> bytes:
    """Encode a field of type `bytes`, `string` or a message."""
    return _varint(field << 3 | 2) + _varint(len(value)) + value
