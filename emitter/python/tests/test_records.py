from __future__ import annotations

from opentelemetry.proto.logs.v1.logs_pb2 import ScopeLogs
from receiver import Record, numbers

from rawoutput_emitter import records

MILLI = 1_000_000
START = 1_793_769_153_123_456_789


def items(*texts: str, first: int = 0, ids: int = 1, every: int = MILLI) -> list[object]:
    flat: list[object] = []
    for i, text in enumerate(texts):
        flat += (first + i, START + i * every, text, list(range(ids)))
    return flat


def decode(entry: records.Chunks | records.End, dropped: int = 0) -> list[Record]:
    made = list(entry.records(dropped))
    scope = ScopeLogs.FromString(b"".join(record.encoded for record in made))
    return [Record(record, {}, 0) for record in scope.log_records]


def chunks(flat: list[object], opening: tuple[object, ...] | None = None, closing: tuple[object, ...] | None = None) -> records.Chunks:
    return records.Chunks("7", 1, flat, opening, closing)


def test_one_chunk() -> None:
    (record,) = decode(chunks(items("hé", first=3, ids=2)))
    assert record.event == "raw_output.chunk"
    assert record.time == START // 1000 * 1000
    assert record.attributes == {
        "request_id": "7", "output_index": 1, "chunk_index": 3, "text_diff": "hé", "token_ids_diff": b"\0\0\0\0\1\0\0\0",
    }


def test_several_chunks_are_packed() -> None:
    (record,) = decode(chunks(items("a", "", "hé", every=MILLI + 1)))
    assert record.frames == [b"a", b"", "hé".encode()]
    assert record["text_diff"] == "ahé"
    assert numbers(record["frame_ages"]) == [2000, 1000, 0]
    assert record.time == (START + 2 * MILLI + 2) // 1000 * 1000
    assert numbers(record["token_ids_diff"]) == [0, 0, 0]


def test_flags_are_on_the_first_and_the_last_record() -> None:
    opening, closing = (False, True, 2**60), ("text", True, False, None, True)
    first, middle, last = decode(chunks(items(*"x" * 3, every=200 * MILLI), opening, closing), dropped=5)
    assert (first["aborted"], first["streaming"], first["disagg_request_id"]) == (False, True, str(2**60))
    assert (last["aborted"], last["streaming"]) == (True, False)
    assert last["disagg_request_id"] == "", "it is none by now"
    assert last["is_final"] is True and last["text"] == "text"
    assert [record.get("text") for record in (first, middle)] == [None, None]
    assert {"aborted", "streaming", "is_final"}.isdisjoint(middle.attributes)
    assert [record["emitter_dropped"] for record in (first, middle, last)] == [5, 5, 5]


def test_where_records_end() -> None:
    gap = items("a", "b") + items("d", first=3)
    assert [record["chunk_index"] for record in decode(chunks(gap))] == [0, 3], "what was dropped is between"
    large = items("x" * 3000, "x" * 1000, "x" * 3000, "x" * 9000)
    assert [len(record.frames) for record in decode(chunks(large))] == [2, 1, 1], "4 KiB"
    slow = items(*"x" * 5, every=40 * MILLI)
    assert [len(record.frames) for record in decode(chunks(slow))] == [3, 2], "100 ms"
    back = items("a", "b", every=-MILLI)
    assert [len(record.frames) for record in decode(chunks(back))] == [1, 1], "a clock that was set back"
    assert sum(record.chunks for record in chunks(large).records(0)) == 4


def test_lone_surrogates_travel_as_bytes() -> None:
    closing = ("a\ud83d", False, True, None, True)
    (record,) = decode(chunks(items("a", "\ud83d"), closing=closing))
    assert record["text_diff"] == b"a\xed\xa0\xbd" == record["text"]
    assert record.frames == [b"a", b"\xed\xa0\xbd"]


def test_full_texts() -> None:
    def text(full: str | None, flat: list[object]) -> object:
        return decode(chunks(flat, closing=(full, False, True, None, True)))[0].get("text")

    assert text("full", items("a")) == "full"
    assert text("", items("a")) == b"", "the empty string would be none"
    assert text(None, items("a")) is None
    assert text("x" * records.LARGEST_RECORD, items("a")) is None, "no request holds it; the frames are there"


def test_numbers_that_are_no_token_ids() -> None:
    flat = [0, START, "a", [5, -1, 2**32, 6]]
    assert numbers(decode(chunks(flat))[0]["token_ids_diff"]) == [5, 6]


def test_request_end() -> None:
    (record,) = decode(records.End("7", START, "gone\ud800", {2: 5, 0: 3}))
    assert record.event == "raw_output.request_end"
    assert record.time == START // 1000 * 1000
    assert record.attributes == {"request_id": "7", "end_reason": "gone\ufffd", "chunk_counts": [3, 0, 5]}
    (record,) = decode(records.End("7", START, "", {2**31: 1}))
    assert "chunk_counts" not in record.attributes
