"""`rlm` from a script, with real sandboxes and prepared answers."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

import mahtab_tui
from mahtab_tui.llm.base import ModelError
from mahtab_tui.search.api import rlm
from mahtab_tui.search.limits import SearchLimits
from mahtab_tui.search.search import Search
from mahtab_tui.worker.rlm.answers import Answer
from mahtab_tui.worker.rlm.contexts import ContextError
from mahtab_tui.worker.rlm.search import SearchFailed
from tests import tags
from tests.integration.scripted_searches import (
    LOG,
    SEARCH,
    python,
    run_program,
    scripted,
    search_by,
)
from tests.recursion_scripts import (
    STOPPED,
    Messages,
    ScriptedModel,
    SearchEvents,
    count_answers,
    is_plain,
    query_of,
    replies,
)
from tests.waiting import wait_for

HOSTILE = "it is\x1b]52;c;aGFybQ==\x07 here\x1b[2J\u202e"
"""Writes the clipboard, clears the screen, and reverses the text after it."""


def test_a_script_gets_an_answer() -> None:
    search_events = SearchEvents()
    answer = mahtab_tui.rlm(
        "how many errors?", LOG, model=scripted(SEARCH), max_depth=2, on_event=search_events.append
    )
    assert answer == answer.value == "20"
    assert (type(answer), answer.state) == (Answer, "answered")
    assert answer.why == "The text was searched by code, in 2 turns."
    assert (answer.usage.calls, len(search_events.begun())) == (6, 5)


@pytest.mark.parametrize(
    ("yes", "answer"), [(False, "60 parts at once were not allowed."), (True, "60")]
)
def test_large_fan_out_runs_only_if_the_script_allows_it(yes: bool, answer: str) -> None:
    code = "try:\n    FINAL(len(rlm_map('count', partition(60))))\nexcept Exception as error:\n    FINAL(str(error)[:34])"
    model = scripted({"what?": python(code), "count": "0"})
    assert rlm("what?", LOG, model=model, yes=yes) == answer


@pytest.mark.thorough
def test_answer_may_be_longer_than_a_sub_answer() -> None:
    pairs = "[(n, n + 1) for n in range(40_000)]"
    search_events = SearchEvents()
    answer = search_by(f"FINAL({pairs})", on_event=search_events.append)
    assert json.loads(answer)[-1] == [39_999, 40_000]
    assert search_events.of(tags.RLM_FINAL)[0].text == answer
    part_code = f"try:\n    FINAL({pairs})\nexcept ValueError as error:\n    FINAL(str(error))"
    script = {"what?": python("FINAL(rlm('part', context[:100_000]))"), "part": python(part_code)}
    assert "and 40,000 is the most" in rlm("what?", LOG, model=scripted(script), max_depth=2)


class Counted(BaseModel):
    errors: int
    first: str


def test_answer_has_the_requested_type() -> None:
    search_events = SearchEvents()
    queries: list[str] = []

    def reply(messages: Messages) -> str:
        queries.append(query_of(messages))
        number = "len(grep('ERROR'))" if "not of that form" in queries[-1] else "'twenty'"
        return python(f"hits = grep('ERROR')\nFINAL({{'errors': {number}, 'first': hits[0]}})")

    model = ScriptedModel(reply=reply)
    answer = rlm("how many?", LOG, model=model, returns=Counted, on_event=search_events.append)
    first_error = LOG.splitlines()[500]
    assert answer.value == Counted(errors=20, first=first_error)
    assert json.loads(answer) == answer.value.model_dump()
    assert (answer.state, answer.usage.calls) == ("answered", 2)
    assert [LOG[start:end] for start, end in answer.spans] == [first_error]
    assert "unable to parse string as an integer" in queries[1]
    assert search_events.begun() == ["1", "2"]


def test_awaited_searches_run_concurrently_and_end_when_cancelled() -> None:
    search_events = SearchEvents()
    both = threading.Barrier(2, timeout=60)

    async def meet(messages: Messages) -> str:
        await asyncio.to_thread(both.wait)
        return python("FINAL(1)")

    async def never(messages: Messages) -> str:
        await asyncio.Event().wait()
        return ""

    def search(reply: Any, **options: Any) -> Awaitable[Answer]:
        return mahtab_tui.arlm("what?", LOG, model=ScriptedModel(reply=reply), **options)

    async def program() -> list[Any]:
        answers = await asyncio.gather(search(meet, returns=int), search(meet, returns=int))
        values = [answer.value for answer in answers]
        endless = asyncio.ensure_future(search(never, on_event=search_events.append))
        while not search_events.calls("turn"):
            await asyncio.sleep(0.01)
        endless.cancel()
        with pytest.raises(asyncio.CancelledError):
            await endless
        return values

    assert asyncio.run(program()) == [1, 1]
    assert search_events.of(tags.RLM_FINAL)[0].attrs["state"] == "stopped"


def test_reading_forty_large_parts_costs_one_call_each() -> None:
    """With rlm_map, each part costs as many calls as its model takes turns."""
    turns = [*(python(f"print({turn})") for turn in range(3)), python("FINAL(0)")]
    pairs = "(f'part {n}', part) for n, part in enumerate(partition(40))"
    script = {
        "map": python("FINAL(len(llm_map('part', partition(40))))"),
        "explore": python("FINAL(len(rlm_map('part', partition(40))))"),
        "each": python(f"FINAL(', '.join(llm_map([{pairs}])[::13]))"),
    }

    def reply(messages: Messages) -> str:
        query = query_of(messages)
        if query in script:
            return script[query]
        return query if is_plain(messages) else turns[count_answers(messages)]

    calls = {}
    for query in script:
        answer = rlm(query, LOG, model=ScriptedModel(reply=reply), small=0, max_depth=2)
        assert answer == ("part 0, part 13, part 26, part 39" if query == "each" else "40")
        calls[query] = answer.usage.calls
    assert calls == {"map": 41, "each": 41, "explore": 161}


def test_rlm_works_inside_a_running_loop() -> None:
    async def program() -> str:
        return rlm("how many errors?", LOG, model=scripted(SEARCH), max_depth=2)

    assert asyncio.run(program()) == "20"


def test_any_kind_of_context_is_accepted(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text(LOG)
    contexts = {"str": LOG.encode(), "list": [LOG, LOG], "dict": {"a": LOG, "b": 2}}
    for kind, context in contexts.items():
        assert search_by("FINAL(type(context).__name__)", text=context) == kind
    assert search_by("FINAL(list(context))", text=tmp_path) == '["a.log"]'
    with pytest.raises(ContextError, match="cannot be searched"):
        search_by(text=5)
    search_events = SearchEvents()
    latin = b"\xff" + LOG.encode()
    answer = search_by("FINAL(len(context))", text=latin, on_event=search_events.append)
    assert answer == str(len(latin))
    assert "were read as Latin-1" in search_events.of(tags.NOTICE)[0].text


def test_partial_answer_gives_a_notice_and_a_missing_one_raises() -> None:
    search_events = SearchEvents()
    code = ["print(1)"] * 2
    assert search_by(*code, max_turns=2, on_event=search_events.append) == "the best there is"
    assert "search did not finish" in search_events.of(tags.NOTICE)[0].text
    with pytest.raises(SearchFailed, match="budget of 1 model call "):
        search_by(*code, max_calls=1)
    with pytest.raises(ModelError, match="There is no model"):
        search_by(model="no such")


def test_answer_cannot_drive_a_terminal_unless_requested_raw() -> None:
    clean = search_by(f"FINAL({HOSTILE!r})")
    assert clean.startswith("it is")
    assert not any(sign in clean for sign in "\x1b\x07\u202e")
    assert search_by(f"FINAL({HOSTILE!r})", raw=True) == HOSTILE

    def refuse(messages: Messages) -> str:
        raise ModelError(HOSTILE)

    with pytest.raises(SearchFailed) as failed:
        search_by(model=ScriptedModel(reply=refuse))
    assert "\x1b" not in str(failed.value)


def test_replayed_models_repeat_the_search_at_any_concurrency(tmp_path: Path) -> None:
    lines = [
        {
            "match": "how many errors",
            "text": python("print(sum(map(int, rlm_map('count', partition(8)))))"),
        },
        {"match": ">\n20\n", "text": python("FINAL('20 errors')")},
        {"match": "count", "text": python("x = llm('read', context[:50])\nprint(x)")},
        {"match": "seen", "text": python("FINAL(len(grep('ERROR')))")},
        {"match": "read", "text": "seen"},
    ]
    path = tmp_path / "answers.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)))

    def events(concurrency: int) -> list[tuple[Any, ...]]:
        search_events = SearchEvents()
        options: dict[str, Any] = {"concurrency": concurrency, "on_event": search_events.append}
        query = "how many errors?"
        model = f"replay:{path}"
        assert rlm(query, LOG, model=model, max_depth=3, **options) == "20 errors"
        event_rows = []
        for record in search_events:
            if record.tag not in (tags.NOTICE, tags.RLM_CHAT_STREAM):
                attrs = {**record.attrs, "tree": "", "seq": 0, "duration": 0}
                event_rows.append((attrs["node"], record.tag, record.text, json.dumps(attrs)))
        return sorted(event_rows)

    first_events = events(1)
    assert len({row[0] for row in first_events}) == 17
    assert events(2) == first_events
    assert events(16) == first_events


@pytest.mark.thorough
def test_sandbox_that_reads_no_answers_is_ended() -> None:
    """Refused calls cost no model call, so their answers could fill the host's memory."""
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
    search_events = SearchEvents()
    answer = search_by(deaf, "FINAL('after')", max_calls=2, yes=True, on_event=search_events.append)
    assert answer.state == "partial"
    assert "it did not read its answers" in search_events.of(tags.RLM_REPL_OUT)[0].text


