"""What hooks cost the server: the emitter, one that writes a JSON line for each finished output, as TensorRT-LLM's RawOutputDump
does, and one that makes an OpenTelemetry log record of each chunk. `make bench-emitter` runs it.

A server is imitated: 64 outputs in flight, a chunk for each every 10 ms, 200 chunks an output. Rounds of all hooks alternate,
and the table has the best round of each column, as whatever else the machine does only adds. For each hook, with what any hook
must do (the verdict) in it, in microseconds:

    calls     CPU time of a call, where calls come back to back
    thread    CPU time of the server's thread per call
    process   CPU time of the server's whole process per chunk: its other threads included, the imitated server left out
    median    wall time of a call
    99.9 %    wall time of a call that one in a thousand exceeds
    warm      the same without the first call of each step, which finds the processor's caches full of other things
    final     median wall time of the calls with a final chunk
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from datetime import datetime, timezone
from typing import Any

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.dirname(HERE), os.path.join(os.path.dirname(HERE), "tests", "stand_in")]

from rawoutput_emitter import RawOutputEmitter  # noqa: E402
from tensorrt_llm.executor.postprocessor_hook import PostProcessorHookChunk as Chunk  # noqa: E402
from tensorrt_llm.executor.postprocessor_hook import emit  # noqa: E402

IN_FLIGHT = 64
CHUNKS = 200  # an output
INTERVAL = 0.01  # seconds between two chunks of an output

SINK = """
import socketserver, http.server
class Sink(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()
    def log_message(self, *args): pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Sink)
