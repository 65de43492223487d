from __future__ import annotations

from rawoutput_emitter.intake import CHUNK_UNITS, FIELDS, MOST_OUTPUTS, Intake, Output, RequestEnd, Taker
from tensorrt_llm.executor.postprocessor_hook import PostProcessorHookChunk as Chunk


def chunk(request: object = 1, text: str = "x", full: str = "", final: bool = False, index: int = 0) -> Chunk:
    return Chunk(request, index, text, full, [1], final, False, True)


def new(capacity: int, most_requests: int) -> tuple[Intake, Taker]:
    intake = Intake(capacity, most_requests)
    return intake, Taker(intake, str.upper)


def indexes(output: Output) -> list[int]:
    return output.pending[::FIELDS]


def test_what_is_passed_on() -> None:
    _, take = new(100, 100)
    assert take(chunk(text="abc")) == "ABC"


def test_an_intake_without_room_takes_nothing() -> None:
    intake, take = new(0, 0)
    assert take(chunk(text="abc", final=True)) == "ABC"
    assert not intake.requests and not intake.done


def test_chunks_wait_in_their_order() -> None:
    intake, take = new(100, 100)
    for text in "abc":
        take(chunk(text=text))
    (output,) = intake.open_outputs()
    assert indexes(output) == [0, 1, 2]
    assert output.pending[2::FIELDS] == ["a", "b", "c"]
    assert output.pending[1::FIELDS] == sorted(output.pending[1::FIELDS])


def test_a_full_queue_drops_and_counts_and_the_numbers_go_on() -> None:
    intake, take = new(10, 100)
    for _ in range(15):
        take(chunk())
    assert intake.dropped == 5
    intake.make_room()
    take(chunk())
    (output,) = intake.open_outputs()
    assert indexes(output) == [*range(10), 15]


def test_it_is_bounded_by_bytes_too() -> None:
    intake, take = new(10, 100)
    for _ in range(4):
        take(chunk(text="x" * 3 * CHUNK_UNITS))  # four tickets each, with the token id
    assert intake.dropped == 2
    intake.make_room()
    take(chunk(text="x" * 100 * CHUNK_UNITS))
    assert intake.dropped == 3


def test_final_chunks_have_a_reserve() -> None:
    intake, take = new(100, 1000)
    for request in range(200):
        take(chunk(request))
    assert intake.dropped == 100
    for request in range(200):
        take(chunk(request, final=True))
    assert not intake.open_outputs()
    ended = [output for output in intake.done if isinstance(output, Output) and output.closing]
    assert len(ended) == 25
    assert len(intake.done) == 100, "what has nothing to send does not wait"


def test_finished_outputs_count_in_the_end_of_their_request() -> None:
    intake, take = new(100, 100)
    take(chunk(index=0))
    take(chunk(index=1))
    take(chunk(index=2))
    take(chunk(index=2, text="last"))
    take(chunk(index=1, final=True))
    take(chunk(index=0, text="later", full="xlater"))
    intake.end_request(1, "gone")
    finished, second, first, end = intake.done
    assert isinstance(finished, Output) and finished.closing and finished.closing.after == ("", False, True, None, True)
    assert isinstance(second, Output) and second.index == 2, "from the least to the most recently updated"
    assert isinstance(first, Output) and first.closing and first.closing.after == ("xlater", False, True, None, False)
    assert first.closing.chunk[::2] == (2, ""), "one more chunk, for the text"
    assert indexes(first) == [0, 1]
    assert isinstance(end, RequestEnd) and end.counts == {0: 3, 1: 2, 2: 3}
    assert not intake.requests and not intake.counts


def test_an_id_that_is_used_again_begins_anew() -> None:
    intake, take = new(100, 100)
    take(chunk(index=1))
    take(chunk(index=0, final=True))
    take(chunk(index=0))
    assert [indexes(output) for output in intake.open_outputs()] == [[0], [0]]
    take(chunk(index=0, final=True))
    take(chunk(index=1, final=True))
    assert not intake.requests and not intake.counts


def test_requests_that_never_end() -> None:
    intake, take = new(1000, 10)
    for request in range(20):
        take(chunk(request))
    take(chunk("one more"))
    assert len(intake.requests) == 20 and intake.dropped == 1
    intake.forget(idle_since=0)
    assert list(intake.requests) == list(range(10, 20)), "the most silent ones go"
    assert len(intake.done) == 10, "with what they have"
    intake.forget(idle_since=max(output.time for output in intake.open_outputs()) + 1)
    assert not intake.requests


def test_open_requests_with_too_much_text() -> None:
    intake = Intake(1000, 1000, most_text=1000)
    take = Taker(intake, str.upper)
    for request in range(20):
        take(chunk(request, full="x" * 100))
    intake.forget(idle_since=0)
    assert list(intake.requests) == list(range(10, 20))


def test_a_request_with_too_many_outputs() -> None:
    intake, take = new(100_000, 1000)
    for index in range(MOST_OUTPUTS + 5):
        take(chunk(index=index))
    assert len(intake.open_outputs()) == MOST_OUTPUTS and intake.dropped == 5


def test_a_closed_intake_takes_nothing() -> None:
    intake, take = new(100, 100)
    intake.close()
    intake.make_room()
    take(chunk())
    take(chunk(final=True))
    assert intake.dropped == 2
    assert not intake.done


def test_it_wakes_the_feeder_where_there_is_something_to_do_at_once() -> None:
    intake, take = new(100, 100)
    wakes = []
    intake.wake = lambda: wakes.append(intake.idle)
    take(chunk())
    assert wakes == [True]
    intake.idle = False
    take(chunk())
    take(chunk("another"))
    assert wakes == [True], "the feeder looks around soon anyway"
    take(chunk(final=True))
    assert wakes == [True, False]
    intake.end_request("another", "")
    assert len(wakes) == 3