@pytest.mark.thorough
def test_hostile_frame_from_a_sandbox_blocks_nothing() -> None:
    """Reading it must let other threads run, or no time limit and no Ctrl+C would end the search."""
    body = "b'\"' + b'\\\\\"' * 2_200_000"
    code = f"import os, struct\nbody = {body}\ndata = struct.pack('!I', len(body)) + body\nwhile data:\n    data = data[os.write(3, data):]"
    search = f"search_by({code!r}, 'FINAL(1)', max_seconds=100)"
    program = f"from tests.integration.scripted_searches import search_by\nprint({search})"
    assert run_program(program) == "1\n"


@pytest.mark.parametrize(
    "code",
    [
        "while True: pass",
        "rlm('wait', context[:100])",
        "import time\nwhile True:\n  try: time.sleep(9)\n  except BaseException: pass",
    ],
)
def test_node_with_running_code_can_be_stopped(code: str) -> None:
    search_events = SearchEvents()
    search = Search(search_events.append)
    root = python("a, b = rlm_map('part', partition(2))\nFINAL(a + b)")
    script = replies({"what?": root, "part": python(code)})

    async def reply(messages: Messages) -> str:
        if query_of(messages) == "wait":
            await asyncio.Event().wait()
        return str(script(messages))

    def stop() -> None:
        wait_for(lambda: len(search_events.of(tags.RLM_REPL_IN)) == 3)
        for node in ("1.1", "1.2"):
            search.stop(search_events[0].attrs["tree"], node)

    threading.Thread(target=stop).start()
    model = ScriptedModel(reply=reply)
    try:
        answer = search.run("what?", LOG, model=model, limits=SearchLimits(max_depth=3))
    finally:
        search.close()
    assert answer.text == STOPPED * 2


