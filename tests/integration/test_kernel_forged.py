"""Code that writes to the kernel's own connection: its cell fails with a sentence, another kernel
takes over, and nothing of it is believed."""

from __future__ import annotations

import json
import queue
import threading

import pytest

from mahtab_tui.kernel.base import KernelState
from mahtab_tui.kernel.values import Display, Status
from tests.integration.kernels import PATIENCE, Cells

# What code can do by itself: write to every socket that it finds.
WRITE = """
import json, os, stat, struct, sys
def sockets():
    for fd in range(3, 1100):
        try:
            if stat.S_ISSOCK(os.fstat(fd).st_mode): yield fd
        except OSError: pass
def write(*datas):
    for fd in sockets():
        for data in datas:
            try: os.write(fd, data)
            except OSError: pass
def frame(body):
    return struct.pack('!I', len(body)) + body.encode()
def guessed(body):
    return struct.pack('!I', len(body)) + os.urandom(16) + body.encode()
"""
DONE = {
    "op": "done",
    "cell": 1,
    "status": "ok",
    "pieces": [["value", "forged"]],
    "changes": [],
    "frames": [],
    "duration": 0.0,
    "cwd": "/forged",
}
FORGED = {
    "a done": DONE,
    "a done with a bad status": {**DONE, "status": "splendid"},
    "a done of no cell": {**DONE, "cell": [1]},
    "a done with nothing in it": {"op": "done"},
    "a ready": {"op": "ready", "python": "3", "executable": "/forged", "cwd": "/forged", "pid": 1},
    "a display with a list": {"op": "call", "id": 1, "name": "display", "args": ["forged"]},
    "a display": {
        "op": "call",
        "id": 1,
        "name": "display",
        "args": {"mime": "text/html", "data": "forged", "text": "forged"},
    },
    "a call": {"op": "call", "id": 1, "name": "input", "args": {"prompt": "forged"}},
    "a call without a name": {"op": "call", "id": {}},
    "a reply": {"op": "reply", "id": 1, "value": "forged"},
    "a reply to a list": {"op": "reply", "id": []},
    "a cancel of an object": {"op": "cancelled", "id": {}},
    "an unknown op": {"op": "forged"},
}


@pytest.mark.timeout(180)
@pytest.mark.parametrize("wrapped", ["frame", "guessed"])
@pytest.mark.parametrize("forged", FORGED.values(), ids=FORGED.keys())
def test_frame_written_by_code_ends_its_cell_with_a_sentence(
    cells: Cells, forged: dict[str, object], wrapped: str
) -> None:
    before = cells.kernel.info().pid
    result = cells.run(f"{WRITE}\nwrite({wrapped}({json.dumps(forged)!r}))")
    assert result.status is Status.DIED
    assert "connection" in result.detail
    assert "forged" not in result.output
    assert cells.host.calls.empty()
    assert cells.host.late.empty()
    assert cells.text("1 + 1") == "2\n"
    info = cells.kernel.info()
    assert info.pid != before
    assert "forged" not in info.cwd


REACH = """
import sys
frame = sys._getframe()
while not hasattr(frame.f_locals.get('self'), '_channel'):
    frame = frame.f_back
channel = frame.f_locals['self']._channel
"""


def test_code_reaching_the_channel_cannot_forge_its_result(cells: Cells) -> None:
    result = cells.run(f"{REACH}\nchannel.send({DONE!r})")
    assert result.status is Status.DIED
    assert "forged" not in result.output
    assert cells.text("1 + 1") == "2\n"


@pytest.mark.timeout(180)
@pytest.mark.parametrize("count", [1, 4, 19])
def test_incomplete_forged_frame_does_not_swallow_kernel_messages(cells: Cells, count: int) -> None:
    result = cells.run(f"{WRITE}\nwrite((struct.pack('!I', 100_000_000) + bytes(100))[:{count}])")
    assert result.status is Status.DIED
    assert cells.text("1 + 1") == "2\n"


