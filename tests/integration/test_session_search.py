"""rlm() in a cell, also with functions of that cell as tools."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path
from typing import Any

import pytest

from mahtab_tui.session.kernel_tools import KernelTools, parse_tools
from tests import tags
from tests.agents import COMPLETE, code
from tests.integration.sessions import Opened, OpenSession
from tests.waiting import wait_for

LOG = "log = '\\n'.join(f'line {n}' + (' needle' if n % 1000 == 7 else '') for n in range(6_000))"
HAND_DOWN = {
    "match": "Find the needles",
    "text": "```python\nfound = rlm_map('Count them here', partition(4))\nFINAL(' and '.join(found))\n```",
}
PART = {"match": "Count them here", "text": "five"}


ENDLESS = "```python\nwhile True:\n    pass\n```"

FORM = """
from dataclasses import dataclass
@dataclass
class Needle:
    line: int
"""

DEFINED = """
import os, time
found = []
def note(line: str) -> int:
    "Keep a line, and return how many there are."
    found.append(line)
    print("noted", line[:7])
    return len(found)
def kernel() -> int:
    return os.getpid()
def hang() -> None:
    print("hangs", flush=True)
    while True:
        time.sleep(0.01)
"""

OVER = "while any({!r} in thread.name for thread in __import__('threading').enumerate()): time.sleep(0.01)"


def ask(it: Opened, code: str) -> str:
    return str(it.run(LOG, code).text)


def search_endlessly(it: Opened, first_code: str = LOG) -> str:
    """Start a search whose code never ends, and return the id of its tree."""
    it.run(first_code)
    it.session.submit("python", "rlm('Find the needles', log)")
    return str(it.store.wait(tags.RLM_REPL_IN).tree)


def test_answer_returns_to_the_cell_and_every_event_is_on_the_bus(
    open_session: OpenSession,
) -> None:
    it = open_session(PART, HAND_DOWN)
    assert ask(it, "rlm('Find the needles', log)") == "five and five and five and five\n"
    begin_events = it.store.of(tags.RLM_CALL, event="begin")
    assert [call.node for call in begin_events] == ["1", "1.1", "1.2", "1.3", "1.4"]
    assert begin_events[0].cell == 2
    ends = [call.spans[0][1] for call in begin_events[1:]]
    assert ends[-1] == begin_events[0].chars
    assert [call.spans[0][0] for call in begin_events[1:]] == [0, *ends[:-1]], (
        "the parts are the whole text, in order"
    )
    assert it.store.of(tags.RLM_FINAL)[-1].state == "done"
    assert it.session.spending.total.calls == 5
    assert len({call.seq for call in begin_events}) == 5


def test_documents_and_tables_keep_their_names(open_session: OpenSession) -> None:
    it = open_session("```python\nFINAL(type(context).__name__ + ' ' + ', '.join(context))\n```")
    assert (
        it.run("rlm('Which are there?', {'one.txt': 'a' * 20_000, 'two.txt': 'b' * 20_000})").text
        == "dict one.txt, two.txt\n"
    )


def test_answer_in_a_cell_is_clean_unless_requested_raw(open_session: OpenSession) -> None:
    it = open_session("```python\nFINAL('a' + chr(27) + ']52;c;eA==' + chr(7) + 'b')\n```")
    assert "27" not in ask(it, "[ord(letter) for letter in rlm('Find it', log)]")
    assert "27" in it.run("[ord(letter) for letter in rlm('Find it', log, raw=True)]").text


def test_answer_has_the_type_requested_by_the_cell(open_session: OpenSession) -> None:
    right = {
        "match": r"the answer\[0\]\.line must be an integer",
        "text": "```python\nFINAL([{'line': hit.line} for hit in grep('needle')])\n```",
    }
    it = open_session(right, "```python\nFINAL([{'line': 'seven'}])\n```")
    assert (
        it.run(
            FORM,
            LOG,
            "found = rlm('Find the needles', log, returns=list[Needle])\nfound.value[0], found.state, found.usage.calls, found[:1]",
        ).text
        == "(Needle(line=8), 'answered', 2, '[')\n"
    )
    assert (
        "TypeError: returns: <built-in function len> cannot describe an answer"
        in it.run("rlm('x', log, returns=len)").text
    )
    assert (
        it.run("import pickle; pickle.loads(pickle.dumps(found)).value[-1]").text
        == "Needle(line=5008)\n"
    )


def test_cell_gives_instructions_and_prints_the_turns(open_session: OpenSession) -> None:
    right = {"match": "must be an integer", "text": "```python\nFINAL(7)\n```"}
    it = open_session(right, "```python\nFINAL('a')\n```")
    output = ask(
        it,
        "rlm('Find it', log, returns=int, verbose=True, instructions='A hit is a needle.').value",
    )
    lines = [line.partition(" after")[0] for line in output.splitlines()]
    assert lines == [
        "1 turn 1: FINAL('a') -> final:",
        "1 done",
        "2 turn 1: FINAL(7) -> final:",
        "2 done",
        "7",
    ]
    search = it.session.searches._search
    assert search is not None
    (engine,) = search._trees.values()
    assert engine._text.instructions == "A hit is a needle."


def test_searches_can_be_awaited_and_stopped(open_session: OpenSession) -> None:
    it = open_session(
        {"match": "<search-query>\nfirst\n", "text": "```python\nFINAL(1)\n```"},
        {"match": "<search-query>\nsecond\n", "text": "```python\nFINAL(2)\n```"},
        ENDLESS,
    )
    assert (
        it.run(
            LOG,
            "import asyncio\n[a.value for a in await asyncio.gather(*(arlm(q, log, returns=int) for q in ('first', 'second')))]",
        ).text
        == "[1, 2]\n"
    )
    it.session.submit("python", "await arlm('endless', log)")
    it.store.wait(tags.RLM_CALL, event="begin", cell=3)
    assert it.session.stop() == "cell"
    assert it.store.wait(tags.USER_REPL_OUT, cell=3).attrs["status"] == "interrupted"
    it.store.wait(tags.RLM_FINAL, state="stopped")


def test_a_search_that_is_cancelled_before_it_begins_does_not_begin(
    open_session: OpenSession,
) -> None:
    it = open_session({"match": "<search-query>\n", "text": "```python\nFINAL(1)\n```"})
    code = (
        "import asyncio\n"
        "from concurrent.futures import ThreadPoolExecutor\n"
        "threads = ThreadPoolExecutor(1)\n"
        "asyncio.get_running_loop().set_default_executor(threads)\n"
        "first, second = [asyncio.ensure_future(arlm(q, log)) for q in ('first', 'second')]\n"
        "await asyncio.sleep(0)\n"
        "second.cancel()\n"
        "print(await first)\n"
        "threads.shutdown()\n"
        "second.cancelled()"
    )
    assert it.run(LOG, code).text == "1\nTrue\n"
    (search,) = it.store.of(tags.RLM_CALL, event="begin")
    assert search.text == "first"


def test_a_search_that_is_cancelled_while_it_reads_its_text_does_not_begin(
    open_session: OpenSession,
) -> None:
    it = open_session({"match": "<search-query>\n", "text": "```python\nFINAL(1)\n```"})
    code = (
        "import asyncio, threading\n"
        "from concurrent.futures import ThreadPoolExecutor\n"
        "loop = asyncio.get_running_loop()\n"
        "loop.set_default_executor(ThreadPoolExecutor(1))\n"
        "reads, may_end = asyncio.Event(), threading.Event()\n"
        "class Page:\n"
        "    @property\n"
        "    def page_content(self):\n"
        "        loop.call_soon_threadsafe(reads.set)\n"
        "        may_end.wait()\n"
        "        return 'a page'\n"
        "search = asyncio.ensure_future(arlm('what?', [Page()]))\n"
        "await reads.wait()\n"
        "search.cancel()\n"
        "await asyncio.wait([search])\n"
        "may_end.set()\n"
        "await asyncio.to_thread(int)\n"
        "search.cancelled()"
    )
    assert it.run(code).text == "True\n"
    assert it.store.of(tags.RLM_CALL, event="begin") == []


@pytest.mark.thorough
def test_long_answer_is_complete(open_session: OpenSession) -> None:
    it = open_session("```python\nFINAL((f'{n} é {n}' for n in range(40_000)))\n```")
    assert ask(it, "import json; json.loads(rlm('Find it', log))[-1]") == "'39999 é 39999'\n"


def test_failing_search_raises_a_sentence(open_session: OpenSession) -> None:
    it = open_session({"error": "The model is not at home."})
    code = "try:\n    rlm('Find the needles', log)\nexcept SearchFailed as error:\n    failed = error\n    print(error.tree.state)\n    raise"
    output = ask(it, code)
    assert output.startswith("error\n")
    assert "\nSearchFailed: The model is not at home.\n" in output
    assert (
        it.run(
            "import pickle; isinstance(failed, RuntimeError), pickle.loads(pickle.dumps(failed)).log == failed.log"
        ).text
        == "(True, True)\n"
    )


def test_search_tree_and_log_are_data(open_session: OpenSession) -> None:
    it = open_session(PART, HAND_DOWN)
    assert (
        ask(it, "found = rlm('Find the needles', log)\nprint(found.tree)").count(
            "done: Count them here -> five"
        )
        == 4
    )
    output = it.run(
        "[call.chars for call in found.tree.calls], len(found.log), found.tree.model_calls"
    )
    chars = [call.chars for call in it.store.of(tags.RLM_CALL, event="begin")[1:]]
    logged = len([record for record in it.store.records if record.attrs.get("tree")])
    assert output.text == f"({chars}, {logged}, 5)\n"


def test_several_contexts_have_names_in_a_cell(open_session: OpenSession) -> None:
    it = open_session("```python\nFINAL([contract[:9], mails[1], grep('needle')[0]])\n```")
    output = it.run(
        "found = rlm('Which?', contract='A contract.' * 3000, mails=['one', 'two needles'])\nprint(found)\nfound.spans"
    ).text
    assert '["A contrac", "two needles", "two needles"]' in output
    assert "Span(0, 11, 'mails')" not in output
    assert "Span(4, 15, 'mails')" in output
    assert (
        "There is no option 'modle'; did you mean 'model'?"
        in it.run("rlm('Which?', modle='a text')").text
    )


def test_wrong_limits_and_contexts_give_sentences(open_session: OpenSession) -> None:
    it = open_session()
    assert "max_turns must be at least 1, not 0." in ask(it, "rlm('x', log, max_turns=0)")
    assert "A value of type int cannot be searched" in it.run("rlm('x', 42)").text
    assert "There is no model" in it.run("rlm('x', log, model='no-such')").text


def test_partial_answer_gives_a_notice(open_session: OpenSession) -> None:
    it = open_session(
        {"match": "limit|used up|Answer the query now", "text": "About twenty."},
        "```python\nprint(len(context))\n```",
    )
    assert ask(it, "rlm('Find the needles', log, max_turns=1)") == "About twenty.\n"
    assert it.store.wait(tags.NOTICE).text == "rlm() ran out of turns (1); this answer is partial."


def test_escape_stops_the_cell_and_its_search(open_session: OpenSession) -> None:
    it = open_session(ENDLESS)
    search_endlessly(it)
    assert it.session.stop() == "cell"
    assert it.store.wait(tags.USER_REPL_OUT, cell=2).status == "interrupted"
    assert it.store.wait(tags.RLM_FINAL).state == "stopped"
    assert it.run("6 * 7").text == "42\n"


def test_running_search_leaves_nothing_of_its_text_in_files(
    open_session: OpenSession, tmp_path: Path
) -> None:
    it = open_session(ENDLESS)
    search_endlessly(it, f"import tempfile; tempfile.tempdir = {str(tmp_path)!r}; {LOG}")
    assert list(tmp_path.glob("mahtab-*.txt")) == []
    assert it.session.stop() == "cell"


def test_screen_can_stop_nodes(open_session: OpenSession) -> None:
    it = open_session(ENDLESS)
    tree = search_endlessly(it)
    assert it.session.searches.text(tree, 0, 6) == "line 0"
    it.session.searches.stop(tree, "1")
    assert "stopped" in it.store.wait(tags.USER_REPL_OUT, cell=2).text


def test_answer_becomes_a_new_variable(open_session: OpenSession) -> None:
    it = open_session()
    it.run("answer = 1")
    it.session.searches.make_variable('it is\n"here"')
    assert it.store.wait(tags.USER_REPL_IN, cell=2).text == """answer_2 = 'it is\\n"here"'"""


def test_model_code_can_search_too(open_session: OpenSession) -> None:
    search = code("answer = rlm('Find the needles', log)\nprint(answer)") | {"match": "where are"}
    it = open_session(PART, HAND_DOWN, COMPLETE, search, "Four times five.", approval="auto")
    it.run(LOG)
    it.ask_and_wait("where are the needles in log?")
    assert it.store.wait(tags.ASSISTANT_REPL_OUT).text == "five and five and five and five\n"


# Functions of a cell that its search calls: they run in the kernel.


def opened(open_session: OpenSession, code: str) -> Opened:
    it = open_session(f"```python\n{code}\n```")
    it.run(LOG, DEFINED)
    return it


def test_tools_run_in_the_kernel_and_change_its_variables(open_session: OpenSession) -> None:
    it = opened(open_session, "FINAL([*(note(hit) for hit in grep('needle')), kernel()])")
    output = it.run(
        "answer = rlm('Note the needles', log, tools=[note, kernel], returns=list[int])\nanswer.value == [1, 2, 3, 4, 5, 6, os.getpid()]"
    ).text
    assert output.endswith("True\n")
    assert output.count("noted line") == 6
    assert it.run(f"{OVER.format('tool')}\nfound[1]").text == "'line 1007 needle'\n", (
        "no thread is left"
    )


def test_tool_errors_are_text_and_unusable_tools_give_a_sentence(open_session: OpenSession) -> None:
    it = opened(open_session, "try:\n    note()\nexcept Exception as error:\n    FINAL(error)")
    assert (
        "note failed: TypeError: note() missing 1 required positional argument: 'line'"
        in it.run("rlm('Note', log, tools=[note])").text
    )
    assert "a tool cannot be named '<lambda>'" in it.run("rlm('Note', log, tools=[lambda: 1])").text


def test_interrupting_the_cell_ends_a_hanging_tool(open_session: OpenSession) -> None:
    it = opened(open_session, "hang()")
    it.session.submit("python", "rlm('Hang', log, tools=[hang])")
    it.store.wait(tags.RLM_REPL_IN)
    assert it.session.stop() == "cell"
    it.store.wait(tags.USER_REPL_OUT, cell=3, status="interrupted")
    assert it.store.wait(tags.RLM_FINAL).state == "stopped"
    assert it.run(f"{OVER.format('hang')}\n'over'").text == "'over'\n"


def test_kernel_killed_meanwhile_leaves_no_waiting_calls(open_session: OpenSession) -> None:
    it = opened(open_session, "while True:\n    pass")
    threads_before = set(threading.enumerate())

    def calls() -> int:
        return sum(
            thread.name == "mahtab-call" for thread in set(threading.enumerate()) - threads_before
        )

    it.session.submit("python", "rlm('Wait', log, tools=[kernel])")
    it.store.wait(tags.RLM_REPL_IN)
    wait_for(lambda: calls() == 2)
    pid = it.session.kernel.info().pid
    assert pid
    os.kill(pid, signal.SIGKILL)
    assert it.store.wait(tags.RLM_FINAL).attrs["state"] == "stopped"
    wait_for(lambda: not calls())


def test_messages_of_a_kernel_are_not_trusted() -> None:
    got: list[Any] = []
    tools = KernelTools()
    tools.start(1, "note", ["x"], {}, got.append)
    assert tools.next() == {"call": 1, "name": "note", "args": ["x"], "kwargs": {}}
    tools.done(2, {"value": 1})
    tools.done("1", {"value": 1})
    tools.done([], None)
    assert got == []
    tools.done(1, "no mapping")
    tools.done(1, {"value": 1})
    assert got == [{"error": "The kernel did not answer."}]
    tools.start(2, "note", [], {}, got.append)
    tools.end()
    tools.start(3, "note", [], {}, got.append)
    assert [result["error"] for result in got[1:]] == [
        "The cell that has the function has ended."
    ] * 2
    assert [tools.next() for _ in range(3)][-1] is None
    with pytest.raises(ValueError, match="a search has that name already"):
        parse_tools([("grep", "", "")])
