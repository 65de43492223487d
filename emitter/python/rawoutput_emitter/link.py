"""The way to whoever encodes and sends: a helper process, or a thread where none can be started.

Both run helper.serve at the other end of two pipes. Messages are values that marshal knows, each after its length. The
version of marshal is one without references, which is the fastest.
"""

from __future__ import annotations

import marshal
import os
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from io import FileIO
from typing import Any, Protocol

MARSHAL_VERSION = 2
_LENGTH = struct.Struct("<I")

# Variables that tell a process that it is one rank of many. A helper that had them might be taken for one.
_PREFIXES_OF_RANKS = ("OMPI_", "PMI", "PMIX_", "PRTE_", "MPI_", "MPIR_", "I_MPI_", "MV2_", "HYDRA_", "SLURM_", "FLUX_", "PALS_")

_HELPER = "import sys; sys.path.append(sys.argv[1]); from rawoutput_emitter import helper; helper.main()"


def pack(message: Any) -> bytes:
    """Raises ValueError where there is something in it that marshal does not know."""
    body = marshal.dumps(message, MARSHAL_VERSION)
    return _LENGTH.pack(len(body)) + body


class Readable(Protocol):
    def read(self, size: int, /) -> bytes | None: ...


def unpack_all(stream: Readable) -> Iterator[Any]:
    """Yields the messages of a stream until it ends. Half a message at its end is none."""
    while True:
        head = _read(stream, _LENGTH.size)
        body = _read(stream, *_LENGTH.unpack(head)) if head else b""
        if not body:
            return
        yield marshal.loads(body)


def _read(stream: Readable, size: int) -> bytes:
    """Reads that many bytes, or none where the stream ends before."""
    parts = []
    while size > 0:
        part = stream.read(size)
        if not part:
            return b""
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


class Link:
    """A connection that delivers messages, and calls back with those that come and when there will be no more.

    Its files are unbuffered: buffered ones have locks, which a fork may copy while they are held."""

    def __init__(self, write: FileIO, read: FileIO) -> None:
        self._write = write
        self._read = read
        self._listener: threading.Thread | None = None
        self.is_open = True

    def listen(self, on_message: Callable[[Any], None], on_end: Callable[[], None]) -> None:
        def receive() -> None:
            try:
                for message in unpack_all(self._read):
                    on_message(message)
            except (OSError, ValueError, EOFError):
                pass  # as good as the end
            self.is_open = False
            self.reap()
            on_end()

        self._listener = threading.Thread(target=receive, name="rawoutput-acks", daemon=True)
        self._listener.start()

    def send(self, packed: bytes) -> None:
        """Waits while the other end is slow to read; OSError says that it is gone."""
        rest = memoryview(packed)
        while rest:
            rest = rest[self._write.write(rest) :]

    def close(self) -> None:
        """Says that nothing follows. The other end sends what it has, and ends."""
        self._write.close()

    def join(self, timeout: float) -> None:
        """Waits until the other end is gone."""
        if self._listener is not None:
            self._listener.join(timeout)

    def reap(self) -> None:
        """Called when the other end is gone."""

    def forsake(self) -> None:
        """Lets go of the pipes without a word. After a fork they are copies of the parent's, and while one is open the
        helper thinks that its server is still there. Their descriptors stay taken, so that closing them later does no harm."""
        nowhere = os.open(os.devnull, os.O_RDWR)
        for file in (self._write, self._read):
            if not file.closed:
                os.dup2(nowhere, file.fileno(), inheritable=False)
        os.close(nowhere)


class ProcessLink(Link):
    """A link to a helper process."""

    def __init__(self) -> None:
        # subprocess starts it with vfork and exec, so that no code of the server runs in a copy of the server: CUDA and
        # MPI do not survive that. It closes all other descriptors. A session of its own keeps the terminal's signals away,
        # so that the helper outlives the server by what it takes to send the rest.
        folder = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _HELPER, folder, str(os.getpid())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            env=environment_of_helper(os.environ),
            start_new_session=True,
        )
        assert isinstance(self._process.stdin, FileIO) and isinstance(self._process.stdout, FileIO)
        super().__init__(self._process.stdin, self._process.stdout)

    @property
    def pid(self) -> int:
        return self._process.pid

    def reap(self) -> None:
        self._process.wait()  # it has closed its end, so that this takes no time


class ThreadLink(Link):
    """A link to a thread."""

    def __init__(self) -> None:
        from . import helper  # which no server with a helper process needs

        messages, answers = os.pipe(), os.pipe()
        super().__init__(FileIO(messages[1], "w"), FileIO(answers[0]))
        threading.Thread(
            target=helper.serve, args=(FileIO(messages[0]), FileIO(answers[1], "w")), name="rawoutput-helper", daemon=True
        ).start()


def environment_of_helper(environ: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environ.items() if not name.startswith(_PREFIXES_OF_RANKS)}
