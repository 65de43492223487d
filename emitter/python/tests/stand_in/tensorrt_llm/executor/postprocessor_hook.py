"""Stands in for the module of TensorRT-LLM that the hook needs: the same names, and the same kinds of values."""

import enum
from dataclasses import dataclass


class PostProcessorHookAction(enum.Enum):
    EMIT = "emit"


@dataclass
class PostProcessorHookVerdict:
    action: PostProcessorHookAction
    text: str = ""
    reason: "str | None" = None


@dataclass
class PostProcessorHookChunk:
    request_id: int
    output_index: int
    text_diff: str
    text: str
    token_ids_diff: "list[int]"
    is_final: bool
    aborted: bool
    streaming: bool
    disagg_request_id: "int | None" = None


def emit(text: str) -> PostProcessorHookVerdict:
    return PostProcessorHookVerdict(action=PostProcessorHookAction.EMIT, text=text)
