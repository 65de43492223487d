"""Records the stream of an OpenAI-style server: wrap the generator that makes its chunks.

    stream = recorded(emitter, request_id, engine.generate(…))

A chunk is a dict as the server sends it as JSON: {"choices": [{"index": 0, "delta": {"content": "Hel"}, "finish_reason": null}]}.
It is passed on as it is.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from rawoutput_emitter import Emitter


async def recorded(emitter: Emitter, request_id: str, stream: AsyncIterator[dict[str, Any]]) -> AsyncIterator[dict[str, Any]]:
    """Yields the chunks of a stream, and records what was generated in them."""
    open_outputs: set[int] = set()
    reason = "stream ended without a finish reason"
    try:
        async for chunk in stream:
            for choice in chunk["choices"]:
                record(emitter, request_id, choice)
                (open_outputs.discard if choice["finish_reason"] else open_outputs.add)(choice["index"])
            yield chunk
    except GeneratorExit:
        reason = "client disconnected"
        raise
    except BaseException as error:
        reason = type(error).__name__
        raise
    finally:
        if open_outputs:
            emitter.request_end(request_id, reason)


def record(emitter: Emitter, request_id: str, choice: dict[str, Any]) -> None:
    emitter.chunk(
        request_id,
        choice["delta"].get("content") or "",
        output_index=choice["index"],
        token_ids=choice.get("token_ids") or (),
        is_final=choice["finish_reason"] is not None,
    )
