"""Searches from a script that are stopped, interrupted or attacked from their sandbox."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from mahtab_tui.search.api import rlm
from mahtab_tui.search.limits import Limits
from mahtab_tui.search.search import Search
from tests import tags
from tests.integration.scripted_searches import LOG, SEARCH, python, scripted
from tests.recursion_scripts import ScriptedModel, Story, replies
from tests.waiting import wait_for


def test_listener_raising_system_exit_ends_nothing() -> None:
    def leave(record: Any) -> None:
        sys.exit(3)

    with pytest.warns(UserWarning, match="on_event failed"):
        assert (
            rlm("what?", LOG, model=scripted({"what?": python("FINAL(1)")}), on_event=leave) == "1"
        )


def test_sandbox_that_reads_no_answers_is_ended() -> None:
    """Calls that come to nothing cost no model call: their answers would pile up in the memory of
    the host."""
    deaf = """
import gc
for thing in gc.get_objects():
    if type(thing).__name__ == "EngineConnection":
        talk = thing
talk._lock.acquire()  # its reader waits from the first answer on
for number in range(1, 200):
    talk._channel.send({"op": "call", "id": number, "name": "rlm", "args": {"query": "q", "parts": [{"span": [0, 9]}] * 5000, "map": True}})
import time
time.sleep(20)
"""
    story = Story()
    script = {"what?": [python(deaf), python("FINAL('after')")]}
    search = Search(story.append)
    try:
        answer = search.run(
            "what?", LOG, model=scripted(script), limits=Limits(max_calls=2), asking="run"
        )
    finally:
        search.close()
    assert answer.state == "partial"
    assert "it did not read its answers" in story.of(tags.RLM_REPL_OUT)[0].text


def test_hostile_frame_from_a_sandbox_blocks_nothing() -> None:
    """Reading it must not keep the other threads from running: then no limit of time and no Ctrl+C
    would end the search."""
    body = "b'\"' + b'\\\\\"' * 2_200_000"
    code = f"import os, struct\nbody = {body}\ndata = struct.pack('!I', len(body)) + body\nwhile data:\n    data = data[os.write(3, data):]"
    program = (
        "from mahtab_tui import rlm\nfrom tests.integration.scripted_searches import LOG, python, scripted\n"
        f"code = {code!r}\nprint(rlm('what?', LOG, model=scripted({{'what?': [python(code), python('FINAL(1)')]}}), max_seconds=100))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=Path(__file__).parents[2],
    )
    assert (done.stdout, done.returncode) == ("1\n", 0), done.stderr


def test_endless_code_is_stopped_and_the_search_continues() -> None:
    story = Story()
    search = Search(story.append)
    script = {
        "what?": [
            python("import re\nx = 1\nprint(re.match('(a+)+b', 'a' * 60))"),
            python("FINAL(len(context))"),
        ]
    }
    try:
        answer = search.run("what?", LOG, model=scripted(script), limits=Limits(turn_seconds=0.3))
    finally:
        search.close()
    assert answer.text == str(len(LOG))
    assert story.of(tags.RLM_REPL_OUT)[0].attrs["status"] in ("timed out", "killed")


@pytest.mark.parametrize(
    "code",
    [
        "while True: pass",
        "rlm('wait', context[:100])",
        "import time\nwhile True:\n  try: time.sleep(9)\n  except BaseException: pass",
    ],
)
def test_node_with_running_code_can_be_stopped(code: str) -> None:
    story = Story()
    search = Search(story.append)
    script = {
        "what?": python("a, b = rlm_map('part', partition(2))\nFINAL(a + b)"),
        "part": python(code),
    }

    async def reply(messages: Any) -> str:
        if "part" not in str(messages[1].content) and "what?" not in str(messages[1].content):
            await asyncio.Event().wait()
        return str(replies(script)(messages))

    def stop() -> None:
        wait_for(lambda: len(story.of(tags.RLM_REPL_IN)) == 3)
        for node in ("1.1", "1.2"):
            search.stop(story[0].attrs["tree"], node)

    threading.Thread(target=stop).start()
    try:
        answer = search.run(
            "what?", LOG, model=ScriptedModel(reply=reply), limits=Limits(max_depth=3)
        )
    finally:
        search.close()
    assert answer.text == "[failed: The call was stopped.]" * 2


def test_final_of_the_last_call_is_evaluated() -> None:
    def search(*answers: str) -> Any:
        left = list(answers)
        return rlm("what?", LOG, model=lambda messages: left.pop(0), max_turns=1)

    count = python("n = len(grep('ERROR', max_matches=None))\nprint('found', n)")
    answer = search(count, "So:\n" + python("FINAL([n, 'errors'])"))
    assert (answer, answer.state) == ('[20, "errors"]', "partial")
    assert answer.why == "rlm() ran out of turns (1)."
    assert search(count, "So:\n" + python("FINAL(m)")) == "So:"
    answer = search(count, python("FINAL(m)"))
    assert "Printed by its code:\nfound 20\nTraceback" in answer
    assert search("I would count them.", python("FINAL(m)")).endswith(
        "Written by its model:\nI would count them."
    )


def test_ctrl_c_stops_the_search(tmp_path: Path) -> None:
    """In a program of its own, which is interrupted while its code runs in the sandbox."""
    path = tmp_path / "answers.jsonl"
    path.write_text(json.dumps({"text": python("while True: pass")}))
    program = f"""
import signal
import mahtab_tui
signal.signal(signal.SIGINT, signal.default_int_handler)  # it is ignored where the tests run in the background of a shell
def told(record):
    if record.tag in ("rlm-repl-in", "rlm-final"):
        print(record.tag, record.attrs.get("state"), flush=True)
try:
    mahtab_tui.rlm("what?", "text " * 10_000, model="replay:{path}", on_event=told)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "rlm-repl-in None\n"
        child.send_signal(signal.SIGINT)
        assert child.stdout.read() == "rlm-final stopped\ninterrupted\n"
    assert child.returncode == 0


def test_failing_on_event_callback_does_not_end_the_search() -> None:
    called = 0

    def on_event(record: Any) -> None:
        nonlocal called
        called += 1
        raise ZeroDivisionError("by nought")

    with pytest.warns(
        UserWarning, match="on_event failed and will not be called again: ZeroDivisionError"
    ):
        assert (
            rlm("how many errors?", LOG, model=scripted(SEARCH), max_depth=2, on_event=on_event)
            == "20"
        )
    assert called == 1


def test_broken_log_does_not_end_the_search(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    readers = [os.open(path, os.O_RDONLY | os.O_NONBLOCK)]

    def hang_up(record: Any) -> None:
        if record.attrs.get("event") == "turn" and readers:
            os.close(readers.pop())

    with pytest.warns(UserWarning, match="pipe is not complete: Broken pipe"):
        assert (
            rlm(
                "how many errors?",
                LOG,
                model=scripted(SEARCH),
                max_depth=2,
                log=path,
                on_event=hang_up,
            )
            == "20"
        )


def test_log_does_not_overwrite_the_searched_text(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    path.write_text(LOG)
    with pytest.raises(FileExistsError):
        rlm("how many errors?", path, model=scripted(SEARCH), max_depth=2, log=path)
    assert path.read_text() == LOG
