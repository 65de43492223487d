"""An OTLP receiver that answers as a test wants it to, and keeps what it took."""

from __future__ import annotations

import gzip
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest, ExportLogsServiceResponse
from opentelemetry.proto.common.v1.common_pb2 import AnyValue

PATIENCE = 30.0  # seconds that anything may take; nothing is measured against it

Answer = tuple[int, dict[str, str], bytes]
TAKEN: Answer = (200, {}, b"")


def rejecting(records: int) -> Answer:
    response = ExportLogsServiceResponse()
    response.partial_success.rejected_log_records = records
    response.partial_success.error_message = "no"
    return 200, {}, response.SerializeToString()


class Record:
    def __init__(self, record, resource: dict[str, object], size: int) -> None:
        self.event = record.event_name
        self.time = record.time_unix_nano
        self.attributes = {pair.key.removeprefix("raw_output."): value_of(pair.value) for pair in record.attributes}
        self.resource = resource
        self.size = size

    def __getitem__(self, key: str) -> object:
        return self.attributes[key]

    def get(self, key: str, default: object = None) -> object:
        return self.attributes.get(key, default)

    @property
    def output(self) -> tuple[object, object]:
        return self["request_id"], self["output_index"]

    @property
    def frames(self) -> list[bytes]:
        text = self.get("text_diff", "")
        encoded = text.encode() if isinstance(text, str) else text
        if "frame_lengths" not in self.attributes:
            return [encoded]
        frames = []
        for length in numbers(self["frame_lengths"]):
            frames.append(encoded[:length])
            encoded = encoded[length:]
        assert not encoded
        return frames


def numbers(packed: bytes) -> list[int]:
    return [int.from_bytes(packed[i : i + 4], "little") for i in range(0, len(packed), 4)]


def value_of(value: AnyValue) -> object:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [value_of(element) for element in value.array_value.values]
    return getattr(value, kind) if kind else None


class Receiver:
    """answer is asked with each request; None leaves the connection without one."""

    def __init__(self) -> None:
        self.answer: Callable[[int], Answer | None] = lambda n: TAKEN
        self.requests: list[tuple[str, dict[str, str], bytes]] = []
        self.taken: list[Record] = []
        self._changed = threading.Condition()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                answer = receiver._receive(self.path, dict(self.headers), body)
                if answer is None:
                    self.close_connection = True
                    return
                status, headers, content = answer
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *args: object) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *args: object) -> None:
                pass  # an emitter that was killed in the middle

        self._server = Server(("127.0.0.1", 0), Handler)
        self.endpoint = f"http://127.0.0.1:{self._server.server_port}/v1/logs"
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def _receive(self, path: str, headers: dict[str, str], body: bytes) -> Answer | None:
        with self._changed:
            self.requests.append((path, headers, body))
            n = len(self.requests)
        answer = self.answer(n)
        with self._changed:
            if answer is not None and answer[0] == 200:
                self.taken += records_of(gzip.decompress(body))
            self._changed.notify_all()
        return answer

    def wait_for(self, condition: Callable[[], bool]) -> None:
        with self._changed:
            assert self._changed.wait_for(condition, PATIENCE), "it did not come"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def chunks(self) -> list[Record]:
        return [record for record in self.taken if record.event == "raw_output.chunk"]

    def ends(self) -> list[Record]:
        return [record for record in self.taken if record.event == "raw_output.request_end"]

    def outputs(self) -> dict[tuple[object, object], list[bytes]]:
        """Puts the frames of each output in the order of their numbers, copies left out, and expects that none is missing."""
        outputs: dict[tuple[object, object], dict[int, bytes]] = {}
        for record in self.chunks():
            frames = outputs.setdefault(record.output, {})
            for i, frame in enumerate(record.frames, record["chunk_index"]):
                assert frames.setdefault(i, frame) == frame, "two chunks have one number"
        for frames in outputs.values():
            assert sorted(frames) == list(range(len(frames))), "a chunk is missing"
        return {output: [frames[i] for i in sorted(frames)] for output, frames in outputs.items()}


def records_of(body: bytes) -> Iterator[Record]:
    request = ExportLogsServiceRequest.FromString(body)
    for resource_logs in request.resource_logs:
        resource = {pair.key: value_of(pair.value) for pair in resource_logs.resource.attributes}
        for scope_logs in resource_logs.scope_logs:
            for record in scope_logs.log_records:
                yield Record(record, resource, len(body))


def wait_until(condition: Callable[[], bool]) -> None:
    """For what no condition variable tells of: processes that end."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.01)
