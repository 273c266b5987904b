"""Undo in a session, also while something else happens."""

from __future__ import annotations

import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from mahtab_tui.bus import records
from mahtab_tui.bus.entries import Cell, Note
from mahtab_tui.bus.prompt import PromptHandler
from mahtab_tui.bus.records import Decision
from mahtab_tui.kernel.base import KernelError
from mahtab_tui.kernel.values import FileWatching
from mahtab_tui.session.agent_calls import AgentCalls
from mahtab_tui.session.joined_agents import AgentCall
from mahtab_tui.tui.transcript.fold import Transcript
from tests import tags
from tests.agents import COMPLETE
from tests.integration.sessions import Opened, OpenSession
from tests.waiting import wait_for

TWICE = "Two steps.\n\n```python\nitems.append(2)\n```\n\n```python\nitems.append(3)\n```\n"

ENDLESS = "```python\nwhile True:\n    pass\n```"


def restored_names(it: Opened) -> list[tuple[str | None, int | None, list[str]]]:
    """Return the author, cell and names of each record of restored variables."""
    return [
        (record.party, record.cell, [change.name for change in record.changes])
        for record in it.store.records
        if isinstance(record, records.Namespace) and record.restored
    ]


def author_cell(it: Opened, name: str) -> int:
    author = it.session.cells.authors.provenance.author(name)
    assert author is not None
    return author.cell


def test_undo_is_reported_to_the_panes_the_model_and_the_store(open_session: OpenSession) -> None:
    it = open_session()
    it.run("items = [1]; kept = 1", "items.append(2); new = 5")
    it.session.undo.undo(2)
    undone = it.store.wait(tags.USER_UNDO)
    assert isinstance(undone, records.Undo)
    assert (undone.cells, undone.undone) == ((2,), True)
    assert restored_names(it) == [("you", 1, ["items"]), ("you", 0, ["new"])]
    assert author_cell(it, "items") == 1
    transcript = Transcript(0.0)
    prompt = PromptHandler()
    transcript.fold(it.store.records)
    prompt.resume(it.store.records)
    undone_cells = [entry.undone for entry in transcript.entries if isinstance(entry, Cell)]
    assert undone_cells == [False, True]
    assert [entry.text for entry in transcript.entries if isinstance(entry, Note)] == [undone.text]
    assert f'<user-undo undone="true">{undone.text}</user-undo>' in prompt.get_context()
    assert it.value("items, 'new' in globals()") == "([1], False)"


def test_an_answer_with_two_cells_is_undone_in_one_step(open_session: OpenSession) -> None:
    it = open_session(TWICE, COMPLETE, "Done.", approval="auto")
    it.run("items = [1]")
    it.ask_and_wait("add two")
    while it.session.agent.in_turn:
        time.sleep(0.001)
    assert it.session.undo.last_step() == 2
    it.session.undo.undo(2)
    assert it.value("items") == "[1]"
    assert it.session.undo.cells_from(1) == (1, 4)


def test_redo_restores_names_and_authors_until_another_cell_runs(open_session: OpenSession) -> None:
    it = open_session()
    it.run("items = [1]", "items.append(2)")
    it.session.undo.undo(2)
    it.session.undo.redo()
    assert author_cell(it, "items") == 2
    assert it.value("items") == "[1, 2]"
    it.session.undo.undo(2)
    it.run("other = 1")
    with pytest.raises(KernelError):
        it.session.undo.redo()
    assert it.value("items") == "[1]"


def test_nothing_is_undone_during_a_cell_or_before_any_cell(open_session: OpenSession) -> None:
    it = open_session()
    it.run()
    with pytest.raises(KernelError, match="nothing to undo"):
        it.session.undo.last_step()
    it.run("items = [1]")
    it.session.submit("python", "import time\ntime.sleep(600)")
    it.store.wait(tags.USER_REPL_IN, cell=2)
    with pytest.raises(KernelError, match="running"):
        it.session.undo.undo(1)
    while it.session.stop() != "cell":  # the kernel may not have the cell yet
        time.sleep(0.001)
    it.store.wait(tags.USER_REPL_OUT, cell=2)


def test_kernel_killed_during_a_checkpoint_is_replaced_and_undo_restarts(
    open_session: OpenSession,
) -> None:
    it = open_session()
    it.run(
        "import os, signal; items = [1]",
        "os.register_at_fork(before=lambda: os.kill(os.getpid(), signal.SIGKILL))",
    )
    assert it.run("items.append(2)").status == "died"
    it.store.wait(tags.KERNEL, state="dead")
    for cell in (1, 3):
        with pytest.raises(KernelError, match="cannot be undone: it did not run in this kernel"):
            it.session.kernel.preview_undo(cell)
    with pytest.raises(KernelError, match="nothing to undo"):
        it.session.undo.last_step()
    it.run("items = [1]", "items.append(2)")
    it.session.undo.undo(it.session.undo.last_step())
    assert it.value("items") == "[1]"


