"""What runs in the server's own thread: a chunk is put on the list of its output, and that is all.

The work of the hot path is a few attribute loads, two dictionary look-ups and one append. It takes no lock and wakes
nobody. What it relies on instead is that single operations of lists, dictionaries, deques and itertools.count are
atomic, and that the chunks of one request come from one thread at a time, as they must to be in order.
"""

from __future__ import annotations

import itertools
import logging
import threading
from collections import deque
from collections.abc import Callable
from time import time_ns
from typing import Any, NamedTuple, Protocol

logger = logging.getLogger("rawoutput_emitter")

CHUNK_UNITS = 512
"""Characters and token ids that a ticket has room for."""

MOST_OUTPUTS = 4096
"""Open outputs of one request."""

FIELDS = 4
"""What an output's list has for each chunk: index, time, text, token ids. One flat list instead of a tuple for each
chunk gives the garbage collector nothing to look at."""


class Chunk(Protocol):
    """What the hook is called with. There may be a disagg_request_id too."""

    @property
    def request_id(self) -> Any: ...
    @property
    def output_index(self) -> int: ...
    @property
    def text_diff(self) -> str: ...
    @property
    def text(self) -> str | None: ...
    @property
    def token_ids_diff(self) -> Any: ...
    @property
    def is_final(self) -> bool: ...
    @property
    def aborted(self) -> bool: ...
    @property
    def streaming(self) -> bool: ...


class Closing(NamedTuple):
    """The last chunk of an output that has ended, and what goes with it. It is not on the output's list: it is set at once, so
    that the feeder sees all of it or nothing."""

    chunk: tuple[int, int, str, Any]  # as on the list
    after: tuple[Any, ...]  # full text, aborted, streaming, disagg_request_id, is_final


class Output:
    """One output that has begun. Only the thread that calls the hook changes it, but for `pending`, whose beginning the
    feeder takes away, and what is below it, which is the feeder's."""

    __slots__ = ("closing", "index", "last", "next", "opening", "pending", "request_id", "time")

    def __init__(self, chunk: Chunk) -> None:
        self.request_id = chunk.request_id
        self.index = chunk.output_index
        self.next = 0  # the index of its next chunk
        self.last = chunk
        self.closing: Closing | None = None
        self.pending: list[Any] = []
        self.opening: tuple[Any, ...] | None = flags_of(chunk)  # until it was sent
        self.time = time_ns()  # of the last chunk that was taken


class RequestEnd:
    """The end of a request that had no final chunk."""

    __slots__ = ("counts", "reason", "request_id", "time")

    def __init__(self, request_id: Any, reason: Any, counts: dict[int, int] | None) -> None:
        self.request_id = request_id
        self.reason = reason
        self.counts = counts
        self.time = time_ns()


def flags_of(chunk: Chunk) -> tuple[Any, ...]:
    return chunk.aborted, chunk.streaming, getattr(chunk, "disagg_request_id", None)


class TooMuch(Exception):
    """There is no room to remember one more request, or output of a request."""


