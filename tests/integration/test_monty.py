"""The sandbox for systems that cannot lock a process down."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from mahtab_tui.sandbox.base import CallRefusedError, Sandbox, SandboxError
from mahtab_tui.sandbox.monty import MODULES, UNSUPPORTED_FEATURES, MontySandboxes
from mahtab_tui.sandbox.process import open_sandboxes
from mahtab_tui.sandbox.searched_text import SearchedText
from mahtab_tui.worker.rlm.contexts import read_contexts
from mahtab_tui.worker.sandbox import confinement
from mahtab_tui.worker.sandbox.caller_tools import DescribedTool
from tests.integration.canaries import Canaries, canaries
from tests.integration.escapes import ESCAPES, Escape, some_quick
from tests.integration.sandboxes import RecordingNode, never, printed, run
from tests.integration.test_sandbox_snippets import SNIPPETS, Snippet, play
from tests.waiting import alive, descendants, ticks, wait_for

RUNS = """\
look at the text first
counter of log levels
comprehension of every kind
f-strings with formats
a frozen dataclass as a key
closures and nonlocal
recursion with a cache
default dictionaries
tools for iteration
percentiles with bisect
events for each minute
random with a seed
match statement (3.10)
sorting by several keys
functions with every kind of argument
sets of ids
dictionaries put together
a small state machine over lines
the last expression is shown
one sub-call, and a plain one
unicode
an error is caught and the work goes on
a bare except does not lose the answer
assertions and sanity checks
a little index of words
slices by place, with their surroundings
sliding windows over lines
""".splitlines()

HOST = """
import asyncio
from mahtab_tui.sandbox import monty
from mahtab_tui.sandbox.base import SearchedText

monty.MAX_TURN_S = 10.0

class Node:
    def send(self, name, args): ...

async def main():
    sandbox = await monty.MontySandboxes().start(SearchedText.root("a"), Node())
    print("started", flush=True)
    await sandbox.run("while True: pass", 1000)