def test_undo_while_an_agents_cell_waits_for_approval(open_session: OpenSession) -> None:
    it = open_session(approval="ask")
    it.run("items = [1]", "items.append(2)")
    agent = it.session.joined_agents.join("codex", lambda sentence: None, None)
    serve = AgentCalls(it.session).serve
    call = AgentCall(agent, lambda message: None)
    with ThreadPoolExecutor() as pool:
        answer = pool.submit(serve, call, "evaluate", {"code": "items.append(9); items"})
        approval = it.store.wait(tags.APPROVAL, state="waiting")
        assert isinstance(approval, records.Approval)
        it.session.undo.undo(2)
        it.session.approvals.answer(approval.request, Decision("run"))
        assert answer.result(60)["result"]["output"].strip() == "[1, 9]"
    assert it.session.undo.last_step() == 3
    it.session.undo.undo(3)
    assert it.value("items") == "[1]"


def test_undo_waits_for_a_cell_that_searches(open_session: OpenSession) -> None:
    it = open_session(ENDLESS)
    it.run("log = 'line\\n' * 6_000; items = [1]", "items.append(2)")
    it.session.submit("python", "rlm('Find the needles', log)")
    it.store.wait(tags.RLM_REPL_IN)
    with pytest.raises(KernelError, match="Something is running"):
        it.session.undo.undo(2)
    assert it.session.stop() == "cell"
    it.store.wait(tags.USER_REPL_OUT, cell=3)
    while it.session.cells.running:
        time.sleep(0.001)
    it.session.undo.undo(2)
    assert it.value("items") == "[1]"


@pytest.mark.parametrize("how", ["reset", "activate"])
def test_after_a_kernel_change_only_later_cells_can_be_undone(
    open_session: OpenSession, how: str
) -> None:
    it = open_session()
    it.run("items = [1]", "items.append(2)", "other = 1")
    it.session.undo.undo(3)
    it.session.kernel_control.reset() if how == "reset" else it.session.kernel_control.activate(
        sys.executable
    )
    it.store.wait(tags.NAMESPACE, fresh=True)
    with pytest.raises(KernelError, match="cannot be undone: it did not run in this kernel"):
        it.session.undo.undo(2)
    with pytest.raises(KernelError, match="nothing to undo"):
        it.session.undo.last_step()
    with pytest.raises(KernelError, match="nothing to redo"):
        it.session.undo.redo()
    it.run("items = [3]", "items.append(4)")
    it.session.undo.undo(5)
    assert it.value("items") == "[3]"


@pytest.mark.parametrize("move", ["%cd inner", "import os; os.chdir('inner')"])
def test_undo_restores_the_folder_left_by_the_cell(
    open_session: OpenSession, project: Path, move: str
) -> None:
    (project / "inner").mkdir()
    it = open_session()
    it.run(move)
    assert it.session.kernel.info().cwd == str(project / "inner")
    it.session.undo.undo(1)
    assert it.session.kernel.info().cwd == str(project)
    assert not any(
        change.name == "working directory"
        for record in it.store.records
        if isinstance(record, records.Namespace)
        for change in record.changes
    )
    it.session.undo.redo()
    assert it.session.kernel.info().cwd == str(project / "inner")


def test_non_variables_do_not_appear_in_the_namespace_pane(open_session: OpenSession) -> None:
    it = open_session()
    it.run(
        "import os, random as r; r.seed(1); items = [1]",
        "os.environ['ADA'] = '1'; r.random(); items.append(2)",
    )
    assert {change.name for change in it.session.kernel.preview_undo(2).changes} == {
        "items",
        "os.environ",
        "random",
    }
    it.session.undo.undo(2)
    assert [names for _, _, names in restored_names(it)] == [["items"]]


def test_screen_resize_does_not_count_as_a_change(open_session: OpenSession) -> None:
    it = open_session()
    it.run("import os; items = [1]", "items.append(2)")
    it.session.kernel.set_size(50, 10)
    assert it.value("os.environ['COLUMNS']") == "'50'"
    assert [change.name for change in it.session.kernel.preview_undo(2).changes] == ["items"]
    it.session.undo.undo(2)
    assert it.value("items, os.environ['COLUMNS']") == "([1], '50')"


def test_what_a_cell_did_to_files_is_shown_stored_told_and_undone(
    open_session: OpenSession, project: Path
) -> None:
    watching = FileWatching((str(project),), (), str(project.parent / "copies"), 200)
    block = "```python\nopen('theirs.csv', 'w').close()\n```"
    done = {"text": "Done.", "match": "files: `theirs.csv` new"}
    it = open_session(block, done, approval="auto", watching=watching)
    it.run("open('mine.csv', 'w').write('x')")
    record = it.store.wait(tags.CELL_FILES)
    assert isinstance(record, records.FileChanges)
    assert record.text == "files: `mine.csv` new"
    prompt = PromptHandler()
    prompt.resume(it.store.records)
    assert '<cell-files cell="1">files: `mine.csv` new</cell-files>' in prompt.get_context()

    it.ask_and_wait("Go on")
    wait_for(lambda: not it.session.agent.in_turn)
    transcript = Transcript(0.0)
    transcript.fold(it.store.records)
    cells = [entry for entry in transcript.entries if isinstance(entry, Cell)]
    assert [[file.path for file in cell.files] for cell in cells] == [["mine.csv"], ["theirs.csv"]]

    it.session.undo.undo(1)
    undone = it.store.wait(tags.USER_UNDO)
    assert undone.text.endswith("Files: `theirs.csv` removed, `mine.csv` removed.")
    assert not list(project.glob("*.csv"))
