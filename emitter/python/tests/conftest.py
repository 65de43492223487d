from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
for folder in (os.path.dirname(HERE), HERE, os.path.join(HERE, "stand_in")):
    sys.path.insert(0, folder)

from receiver import PATIENCE, Receiver  # noqa: E402

from rawoutput_emitter import Emitter, Settings  # noqa: E402


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    one = Receiver()
    yield one
    one.close()


@pytest.fixture(params=["process", "thread"])
def process(request: pytest.FixtureRequest) -> bool:
    """Both ways to send."""
    return request.param == "process"


@pytest.fixture
def make(receiver: Receiver) -> Iterator[Callable[..., Emitter]]:
    """Makes emitters that send to the receiver, and ends them with the test."""
    emitters: list[Emitter] = []

    def new(**changes: object) -> Emitter:
        settings = {"endpoint": receiver.endpoint, "timeout": PATIENCE, **changes}
        emitter = Emitter(Settings(**settings))  # type: ignore[arg-type]
        emitters.append(emitter)
        return emitter

    yield new
    for emitter in emitters:
        emitter.shutdown(0.1)
