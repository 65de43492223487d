from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator

import pytest
from receiver import TAKEN, Answer, Receiver, rejecting

from rawoutput_emitter.client import Client, Outcome
from rawoutput_emitter.otlp import Envelope, log_record

BODY = Envelope({}, "s", "1").request([log_record("raw_output.chunk", 1, {})])


class Clock:
    """Waits in no time."""

    def __init__(self, limit: float) -> None:
        self.left = limit
        self.waits: list[float] = []

    def remaining(self) -> float:
        return self.left

    def wait(self, seconds: float, problem: str) -> None:
        assert problem
        self.waits.append(seconds)
        self.left -= seconds


def post(endpoint: str, limit: float = 60, timeout: float = 10, certificate: str | None = None) -> tuple[Outcome, Clock]:
    clock = Clock(limit)
    outcome = Client(endpoint, {"x-tenant": "7"}, timeout, certificate).post(BODY, clock.remaining, clock.wait)
    return outcome, clock


def answers(receiver: Receiver, *given: Answer | None) -> None:
    receiver.answer = lambda n: given[n - 1] if n <= len(given) else TAKEN


def test_post(receiver: Receiver) -> None:
    outcome, _ = post(receiver.endpoint)
    assert outcome == Outcome()
    ((path, headers, _),) = receiver.requests
    assert path == "/v1/logs"
    assert headers["x-tenant"] == "7"
    assert headers["Content-Type"] == "application/x-protobuf"
    assert headers["Content-Encoding"] == "gzip"
    assert len(receiver.taken) == 1


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_what_may_be_tried_again(receiver: Receiver, status: int) -> None:
    answers(receiver, (status, {}, b""), (status, {}, b""))
    outcome, clock = post(receiver.endpoint)
    assert outcome == Outcome()
    assert len(receiver.requests) == 3
    first, second = clock.waits
    assert 0.25 <= first <= 0.75 and 0.5 <= second <= 1.5


@pytest.mark.parametrize("status", [302, 400, 401, 404, 413, 500])
def test_what_may_not(receiver: Receiver, status: int) -> None:
    answers(receiver, (status, {}, b""))
    outcome, clock = post(receiver.endpoint)
    assert outcome == Outcome(all_lost=True, problem=f"HTTP status {status}")
    assert len(receiver.requests) == 1 and not clock.waits


def test_a_header_that_is_none(receiver: Receiver) -> None:
    client = Client(receiver.endpoint, {"x": "\u20ac\udcff"}, 10, None)
    clock = Clock(60)
    assert client.post(BODY, clock.remaining, clock.wait) == Outcome(all_lost=True, problem="UnicodeEncodeError")
    assert not clock.waits


def test_retry_after(receiver: Receiver) -> None:
    soon = time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(time.time() + 30))
    answers(receiver, (503, {"Retry-After": "7"}, b""), (429, {"Retry-After": soon}, b""), (503, {"Retry-After": "garbage"}, b""))
    _, clock = post(receiver.endpoint)
    assert clock.waits[0] == 7
    assert 20 < clock.waits[1] <= 30
    assert clock.waits[2] <= 3


def test_retry_after_the_limit(receiver: Receiver) -> None:
    answers(receiver, (503, {"Retry-After": "61"}, b""))
    outcome, clock = post(receiver.endpoint)
    assert outcome == Outcome(all_lost=True, problem="HTTP status 503")
    assert not clock.waits


def test_time_limit(receiver: Receiver) -> None:
    receiver.answer = lambda n: (503, {}, b"")
    outcome, clock = post(receiver.endpoint)
    assert outcome.all_lost
    assert sum(clock.waits) <= 60
    assert max(clock.waits) <= 7.5


def test_partial_success(receiver: Receiver) -> None:
    answers(receiver, rejecting(3))
    outcome, _ = post(receiver.endpoint)
    assert (outcome.all_lost, outcome.rejected) == (False, 3)


def test_garbage_for_a_body(receiver: Receiver) -> None:
    answers(receiver, (200, {}, b"\xff" * 100))
    assert post(receiver.endpoint)[0] == Outcome()


def test_a_large_body(receiver: Receiver) -> None:
    answers(receiver, (200, {}, b"x" * (3 << 20)))
    assert post(receiver.endpoint)[0] == Outcome()


@pytest.fixture
def garbage() -> Iterator[str]:
    """Something that does not speak HTTP."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                connection.recv(1 << 16)
                connection.sendall(b"\x00\xffgarbage\r\n\r\n")

    threading.Thread(target=serve, daemon=True).start()
    yield f"127.0.0.1:{listener.getsockname()[1]}"
    listener.close()


def test_garbage(garbage: str) -> None:
    outcome, clock = post(f"http://{garbage}/")
    assert outcome.all_lost and outcome.problem
    assert clock.waits


def test_no_tls_at_the_other_end(garbage: str) -> None:
    outcome, clock = post(f"https://{garbage}/")
    assert outcome.all_lost and "SSL" in outcome.problem
    assert clock.waits


def test_nobody_listens() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    listener.close()
    outcome, clock = post(f"http://127.0.0.1:{port}/")
    assert outcome.all_lost and "refused" in outcome.problem
    assert clock.waits


def test_an_answer_that_does_not_come() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        outcome, clock = post(f"http://127.0.0.1:{listener.getsockname()[1]}/", limit=1, timeout=0.05)
    assert outcome.all_lost and "imed out" in outcome.problem
    assert clock.waits


def test_a_kept_connection_that_was_closed_is_no_failure(receiver: Receiver) -> None:
    clock = Clock(60)
    client = Client(receiver.endpoint, {}, 10, None)
    client.post(BODY, clock.remaining, clock.wait)
    answers(receiver, TAKEN, None)  # the connection breaks
    assert client.post(BODY, clock.remaining, clock.wait) == Outcome()
    assert len(receiver.taken) == 2
    assert not clock.waits
