"""The emitter, for any Python server."""

from __future__ import annotations

import atexit
import logging
import os
import sys
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from .feeder import Feeder
from .intake import Intake, Taker
from .settings import Settings

logger = logging.getLogger("rawoutput_emitter")

AT_EXIT = 2.0  # seconds that the end of the process may wait


@dataclass(slots=True)
class _OwnChunk:
    """A chunk of Emitter.chunk."""

    request_id: str | int
    output_index: int
    text_diff: str
    text: str | None
    token_ids_diff: Sequence[int]
    is_final: bool
    aborted: bool
    streaming: bool
    disagg_request_id: str | int | None


class Emitter:
    """Sends the chunks of a server's outputs to an OpenTelemetry Collector.

    One for a whole process is enough, and all of its threads may use it; the chunks of one request must come in their
    order, that is from one thread at a time. No call waits or raises. Nothing is started before start, or the first chunk.
    After a fork the child has an emitter of its own, with nothing in it. Without settings nothing is recorded.
    """

    def __init__(self, settings: Settings | None) -> None:
        self.settings = settings
        self.intake = Intake(settings.capacity, settings.most_requests, settings.most_text) if settings else Intake(0, 0)
        self._feeder: Feeder | None = None
        self._starting = threading.Lock()
        self._is_shut_down = False
        self.intake.wake = self.start
        self._take = Taker(self.intake, lambda text: None)
        _emitters.add(self)

    def chunk(
        self,
        request_id: str | int,
        text_diff: str,
        *,
        output_index: int = 0,
        token_ids: Sequence[int] = (),
        text: str | None = None,
        is_final: bool = False,
        aborted: bool = False,
        streaming: bool = True,
        disagg_request_id: str | int | None = None,
    ) -> None:
        """Takes one chunk of an output. text is the output's full text after it, where the server knows it; it counts on
        the final chunk, and before a request end. What is passed must not be changed afterwards."""
        self._take(_OwnChunk(
            request_id, output_index, text_diff, text, token_ids, is_final, aborted, streaming, disagg_request_id,
        ))

    def request_end(self, request_id: str | int, reason: str = "") -> None:
        """Takes the end of a request that had no final chunk: an error, a client that went away."""
        try:
            self.intake.end_request(request_id, reason)
        except Exception as error:
            self.intake.fail(error, chunks=0)

    def flush(self, timeout: float = 2.0) -> bool:
        """Waits until all that was taken is delivered, or given up. False says that the time was too short."""
        feeder = self._feeder
        return feeder is None or feeder.flush(timeout)

    def shutdown(self, timeout: float = 2.0) -> bool:
        """Flushes, and takes nothing from then on. What it could not deliver in time the helper goes on to send for some
        seconds."""
        deadline = time.monotonic() + timeout
        self._is_shut_down = True
        self.intake.close()
        delivered = self.flush(timeout)
        if self._feeder is not None:
            self._feeder.close()
            self._feeder.join(deadline - time.monotonic())
        return delivered

    @property
    def dropped(self) -> int:
        """Chunks that were dropped since the process started."""
        return self.intake.dropped

    @property
    def helper_pid(self) -> int | None:
        """The process id of the helper, where there is one."""
        return self._feeder.helper_pid if self._feeder is not None else None

    def start(self) -> None:
        """Starts the thread that feeds the helper; else the first chunk does, and takes longer. From then on the thread is
        what is woken."""
        with self._starting:
            if self.settings is not None and self._feeder is None and not self._is_shut_down:
                _see_to_the_end()
                feeder = Feeder(self.settings, self.intake)
                feeder.start()
                self._feeder = feeder
                self.intake.wake = feeder.wake

    def _after_fork(self) -> None:
        if self._feeder is not None:
            self._feeder.forsake()
        self._feeder = None
        self._starting = threading.Lock()
        self.intake.reset()
        self.intake.wake = self.start


_emitters: weakref.WeakSet[Emitter] = weakref.WeakSet()
_seen_to_in = 0  # the process


def _see_to_the_end() -> None:
    """Has the end of the process, and a fork of it, seen to. It comes with the first chunk, as multiprocessing makes its
    children forget what they were told before they began."""
    global _seen_to_in
    if _seen_to_in == 0:
        atexit.register(_shut_down_all)
        _before_threads_end(_flush_all)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=_after_fork)
    if _seen_to_in != os.getpid() and "multiprocessing.util" in sys.modules:
        util: Any = sys.modules["multiprocessing.util"]
        util.Finalize(None, _shut_down_all, exitpriority=0)  # its children end without the functions of atexit
    _seen_to_in = os.getpid()


def _after_fork() -> None:
    global _shared_lock
    _shared_lock = threading.Lock()
    for emitter in list(_emitters):
        emitter._after_fork()


def _before_threads_end(function: Callable[[], None]) -> None:
    """Has a function called at the end of the process while threads can still be started, which newer Pythons forbid when
    they call those of atexit. (3.12.0 to 3.12.2 forbid it even then: there the first chunk must not be the last one.)"""
    register: Callable[..., None] | None = getattr(threading, "_register_atexit", None)  # concurrent.futures uses it too
    if register is not None:
        try:
            register(function)
        except RuntimeError:
            pass  # the end has begun


_exit_deadline: float | None = None


def _time_to_exit() -> float:
    global _exit_deadline
    if _exit_deadline is None:
        _exit_deadline = time.monotonic() + AT_EXIT
    return max(_exit_deadline - time.monotonic(), 0)


def _flush_all() -> None:
    for emitter in list(_emitters):
        emitter.flush(_time_to_exit())


def _shut_down_all() -> None:
    for emitter in list(_emitters):
        emitter.shutdown(_time_to_exit())


_shared: Emitter | None = None
_shared_lock = threading.Lock()


def shared(settings: Settings) -> Emitter:
    """Returns the emitter of this process, which the first call makes. TensorRT-LLM builds a hook for each worker thread;
    one helper is enough for all of them."""
    global _shared
    with _shared_lock:
        if _shared is None:
            _shared = Emitter(settings)
            _shared.start()
        return _shared