asyncio.run(main())
"""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sandboxes() -> AsyncIterator[MontySandboxes]:
    opened_sandboxes = MontySandboxes()
    yield opened_sandboxes
    await opened_sandboxes.close()


@pytest.fixture
def canary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Canaries]:
    with canaries(tmp_path) as created_canary:
        monkeypatch.setenv("CANARY", created_canary.token)
        yield created_canary


pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.mark.parametrize(
    "snippet",
    [candidate for candidate in SNIPPETS if candidate.name in RUNS],
    ids=lambda candidate: candidate.name,
)
async def test_ordinary_python_subset_runs(sandboxes: MontySandboxes, snippet: Snippet) -> None:
    assert await play(sandboxes, snippet) == snippet.prints


async def test_modules_named_in_the_prompt_exist(sandbox: Sandbox) -> None:
    assert await printed(sandbox, f"import {', '.join(MODULES)}") == ""


@pytest.mark.parametrize(
    ("code", "gap"),
    [
        ("def f():\n    yield 1", "yield"),
        ("x = [1]\ndel x[0]", "del"),
        ("class A(Exception):\n    pass", "inheritance"),
        ("class A:\n    @property\n    def x(self):\n        return 1", "property"),
        ("import threading", "threads"),
        ("import statistics", "only modules"),
        ("from collections import OrderedDict", "OrderedDict"),
        ("from dataclasses import asdict", "asdict"),
        ("import re\nre.sub('a', lambda m: 'b', 'a')", "re.sub"),
        ("peek(1).start", ".start"),
        ("rlm('q', 'x').failed", ".failed"),
        ("list(map(lambda part: rlm('q', part), ['a']))", "map()"),
    ],
)
async def test_features_called_missing_in_the_prompt_are_missing(
    sandbox: Sandbox, code: str, gap: str
) -> None:
    assert gap in UNSUPPORTED_FEATURES
    assert (await run(sandbox, code)).status == "error"


@pytest.mark.sample(30)
@pytest.mark.parametrize("escape", some_quick(ESCAPES))
async def test_no_escape_attempt_succeeds(
    escape: Escape, sandboxes: MontySandboxes, canary: Canaries, capfd: pytest.CaptureFixture[str]
) -> None:
    node = RecordingNode()
    sandbox = await sandboxes.start(SearchedText.root("text"), node)
    result = await run(sandbox, canary.prelude() + escape.code, escape.seconds)
    # A traceback shows the code itself, which may contain a canary's name.
    output = f"{result.output} {node.calls} {node.notifications}".replace(escape.code, "")
    assert canary.dead(output, None) == [], result
    assert "canary-" not in output
    assert "TERMINAL" not in "".join(capfd.readouterr())
    await sandbox.close()


async def test_output_variables_and_errors(sandbox: Sandbox) -> None:
    assert await printed(sandbox, "x = 3\nprint('a')\nx") == "a\n3\n"
    failed = await run(sandbox, "y = 4\nx / 0")
    assert failed.status == "error"
    assert 'File "<turn-2>", line 2' in failed.output
    assert "ZeroDivisionError" in failed.output
    assert await printed(sandbox, "print(x, y)") == "3 4\n"
    assert "SyntaxError" in (await run(sandbox, "x = (")).output
    assert "NameError: name 'unknown' is not defined" in (await run(sandbox, "unknown(1)")).output
    long = await run(sandbox, "print('x' * 50_000)")
    assert long.chars == 50_001
    assert len(long.output) < 10_000


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("list", ["one\n", "two\n"]), ("dict", {"a.txt": "one\n", "b.txt": "two\n"})],
)
async def test_documents_arrive_as_lists_and_dicts(
    sandboxes: MontySandboxes, node: RecordingNode, kind: Any, expected: object
) -> None:
    parts = (("a.txt", 0, 4), ("b.txt", 5, 9))
    sandbox = await sandboxes.start(SearchedText.root("one\n\ntwo\n", kind=kind, parts=parts), node)
    assert await printed(sandbox, "context") == f"{expected!r}\n"
    await sandbox.close()


async def test_contexts_have_names_and_tools_are_called(
    sandboxes: MontySandboxes, node: RecordingNode
) -> None:
    async def answer(name: str, args: dict[str, Any]) -> Any:
        return {"value": None if args["args"] == [0] else [name, args]}

    node.answer = answer
    text = SearchedText.of(
        read_contexts(None, {"contract": "one", "mails": ["two", "three"]}, {}, ())
    )
    price = DescribedTool("price", "(n)", "Return a price.")
    sandbox = await sandboxes.start(text, node, tools=[price])
    output = await printed(sandbox, "contract, mails, sorted(context)")
    assert output == "('one', ['two', 'three'], ['contract', 'mails'])\n"
    sent = await printed(sandbox, "price(1, tax=True)")
    assert sent == "['tool', {'name': 'price', 'args': [1], 'kwargs': {'tax': True}}]\n"
    assert await printed(sandbox, "print(price(0))") == "None\n"
    assert "only plain data" in (await run(sandbox, "price(len)")).output.lower()
    await sandbox.close()


async def test_grep_finds_lines(sandboxes: MontySandboxes, node: RecordingNode) -> None:
    text = "a\nERROR one\nb\nb\nERROR two\nc\n"
    sandbox = await sandboxes.start(SearchedText.root(text), node)
    assert await printed(sandbox, "grep('ERROR')") == "['ERROR one', 'ERROR two']\n"
    expected_output = "['a\\nERROR one\\nb\\nb\\nERROR two\\nc']\n"
    assert await printed(sandbox, "grep('(?i)error', 1)") == expected_output
    assert "stopped at max_matches=1" in await printed(sandbox, "grep('ERROR', max_matches=1)")
    assert "is not a regular expression" in (await run(sandbox, "grep('(')")).output
    assert await printed(sandbox, "grep('zzz')") == "[]\n"
    await sandbox.close()


async def test_sub_calls_send_spans_and_receive_answers(
    sandbox: Sandbox, node: RecordingNode
) -> None:
    code = "[rlm('who?', peek(3)), llm('why?'), rlm_map('when?', partition(2))]"
    assert await printed(sandbox, code) == "['who?', 'why?', ['when?', 'when?']]\n"
    assert [name for name, _ in node.calls] == ["rlm", "llm", "rlm"]
    parts = [{"text": "one\ntwo\n"}, {"text": "three\n"}]
    assert node.calls[2][1] == {"query": "when?", "parts": parts, "map": True}


async def test_refused_call_is_an_exception_in_the_code(
    sandbox: Sandbox, node: RecordingNode
) -> None:
    async def refuse(name: str, args: dict[str, Any]) -> Any:
        raise CallRefusedError("The budget is used up.")

    node.answer = refuse
    assert "RuntimeError: The budget is used up." in (await run(sandbox, "rlm('q', 'x')")).output
    code = "try:\n    rlm('q', 'x')\nexcept Exception as error:\n    print(error)"
    assert await printed(sandbox, code) == "The budget is used up.\n"
    assert "missing a required argument: 'subset'" in (await run(sandbox, "rlm('q')")).output


async def test_final_ends_the_turn_at_once_whatever_the_code_catches(
    sandbox: Sandbox, node: RecordingNode
) -> None:
    result = await run(sandbox, "try:\n    FINAL({'n': 1})\nexcept:\n    pass\nprint('after')")
    assert (result.status, result.output) == ("final", "")
    assert node.finals == ['{"n": 1}']
    refused = await run(sandbox, "FINAL('x' * 40_001)")
    assert refused.status == "error"
    assert "40,001 characters" in refused.output


@pytest.mark.parametrize("code", ["pass", "peek(1)"])
async def test_overlong_code_is_killed_and_the_next_turn_has_the_text(
    sandbox: Sandbox, code: str
) -> None:
    async with asyncio.timeout(30):
        assert (await run(sandbox, f"x = 1\nwhile True:\n    {code}", 0.3)).status == "killed"
    assert "NameError" in (await run(sandbox, "x")).output
    assert await printed(sandbox, "len(context)") == "14\n"


async def test_waiting_for_a_sub_call_does_not_count_as_running(
    sandbox: Sandbox, node: RecordingNode
) -> None:
    release = asyncio.Event()

    async def slow(name: str, args: dict[str, Any]) -> Any:
        await release.wait()
        return {"answers": [{"text": "late", "failed": False}]}

    node.answer = slow
    turn = asyncio.create_task(sandbox.run("rlm('q', 'x')", 0.5))
    await node.waiting.wait()
    assert not (await asyncio.wait([turn], timeout=1))[0]
    release.set()
    assert (await turn).output == "'late'\n"


async def test_cancelling_a_turn_cancels_its_calls(sandbox: Sandbox, node: RecordingNode) -> None:
    node.answer = never
    turn = asyncio.create_task(run(sandbox, "rlm('q', 'x')"))
    await node.waiting.wait()
    turn.cancel()
    with pytest.raises(asyncio.CancelledError):
        await turn
    assert await printed(sandbox, "1 + 1") == "2\n"
    assert node.cancelled == ["rlm"]


async def test_memory_is_limited(sandbox: Sandbox) -> None:
    assert "MemoryError" in (await run(sandbox, "x = 'a' * 10**10")).output
    assert (await run(sandbox, "1")).status in ("ok", "error")


async def test_many_nodes_may_wait_for_each_other(sandboxes: MontySandboxes) -> None:
    nodes = [RecordingNode() for _ in range(30)]
    for waiting in nodes:
        waiting.answer = never
    started_sandboxes = await asyncio.gather(
        *(sandboxes.start(SearchedText.root("x"), waiting) for waiting in nodes)
    )
    turns = [
        asyncio.create_task(run(started_sandbox, "rlm('q', 'x')"))
        for started_sandbox in started_sandboxes
    ]
    await asyncio.gather(*(waiting.waiting.wait() for waiting in nodes))
    for started_sandbox in started_sandboxes:
        await started_sandbox.close()
    assert {result.status for result in await asyncio.gather(*turns)} == {"killed"}


async def test_help_explains_how_to_call_a_name(sandbox: Sandbox) -> None:
    assert "Cut the text into at most n parts" in await printed(sandbox, "help(partition)")
    assert re.search(r"There is help for: .*grep.*rlm_map", await printed(sandbox, "help()"))


async def test_names_used_by_other_programs_cannot_reach_the_host(
    sandbox: Sandbox, node: RecordingNode
) -> None:
    code = "print(llm_query('q'), llm_map('q', ['a', 'b']), llm_map([('p', 'a')]))"
    assert await printed(sandbox, code) == "q ['q', 'q'] ['p']\n"
    assert "Call FINAL(asyncio)" in (await run(sandbox, "FINAL_VAR('asyncio')")).output
    assert node.finals == []
    await run(sandbox, "found = 42\nFINAL_VAR(found)")
    assert node.finals == ["42"]


async def test_monty_replaces_the_process_sandbox_where_it_is_unavailable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(confinement, "missing_support", lambda: "its kernel has no Landlock")
    assert isinstance(open_sandboxes(), MontySandboxes)
    monkeypatch.setattr("mahtab_tui.sandbox.process.find_spec", lambda name: None)
    with pytest.raises(
        SandboxError, match=r"its kernel has no Landlock. Install .* pip install pydantic-monty"
    ):
        open_sandboxes()


async def test_process_of_a_killed_host_ends() -> None:
    pipe = asyncio.subprocess.PIPE
    host = await asyncio.create_subprocess_exec(sys.executable, "-c", HOST, stdout=pipe)
    assert host.stdout is not None
    assert await host.stdout.readline() == b"started\n"
    process = 0

    def works() -> bool:
        nonlocal process
        with contextlib.suppress(FileNotFoundError):  # another process, which has ended
            for process in descendants(host.pid):
                if ticks(process) > 30:
                    return True
        return False

    try:
        wait_for(works)
        host.kill()
        await host.wait()
        wait_for(lambda: not alive(process), 30)
    finally:
        if process and alive(process):
            os.kill(process, signal.SIGKILL)