def test_final_of_the_last_call_is_evaluated() -> None:
    def search(*answers: str) -> Any:
        remaining_answers = list(answers)
        return rlm("what?", LOG, model=lambda messages: remaining_answers.pop(0), max_turns=1)

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
    path = tmp_path / "answers.jsonl"
    path.write_text(json.dumps({"text": python("while True: pass")}))
    program = f"""
import signal
import mahtab_tui
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background ignores it
def on_event(record):
    if record.tag in ("rlm-repl-in", "rlm-final"):
        print(record.tag, record.attrs.get("state"), flush=True)
try:
    mahtab_tui.rlm("what?", "text " * 10_000, model="replay:{path}", on_event=on_event)
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


def test_broken_log_does_not_end_the_search(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    readers = [os.open(path, os.O_RDONLY | os.O_NONBLOCK)]

    def hang_up(record: Any) -> None:
        if record.attrs.get("event") == "turn" and readers:
            os.close(readers.pop())

    options: dict[str, Any] = {"max_depth": 2, "log": path, "on_event": hang_up}
    with pytest.warns(UserWarning, match="pipe is not complete: Broken pipe"):
        assert rlm("how many errors?", LOG, model=scripted(SEARCH), **options) == "20"


@pytest.mark.parametrize(
    ("query", "options", "message"),
    [(" ", {}, "query is empty"), ("what?", {"max_calls": 0}, "max_calls must be at least 1")],
)
def test_invalid_arguments_are_refused(query: str, options: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        rlm(query, LOG, model="demo", **options)


@pytest.mark.parametrize("error", [ZeroDivisionError("by nought"), SystemExit(3)])
def test_failing_on_event_callback_does_not_end_the_search(error: BaseException) -> None:
    called = 0

    def on_event(record: Any) -> None:
        nonlocal called
        called += 1
        raise error

    with pytest.warns(UserWarning, match=f"will not be called again: {type(error).__name__}"):
        assert search_by("FINAL(1)", on_event=on_event) == "1"
    assert called == 1