class Intake:
    """The outputs in flight, and what of them waits to be taken. With room for no request it takes nothing."""

    def __init__(self, capacity: int, most_requests: int, most_text: int = 1 << 26) -> None:
        self.capacity = capacity
        self.most_requests = most_requests
        self.most_text = most_text
        self.wake: Callable[[], None] = lambda: None  # tells the feeder that there is something to take
        self.idle = True  # the feeder waits to be woken
        self.requests: dict[Any, dict[int, Output]] = {}
        self.counts: dict[Any, dict[int, int]] = {}  # of the finished outputs of open requests
        self.done: deque[Output | RequestEnd] = deque()
        self.take_ticket: Callable[[], int] = itertools.count().__next__
        self.limit = capacity  # tickets from here on are good for nothing
        self._take_reserve: Callable[[], int] = itertools.count().__next__
        self._reserve_limit = capacity // 4
        self._is_closed = False
        self._drop_lock = threading.Lock()
        self._dropped = 0
        self._has_failed = False

    def reset(self) -> None:
        """Forgets everything, after a fork. What others were just changing there is of no use here, nor are locks."""
        self.requests.clear()
        self.counts.clear()
        self.done.clear()
        self._drop_lock = threading.Lock()
        self._dropped = 0
        self.idle = True
        self.make_room()

    def begin(self, chunk: Chunk) -> Output:
        """Opens the output of a chunk."""
        if len(self.requests) >= 2 * self.most_requests:  # until the feeder has forgotten some
            raise TooMuch
        output = Output(chunk)
        outputs = self.requests.setdefault(chunk.request_id, {})
        if len(outputs) >= MOST_OUTPUTS:
            raise TooMuch
        outputs[chunk.output_index] = output
        if self.idle:
            self.wake()
        return output

    def add_other(self, output: Output, chunk: Chunk) -> None:
        """Takes a final or a long chunk."""
        final = chunk.is_final
        units = len(chunk.text_diff) + len(chunk.token_ids_diff) + (len(chunk.text or "") if final else 0)
        if self._has_room(units, final):
            item = output.next - 1, time_ns(), chunk.text_diff, chunk.token_ids_diff
            if final:
                output.closing = Closing(item, (chunk.text, *flags_of(chunk), True))
            else:
                output.pending.extend(item)
        else:
            self.count_dropped(1)
        if final:
            self._end(output)
            self._take_at_once(output)
            self.wake()

    def _has_room(self, units: int, ends: bool) -> bool:
        """Takes tickets. Those of a chunk that there is no room for are lost until the feeder comes, which is when there
        is room again. What ends an output has tickets in reserve: without it the output would stay open in the Collector
        until it is given up there."""
        n = 1 + units // CHUNK_UNITS
        if all(self.take_ticket() < self.limit for _ in range(n)):
            return True
        return ends and all(self._take_reserve() < self._reserve_limit for _ in range(n))

    def _end(self, output: Output) -> None:
        outputs = self.requests.get(output.request_id, {})  # none where it was forgotten just now
        outputs.pop(output.index, None)
        if outputs:
            self.counts.setdefault(output.request_id, {})[output.index] = output.next
        else:
            self.requests.pop(output.request_id, None)
            self.counts.pop(output.request_id, None)

    def end_request(self, request_id: Any, reason: Any) -> None:
        """Takes the end of a request that had no final chunk. Each open output gets one more chunk, without text, that
        carries its full text; in the order of their last chunks, which is the order in which they are written."""
        outputs = self.requests.pop(request_id, {})
        counts = self.counts.pop(request_id, None) or {}
        for output in sorted(outputs.values(), key=_time_of_last):
            self._close(output)
            counts[output.index] = output.next
            self._take_at_once(output)
        if self._has_room(0, ends=True):
            self.done.append(RequestEnd(request_id, reason, counts))
        self.wake()

    def _close(self, output: Output) -> None:
        index, last = output.next, output.last
        output.next = index + 1
        if self._has_room(len(last.text or ""), ends=True):
            output.closing = Closing((index, time_ns(), "", ()), (last.text, *flags_of(last), False))
        else:
            self.count_dropped(1)

    def _take_at_once(self, output: Output) -> None:
        if output.pending or output.closing:  # so that as many wait here as there are tickets
            self.done.append(output)

    def count_dropped(self, chunks: int) -> None:
        with self._drop_lock:  # held for an addition
            self._dropped += chunks

    def fail(self, error: Exception, chunks: int = 1) -> None:
        """Counts a chunk that could not be taken. The first says why; never what was in it."""
        self.count_dropped(chunks)
        if not self._has_failed and not isinstance(error, TooMuch):
            self._has_failed = True
            logger.warning("a chunk could not be taken: %s; only the first is reported", type(error).__name__)

    @property
    def dropped(self) -> int:
        """Chunks that were dropped since the process started, here and on the way."""
        return self._dropped

    def close(self) -> None:
        """Drops all that comes from now on."""
        self._is_closed = True
        self.limit = self._reserve_limit = 0

    # What follows is called by the feeder, and by nobody else.

    def make_room(self) -> None:
        """Says that everything was taken that had a ticket until now."""
        if not self._is_closed:
            self.limit = self.take_ticket() + self.capacity
            self._reserve_limit = self._take_reserve() + self.capacity // 4

    def open_outputs(self) -> list[Output]:
        return [output for outputs in list(self.requests.values()) for output in list(outputs.values())]

    def forget(self, idle_since: int) -> None:
        """Forgets requests that had no chunk since then, and the most silent ones where they are too many or have too much
        text. What is left of them is taken; should they go on, they begin anew."""
        times: dict[Any, int] = {}
        sizes: dict[Any, int] = {}
        for request, outputs in list(self.requests.items()):
            last = list(outputs.values())
            times[request] = max((output.time for output in last), default=idle_since)
            sizes[request] = sum(len(output.last.text or "") for output in last)
        left, text = len(sizes), sum(sizes.values())
        for request in sorted(times, key=times.__getitem__):
            if times[request] >= idle_since and left <= self.most_requests and text <= self.most_text:
                return
            left -= 1
            text -= sizes[request]
            self.counts.pop(request, None)
            self.done.extend(self.requests.pop(request, {}).values())


class Taker:
    """Takes the chunks of a server and passes them on. This is the hot path: all of it in one call, as a call takes a tenth
    of the time. It never raises, but for what pass_on raises."""

    __slots__ = ("_intake", "_pass_on", "_requests", "_take_ticket")

    def __init__(self, intake: Intake, pass_on: Callable[[str], Any]) -> None:
        self._intake = intake
        self._pass_on = pass_on
        self._requests = intake.requests
        self._take_ticket = intake.take_ticket

    def __call__(self, chunk: Chunk, now: Callable[[], int] = time_ns) -> Any:
        text = chunk.text_diff
        try:
            try:
                output = self._requests[chunk.request_id][chunk.output_index]
            except KeyError:
                output = self._intake.begin(chunk)
            index = output.next
            output.next = index + 1
            output.last = chunk
            ids = chunk.token_ids_diff
            if chunk.is_final or len(text) + len(ids) > CHUNK_UNITS:
                self._intake.add_other(output, chunk)
            elif self._take_ticket() < self._intake.limit:
                output.pending.extend((index, now(), text, ids))
            else:
                self._intake.count_dropped(1)
        except Exception as error:
            self._intake.fail(error)
        return self._pass_on(text)


def _time_of_last(output: Output) -> int:
    """Returns when the last chunk came, also where the feeder takes it just now."""
    try:
        return int(output.pending[-FIELDS + 1])
    except IndexError:
        return output.time
