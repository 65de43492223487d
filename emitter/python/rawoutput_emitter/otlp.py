"""OTLP log records as protobuf: the few messages that are needed, written by hand.

Protobuf and not JSON, because texts may be bytes and packed numbers are: JSON would have them in base64, a third larger,
and costs the receiver several times the work. Field numbers are those of opentelemetry/proto/logs/v1/logs.proto.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping

_VARINT, _FIXED64, _BYTES = 0, 1, 2  # wire types

Value = str | bytes | bool | int | list[int]


def varint(n: int) -> bytes:
    if n < 0x80:
        return bytes((n,))
    out = bytearray()
    while n >= 0x80:
        out.append(n & 0x7F | 0x80)
        n >>= 7
    out.append(n)
    return bytes(out)


def _tag(number: int, wire_type: int) -> bytes:
    return varint(number << 3 | wire_type)


def _message(number: int, body: bytes) -> bytes:
    return _tag(number, _BYTES) + varint(len(body)) + body


def any_value(value: Value) -> bytes:
    if isinstance(value, bool):  # before int, which it is one of
        return _tag(2, _VARINT) + varint(value)
    if isinstance(value, int):
        return _tag(3, _VARINT) + varint(value & 0xFFFF_FFFF_FFFF_FFFF)
    if isinstance(value, str):
        return _message(1, value.encode())
    if isinstance(value, bytes):
        return _message(7, value)
    return _message(5, b"".join(_message(1, any_value(element)) for element in value))


def key_value(key: str, value: Value) -> bytes:
    return _message(1, key.encode()) + _message(2, any_value(value))


def log_record(event_name: str, time_unix_nano: int, attributes: Mapping[str, Value]) -> bytes:
    """Returns a record as a field of the scope that it belongs to."""
    time = struct.pack("<Q", time_unix_nano)
    return _message(2, b"".join((
        _tag(1, _FIXED64), time,
        _tag(11, _FIXED64), time,  # observed
        *(_message(6, key_value(key, value)) for key, value in attributes.items()),
        _message(12, event_name.encode()),
    )))


class Envelope:
    """Makes requests of records of one resource."""

    def __init__(self, resource: Mapping[str, str], scope: str, version: str) -> None:
        attributes = (
            _message(1, key_value(key, int(value) if key == "process.pid" else value)) for key, value in resource.items()
        )
        self._resource = _message(1, b"".join(attributes))
        self._scope = _message(1, _message(1, scope.encode()) + _message(2, version.encode()))

    def request(self, records: Iterable[bytes]) -> bytes:
        scope_logs = _message(2, self._scope + b"".join(records))
        return _message(1, self._resource + scope_logs)


def rejected_records(response: bytes) -> tuple[int, str]:
    """Reads the partial success of a response: how many records were not taken, and why. What cannot be read says nothing."""
    try:
        partial = _fields(response).get(1, b"")
        fields = _fields(partial) if isinstance(partial, bytes) else {}
    except (IndexError, ValueError):
        return 0, ""
    rejected, message = fields.get(1, 0), fields.get(2, b"")
    if not isinstance(rejected, int) or not isinstance(message, bytes) or rejected >= 1 << 63:
        return 0, ""
    return rejected, message.decode("utf-8", "replace")


def _fields(message: bytes) -> dict[int, int | bytes]:
    """Reads the varints and byte strings of a message, the last of each number."""
    fields: dict[int, int | bytes] = {}
    position = 0
    while position < len(message):
        tag, position = _read_varint(message, position)
        value, position = _read_varint(message, position)
        if tag & 7 == _VARINT:
            fields[tag >> 3] = value
        elif tag & 7 == _BYTES and position + value <= len(message):
            fields[tag >> 3] = message[position : position + value]
            position += value
        else:
            raise ValueError("not a message of ours")
    return fields


def _read_varint(data: bytes, position: int) -> tuple[int, int]:
    n = 0
    for shift in range(0, 70, 7):
        byte = data[position]
        position += 1
        n |= (byte & 0x7F) << shift
        if byte < 0x80:
            return n, position
    raise ValueError("a varint has ten bytes at the most")