@pytest.mark.timeout(180)
def test_frame_written_by_a_thread_between_cells_ends_only_the_kernel(
    cells: Cells,
) -> None:
    cells.run(
        f"{WRITE}\nimport threading, time\ndef later():\n    time.sleep(0.2)\n    write(frame({json.dumps(DONE)!r}))\nthreading.Thread(target=later).start()"
    )
    assert "connection" in cells.host.wait_for_state(KernelState.DEAD)
    assert cells.text("1 + 1") == "2\n"


@pytest.mark.timeout(300)
def test_writing_to_every_descriptor_hangs_no_cell_and_forges_no_record(
    cells: Cells,
) -> None:
    shown: queue.Queue[Display] = queue.Queue()
    fuzz = f"""{WRITE}
import random
chance = random.Random(SEED)
values = [None, True, -1, 1, 10 ** 30, 0.5, '', 'forged', '\\ud800', [], ['forged'], {{}}, {{'forged': []}}, 'ok', 'display', 'input']
keys = ['op', 'id', 'cell', 'status', 'pieces', 'changes', 'frames', 'duration', 'cwd', 'name', 'args', 'value', 'error', 'token']
ops = ['done', 'ready', 'call', 'reply', 'cancelled', 'execute', 'forged']
def data():
    kind = chance.randrange(5)
    if kind == 0: return chance.randbytes(chance.randrange(1, 5_000))
    body = json.dumps({{**{{key: chance.choice(values) for key in chance.sample(keys, chance.randrange(len(keys)))}}, 'op': chance.choice(ops)}})
    if kind == 1: return frame(body)
    if kind == 2: return guessed(body)
    if kind == 3: return struct.pack('!I', chance.choice([0, 1, 2 ** 24, 2 ** 28, 2 ** 32 - 1])) + body.encode()
    return guessed(body)[:chance.randrange(1, 30)]
standard = {{os.fstat(fd).st_ino for fd in (1, 2)}}
for _ in range(chance.randrange(1, 20)):
    for fd in range(3, 1100):
        try:
            if os.fstat(fd).st_ino not in standard: os.write(fd, data())
        except OSError: pass
"""
    ended: queue.Queue[Status] = queue.Queue()

    def run() -> None:
        for seed in range(25):
            result = cells.kernel.execute(
                fuzz.replace("SEED", str(seed)),
                cell=seed + 1,
                on_output=lambda kind, text: None,
                on_display=shown.put,
            )
            assert "forged" not in result.output
            assert not result.displays
            ended.put(result.status)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    assert [ended.get(timeout=PATIENCE) for _ in range(25)] == [Status.DIED] * 25
    thread.join(PATIENCE)
    assert shown.empty()
    assert cells.host.calls.empty()
    assert cells.host.late.empty()
    assert cells.text("1 + 1") == "2\n"


@pytest.mark.timeout(180)
@pytest.mark.parametrize(
    "code",
    [
        "os.closerange(3, 1100)",
        "[os.close(fd) for fd in sockets()]",
        "[os.dup2(os.open('/dev/null', os.O_RDWR), fd) for fd in sockets()]",
        "import socket\n[socket.socket(fileno=os.dup(fd)).shutdown(socket.SHUT_RDWR) for fd in sockets()]",
        "import threading\nthreading.Thread(target=lambda: [os.read(fd, 3) for fd in sockets()], daemon=True).start()\ninput()",
    ],
    ids=["closes all", "closes it", "takes its place", "shuts it down", "reads from it"],
)
def test_connection_closed_by_code_ends_the_kernel_without_a_hang(cells: Cells, code: str) -> None:
    cells.host.answer = lambda name, args: "a line"
    done: queue.Queue[Status] = queue.Queue()

    def run() -> None:
        for source in (f"{WRITE}\n{code}", "1 + 1", "1 + 1", "1 + 1"):
            done.put(cells.run(source).status)

    threading.Thread(target=run, daemon=True).start()
    statuses = [done.get(timeout=PATIENCE) for _ in range(4)]
    assert set(statuses) <= {Status.DIED, Status.OK}
    # The thread that reads may take the bytes of any later cell, but only of one: the next kernel
    # knows nothing of it.
    assert statuses.count(Status.DIED) <= 1
