from __future__ import annotations

import os
import random
import signal
import string
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable

import pytest
from receiver import PATIENCE, TAKEN, Receiver, numbers, rejecting, wait_until

from rawoutput_emitter import Emitter
from rawoutput_emitter.link import environment_of_helper

Make = Callable[..., Emitter]


def generate(emitter: Emitter, request: object, chunks: int, **more: object) -> list[bytes]:
    """Has one output generated, and returns its frames."""
    text, frames = "", []
    for i in range(chunks):
        diff = f"{request}.{i} "
        text += diff
        frames.append(diff.encode())
        emitter.chunk(request, diff, token_ids=[i], text=text, is_final=i == chunks - 1, **more)  # type: ignore[arg-type]
    return frames


def is_running(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_an_output(make: Make, receiver: Receiver, process: bool) -> None:
    emitter = make(process=process, resource={"service.name": "test", "host.name": "here", "odd": "\udcff"})
    before = time.time_ns()
    frames = generate(emitter, 7, 200)
    after = time.time_ns()
    assert emitter.flush(PATIENCE)
    assert receiver.outputs() == {("7", 0): frames}
    assert (emitter.helper_pid is not None) == process
    records = receiver.chunks()
    assert len(records) < 20, "consecutive chunks share records"
    assert b"".join(record["token_ids_diff"] for record in records) == b"".join(i.to_bytes(4, "little") for i in range(200))
    times = [record.time - age * 1000 for record in records for age in numbers(record.get("frame_ages", bytes(4)))]
    assert times == sorted(times) and before - 1000 <= times[0] and times[-1] <= after
    assert records[0]["streaming"] is True and records[-1]["is_final"] is True
    assert records[-1]["text"] == b"".join(frames).decode()
    resource = records[0].resource
    assert (resource["service.name"], resource["host.name"], resource["process.pid"]) == ("test", "here", os.getpid())


def test_a_chunk_leaves_by_itself(make: Make, receiver: Receiver) -> None:
    emitter = make()
    emitter.chunk(7, "a")
    receiver.wait_for(lambda: len(receiver.taken) == 1)
    emitter.chunk(7, "b", is_final=True)
    receiver.wait_for(lambda: len(receiver.taken) == 2)
    emitter.request_end(8, "gone")
    receiver.wait_for(lambda: len(receiver.taken) == 3)


def test_threads(make: Make, receiver: Receiver) -> None:
    emitter = make()
    frames: dict[tuple[object, object], list[bytes]] = {}

    def serve(thread: int) -> None:
        for i in range(50):
            frames[f"{thread}-{i}", 0] = generate(emitter, f"{thread}-{i}", 40)

    threads = [threading.Thread(target=serve, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert emitter.flush(PATIENCE)
    assert emitter.dropped == 0
    assert receiver.outputs() == frames


def test_requests_are_below_2_mib(make: Make, receiver: Receiver) -> None:
    emitter = make(capacity=1 << 20)
    text = "".join(random.Random(1).choices(string.printable, k=400_000))
    for request in range(20):
        emitter.chunk(request, text, text=text, is_final=True)
    assert emitter.flush(PATIENCE)
    assert len(receiver.chunks()) == 20
    assert max(record.size for record in receiver.taken) < 2 << 20
    assert emitter.dropped == 0


def test_a_chunk_that_no_small_request_holds_goes_alone(make: Make, receiver: Receiver) -> None:
    emitter = make()
    text = "x" * (3 << 20)
    emitter.chunk(1, text, text=text)
    emitter.chunk(1, "y", text=text + "y", is_final=True)
    assert emitter.flush(PATIENCE)
    assert receiver.outputs() == {("1", 0): [text.encode(), b"y"]}
    assert len({id(record.resource) for record in receiver.chunks()}) == 2, "two requests"
    assert [record.get("text") for record in receiver.chunks()] == [None, None]


def test_a_helper_that_is_killed(make: Make, receiver: Receiver) -> None:
    """Nothing is lost with it, and what comes twice comes as copies: outputs() would see other cuts."""
    emitter = make()
    started = threading.Event()
    go_on = threading.Event()

    def answer(n: int) -> object:
        if n == 2:  # taken, but the helper does not live to know
            started.set()
            go_on.wait(PATIENCE)
        return TAKEN

    receiver.answer = answer  # type: ignore[assignment]
    frames = generate(emitter, 1, 100)
    receiver.wait_for(lambda: len(receiver.requests) >= 1)
    frames2 = generate(emitter, 2, 100)
    assert started.wait(PATIENCE)
    killed = emitter.helper_pid
    assert killed is not None
    os.kill(killed, signal.SIGKILL)
    go_on.set()
    frames3 = generate(emitter, 3, 100)
    assert emitter.flush(PATIENCE)
    assert emitter.helper_pid != killed
    assert emitter.dropped == 0
    assert receiver.outputs() == {("1", 0): frames, ("2", 0): frames2, ("3", 0): frames3}
    cuts = {}
    for record in receiver.chunks():
        cut = cuts.setdefault((record.output, record["chunk_index"]), len(record.frames))
        assert cut == len(record.frames), "a copy has the same first number and as many chunks"


def test_helpers_that_die_at_once_become_a_thread(make: Make, receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    monkeypatch.setattr("rawoutput_emitter.feeder.DEATH_WAIT", 0.0)
    emitter = make()
    frames = generate(emitter, 1, 10)
    assert emitter.flush(PATIENCE)
    assert emitter.helper_pid is None
    assert receiver.outputs() == {("1", 0): frames}


@pytest.mark.parametrize("executable", ["/no/such/python", ""])
def test_no_process_can_be_started(make: Make, receiver: Receiver, monkeypatch: pytest.MonkeyPatch, executable: str) -> None:
    monkeypatch.setattr(sys, "executable", executable)
    emitter = make()
    frames = generate(emitter, 1, 10)
    assert emitter.flush(PATIENCE)
    assert receiver.outputs() == {("1", 0): frames}


def test_an_outage_is_bounded_and_what_is_lost_is_counted(make: Make, receiver: Receiver, process: bool) -> None:
    emitter = make(process=process, capacity=1000, window=20_000)
    receiver.answer = lambda n: (503, {"Retry-After": "0"}, b"")
    sent = 0
    while emitter.dropped == 0:
        generate(emitter, f"early-{sent}", 100)
        sent += 100
        assert sent < 1_000_000, "it takes no end of chunks"
    feeder = emitter._feeder
    assert feeder is not None and feeder._unacknowledged_bytes < 20_000 + 1000 * 200
    receiver.answer = lambda n: TAKEN
    assert emitter.flush(PATIENCE)
    lost = emitter.dropped
    assert sum(len(record.frames) for record in receiver.chunks()) == sent - lost
    emitter.chunk("late", "x", is_final=True)
    assert emitter.flush(PATIENCE)
    assert receiver.chunks()[-1]["emitter_dropped"] == lost


def test_a_helper_that_hangs(make: Make, receiver: Receiver) -> None:
    """The feeder waits for it in the middle of a piece; the server does not."""
    emitter = make(capacity=1000, window=1 << 30)
    sent = len(generate(emitter, "first", 10))
    assert emitter.flush(PATIENCE)
    helper = emitter.helper_pid
    assert helper is not None
    os.kill(helper, signal.SIGSTOP)
    while emitter.dropped == 0 or sent < 10_000:  # more than the pipe takes
        sent += len(generate(emitter, f"later-{sent}", 100))
    assert not emitter.flush(0)
    os.kill(helper, signal.SIGCONT)
    assert emitter.flush(PATIENCE)
    assert sum(len(record.frames) for record in receiver.chunks()) == sent - emitter.dropped


def test_what_the_receiver_refuses_is_counted(make: Make, receiver: Receiver) -> None:
    emitter = make()
    receiver.answer = lambda n: (400, {}, b"")
    generate(emitter, 1, 10)
    assert emitter.flush(PATIENCE)
    assert emitter.dropped == 10
    receiver.answer = lambda n: rejecting(1)
    generate(emitter, 2, 7)
    assert emitter.flush(PATIENCE)
    assert emitter.dropped == 17


def test_what_cannot_be_delivered_in_time_is_counted(make: Make, receiver: Receiver) -> None:
    emitter = make(retry_limit=0.05)
    receiver.answer = lambda n: (503, {}, b"")
    generate(emitter, 1, 10)
    assert emitter.flush(PATIENCE)
    assert emitter.dropped == 10


def test_trouble_is_logged_at_once_and_not_all_the_time(make: Make, receiver: Receiver, caplog: pytest.LogCaptureFixture) -> None:
    emitter = make()
    receiver.answer = lambda n: (503, {"Retry-After": "0"}, b"") if n < 5 else TAKEN
    generate(emitter, "secret", 10)
    assert emitter.flush(PATIENCE)
    assert caplog.messages == ["nothing is delivered at the moment: HTTP status 503"]
    receiver.answer = lambda n: (400, {}, b"")
    for _ in range(5):
        generate(emitter, "secret", 10)
        assert emitter.flush(PATIENCE)
    assert caplog.messages[1:] == ["records are lost: HTTP status 400"]


def test_a_certificate_that_is_none(make: Make, receiver: Receiver, tmp_path: os.PathLike[str], caplog: pytest.LogCaptureFixture) -> None:
    file = os.path.join(tmp_path, "ca.pem")
    open(file, "w").close()
    emitter = make(endpoint="https://localhost:1/v1/logs", certificate=file)
    generate(emitter, 1, 10)
    assert emitter.flush(PATIENCE)
    assert emitter.dropped == 10
    assert "nothing can be sent" in caplog.text


def test_flush_has_a_time_limit(make: Make, receiver: Receiver) -> None:
    emitter = make()
    receiver.answer = lambda n: (503, {}, b"")
    generate(emitter, 1, 10)
    assert not emitter.flush(0.05)
    receiver.answer = lambda n: TAKEN
    assert emitter.flush(PATIENCE)
    assert len(receiver.outputs()) == 1


def test_shutdown(make: Make, receiver: Receiver, process: bool) -> None:
    emitter = make(process=process)
    frames = generate(emitter, 1, 10)
    assert emitter.shutdown(PATIENCE)
    generate(emitter, 2, 5)
    emitter.request_end(3)
    assert emitter.shutdown(PATIENCE), "twice does no harm"
    assert emitter.dropped == 5
    assert receiver.outputs() == {("1", 0): frames}


def test_no_settings() -> None:
    emitter = Emitter(None)
    generate(emitter, 1, 10)
    emitter.request_end(1)
    assert emitter.flush(0) and emitter.shutdown(0)
    assert not emitter.intake.requests and not emitter.intake.done


def test_nothing_starts_before_the_first_chunk(make: Make) -> None:
    threads = threading.active_count()
    emitter = make()
    assert emitter.flush(0) and emitter.shutdown(0)
    assert threading.active_count() == threads
    assert emitter.helper_pid is None


SERVER = """
    import os, signal, sys, time
    sys.path[:0] = {path!r}
    from rawoutput_emitter import Emitter, Settings
    emitter = Emitter(Settings({endpoint!r}, process={process}))
    emitter.chunk(os.getpid(), "a")
    {then}
"""


def run_server(receiver: Receiver, then: str, process: bool = True) -> subprocess.CompletedProcess[str]:
    """Runs a server that generates one chunk."""
    folder = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    script = textwrap.dedent(SERVER).format(
        path=[folder], endpoint=receiver.endpoint, process=process, then=textwrap.dedent(then)
    )
    ignore = "-Wignore::DeprecationWarning"  # of a fork beside threads, which is what is tested
    return subprocess.run([sys.executable, ignore, "-c", script], capture_output=True, text=True, timeout=PATIENCE, check=False)


def test_exit_flushes(receiver: Receiver, process: bool) -> None:
    done = run_server(receiver, """
emitter.flush(30)
emitter.chunk("at the end", "b")
""", process)
    assert (done.returncode, done.stderr) == (0, "")
    assert len(receiver.chunks()) == 2


def test_exit_does_not_wait_for_ever(receiver: Receiver) -> None:
    receiver.answer = lambda n: (503, {"Retry-After": "100"}, b"")
    done = run_server(receiver, "")
    assert done.returncode == 0


def test_a_server_that_is_killed_leaves_no_helper_and_what_it_handed_over_arrives(receiver: Receiver) -> None:
    receiver.answer = lambda n: (503, {"Retry-After": "0"}, b"") if n < 5 else TAKEN
    done = run_server(receiver, """
for i in range(20_000):  # some batches of the helper
    emitter.chunk(i % 400, "b")
emitter.flush(0)
while not emitter._feeder._flush_seen or emitter._feeder._unsent or not emitter.helper_pid:
    time.sleep(0.01)
print(emitter.helper_pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
""")
    assert done.returncode == -signal.SIGKILL
    receiver.wait_for(lambda: sum(len(record.frames) for record in receiver.chunks()) == 20_001)
    wait_until(lambda: not is_running(int(done.stdout)))


def test_the_helper_goes_with_its_server_though_a_child_of_that_lives(receiver: Receiver) -> None:
    """A child that was forked in C keeps the pipe open."""
    done = run_server(receiver, """
import ctypes
emitter.flush(30)
child = ctypes.PyDLL(None).fork()
if child == 0:
    os.dup2(os.open(os.devnull, os.O_RDWR), 1)
    os.dup2(1, 2)
    time.sleep(60)
    os._exit(0)
print(emitter.helper_pid, child, flush=True)
os._exit(0)
""")
    helper, child = map(int, done.stdout.split())
    try:
        wait_until(lambda: not is_running(helper))
        assert is_running(child)
    finally:
        os.kill(child, signal.SIGKILL)


def test_a_fork_has_an_emitter_of_its_own(receiver: Receiver, process: bool) -> None:
    done = run_server(receiver, """
emitter.flush(30)
emitter.chunk(os.getpid(), "b")
child = os.fork()
emitter.chunk(os.getpid(), "c", is_final=True)
emitter.flush(30)
if child:
    os.waitpid(child, 0)
""", process)
    assert (done.returncode, done.stderr) == (0, "")
    outputs = sorted(receiver.outputs().values())
    assert outputs == [[b"a", b"b", b"c"], [b"c"]]
    assert len({record.resource["service.instance.id"] for record in receiver.chunks()}) == 2
    assert {str(record.resource["process.pid"]) for record in receiver.chunks()} == {output[0] for output in receiver.outputs()}


def test_a_child_of_multiprocessing_flushes_at_its_end(receiver: Receiver) -> None:
    done = run_server(receiver, """
import multiprocessing
def serve():
    emitter.chunk("child", "b", is_final=True)
process = multiprocessing.get_context("fork").Process(target=serve)
process.start()
process.join()
""")
    assert (done.returncode, done.stderr) == (0, "")
    assert ("child", 0) in receiver.outputs()


def test_the_terminal_does_not_end_the_helper(make: Make, receiver: Receiver) -> None:
    emitter = make()
    generate(emitter, 1, 3)
    assert emitter.flush(PATIENCE)
    helper = emitter.helper_pid
    assert helper is not None
    for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        os.kill(helper, signum)
    assert os.getpgid(helper) != os.getpgid(0)
    generate(emitter, 2, 3)
    assert emitter.flush(PATIENCE)
    assert emitter.helper_pid == helper


def test_the_helper_is_no_rank(make: Make, receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMPI_COMM_WORLD_RANK", "1")
    emitter = make()
    generate(emitter, 1, 3)
    assert emitter.flush(PATIENCE)
    with open(f"/proc/{emitter.helper_pid}/environ") as own:
        assert "PATH=" in (environment := own.read()) and "OMPI_" not in environment


def test_variables_of_ranks() -> None:
    environ = {"OMPI_COMM_WORLD_RANK": "1", "PMI_RANK": "1", "PMIX_RANK": "1", "SLURM_PROCID": "1", "PATH": "/bin", "OTEL_X": "1"}
    assert environment_of_helper(environ) == {"PATH": "/bin", "OTEL_X": "1"}
