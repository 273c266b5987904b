"""A session without a screen, on a real kernel and a replayed model."""

from __future__ import annotations

import json
import logging
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from queue import Queue
from typing import Any, cast

import pytest
from langchain_core.messages import BaseMessage

from mahtab_tui.agent.repl_agent import ReplAgent
from mahtab_tui.bus import records
from mahtab_tui.bus.entries import Cell, Note
from mahtab_tui.bus.hidden_entries import HiddenEntries
from mahtab_tui.bus.prompt import PromptHandler
from mahtab_tui.bus.records import Record, get_record
from mahtab_tui.bus.values import Change, Variable
from mahtab_tui.kernel.base import KernelError
from mahtab_tui.kernel.bounded_cell import BoundedCell
from mahtab_tui.kernel.process import ProcessKernel
from mahtab_tui.kernel.values import CellResult
from mahtab_tui.knowledge.code import CodeSearcher, Matches
from mahtab_tui.llm.base import ModelError
from mahtab_tui.llm.scripted import ChatReplay
from mahtab_tui.session import Session
from mahtab_tui.session.frontend import HeadlessFrontend
from mahtab_tui.session.kernel import process_kernel
from mahtab_tui.settings.model import load_settings
from mahtab_tui.store import resume
from mahtab_tui.store.forks import fork
from mahtab_tui.store.resume import database, find_session, new_store, resumed_store
from mahtab_tui.store.saved_namespace import save_target
from mahtab_tui.store.sqlite import ALL_RECORDS, SqliteStore, load_records
from mahtab_tui.system import start_thread
from mahtab_tui.tui.transcript.fold import Transcript
from tests import tags
from tests.agents import COMPLETE, code
from tests.integration.kernels import Cells
from tests.integration.sessions import DEADLINE, Opened, OpenSession
from tests.records import made
from tests.skills import trust_skills, write_skill
from tests.waiting import wait_for

CODE = code("made = 6 * 7\nprint(made)")

TWICE = code("items.append(2)", "items.append(3)")


def test_cells_run_in_order_and_changes_are_reported(open_session: OpenSession) -> None:
    it = open_session()
    assert it.run("x = 1", "x + 1").text == "2\n"
    changes = it.store.wait(tags.NAMESPACE, cell=1).changes
    (change,) = changes
    assert change.value_number is not None
    added = Change("x", "added", Variable("x", "int", "1", "data"))
    assert replace(change, value_number=None) == added
    it.session.submit("python", "x = 'one'")
    (change,) = it.store.wait(tags.NAMESPACE, cell=3).changes
    assert change.variable == Variable("x", "str", "'one'", "data")
    assert change.before == Variable("x", "int", "1", "data")


def test_a_question_runs_code_after_approval_and_shares_the_namespace(
    open_session: OpenSession,
) -> None:
    it = open_session(CODE, COMPLETE, "It is 42.")
    it.session.submit("ask", "make it")
    assert it.wait_approval().text == "made = 6 * 7\nprint(made)"
    it.decide("run")
    it.store.wait(tags.AGENT, state="done")
    assert it.run("made").text == "42\n"
    assert it.store.of(tags.ASSISTANT_CHAT)[-1].text == "It is 42."


