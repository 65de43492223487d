from __future__ import annotations

import pytest

from rawoutput_emitter.intake import CHUNK_UNITS, FIELDS, Intake, Output, RequestEnd, TooManyRequests
from tensorrt_llm.executor.postprocessor_hook import PostProcessorHookChunk as Chunk


def chunk(request: object = 1, text: str = "x", full: str = "", final: bool = False, index: int = 0) -> Chunk:
    return Chunk(request, index, text, full, [1], final, False, True)


def indexes(output: Output) -> list[int]:
    return output.pending[::FIELDS]


def test_chunks_wait_in_their_order() -> None:
    intake = Intake(100, 100)
    for text in "abc":
        intake.add(chunk(text=text))
    (output,) = intake.open_outputs()
    assert indexes(output) == [0, 1, 2]
    assert output.pending[2::FIELDS] == ["a", "b", "c"]
    assert output.pending[1::FIELDS] == sorted(output.pending[1::FIELDS])


def test_a_full_queue_drops_and_counts_and_the_numbers_go_on() -> None:
    intake = Intake(10, 100)
    for _ in range(15):
        intake.add(chunk())
    assert intake.dropped == 5
    intake.make_room()
    intake.add(chunk())
    (output,) = intake.open_outputs()
    assert indexes(output) == [*range(10), 15]


def test_it_is_bounded_by_bytes_too() -> None:
    intake = Intake(10, 100)
    for _ in range(4):
        intake.add(chunk(text="x" * 3 * CHUNK_UNITS))  # four tickets each, with the token id
    assert intake.dropped == 2
    intake.make_room()
    intake.add(chunk(text="x" * 100 * CHUNK_UNITS))
    assert intake.dropped == 3


def test_final_chunks_have_a_reserve() -> None:
    intake = Intake(100, 1000)
    for request in range(200):
        intake.add(chunk(request))
    assert intake.dropped == 100
    for request in range(200):
        intake.add(chunk(request, final=True))
    assert not intake.open_outputs()
    ended = [output for output in intake.done if isinstance(output, Output) and output.closing]
    assert len(ended) == 25
    assert len(intake.done) == 100, "what has nothing to send does not wait"


def test_finished_outputs_count_in_the_end_of_their_request() -> None:
    intake = Intake(100, 100)
    intake.add(chunk(index=0))
    intake.add(chunk(index=1))
    intake.add(chunk(index=2))
    intake.add(chunk(index=2, text="last"))
    intake.add(chunk(index=1, final=True))
    intake.add(chunk(index=0, text="later", full="xlater"))
    intake.end_request(1, "gone")
    finished, second, first, end = intake.done
    assert isinstance(finished, Output) and finished.closing == ("", False, True, None, True)
    assert isinstance(second, Output) and second.index == 2, "from the least to the most recently updated"
    assert isinstance(first, Output) and first.closing == ("xlater", False, True, None, False)
    assert first.pending[-FIELDS::2] == [2, ""], "one more chunk, for the text"
    assert isinstance(end, RequestEnd) and end.counts == {0: 3, 1: 2, 2: 3}
    assert not intake.requests and not intake.counts


def test_an_id_that_is_used_again_begins_anew() -> None:
    intake = Intake(100, 100)
    intake.add(chunk(index=1))
    intake.add(chunk(index=0, final=True))
    intake.add(chunk(index=0))
    assert [indexes(output) for output in intake.open_outputs()] == [[0], [0]]
    intake.add(chunk(index=0, final=True))
    intake.add(chunk(index=1, final=True))
    assert not intake.requests and not intake.counts


def test_requests_that_never_end() -> None:
    intake = Intake(1000, 10)
    for request in range(20):
        intake.add(chunk(request))
    with pytest.raises(TooManyRequests):
        intake.add(chunk("one more"))
    assert len(intake.requests) == 20
    intake.forget(idle_since=0)
    assert list(intake.requests) == list(range(10, 20)), "the most silent ones go"
    assert len(intake.done) == 10, "with what they have"
    intake.forget(idle_since=max(output.time for output in intake.open_outputs()) + 1)
    assert not intake.requests


def test_a_closed_intake_takes_nothing() -> None:
    intake = Intake(100, 100)
    intake.close()
    intake.make_room()
    intake.add(chunk())
    intake.add(chunk(final=True))
    assert intake.dropped == 2
    assert not intake.done


def test_it_wakes_the_feeder_where_there_is_something_to_do_at_once() -> None:
    intake = Intake(100, 100)
    wakes = []
    intake.wake = lambda: wakes.append(intake.idle)
    intake.add(chunk())
    assert wakes == [True]
    intake.idle = False
    intake.add(chunk())
    intake.add(chunk("another"))
    assert wakes == [True], "the feeder looks around soon anyway"
    intake.add(chunk(final=True))
    assert wakes == [True, False]
    intake.end_request("another", "")
    assert len(wakes) == 3
