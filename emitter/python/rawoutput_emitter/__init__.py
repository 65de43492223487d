"""Sends the chunks that a language model generates to an OpenTelemetry Collector, as docs/contract.md has them.

`RawOutputEmitter` is a hook for TensorRT-LLM:

    trtllm-serve <model> --post_processor_hook rawoutput_emitter.RawOutputEmitter

`Emitter` is what is under it, for any other Python server.
"""

from .emitter import Emitter
from .hook import RawOutputEmitter
from .settings import Settings
from .version import VERSION

__all__ = ["Emitter", "RawOutputEmitter", "Settings"]
__version__ = VERSION
