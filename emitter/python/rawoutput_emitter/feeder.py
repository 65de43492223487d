"""The thread between the server's threads and the helper: takes what waits and hands it over in large pieces.

It needs the interpreter lock for as little as possible: no Python code of it looks at a single chunk. Lists are cut with
slices, and marshal packs them, both in C.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict, deque
from typing import Any

from .intake import FIELDS, Intake, Output, RequestEnd
from .link import Link, ProcessLink, ThreadLink, pack
from .settings import Settings

logger = logging.getLogger("rawoutput_emitter")

SWEEP = 0.08  # seconds between two looks at all outputs, so that no chunk waits for 0.1
MOST_IN_ENTRY = 256  # chunks
MOST_IN_PIECE = 512  # chunks; what a piece takes the interpreter lock for is below a millisecond
FORGET_EVERY = 1.0  # seconds
DEATH_WAIT = 1.0  # seconds before a helper that ended without an acknowledgement gets a successor; then twice, …
QUICK_DEATHS = 3  # helpers that ended without an acknowledgement, one after the other, before a thread does it

_Entry = tuple[Any, ...]


class Feeder:
    """Feeds one helper after another from an intake."""

    def __init__(self, settings: Settings, intake: Intake) -> None:
        self._settings = settings
        self._intake = intake
        self._resource = settings.full_resource()
        self._link: Link | None = None
        self._quick_deaths = 0
        self._start_link_at = 0.0  # of the monotonic clock
        self._unacknowledged: OrderedDict[int, bytes] = OrderedDict()
        self._unacknowledged_bytes = 0
        self._unsent: deque[int] = deque()
        self._acks: deque[tuple[int, int]] = deque()
        self._number = 0
        self._next_sweep = self._next_forget = 0.0
        self._wake = threading.Lock()
        self._wake.acquire()
        self._flushes = threading.Condition()
        self._flush_wanted = self._flush_seen = self._flush_done = 0
        self._flush_marks: deque[tuple[int, int]] = deque()  # the flush, and the last piece that it is about
        self._closing = False
        self._reported: type[Exception] | None = None
        self._thread = threading.Thread(target=self._run, name="rawoutput-feeder", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def wake(self) -> None:
        """Has the thread look around. It costs the caller little: no Python code runs for it, and the interpreter lock is
        kept."""
        try:
            self._wake.release()
        except RuntimeError:
            pass  # it is awake

    def flush(self, timeout: float) -> bool:
        """Waits until what was taken before is delivered or given up."""
        if self._closing:
            return not self._unacknowledged
        with self._flushes:
            self._flush_wanted += 1
            mine = self._flush_wanted
            self.wake()
            return self._flushes.wait_for(lambda: self._flush_done >= mine, timeout)

    def close(self) -> None:
        """Ends the thread; the helper sends what it has, and ends too."""
        self._closing = True
        self.wake()

    def join(self, timeout: float) -> None:
        """Waits until the thread has ended, and the helper too, so that neither is in the way of the interpreter's end."""
        deadline = time.monotonic() + timeout
        self._thread.join(max(timeout, 0))
        if self._link is not None and not self._thread.is_alive():
            self._link.join(max(deadline - time.monotonic(), 0))

    def forsake(self) -> None:
        """Lets go of the helper of a parent."""
        if self._link is not None:
            self._link.forsake()

    @property
    def helper_pid(self) -> int | None:
        return self._link.pid if isinstance(self._link, ProcessLink) else None

    def _run(self) -> None:
        while True:
            try:
                self._wait()
                self._step()
            except Exception as error:  # it must go on
                self._report(error)
                time.sleep(SWEEP)
            if self._closing:
                break
        if self._link is not None:
            self._link.close()

    def _report(self, error: Exception) -> None:
        """Logs a problem once, until there is another; never with what the model said."""
        if type(error) is not self._reported:
            self._reported = type(error)
            logger.warning("the raw-output emitter has a problem: %s", self._reported.__name__)

    def _wait(self) -> None:
        """Waits until there is something to do: for ever where nothing is open."""
        self._intake.idle = True  # whoever begins an output from here on wakes
        if self._has_work():
            self._wake.acquire(timeout=max(self._next_sweep - time.monotonic(), 0))
        else:
            self._wake.acquire()
        self._intake.idle = False

    def _has_work(self) -> bool:
        has_link = self._link is not None and self._link.is_open
        return bool(self._intake.requests or self._intake.done or self._unacknowledged and not has_link)

    def _step(self) -> None:
        self._absorb_acks()
        if time.monotonic() >= self._next_forget:
            self._next_forget = time.monotonic() + FORGET_EVERY
            self._intake.forget(time.time_ns() - int(self._settings.idle_limit * 1e9))
        if self._unacknowledged_bytes < self._settings.window:
            self._collect()
        else:
            self._next_sweep = time.monotonic() + SWEEP  # an acknowledgement comes first
        self._send()
        self._finish_flushes()

    def _collect(self) -> None:
        """Takes what must go now: outputs that have ended, and every now and then all."""
        flush = self._flush_wanted  # before anything is taken: it is about what is there by now
        if time.monotonic() >= self._next_sweep or flush > self._flush_seen or self._closing:
            self._next_sweep = time.monotonic() + SWEEP
            self._put(self._sweep())
        else:
            self._put(self._take_done())
        if flush > self._flush_seen:
            self._flush_seen = flush
            self._flush_marks.append((flush, self._number))

    # Taking

    def _take_done(self) -> list[_Entry]:
        entries: list[_Entry] = []
        done = self._intake.done
        while done:
            one = done.popleft()
            if isinstance(one, Output):
                entries += self._take_rest(one)
            else:
                entries.append(_end(one))
        return entries

    def _sweep(self) -> list[_Entry]:
        self._intake.make_room()
        outputs = self._intake.open_outputs()
        entries = self._take_done()  # before those of the same ids that have begun since
        for output in outputs:
            entries += self._take(output)
        return entries

    @staticmethod
    def _take(output: Output) -> list[_Entry]:
        """Takes what is on an output's list. Its thread may append meanwhile; that stays for the next time."""
        entries: list[_Entry] = []
        pending = output.pending
        while items := pending[: MOST_IN_ENTRY * FIELDS]:
            del pending[: len(items)]
            output.time = items[-FIELDS + 1]
            entries.append(("chunks", str(output.request_id), output.index, items, output.opening, None))
            output.opening = None
        return entries

    def _take_rest(self, output: Output) -> list[_Entry]:
        """Takes what is left of an output that has ended."""
        entries = self._take(output)
        if output.closing is not None:
            chunk, after = output.closing
            kind, request_id, index, items, opening, _ = entries.pop() if entries else (
                "chunks", str(output.request_id), output.index, [], output.opening, None,
            )
            entries.append((kind, request_id, index, [*items, *chunk], opening, after))
        return entries

    # Handing over

    def _put(self, entries: list[_Entry]) -> None:
        piece: list[_Entry] = []
        size = 0
        for entry in entries:
            piece.append(entry)
            size += len(entry[3]) // FIELDS if entry[0] == "chunks" else 1
            if size >= MOST_IN_PIECE:
                self._put_piece(piece)
                piece, size = [], 0
        if piece:
            self._put_piece(piece)

    def _put_piece(self, entries: list[_Entry]) -> None:
        self._number += 1
        try:
            packed = pack((self._number, self._intake.dropped, entries))
        except ValueError:
            packed = pack((self._number, self._intake.dropped, [e for e in map(self._plain, entries) if e is not None]))
        self._unacknowledged[self._number] = packed
        self._unacknowledged_bytes += len(packed)
        self._unsent.append(self._number)

    def _plain(self, entry: _Entry) -> _Entry | None:
        """Returns an entry with values of the types that marshal knows: a server may have its own strings and numbers."""
        try:
            return _plain_entry(entry)
        except Exception as error:
            logger.warning("chunks are dropped: %s", type(error).__name__)
            if entry[0] == "chunks":
                self._intake.count_dropped(len(entry[3]) // FIELDS)
            return None

    def _send(self) -> None:
        link = self._live_link()
        while link is not None and self._unsent:
            packed = self._unacknowledged.get(self._unsent[0])
            if packed is not None:
                try:
                    link.send(packed)
                except (OSError, ValueError):
                    return  # it is gone, and will say so
            self._unsent.popleft()

    def _live_link(self) -> Link | None:
        """Returns the link to the helper, to a new one where there is none."""
        if self._link is not None and self._link.is_open:
            return self._link
        if not self._unacknowledged or time.monotonic() < self._start_link_at:
            return None
        self._start_link_at = time.monotonic() + DEATH_WAIT * self._quick_deaths
        self._quick_deaths += 1
        self._link = self._new_link()
        self._link.listen(self._on_message, self.wake)
        self._link.send(pack(self._introduction()))
        self._unsent = deque(self._unacknowledged)  # again, in the same order
        return self._link

    def _new_link(self) -> Link:
        if self._settings.process and self._quick_deaths <= QUICK_DEATHS:
            try:
                return ProcessLink()
            except (OSError, ValueError) as error:
                logger.warning("no helper process can be started (%s); a thread sends instead", type(error).__name__)
                self._quick_deaths = QUICK_DEATHS + 1
        return ThreadLink()

    def _introduction(self) -> dict[str, Any]:
        s = self._settings
        return {
            "endpoint": s.endpoint, "headers": dict(s.headers), "timeout": float(s.timeout), "certificate": s.certificate,
            "retry_limit": float(s.retry_limit), "resource": self._resource,
        }

    # Acknowledgements

    def _on_message(self, message: tuple[Any, ...]) -> None:
        """Called by the thread that listens."""
        if message[0] == "warning":
            logger.warning("%s", message[1])
            return
        self._acks.append((message[1], message[2]))
        self.wake()

    def _absorb_acks(self) -> None:
        while self._acks:
            number, lost = self._acks.popleft()
            packed = self._unacknowledged.pop(number, None)
            if packed is None:
                continue  # a second helper had it too
            self._quick_deaths = 0
            self._unacknowledged_bytes -= len(packed)
            if lost:
                self._intake.count_dropped(lost)

    def _finish_flushes(self) -> None:
        oldest = next(iter(self._unacknowledged), self._number + 1)
        while self._flush_marks and self._flush_marks[0][1] < oldest:
            flush, _ = self._flush_marks.popleft()
            with self._flushes:
                self._flush_done = flush
                self._flushes.notify_all()


def _end(end: RequestEnd) -> _Entry:
    return "end", str(end.request_id), end.time, str(end.reason or ""), end.counts or {}


def _plain_entry(entry: _Entry) -> _Entry:
    if entry[0] != "chunks":
        kind, request_id, at, reason, counts = entry
        return kind, request_id, at, reason, {int(index): count for index, count in counts.items()}
    kind, request_id, index, items, opening, closing = entry
    plain: list[Any] = []
    for i in range(0, len(items), FIELDS):
        number, nanos, text, ids = items[i : i + FIELDS]
        plain += (number, nanos, "".join(text), [int(token) for token in ids])
    return kind, "".join(request_id), int(index), plain, _plain_flags(opening), _plain_closing(closing)


def _plain_flags(flags: tuple[Any, ...] | None) -> tuple[Any, ...] | None:
    if flags is None:
        return None
    aborted, streaming, disagg = flags
    return bool(aborted), bool(streaming), None if disagg is None else str(disagg)


def _plain_closing(closing: tuple[Any, ...] | None) -> tuple[Any, ...] | None:
    if closing is None:
        return None
    text, *flags, is_final = closing
    return None if text is None else "".join(text), *(_plain_flags(tuple(flags)) or ()), bool(is_final)
