"""Posts requests over HTTP, and tries again what may be tried again."""

from __future__ import annotations

import email.utils
import gzip
import http.client
import random
import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from .otlp import rejected_records
from .version import VERSION

RETRYABLE = frozenset((429, 502, 503, 504))  # as OTLP has them
FIRST_WAIT, LONGEST_WAIT = 0.5, 5.0  # seconds between attempts, plus or minus half
LARGEST_ANSWER = 1 << 20


@dataclass(frozen=True)
class Outcome:
    """What became of a request. all_lost or some of its records were not taken; problem says why, for a log."""

    all_lost: bool = False
    rejected: int = 0
    problem: str = ""


class Client:
    """A connection that is kept open."""

    def __init__(self, endpoint: str, headers: Mapping[str, str], timeout: float, certificate: str | None) -> None:
        url = urlsplit(endpoint)
        self._path = (url.path or "/") + (f"?{url.query}" if url.query else "")
        self._headers = {
            "User-Agent": f"rawoutput-emitter-python/{VERSION}",
            **headers,
            "Content-Type": "application/x-protobuf",
            "Content-Encoding": "gzip",
        }
        self._timeout = timeout
        host, port = url.hostname or "", url.port
        if url.scheme == "https":
            context = ssl.create_default_context(cafile=certificate)
            self._connection: http.client.HTTPConnection = http.client.HTTPSConnection(host, port or 443, timeout=timeout, context=context)
        else:
            self._connection = http.client.HTTPConnection(host, port or 80, timeout=timeout)

    def post(self, body: bytes, remaining: Callable[[], float], wait: Callable[[float, str], object]) -> Outcome:
        """Posts a request until it is taken or refused, or no time remains. remaining says how many seconds are left, and
        may change its mind; wait waits because of a problem, and may return early."""
        compressed = gzip.compress(body, compresslevel=1)
        pause = FIRST_WAIT
        while True:
            answer = self._attempt(compressed, remaining())
            if isinstance(answer, Outcome):
                return answer
            delay = answer.retry_after if answer.retry_after is not None else pause * random.uniform(0.5, 1.5)
            if delay >= remaining():
                return Outcome(all_lost=True, problem=answer.problem)
            wait(delay, answer.problem)
            pause = min(2 * pause, LONGEST_WAIT)

    def _attempt(self, compressed: bytes, remaining: float) -> Outcome | _Again:
        was_open = self._connection.sock is not None
        try:
            return self._exchange(compressed, remaining)
        except (ConnectionError, http.client.BadStatusLine) as error:
            if not was_open:
                return self._failed(error)
        except (OSError, http.client.HTTPException) as error:
            return self._failed(error)
        except ValueError as error:  # a header that is none: it will not become one
            self._connection.close()
            return Outcome(all_lost=True, problem=type(error).__name__)
        # A connection that was kept open may have been closed by the other side meanwhile: that is no failure yet.
        self._connection.close()
        try:
            return self._exchange(compressed, remaining)
        except (OSError, http.client.HTTPException) as error:
            return self._failed(error)

    def _failed(self, error: Exception) -> _Again:
        self._connection.close()
        return _Again(f"{type(error).__name__}: {error}" if isinstance(error, OSError) else type(error).__name__)

    def _exchange(self, compressed: bytes, remaining: float) -> Outcome | _Again:
        connection = self._connection
        connection.timeout = max(min(self._timeout, remaining), 0.1)
        if connection.sock is not None:
            connection.sock.settimeout(connection.timeout)
        connection.request("POST", self._path, compressed, self._headers)
        response = connection.getresponse()
        answer = response.read(LARGEST_ANSWER)
        if not response.isclosed():
            connection.close()  # there is more of it than anyone wants
        if response.status in RETRYABLE:
            return _Again(f"HTTP status {response.status}", _retry_after(response.getheader("Retry-After")))
        if not 200 <= response.status < 300:
            return Outcome(all_lost=True, problem=f"HTTP status {response.status}")
        rejected, _ = rejected_records(answer)
        return Outcome(rejected=rejected, problem="the receiver rejected records" if rejected else "")


@dataclass(frozen=True)
class _Again:
    """An attempt that may be repeated."""

    problem: str
    retry_after: float | None = None


def _retry_after(value: str | None) -> float | None:
    """Reads seconds or a date."""
    if value is None:
        return None
    if value.strip().isdecimal():
        return float(value)
    try:
        return max(email.utils.parsedate_to_datetime(value).timestamp() - time.time(), 0)
    except (TypeError, ValueError, OverflowError):
        return None
