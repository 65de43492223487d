from __future__ import annotations

import logging
import pickle
import sys
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace

import pytest
from receiver import Receiver

import rawoutput_emitter.emitter
from rawoutput_emitter import RawOutputEmitter
from rawoutput_emitter.hook import _warn_of_no_endpoint, find_emit
from tensorrt_llm.executor import postprocessor_hook
from tensorrt_llm.executor.postprocessor_hook import PostProcessorHookChunk as Chunk

MODULE = "tensorrt_llm.executor.postprocessor_hook"


@pytest.fixture
def hook(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> Iterator[RawOutputEmitter]:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_LOGS_ENDPOINT", receiver.endpoint)
    monkeypatch.setattr(rawoutput_emitter.emitter, "_shared", None)
    one = RawOutputEmitter()
    yield one
    one.shutdown(0.1)


def test_it_passes_on_and_records(hook: RawOutputEmitter, receiver: Receiver) -> None:
    assert hook(Chunk(7, 0, "he", "he", [1], False, False, True, 99)) == postprocessor_hook.emit("he")
    assert hook(Chunk(7, 0, "y", "hey", [2], True, False, True, 99)) == postprocessor_hook.emit("y")
    assert hook.flush(30)
    (record,) = receiver.chunks()
    assert record.frames == [b"he", b"y"]
    assert record["text"] == "hey"
    assert record["disagg_request_id"] == "99"


def test_request_end(hook: RawOutputEmitter, receiver: Receiver) -> None:
    hook(Chunk(7, 1, "he", "he", [1], False, False, True))
    hook.on_request_end(7, "gone")
    assert hook.flush(30)
    assert [record.get("text") for record in receiver.chunks()] == ["he"]
    (end,) = receiver.ends()
    assert end.attributes == {"request_id": "7", "end_reason": "gone", "chunk_counts": [0, 2]}


@pytest.mark.parametrize(
    "changes",
    [
        {"request_id": []}, {"request_id": None}, {"output_index": "x"}, {"text_diff": None}, {"token_ids_diff": None},
        {"token_ids_diff": object()}, {"token_ids_diff": ["a"]}, {"text": object(), "is_final": True}, {"request_id": ""},
        {"request_id": "x" * 257}, {"text_diff": b"bytes"}, {"output_index": 2**70},
    ],
)
def test_no_chunk_makes_it_raise(hook: RawOutputEmitter, receiver: Receiver, changes: dict[str, object], caplog: pytest.LogCaptureFixture) -> None:
    chunk = Chunk(7, 0, "secret", "secret", [1], False, False, True)
    for name, value in changes.items():
        setattr(chunk, name, value)
    assert hook(chunk) == postprocessor_hook.emit(chunk.text_diff)
    hook.on_request_end(chunk.request_id, object())
    hook(Chunk(8, 0, "fine", "fine", [1], True, False, True))
    assert hook.flush(30)
    assert "8" in [record["request_id"] for record in receiver.chunks()], "nothing else is lost with it"
    assert "secret" not in caplog.text


def test_types_of_its_own(hook: RawOutputEmitter, receiver: Receiver) -> None:
    class Text(str):
        pass

    class Number(int):
        pass

    hook(Chunk(Number(7), Number(0), Text("a"), Text("a"), [Number(5)], True, Number(0), Number(1)))
    assert hook.flush(30)
    (record,) = receiver.chunks()
    assert (record["request_id"], record["text_diff"], record["token_ids_diff"]) == ("7", "a", b"\5\0\0\0")


def test_no_endpoint(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.delenv("OTEL_EXPORTER_OTLP_ENDPOINT", raising=False)
    _warn_of_no_endpoint.cache_clear()
    with caplog.at_level(logging.WARNING):
        RawOutputEmitter()
        hook = RawOutputEmitter()
        for _ in range(3):
            assert hook(Chunk(7, 0, "a", "a", [1], True, False, True)) == postprocessor_hook.emit("a")
        hook.on_request_end(7, "")
    assert len(caplog.records) == 1
    assert hook.flush() and hook.shutdown()


def test_hooks_of_one_process_share_an_emitter(hook: RawOutputEmitter) -> None:
    assert RawOutputEmitter().emitter is hook.emitter


def test_it_is_rebuilt_and_not_copied(hook: RawOutputEmitter) -> None:
    assert isinstance(pickle.loads(pickle.dumps(hook)), RawOutputEmitter)


def test_names_of_other_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    older = ModuleType(MODULE)
    older.PostProcVerdict = lambda action, text: SimpleNamespace(action=action, text=text)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, MODULE, older)
    assert vars(find_emit()("a")) == {"action": "emit", "text": "a"}
    newer = ModuleType(MODULE)
    newer.PostProcessorHookVerdict = postprocessor_hook.PostProcessorHookVerdict  # type: ignore[attr-defined]
    newer.PostProcessorHookAction = postprocessor_hook.PostProcessorHookAction  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, MODULE, newer)
    assert find_emit()("a") == postprocessor_hook.emit("a")


def test_a_server_without_the_hook(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, MODULE, ModuleType(MODULE))
    with pytest.raises(ImportError, match="no such hook"):
        RawOutputEmitter()
