"""The other end of the link: makes records of what the server's process hands over, and sends them.

It keeps no state between pieces. What it has not acknowledged the server still has, so that nothing is lost with it.
"""

from __future__ import annotations

import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Iterator
from io import FileIO
from typing import Any

from .client import Client
from .intake import FIELDS
from .link import Readable, pack, unpack_all
from .otlp import Envelope
from .records import Chunks, End, Record, valid
from .version import VERSION

GRACE = 5.0  # seconds for what is left when the server is gone
MOST_PIECES = 32  # that are sent together
LARGEST_REQUEST = 2_000_000  # bytes of records before compression: with the resource, below 2 MiB
LONGEST_ID = 256  # bytes
SAY_AGAIN = 60.0  # seconds after which the same is logged again
MOST_SAID = 100  # texts that are remembered for it

SCOPE = "rawoutput_emitter"

_Piece = tuple[int, int, list[tuple[Any, ...]]]  # its number, what was dropped until then, entries


def main() -> None:
    """Runs as a process of its own."""
    parent = int(sys.argv[2])
    for signum in (signal.SIGINT, signal.SIGTERM, getattr(signal, "SIGHUP", None)):
        if signum is not None:
            signal.signal(signum, signal.SIG_IGN)  # it ends when the server does, and not before everything is sent
    serve(sys.stdin.buffer, FileIO(sys.stdout.fileno(), "w"), parent)


def serve(source: Readable, acks: FileIO, parent: int | None = None) -> None:
    """Serves one server until it is gone."""
    messages = unpack_all(source)
    settings = next(messages, None)
    if settings is not None:
        with acks:
            _Server(settings, acks).run(messages, parent)


class _Server:
    def __init__(self, settings: dict[str, Any], acks: FileIO) -> None:
        self._acks = acks
        self._said: dict[str, float] = {}  # and when
        self._retry_limit: float = settings["retry_limit"]
        resource = {valid(key): valid(value) for key, value in settings["resource"].items()}
        self._envelope = Envelope(resource, SCOPE, VERSION)
        try:
            self._client: Client | None = Client(settings["endpoint"], settings["headers"], settings["timeout"], settings["certificate"])
        except (OSError, ValueError) as error:
            self._client = None  # a certificate that is none: everything is lost, and counted
            self._say(f"nothing can be sent: {type(error).__name__}: {error}")
        self._pieces: queue.SimpleQueue[_Piece | None] = queue.SimpleQueue()
        self._is_last = threading.Event()
        self._give_up_at = float("inf")

    def run(self, messages: Iterator[Any], parent: int | None) -> None:
        threading.Thread(target=self._receive, args=(messages,), daemon=True).start()
        if parent is not None and hasattr(os, "getppid"):
            threading.Thread(target=self._watch, args=(parent,), daemon=True).start()
        while batch := self._next_batch():
            for number, lost in self._send(batch).items():
                self._tell("ack", number, lost)

    def _receive(self, messages: Iterator[Any]) -> None:
        for piece in messages:
            self._pieces.put(piece)
        self._end()

    def _watch(self, parent: int) -> None:
        """Notices that the server is gone also where a child of it has inherited the pipe."""
        while os.getppid() == parent:
            time.sleep(1)
        self._end()

    def _end(self) -> None:
        self._give_up_at = min(self._give_up_at, time.monotonic() + GRACE)
        self._is_last.set()
        self._pieces.put(None)

    def _next_batch(self) -> list[_Piece]:
        """Waits for pieces, and returns those that are there. None of them is the end."""
        batch: list[_Piece] = []
        piece = self._pieces.get()
        while piece is not None:
            batch.append(piece)
            if len(batch) == MOST_PIECES or self._pieces.empty():
                return batch
            piece = self._pieces.get()
        if batch:
            self._pieces.put(None)  # for the next time
        return batch

    def _send(self, batch: list[_Piece]) -> dict[int, int]:
        """Sends pieces, and returns how many chunks of each were lost."""
        lost = {number: 0 for number, _, _ in batch}
        records: list[tuple[int, Record]] = []
        size = 0
        for number, dropped, entries in batch:
            for entry in entries:
                for record in self._records(entry, dropped, lost, number):
                    if records and size + len(record.encoded) > LARGEST_REQUEST:
                        self._post(records, lost)
                        records, size = [], 0
                    records.append((number, record))
                    size += len(record.encoded)
        if records:
            self._post(records, lost)
        return lost

    def _records(self, entry: tuple[Any, ...], dropped: int, lost: dict[int, int], number: int) -> list[Record]:
        kind, request_id, *rest = entry
        request_id = valid(request_id)
        if not 0 < len(request_id.encode()) <= LONGEST_ID:
            self._say(f"a request id must have 1 to {LONGEST_ID} bytes")
        else:
            try:
                made = Chunks(request_id, *rest) if kind == "chunks" else End(request_id, *rest)
                return list(made.records(dropped))
            except Exception as error:  # a value of a wrong type; nothing else must be lost with it
                self._say(f"chunks are dropped: {type(error).__name__}")
        if kind == "chunks":
            lost[number] += len(rest[1]) // FIELDS
        return []

    def _post(self, records: list[tuple[int, Record]], lost: dict[int, int]) -> None:
        body = self._envelope.request(record.encoded for _, record in records)
        deadline = time.monotonic() + self._retry_limit
        if self._client is None:
            share = 1.0
        else:
            outcome = self._client.post(body, lambda: min(deadline, self._give_up_at) - time.monotonic(), self._wait)
            if outcome.problem:
                self._say(f"records are lost: {outcome.problem}")
            # A partial success does not say which records it is about.
            share = 1.0 if outcome.all_lost else min(outcome.rejected / len(records), 1.0)
        if share:
            self._count_lost(records, share, lost)

    def _wait(self, seconds: float, problem: str) -> None:
        """Waits between attempts: less when the server goes meanwhile, as there is little time left then."""
        self._say(f"nothing is delivered at the moment: {problem}")
        if self._is_last.wait(seconds):
            time.sleep(min(seconds, 0.2))

    @staticmethod
    def _count_lost(records: list[tuple[int, Record]], share: float, lost: dict[int, int]) -> None:
        """Counts the chunks of the first records: as many records as were lost."""
        for number, record in records[: round(len(records) * share)]:
            lost[number] += record.chunks

    def _say(self, text: str) -> None:
        """Has the server log something: not all the time."""
        now = time.monotonic()
        if now - self._said.get(text, -SAY_AGAIN) >= SAY_AGAIN:
            if len(self._said) >= MOST_SAID:
                self._said.clear()
            self._said[text] = now
            self._tell("warning", text)

    def _tell(self, *message: Any) -> None:
        try:
            self._acks.write(pack(message))
        except OSError:
            pass  # the server is gone; what it left is sent all the same
