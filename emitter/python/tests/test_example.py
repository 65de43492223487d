from __future__ import annotations

import asyncio
import importlib.util
import os
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from receiver import PATIENCE, Receiver

from rawoutput_emitter import Emitter

PATH = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "examples", "openai_stream.py")


@pytest.fixture
def example() -> Any:
    spec = importlib.util.spec_from_file_location("openai_stream", PATH)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def chunk(text: str | None, index: int = 0, finish: str | None = None) -> dict[str, Any]:
    return {"choices": [{"index": index, "delta": {"content": text} if text else {}, "finish_reason": finish}]}


async def stream(*chunks: dict[str, Any], fail: bool = False) -> AsyncIterator[dict[str, Any]]:
    for one in chunks:
        yield one
    if fail:
        raise TimeoutError


def test_a_whole_stream(make: Callable[..., Emitter], receiver: Receiver, example: Any) -> None:
    emitter = make()
    chunks = [chunk("Hel"), chunk("Hi", 1), chunk("lo"), chunk(None, 1, "stop"), chunk("!", 0, "stop")]

    async def serve() -> list[Any]:
        return [one async for one in example.recorded(emitter, "r", stream(*chunks))]

    assert asyncio.run(serve()) == chunks
    assert emitter.flush(PATIENCE)
    assert receiver.outputs() == {("r", 0): [b"Hel", b"lo", b"!"], ("r", 1): [b"Hi", b""]}
    assert not receiver.ends()


def test_a_client_that_goes_away(make: Callable[..., Emitter], receiver: Receiver, example: Any) -> None:
    emitter = make()

    async def serve() -> None:
        recorded = example.recorded(emitter, "r", stream(chunk("Hel"), chunk("lo")))
        await anext(recorded)
        await recorded.aclose()

    asyncio.run(serve())
    assert emitter.flush(PATIENCE)
    assert [end["end_reason"] for end in receiver.ends()] == ["client disconnected"]


def test_a_stream_that_fails(make: Callable[..., Emitter], receiver: Receiver, example: Any) -> None:
    emitter = make()

    async def serve() -> None:
        with pytest.raises(TimeoutError):
            async for _ in example.recorded(emitter, "r", stream(chunk("Hel"), fail=True)):
                pass

    asyncio.run(serve())
    assert emitter.flush(PATIENCE)
    assert [end["end_reason"] for end in receiver.ends()] == ["TimeoutError"]
