"""A server with the hook, for the end-to-end tests: it does what lines of JSON on its input say, and answers each with a
line. TensorRT-LLM itself is stood in for."""

from __future__ import annotations

import json
import os
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.dirname(HERE), os.path.join(HERE, "stand_in")]

from rawoutput_emitter import RawOutputEmitter  # noqa: E402
from tensorrt_llm.executor.postprocessor_hook import PostProcessorHookChunk, emit  # noqa: E402

FIELDS = ("request_id", "output_index", "text_diff", "text", "token_ids_diff", "is_final", "aborted", "streaming", "disagg_request_id")


class Server:
    def __init__(self) -> None:
        self.hook = RawOutputEmitter()
        self.calls: list[int] = []  # nanoseconds

    def call(self, chunk: PostProcessorHookChunk) -> None:
        before = time.perf_counter_ns()
        verdict = self.hook(chunk)
        self.calls.append(time.perf_counter_ns() - before)
        assert verdict == emit(chunk.text_diff), "what is served must not change"

    def play(self, path: str, flush_each: bool) -> None:
        """Plays a recorded stream."""
        with open(path, encoding="utf-8") as lines:
            for event in map(json.loads, lines):
                if event["type"] == "chunk":
                    self.call(PostProcessorHookChunk(*map(event.get, FIELDS)))
                else:
                    self.hook.on_request_end(event["request_id"], event["reason"])
                if flush_each:
                    self.flush(30)

    def generate(self, prefix: str, outputs: int, chunks: int) -> None:
        """Generates outputs, all in flight at once."""
        texts = [""] * outputs
        for i in range(chunks):
            for output in range(outputs):
                diff = f"{prefix}-{output}.{i} "
                texts[output] += diff
                self.call(PostProcessorHookChunk(
                    f"{prefix}-{output}", 0, diff, texts[output], [i], i == chunks - 1, False, True  # type: ignore[arg-type]
                ))

    def flush(self, timeout: float) -> bool:
        return self.hook.flush(timeout)

    def report(self) -> dict[str, object]:
        calls = sorted(self.calls)
        emitter = self.hook.emitter
        return {
            "calls": len(calls),
            "median_ns": calls[len(calls) // 2],
            "p999_ns": calls[len(calls) * 999 // 1000],
            "dropped": emitter.dropped,
            "helper_pid": emitter.helper_pid,
            "memory": resident(os.getpid()) + (resident(emitter.helper_pid) if emitter.helper_pid else 0),
        }


def resident(pid: int) -> int:
    """Returns the bytes of memory that a process has, where /proc tells."""
    try:
        with open(f"/proc/{pid}/statm") as statm:
            return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def main() -> None:
    server = Server()
    for line in sys.stdin:
        command = json.loads(line)
        answer = getattr(server, command.pop("do"))(**command)
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
