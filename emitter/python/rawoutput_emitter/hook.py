"""The hook for TensorRT-LLM."""

from __future__ import annotations

import importlib
import logging
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from .emitter import Emitter, shared
from .intake import Taker
from .settings import Settings

logger = logging.getLogger("rawoutput_emitter")

MODULES = ("tensorrt_llm.executor.postprocessor_hook", "tensorrt_llm.executor.post_processor_hook")
HELPERS = ("emit", "emit_text")
VERDICTS = ("PostProcessorHookVerdict", "PostProcVerdict")


class RawOutputEmitter(Taker):
    """Sends what the model generated to an OpenTelemetry Collector, and passes everything on unchanged.

        trtllm-serve <model> --post_processor_hook rawoutput_emitter.RawOutputEmitter

    The standard variables say where to: OTEL_EXPORTER_OTLP_ENDPOINT=http://localhost:4318. Without one it only passes on.
    """

    __slots__ = ("emitter",)

    def __init__(self) -> None:
        self.emitter = _emitter_of_this_process()
        super().__init__(self.emitter.intake, find_emit())

    def on_request_end(self, request_id: Any, reason: Any = "") -> None:
        """Called where a request ends without a final chunk."""
        self.emitter.request_end(request_id, reason)

    def __reduce__(self) -> tuple[type[RawOutputEmitter], tuple[()]]:
        return RawOutputEmitter, ()  # another process builds its own

    def flush(self, timeout: float = 2.0) -> bool:
        """Waits until all that was taken is delivered, or given up."""
        return self.emitter.flush(timeout)

    def shutdown(self, timeout: float = 2.0) -> bool:
        """Flushes, and takes nothing from then on; of all hooks of this process."""
        return self.emitter.shutdown(timeout)


def _emitter_of_this_process() -> Emitter:
    try:
        settings = Settings.from_environment()
        if settings is not None:
            return shared(settings)
        _warn_of_no_endpoint()
    except Exception as error:  # the server must start
        logger.warning("raw outputs are not recorded: %s: %s", type(error).__name__, error)
    return Emitter(None)


@lru_cache  # a server may build a hook for each of many threads
def _warn_of_no_endpoint() -> None:
    logger.warning("raw outputs are not recorded: OTEL_EXPORTER_OTLP_ENDPOINT is not set")


def find_emit() -> Callable[[str], Any]:
    """Returns what says that a text is to be passed on. The hook's interface is a prototype whose names have changed
    before: the helper first, and then the class of which it makes one. An ImportError, where there is neither, ends the
    server when it starts and not with the first request."""
    for module_name in MODULES:
        try:
            module = importlib.import_module(module_name)
        except ImportError:
            continue
        for name in HELPERS:
            helper: Callable[[str], Any] | None = getattr(module, name, None)
            if helper is not None:
                return helper
        for name in VERDICTS:
            verdict: Callable[..., Any] | None = getattr(module, name, None)
            if verdict is not None:
                actions = getattr(module, "PostProcessorHookAction", None)
                action = getattr(actions, "EMIT", "emit")
                return lambda text: verdict(action=action, text=text)
    raise ImportError(f"none of {', '.join(MODULES)} has a way to pass a text on: this TensorRT-LLM has no such hook")
