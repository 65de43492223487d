"""Chunks and request ends as the log records of docs/contract.md. Runs in the helper.

Only chunks of one entry share a record. So an entry that is sent to a second helper, because the first one died, becomes
the same records again, which the Collector knows for copies.
"""

from __future__ import annotations

import re
import sys
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from .intake import FIELDS
from .otlp import Value, log_record

RECORD_BYTES = 4096  # of text and token ids that share a record
RECORD_NANOS = 100_000_000  # of time
LARGEST_RECORD = 2_000_000  # with more, the full text stays out: below the 2 MiB of a request
MOST_COUNTED = 4096  # outputs of a request whose chunks are counted

_MICRO = 1000  # nanoseconds; the resolution of the line
_MAX_UINT32 = 0xFFFF_FFFF


@dataclass(frozen=True, slots=True)
class Record:
    """An encoded log record, and how many chunks are lost with it."""

    encoded: bytes
    chunks: int


@dataclass(frozen=True, slots=True)
class Chunks:
    """An entry with consecutive chunks of an output. items are FIELDS values for each. opening are the flags before the
    first chunk: aborted, streaming, disagg_request_id; closing is the full text, the flags after the last one, and whether
    that is final."""

    request_id: str
    output_index: int
    items: list[Any]
    opening: tuple[Any, ...] | None
    closing: tuple[Any, ...] | None

    def records(self, dropped: int) -> Iterator[Record]:
        runs = list(_runs(self.items))
        for i, run in enumerate(runs):
            opening = self.opening if i == 0 else None
            closing = self.closing if i == len(runs) - 1 else None
            yield Record(self._encode(run, opening, closing, dropped), len(run))

    def _encode(self, run: list[_Chunk], opening: tuple[Any, ...] | None, closing: tuple[Any, ...] | None, dropped: int) -> bytes:
        last = run[-1].micros
        attributes: dict[str, Value] = {
            "raw_output.request_id": self.request_id,
            "raw_output.output_index": self.output_index,
            "raw_output.chunk_index": run[0].index,
            **_frames(run, last),
            **_token_ids(run),
            **_flags(opening),
        }
        if dropped:
            attributes["raw_output.emitter_dropped"] = dropped
        text: str | bytes | None = None
        if closing is not None:
            attributes |= _flags(closing[1:4], is_last=True)
            if closing[4]:
                attributes["raw_output.is_final"] = True
            text = full_text(closing[0])
        encoded = log_record("raw_output.chunk", last * _MICRO, attributes)
        if text is None or len(encoded) + len(text) > LARGEST_RECORD:
            return encoded  # the frames say what the text is
        return log_record("raw_output.chunk", last * _MICRO, attributes | {"raw_output.text": text})


@dataclass(frozen=True, slots=True)
class End:
    """An entry with the end of a request."""

    request_id: str
    time: int
    reason: str
    counts: dict[int, int]

    def records(self, dropped: int) -> Iterator[Record]:
        attributes: dict[str, Value] = {
            "raw_output.request_id": self.request_id,
            "raw_output.end_reason": valid(self.reason),
        }
        if self.counts and max(self.counts) < MOST_COUNTED:
            attributes["raw_output.chunk_counts"] = [self.counts.get(i, 0) for i in range(max(self.counts) + 1)]
        # As chunks, cut to microseconds: an end must not come before what it ends.
        yield Record(log_record("raw_output.request_end", self.time // _MICRO * _MICRO, attributes), 0)


@dataclass(frozen=True, slots=True)
class _Chunk:
    index: int
    micros: int
    text: str
    ids: Any

    @property
    def size(self) -> int:
        return len(self.text) + 4 * len(self.ids)


def _runs(items: list[Any]) -> Iterator[list[_Chunk]]:
    """Cuts chunks into the runs that share a record: consecutive ones, of some bytes and some time."""
    run: list[_Chunk] = []
    size = 0
    for i in range(0, len(items), FIELDS):
        index, nanos, text, ids = items[i : i + FIELDS]
        chunk = _Chunk(index, nanos // _MICRO, text, ids)
        if run and (
            index != run[-1].index + 1
            or size + chunk.size > RECORD_BYTES
            or not 0 <= (chunk.micros - run[0].micros) * _MICRO <= RECORD_NANOS
        ):
            yield run
            run, size = [], 0
        run.append(chunk)
        size += chunk.size
    if run:
        yield run


def _frames(run: list[_Chunk], last: int) -> dict[str, Value]:
    if len(run) == 1:
        return {"raw_output.text_diff": text_value(run[0].text)} if run[0].text else {}
    frames = [utf8(chunk.text) for chunk in run]
    return {
        "raw_output.text_diff": text_value("".join(chunk.text for chunk in run)),
        "raw_output.frame_lengths": packed(map(len, frames)),
        "raw_output.frame_ages": packed(max(last - chunk.micros, 0) for chunk in run),
    }


def _token_ids(run: list[_Chunk]) -> dict[str, Value]:
    ids = [i for chunk in run for i in chunk.ids if 0 <= i <= _MAX_UINT32]  # the contract knows no others
    return {"raw_output.token_ids_diff": packed(ids)} if ids else {}


def _flags(flags: tuple[Any, ...] | None, is_last: bool = False) -> dict[str, Value]:
    """Returns flags as attributes. On the last record an id that is gone is said to be none: the last value counts."""
    if flags is None:
        return {}
    aborted, streaming, disagg = flags
    values: dict[str, Value] = {"raw_output.aborted": bool(aborted), "raw_output.streaming": bool(streaming)}
    if disagg is not None or is_last:
        values["raw_output.disagg_request_id"] = "" if disagg is None else valid(str(disagg))
    return values


def packed(numbers: Iterable[int]) -> bytes:
    """Returns numbers as little-endian uint32."""
    values = array("I", numbers)
    if sys.byteorder == "big":
        values.byteswap()
    return values.tobytes()


def utf8(text: str) -> bytes:
    """Returns text as UTF-8, lone surrogates in the three bytes that they would have."""
    return text.encode("utf-8", "surrogatepass")


def text_value(text: str) -> str | bytes:
    """Returns text as a string, or as bytes where a string cannot hold it."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return utf8(text)
    return text


def full_text(text: str | None) -> str | bytes | None:
    """Returns a full text as it travels: an empty one as bytes, as the empty string would be none."""
    if text is None:
        return None
    return text_value(text) or b""


def valid(text: str) -> str:
    """Returns text that must be a string. A surrogate in it becomes U+FFFD."""
    return re.sub("[\ud800-\udfff]+", "\ufffd", text)