def test_question_is_shown_and_can_be_stopped_while_the_agent_is_being_created(
    open_session: OpenSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    it = open_session("First.", "Second.")
    may_create = threading.Event()
    agent_requested = threading.Event()
    make = it.session.agent._make_agent

    def make_later() -> ReplAgent:
        agent_requested.set()
        may_create.wait()
        return make()

    monkeypatch.setattr(it.session.agent, "_make_agent", make_later)
    it.session.submit("ask", "half \ud800 a pair?")
    try:
        assert it.store.wait(tags.USER_CHAT).attrs == {"turn": 1}
        it.store.wait(tags.AGENT, state="thinking", turn=1)
        assert agent_requested.wait(DEADLINE)
        assert it.session.stop() == "model"
    finally:
        may_create.set()
    it.store.wait(tags.AGENT, state="stopped")
    it.ask_and_wait("and now?")
    chats = (tags.USER_CHAT, tags.ASSISTANT_CHAT)
    assert [(record.tag, record.text) for record in it.store.records if record.tag in chats] == [
        (tags.USER_CHAT, "half \ufffd a pair?"),
        (tags.USER_CHAT, "and now?"),
        (tags.ASSISTANT_CHAT, "First."),
    ]


def test_a_stop_while_a_question_is_handed_to_the_agent_counts(
    open_session: OpenSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    it = open_session("First.", "Second.")
    ask_sync = ReplAgent.ask_sync

    def stop_and_ask(agent: ReplAgent, *arguments: Any, **options: Any) -> str:
        it.session.stop()
        return ask_sync(agent, *arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(ReplAgent, "ask_sync", stop_and_ask)
        it.session.submit("ask", "anyone?")
        it.store.wait(tags.AGENT, state="stopped")
    assert it.store.of(tags.ASSISTANT_CHAT) == []
    it.ask_and_wait("and now?")
    assert it.store.of(tags.ASSISTANT_CHAT)[-1].text == "First."


def test_unavailable_model_is_reported_without_a_lasting_thinking_state(
    open_session: OpenSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    it = open_session()

    def refuse() -> ReplAgent:
        raise ModelError("There is no such model.")

    monkeypatch.setattr(it.session.agent, "_make_agent", refuse)
    it.session.submit("ask", "anyone?")
    it.store.wait(tags.NOTICE, "There is no such model. /model chooses another one.")
    assert [record.state for record in it.store.of(tags.AGENT)] == ["thinking", "failed"]


def test_stopping_a_cell_interrupts_it_and_the_next_one_runs(open_session: OpenSession) -> None:
    it = open_session()
    it.session.submit("python", "print('begun', flush=True)\nwhile True: pass")
    wait_for(lambda: it.session.stop() == "cell")
    assert it.store.wait(tags.USER_REPL_OUT, cell=1).status == "interrupted"
    assert it.run("1").status == "ok"
    assert it.session.stop() is None


class Queued(logging.Handler):
    """Keeps the last report of the queue."""

    cells: tuple[tuple[str, bool], ...] = ()

    def emit(self, record: logging.LogRecord) -> None:
        value = get_record(record)
        if isinstance(value, records.Queue):
            self.cells = tuple((item.code, item.held) for item in value.items)


@pytest.mark.parametrize("ending", ["1 / 0", "raise KeyboardInterrupt", "import os; os._exit(1)"])
def test_cells_queued_behind_a_failing_one_run_when_released(
    open_session: OpenSession, ending: str
) -> None:
    it = open_session()
    queue = Queued()
    it.session.log.addHandler(queue)
    it.session.submit("python", f"name = input()\n{ending}")
    request = it.store.wait(tags.INPUT, state="waiting").request
    entered = ("first = 1", "second = 2", "third = 3")
    items = [it.session.submit("python", source) for source in entered]
    it.session.host.inputs.answer(request, "")
    wait_for(lambda: queue.cells == tuple((source, True) for source in entered))

    assert it.run("later = 4").status == "ok"
    it.session.inbox.cancel(items[-1])
    it.session.inbox.release()
    it.store.wait(tags.USER_REPL_OUT, cell=4)
    ran = [record.text for record in it.store.of(tags.USER_REPL_IN)]
    assert ran[1:] == ["later = 4", "first = 1", "second = 2"]
    assert queue.cells == ()


def test_stopping_a_cell_ends_its_code_search(
    open_session: OpenSession, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "endless.txt").write_text("a" * 100)
    searches = threading.Event()
    results = Queue[Matches]()
    search = CodeSearcher.search

    def watched(*args: Any, **options: Any) -> Matches:
        searches.set()
        results.put(matches := search(*args, **options))
        return matches

    monkeypatch.setattr(CodeSearcher, "search", watched)
    it = open_session()
    it.session.submit("python", "search_code('(a|a)*b$', 'endless.txt')")
    assert searches.wait(DEADLINE)
    assert it.session.stop() == "cell"
    assert it.store.wait(tags.USER_REPL_OUT, cell=1).status == "interrupted"
    assert results.get(timeout=DEADLINE).ended == "cancelled"


def test_broken_skill_gives_a_notice_at_startup(open_session: OpenSession, project: Path) -> None:
    path = project / ".mahtab" / "skills" / "broken" / "SKILL.md"
    path.parent.mkdir(parents=True)
    path.write_text("x")
    it = open_session()
    assert it.store.wait(tags.NOTICE, level="warning").text.startswith(str(path))


def test_skill_loaded_by_a_cell_is_sent_with_the_next_question(
    open_session: OpenSession, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_skill(project / "skills", "tidy", "Tidy up", "Put things away.")
    trust_skills(project)
    included: list[bool] = []

    def record_stream(
        self: ChatReplay, messages: list[BaseMessage], *args: Any, **options: Any
    ) -> Iterator[Any]:
        included.append("Put things away." in messages[-1].text)
        return stream(self, messages, *args, **options)

    stream = ChatReplay._stream
    monkeypatch.setattr(ChatReplay, "_stream", record_stream)
    it = open_session("One.", "Two.", "Three.")
    for step in ("skill('tidy').splitlines()[0]", None, "unload"):
        if step == "unload":
            it.session.knowledge.loaded.unload("tidy")
        elif step:
            assert it.run(step).text == "Put things away.\n"
        it.ask_and_wait("go")
    assert included == [True, False, False], "once, until it changes"
    assert [record.loaded for record in it.store.of(tags.SKILL)] == [True, False]


def test_a_resumed_session_has_its_skills_loaded(open_session: OpenSession, project: Path) -> None:
    write_skill(project / "skills", "tidy", "Tidy up", "Put things away.")
    trust_skills(project)
    it = open_session(
        past=[made(tags.SKILL, "", {"name": "tidy", "loaded": True, "chars": 16, "budget": 60_000})]
    )
    assert it.session.knowledge.loaded.instructions() == {"tidy": "Put things away."}


def test_ask_in_a_cell_returns_the_answer_and_its_code_runs_inside(
    open_session: OpenSession,
) -> None:
    it = open_session(CODE, COMPLETE, "It is 42.", approval="auto")
    assert it.run("answer = ask('make it'); print(answer, made)").text == "It is 42. 42\n"


def test_ask_in_the_models_code_is_a_clear_error(open_session: OpenSession) -> None:
    it = open_session(code("ask('more')"), COMPLETE, "No.", approval="auto")
    it.ask_and_wait("go")
    assert (
        "Code from the model or an agent cannot call ask()"
        in it.store.wait(tags.ASSISTANT_REPL_OUT).text
    )


def test_input_is_requested_and_answered(open_session: OpenSession) -> None:
    it = open_session()
    it.session.submit("python", "name = input('who? ')")
    input_request = it.store.wait(tags.INPUT, state="waiting")
    assert input_request.text == "who? "
    assert it.session.host.inputs.answer(input_request.request, "Ada")
    assert it.store.wait(tags.NAMESPACE).changes[0].described.summary == "'Ada'"


def test_kernel_killed_while_idle_is_replaced_with_one_notice(open_session: OpenSession) -> None:
    it = open_session()
    pid = int(it.run("import os; x = os.getpid(); x").text)
    it.store.wait(tags.NAMESPACE, cell=1, fresh=False)
    os.kill(pid, signal.SIGKILL)
    it.store.wait(tags.KERNEL, text="Started a new kernel; its namespace is empty.", state="idle")
    records = it.store.records
    died = next(i for i, record in enumerate(records) if "SIGKILL" in record.text)
    assert any(record.tag == tags.NAMESPACE and record.attrs["fresh"] for record in records[died:])
    assert notes(records) == [records[died].text, "Started a new kernel; its namespace is empty."]


def test_nobody_waits_for_a_kernel_whose_start_fails_unforeseen(project: Path) -> None:
    class Unstartable(ProcessKernel):
        def start(self, host: object) -> None:
            raise OSError(24, "Too many open files")

    it = Opened.make(load_settings(model="demo"), kernel=Unstartable())
    it.session.start()
    try:
        with pytest.raises(
            KernelError, match=r"could not be started: OSError.*Too many open files"
        ):
            it.session.ready.result(DEADLINE)
        it.session.submit("python", "1")
        problem = it.store.wait(tags.NOTICE, level="error")
        assert "Too many open files" in problem.text
        it.store.wait(tags.USER_REPL_IN, "1")
    finally:
        it.session.close()


def test_reset_is_reported_once(open_session: OpenSession) -> None:
    it = open_session()
    it.run("x = 1")
    it.store.wait(tags.NAMESPACE, cell=1)
    it.session.kernel_control.reset()
    it.store.wait(tags.NAMESPACE, cell=0, fresh=True)
    assert notes(it.store.records) == ["Started a fresh kernel; its namespace is empty."]


def notes(records: Sequence[Record]) -> list[str]:
    transcript = Transcript(0.0)
    transcript.fold(records)
    return [entry.text for entry in transcript.entries if isinstance(entry, Note)]


def test_closing_leaves_no_thread_and_no_process(project: Path) -> None:
    threads_before = set(threading.enumerate())
    it = Opened.make(load_settings(model="demo"))
    it.session.start()
    pid = int(it.run("import os; print(os.getpid())").text)
    it.session.close()
    for thread in set(threading.enumerate()) - threads_before:
        thread.join(DEADLINE)
        assert not thread.is_alive(), thread
    assert not Path(f"/proc/{pid}").exists()


def test_overwritten_output_is_sent_in_its_final_form(open_session: OpenSession) -> None:
    it = open_session("It is done.", COMPLETE)
    output = it.run(
        "for n in range(300):\n    print(f'outer {n}\\n\\rinner {n}', end='\\x1b[A\\r')\n1 / 0"
    )
    assert output.text.startswith("outer 299\ninner 299\nTraceback")
    transcript = Transcript(since=0.0)
    transcript.fold(it.store.records)
    cell = next(entry for entry in transcript.entries if isinstance(entry, Cell))
    assert [line.text for line in cell.output][:2] == ["outer 299", "inner 299"]
    it.session.submit("ask", "what was it?")
    it.store.wait(tags.ASSISTANT_CHAT)
    assert it.session.output(1) == output.text
    prompt = PromptHandler()
    prompt.resume(it.store.records)
    assert "outer 299\ninner 299\nTraceback" in prompt.get_context()


# Cells that are stopped at the end of their time, or by whoever waits for them.


def run_bounded(cells: Cells, bounded: BoundedCell, code: str) -> CellResult:
    return bounded.run(lambda: cells.run(code))


def test_cell_ending_in_time_is_not_stopped(cells: Cells) -> None:
    bounded = BoundedCell(cells.kernel, 60, may_kill=True)
    assert run_bounded(cells, bounded, "1").status == "ok"
    assert not bounded.timed_out
    bounded.stop()
    assert cells.text("2") == "2\n"


def test_a_cell_that_ends_before_it_can_be_interrupted_has_not_run_out_of_time() -> None:
    tried = threading.Event()

    class Unreached:
        """A kernel that does not know the cell any more."""

        def interrupt(self, cell: int | None) -> bool:
            tried.set()
            return False

    def end_by_itself() -> CellResult:
        assert tried.wait(DEADLINE)
        raise KernelError("it has ended by itself")

    bounded = BoundedCell(cast("ProcessKernel", Unreached()), 0, may_kill=False)
    with pytest.raises(KernelError, match="by itself"):
        bounded.run(end_by_itself)
    assert not bounded.timed_out


def test_stopping_a_cell_before_it_begins_spares_the_previous_cell(cells: Cells) -> None:
    bounded = BoundedCell(cells.kernel, None, may_kill=False)

    def stop() -> None:
        bounded.stop()
        Path("go").touch()

    earlier = cells.run_until(
        "on",
        stop,
        "import os, time\nprint('on', flush=True)\nwhile not os.path.exists('go'): time.sleep(0.01)\n'whole'",
    )
    assert earlier.output == "on\n'whole'\n"
    assert run_bounded(cells, bounded, "time.sleep(600)").status == "interrupted"


def test_stopping_a_cell_that_the_kernel_does_not_have_spares_the_one_around_it(
    cells: Cells,
) -> None:
    answers: list[bool] = []

    def interrupt() -> None:
        answers.append(cells.kernel.interrupt(cells.number + 1))
        answers.append(cells.kernel.interrupt(cells.number))

    result = cells.run_until(
        "on", interrupt, "import time\nprint('on', flush=True)\ntime.sleep(600)"
    )
    assert answers == [False, True]
    assert result.status == "interrupted"


def test_stopping_a_cell_stops_the_one_nested_in_it(cells: Cells) -> None:
    bounded = BoundedCell(cells.kernel, None, may_kill=False)
    nested_results: list[CellResult] = []

    def answer(name: str, args: Mapping[str, Any]) -> str:
        nested_code = "import time\nprint('on', flush=True)\ntime.sleep(20)"
        nested_results.append(cells.run_until("on", bounded.stop, nested_code, nested=True))
        return ""

    cells.host.answer = answer
    bounded.run(lambda: cells.run("usage()"), cells.number + 1)
    assert [result.status for result in nested_results] == ["interrupted"]


def test_kernel_that_may_not_be_killed_continues(cells: Cells) -> None:
    entered = threading.Event()

    def let_go() -> None:
        entered.set()
        Path("go").touch()

    bounded = BoundedCell(cells.kernel, None, may_kill=False, grace=0.1, on_unresponsive=let_go)
    ignores = "import signal, os, time\nold = signal.signal(signal.SIGINT, lambda *a: None)\nprint('on', flush=True)"
    code = f"{ignores}\nwhile not os.path.exists('go'): time.sleep(0.01)\n'whole'"
    result = bounded.run(lambda: cells.run_until("on", bounded.stop, code))
    assert (result.status, result.output, entered.is_set()) == ("ok", "on\n'whole'\n", True)


# Copies of a saved session before a cell, and long sessions.

OpenSaved = Callable[..., Session]


@pytest.fixture
def open_saved(project: Path) -> Iterator[OpenSaved]:
    """Open a session that is saved: a new one, or the one with an id."""
    opened: list[Session] = []
    replay = project / "replay.jsonl"
    answers: tuple[dict[str, Any], ...] = (TWICE, COMPLETE, {"text": "Done."})
    replay.write_text("".join(f"{json.dumps(answer)}\n" for answer in answers), "utf-8")

    def open_it(id: str = "") -> Session:
        settings = load_settings(model=f"replay:{replay}", approval="auto")
        store, name, past = (
            resumed_store(find_session(id, None), variables=True) if id else new_store(project)
        )
        kernel = process_kernel(settings, save_target(store.session, settings.keep_namespace_mb))
        session = Session(settings, kernel, HeadlessFrontend(), store=store, name=name, past=past)
        opened.append(session)
        session.start()
        wait_for(session.ready.done)
        return session

    yield open_it
    for session in opened:
        session.close()


def run_all(session: Session, *cells: str) -> None:
    for cell in cells:
        session.cells.run(cell)


def texts(id: str) -> list[str]:
    kinds = (tags.USER_REPL_IN, tags.USER_CHAT, tags.BRANCH)
    loaded = load_records(database(), id).records
    return [record.text for _, record in loaded if record.tag in kinds]


def test_copy_before_an_answer_excludes_the_question(open_saved: OpenSaved) -> None:
    session = open_saved()
    run_all(session, "items = [1]")
    session.submit("ask", "add two")
    wait_for(
        lambda: session.cells.last == 3 and not session.agent.in_turn and not session.cells.running
    )
    session.save()
    copy = fork(session.saved_id, "cell 3")
    assert texts(copy) == [
        "items = [1]",
        f"This session is a copy of {session.saved_id}, before cell 3.",
    ]
    assert open_saved(copy).cells.run("'items' in globals()").output.strip() == "False"


def test_private_variable_is_private_in_every_copy_however_old_its_mark(
    open_saved: OpenSaved, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = open_saved()
    run_all(session, "pay = [1]", "pay.append(2)", "private('pay')")
    session.save()
    id = session.saved_id
    copy = fork(id, "cell 2")
    run_all(session, *(f"x{number} = {number}" for number in range(5)))
    session.close()
    store = session.backend.get().store
    assert isinstance(store, SqliteStore)
    assert store.claim is not None
    store.claim.release()
    monkeypatch.setattr(resume, "MAX_PAST_RECORDS", 5)
    for session_id in (copy, id):
        hidden = HiddenEntries()
        for record in resumed_store(find_session(session_id, None)).past:
            hidden.fold(record)
        assert hidden.private == {"pay"}


def test_resumed_session_counts_the_records_not_shown(
    open_saved: OpenSaved, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = open_saved()
    run_all(session, *(f"x{number} = {number}" for number in range(5)))
    session.save()
    row = find_session(fork(session.saved_id), None)

    def first_notice(tail: int) -> str:
        monkeypatch.setattr(resume, "MAX_PAST_RECORDS", tail)
        store, _, past = resumed_store(row)
        assert store.claim is not None
        store.claim.release()
        return past[0].text

    count = len(load_records(database(), row.id, limit=ALL_RECORDS).records)
    assert "not shown" not in first_notice(count + 1)
    message = "Earlier records not shown here: 1. /export writes all of them."
    assert message in first_notice(count - 1)


def places(it: Opened) -> int:
    """Return how many cells have their turn or wait for it."""
    return len(it.session.cells._turns._places)


WAITS_FOR_FILE = "import os, time\nwhile not os.path.exists('go'): time.sleep(0.01)\n"


def enter_waiting_cell(it: Opened, code: str = "") -> None:
    """Enter a cell of the user's that waits for the file "go", and then runs code."""
    it.session.submit("python", WAITS_FOR_FILE + code)
    it.store.wait(tags.USER_REPL_IN)


def test_code_of_a_model_runs_once_the_users_cell_before_it_waits_for_the_model(
    open_session: OpenSession, project: Path
) -> None:
    it = open_session("```python\ntheirs = 1\n```", "Done.", "Hello.", approval="auto")
    enter_waiting_cell(it, "words = ask('say hello')")
    it.session.submit("ask", "bind theirs")
    it.store.wait(tags.ASSISTANT_CHAT)
    wait_for(lambda: places(it) == 2)
    (project / "go").touch()
    assert it.store.wait(tags.USER_REPL_OUT).status == "ok"
    assert it.value("theirs, words") == "(1, 'Hello.')"


def test_code_of_a_model_and_of_the_program_waits_for_a_users_cell_that_asks(
    open_session: OpenSession, project: Path
) -> None:
    it = open_session("```python\ntheirs = 1\n```", "Done.", "Hello.", approval="auto")
    enter_waiting_cell(it, "words = ask('say hello')")
    run_unrecorded = it.session.cells.run_unrecorded
    programs_code = start_thread(
        "program", run_unrecorded, "done = 1", lambda: False, lambda: False
    )
    wait_for(lambda: places(it) == 2)
    it.session.submit("ask", "bind theirs")
    wait_for(lambda: places(it) == 3)
    (project / "go").touch()
    assert it.store.wait(tags.USER_REPL_OUT).status == "ok"
    programs_code.join()
    assert it.value("theirs, words, done") == "(1, 'Hello.', 1)"


def test_code_of_the_program_that_waits_for_a_users_cell_can_be_cancelled(
    open_session: OpenSession, project: Path
) -> None:
    it = open_session()
    enter_waiting_cell(it)
    cancelled = threading.Event()
    run_unrecorded = it.session.cells.run_unrecorded
    programs_code = start_thread(
        "program", run_unrecorded, "done = 1", lambda: False, cancelled.is_set
    )
    wait_for(lambda: places(it) == 2)
    cancelled.set()
    wait_for(lambda: not programs_code.is_alive())
    (project / "go").touch()
    assert it.store.wait(tags.USER_REPL_OUT).status == "ok"
    assert it.value("'done' in globals()") == "False"


def test_code_of_a_model_runs_before_cells_that_the_user_entered_after_it(
    open_session: OpenSession, project: Path
) -> None:
    it = open_session("```python\ntheirs = 1\n```", "Done.", approval="auto")
    enter_waiting_cell(it)
    it.session.submit("ask", "bind theirs")
    wait_for(lambda: places(it) == 2)
    it.session.submit("python", "comes_after = 'theirs' in globals()")
    (project / "go").touch()
    it.store.wait(tags.AGENT, state="done")
    assert it.value("comes_after") == "True"


class _BoundedAfter(BoundedCell):
    """Begins late."""

    before: Callable[[], object] = staticmethod(lambda: None)
    """Called before the cell begins."""

    def run(self, execute: Callable[[], CellResult], cell: int | None = None) -> CellResult:
        self.before()
        return super().run(execute, cell)


def test_a_users_cell_that_is_entered_while_code_of_a_model_begins_may_ask(
    open_session: OpenSession,
) -> None:
    it = open_session("Hello.")
    bounded = _BoundedAfter(it.session.kernel, None, may_kill=False)

    def enter_users_cell() -> None:
        it.session.submit("python", "words = ask('say hello')")
        wait_for(lambda: places(it) == 2 or it.store.of(tags.USER_REPL_OUT))

    bounded.before = enter_users_cell
    it.session.cells.run("theirs = 1", origin="assistant", party="model", bounded=bounded)
    assert it.store.wait(tags.USER_REPL_OUT).status == "ok"
    assert it.value("theirs, words") == "(1, 'Hello.')"


def test_code_of_a_model_that_waits_for_the_users_cell_can_be_stopped(
    open_session: OpenSession, project: Path
) -> None:
    it = open_session("```python\ntheirs = 1\n```", "Done.", approval="auto")
    enter_waiting_cell(it)
    it.session.submit("ask", "bind theirs")
    wait_for(lambda: places(it) == 2)
    it.session.agent.stop()
    it.store.wait(tags.AGENT, state="stopped")
    (project / "go").touch()
    assert it.store.wait(tags.USER_REPL_OUT).status == "ok"
    assert it.store.of(tags.ASSISTANT_REPL_IN) == []