print(server.server_port, flush=True)
server.serve_forever()
"""


class Nothing:
    """What any hook must do."""

    def __call__(self, chunk: Chunk) -> Any:
        return emit(chunk.text_diff)

    def flush(self) -> None: ...


class WritesFile:
    """The least of RawOutputDump: frames and ids are collected, and a final chunk appends a line to a file."""

    def __init__(self) -> None:
        self._directory = tempfile.mkdtemp()
        self._lock = threading.Lock()
        self._pending: dict[tuple[int, int], dict[str, Any]] = {}

    def __call__(self, chunk: Chunk) -> Any:
        try:
            with self._lock:
                self._record(chunk)
        except Exception:
            pass
        return emit(chunk.text_diff)

    def _record(self, chunk: Chunk) -> None:
        now = datetime.now(timezone.utc)
        key = chunk.request_id, chunk.output_index
        pending = self._pending.get(key)
        if pending is None:
            pending = self._pending[key] = {"started_at": now, "frames": [], "token_ids": []}
        if chunk.text_diff:
            pending["frames"].append(chunk.text_diff)
        pending["token_ids"].extend(chunk.token_ids_diff)
        pending["text"] = chunk.text
        pending["aborted"], pending["streaming"] = chunk.aborted, chunk.streaming
        if chunk.is_final:
            self._write(key, self._pending.pop(key), now)

    def _write(self, key: tuple[int, int], pending: dict[str, Any], now: datetime) -> None:
        record = {
            "event": "raw_output", "request_id": str(key[0]), "disagg_request_id": None, "output_index": key[1],
            **pending, "started_at": pending["started_at"].isoformat(), "finished_at": now.isoformat(),
            "partial": False, "end_reason": None, "frames_consistent": "".join(pending["frames"]) == pending["text"],
            "num_output_tokens": len(pending["token_ids"]),
        }
        line = json.dumps(record, ensure_ascii=False, separators=(",", ":")) + "\n"
        folder = os.path.join(self._directory, now.isoformat()[:13])
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, f"raw-{os.getpid()}.jsonl"), "a", encoding="utf-8") as file:
            file.write(line)

    def flush(self) -> None: ...


class SendsRecords:
    """A log record of the OpenTelemetry SDK for each chunk, with its batching and its exporter."""

    def __init__(self) -> None:
        from opentelemetry._logs import LogRecord
        from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
        from opentelemetry.sdk._logs import LoggerProvider
        from opentelemetry.sdk._logs.export import BatchLogRecordProcessor

        self._provider = LoggerProvider()
        self._provider.add_log_record_processor(BatchLogRecordProcessor(OTLPLogExporter(), max_queue_size=1 << 16))
        self._logger = self._provider.get_logger("benchmark")
        self._record = LogRecord

    def __call__(self, chunk: Chunk) -> Any:
        self._logger.emit(self._record(
            timestamp=time.time_ns(), event_name="raw_output.chunk",
            attributes={
                "raw_output.request_id": chunk.request_id, "raw_output.output_index": chunk.output_index,
                "raw_output.text_diff": chunk.text_diff, "raw_output.token_ids_diff": chunk.token_ids_diff,
                "raw_output.is_final": chunk.is_final, "raw_output.aborted": chunk.aborted, "raw_output.streaming": chunk.streaming,
            },
        ))
        return emit(chunk.text_diff)

    def flush(self) -> None:
        self._provider.force_flush()


def generate() -> list[list[Chunk]]:
    """Returns what is generated, by when it is."""
    texts = [""] * IN_FLIGHT
    steps = []
    for i in range(CHUNKS):
        step = []
        for request in range(IN_FLIGHT):
            diff = f" word{i}"
            texts[request] += diff
            step.append(Chunk(request, 0, diff, texts[request], [1000 + i], i == CHUNKS - 1, False, True))
        steps.append(step)
    return steps


def paced(steps: list[list[Chunk]]) -> Iterator[list[Chunk]]:
    due = time.monotonic()
    for step in steps:
        due += INTERVAL
        time.sleep(max(due - time.monotonic(), 0))
        yield step


def measure_back_to_back(hook: Any, steps: list[list[Chunk]]) -> float:
    """Returns the microseconds of CPU a call where nothing comes between."""
    before = time.thread_time_ns()
    for step in steps:
        for chunk in step:
            hook(chunk)
    took = time.thread_time_ns() - before
    hook.flush()
    return took / 1000 / IN_FLIGHT / CHUNKS


def measure_cpu(hook: Any, steps: list[list[Chunk]]) -> tuple[float, float]:
    """Returns the microseconds a chunk of this thread in the calls, and of the process in all."""
    in_calls = 0
    process = time.process_time_ns()
    for step in paced(steps):
        before = time.thread_time_ns()
        for chunk in step:
            hook(chunk)
        in_calls += time.thread_time_ns() - before
    hook.flush()
    process = time.process_time_ns() - process
    return in_calls / 1000 / IN_FLIGHT / CHUNKS, process / 1000 / IN_FLIGHT / CHUNKS


def measure_calls(hook: Any, steps: list[list[Chunk]]) -> tuple[float, float, float, float]:
    """Returns the microseconds of the median call, of the slowest but one in a thousand, with and without the first of each
    step, and of the median final one."""
    calls = []
    for step in paced(steps):
        for chunk in step:
            before = time.perf_counter_ns()
            hook(chunk)
            calls.append((time.perf_counter_ns() - before) / 1000)
    hook.flush()
    warm = [took for i, took in enumerate(calls) if i % IN_FLIGHT]
    return statistics.median(calls), slowest(calls), slowest(warm), statistics.median(calls[-IN_FLIGHT:])


def slowest(calls: list[float]) -> float:
    """Returns the 99.9th percentile."""
    return sorted(calls)[len(calls) * 999 // 1000]


def run(rounds: int) -> dict[str, list[float]]:
    """Returns the columns of each hook."""
    hooks = {"nothing": Nothing(), "emitter": RawOutputEmitter(), "file": WritesFile(), "opentelemetry-sdk": SendsRecords()}
    results: dict[str, list[list[float]]] = {name: [] for name in hooks}
    steps = generate()
    for _ in range(rounds):
        for name, hook in hooks.items():
            gc.collect()
            results[name].append([measure_back_to_back(hook, steps), *measure_cpu(hook, steps), *measure_calls(hook, steps)])
    best = {name: list(map(min, zip(*rows, strict=True))) for name, rows in results.items()}
    imitation = best["nothing"][2] - best["nothing"][1]
    for columns in best.values():
        columns[2] -= imitation
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    with subprocess.Popen([sys.executable, "-c", SINK], stdout=subprocess.PIPE, text=True) as sink:
        assert sink.stdout is not None
        os.environ["OTEL_EXPORTER_OTLP_ENDPOINT"] = f"http://127.0.0.1:{sink.stdout.readline().strip()}"
        try:
            results = run(rounds)
        finally:
            sink.kill()
    print(f"Python {platform.python_version()}, {rounds} rounds of {IN_FLIGHT} outputs of {CHUNKS} chunks; microseconds")
    print(f"{'hook':<18} {'calls':>8} {'thread':>8} {'process':>8} {'median':>8} {'99.9 %':>8} {'warm':>8} {'final':>8}")
    for name, columns in results.items():
        print(f"{name:<18}", *(f"{column:8.2f}" for column in columns))


if __name__ == "__main__":
    main()
