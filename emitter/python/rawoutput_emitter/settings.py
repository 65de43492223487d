"""What can be set, and the standard environment variables that set it."""

from __future__ import annotations

import logging
import math
import os
import socket
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

logger = logging.getLogger("rawoutput_emitter")

DEFAULT_TIMEOUT = 10.0


@dataclass(frozen=True)
class Settings:
    """Where chunks go, and how much of the server's memory they may take meanwhile."""

    endpoint: str  # the whole URL, path included
    headers: Mapping[str, str] = field(default_factory=dict)
    timeout: float = DEFAULT_TIMEOUT  # seconds for one attempt
    certificate: str | None = None  # a PEM file with the authorities to trust; None is those of the system
    resource: Mapping[str, str] = field(default_factory=dict)  # service.instance.id and the like are added to it

    retry_limit: float = 60.0
    """Seconds after which a request that was not taken is given up, and its chunks are counted as dropped."""

    capacity: int = 32_768
    """Chunks of up to 512 characters or token ids that wait in the server's memory; a longer one counts as several."""

    window: int = 8 << 20
    """Bytes on their way that are kept to be sent again; beyond it chunks wait, and then they are dropped."""

    most_requests: int = 16_384
    """Open requests that are remembered. Beyond it the one that was silent the longest is forgotten."""

    most_text: int = 64 << 20
    """Characters of full text that are remembered of open requests, for their end; the server has them too. Beyond it likewise."""

    idle_limit: float = 600.0
    """Seconds of silence after which an open request is forgotten, as the Collector does."""

    process: bool = True
    """Encode and send in a helper process. Otherwise, and where none can be started, in a thread."""

    @staticmethod
    def from_environment(environ: Mapping[str, str] | None = None) -> Settings | None:
        """Returns the settings of the standard variables, or None where they name no endpoint."""
        read = _Reader(os.environ if environ is None else environ)
        endpoint = read.endpoint()
        if endpoint is None:
            return None
        return Settings(
            endpoint=endpoint,
            headers=read.headers(),
            timeout=read.timeout(),
            certificate=read.certificate(),
            resource=read.resource(),
        )

    def full_resource(self) -> dict[str, str]:
        """Returns the resource of this process. Its instance id is new on each call: engines count request ids from the
        start of each process, so that an id which outlives one would make two outputs one."""
        own = {
            "service.instance.id": str(uuid.uuid4()),
            "process.pid": str(os.getpid()),
        }
        defaults = {"service.name": "unknown_service", "host.name": socket.gethostname()}
        return {**defaults, **self.resource, **own}


class _Reader:
    """Reads variables. What cannot be meant is warned about, and counts as not set."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ

    def _first(self, *names: str) -> tuple[str, str]:
        """Returns the first variable that is set to something, and its value. As the specification has it, an empty one
        is not set."""
        for name in names:
            value = self._environ.get(name, "").strip()
            if value:
                return name, value
        return names[-1], ""

    def endpoint(self) -> str | None:
        name, value = self._first("OTEL_EXPORTER_OTLP_LOGS_ENDPOINT")
        if value and _is_endpoint(value):
            return value
        if value:
            _warn(name, "an http:// or https:// URL")
        name, value = self._first("OTEL_EXPORTER_OTLP_ENDPOINT")
        if value and _is_endpoint(value):
            return value.rstrip("/") + "/v1/logs"
        if value:
            _warn(name, "an http:// or https:// URL")
        return None

    def headers(self) -> dict[str, str]:
        name, value = self._first("OTEL_EXPORTER_OTLP_LOGS_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS")
        return self._pairs(name, value)

    def timeout(self) -> float:
        name, value = self._first("OTEL_EXPORTER_OTLP_LOGS_TIMEOUT", "OTEL_EXPORTER_OTLP_TIMEOUT")
        if not value:
            return DEFAULT_TIMEOUT
        try:
            milliseconds = float(value)
        except ValueError:
            milliseconds = math.nan
        if not 0 < milliseconds < 1e9:
            _warn(name, "a number of milliseconds above 0")
            return DEFAULT_TIMEOUT
        return milliseconds / 1000

    def certificate(self) -> str | None:
        name, value = self._first("OTEL_EXPORTER_OTLP_LOGS_CERTIFICATE", "OTEL_EXPORTER_OTLP_CERTIFICATE")
        if value and not os.path.isfile(value):
            _warn(name, "a file")
            return None
        return value or None

    def resource(self) -> dict[str, str]:
        attributes = self._pairs(*self._first("OTEL_RESOURCE_ATTRIBUTES"))
        _, service = self._first("OTEL_SERVICE_NAME")
        if service:
            attributes["service.name"] = service
        return attributes

    def _pairs(self, name: str, value: str) -> dict[str, str]:
        """Reads key=value,key=value with percent-encoded values. One bad pair spoils them all, as the specification of
        resource attributes wants it."""
        pairs: dict[str, str] = {}
        for pair in filter(None, (part.strip() for part in value.split(","))):
            key, equals, text = pair.partition("=")
            key, text = key.strip(), unquote(text.strip())
            if not equals or not key or any(c in key + text for c in "\r\n"):
                _warn(name, "pairs of the form key=value, separated by commas")
                return {}
            pairs[key] = text
        return pairs


def _is_endpoint(value: str) -> bool:
    try:
        url = urlsplit(value)
        _ = url.port  # raises where it is no number
    except ValueError:
        return False
    return url.scheme in ("http", "https") and bool(url.hostname)


def _warn(name: str, wanted: str) -> None:
    """Says what is wrong without the value: headers are secrets."""
    logger.warning("%s is ignored: it must be %s", name, wanted)
