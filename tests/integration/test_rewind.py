"""Going back to an earlier question or cell, in a session with a real kernel, store and model
service."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mahtab_tui.bus.entries import AnswerText, Cell, Note, Question
from mahtab_tui.bus.records import Decision
from mahtab_tui.kernel.base import KernelError
from mahtab_tui.kernel.values import FileWatching, UndoScope
from mahtab_tui.session.agent_rewinds import describe_preview, describe_rewind
from mahtab_tui.session.rewinding import RewindPreview, RewindScope
from mahtab_tui.session.undo_control import UndoTarget
from mahtab_tui.tui.transcript.fold import Transcript
from tests import tags
from tests.integration.sessions import Opened, OpenSession, texts
from tests.random_rewind import run_random_session
from tests.services import OPENAI, Service
from tests.waiting import wait_for

watches_files = pytest.mark.skipif(
    sys.platform != "linux", reason="files are watched on Linux only"
)
NEW_FILE = "open('out.txt', 'w').write('new')"
SEEDS = 6


def code(*blocks: str) -> str:
    return "\n\n".join(["Let me see.", *(f"```python\n{block}\n```" for block in blocks)])


def open_with(open_session: OpenSession, service: Service, *answers: str, **options: Any) -> Opened:
    service.replies = [OPENAI.reply(answer) for answer in answers or ("Yes.",)]
    return open_session(model=OPENAI.spec, approval="auto", reflection="never", **options)


def watch(folder: Path) -> FileWatching:
    return FileWatching((str(folder),), (), str(folder.parent / "copies"), 200)


def ask(it: Opened, question: str) -> None:
    it.ask_and_wait(question)
    wait_for(lambda: it.session.inbox.idle and not it.session.agent.in_turn)


def preview(it: Opened, name: str, *scope: bool) -> RewindPreview:
    wait_for(lambda: it.session.inbox.idle)
    rewinding = it.session.rewinding
    return rewinding.preview(rewinding.find(name), RewindScope(*scope))


def rewind(it: Opened, name: str, *scope: bool) -> RewindPreview:
    rewound = preview(it, name, *scope)
    it.session.rewinding.rewind(rewound)
    return rewound


def printed(it: Opened, expression: str) -> str:
    """Evaluate an expression without a cell, so that a redo stays possible."""
    pieces: list[str] = []
    it.session.kernel.execute(
        f"print({expression})", cell=0, on_output=lambda kind, text: pieces.append(text)
    )
    return "".join(pieces).strip()


def transcript(it: Opened) -> Transcript:
    folded = Transcript(0.0)
    folded.fold(it.store.records)
    return folded


def sent(service: Service) -> str:
    return "\n".join(str(message["content"]) for message in service.asked[-1]["messages"])


@watches_files
def test_points_are_questions_steps_and_cells_with_what_each_changed(
    open_session: OpenSession, service: Service, project: Path
) -> None:
    answers = (code("df = 1", f"{NEW_FILE}; n = 2"), code("del n"), "Done.", "Yes.")
    it = open_with(open_session, service, *answers, watching=watch(project))
    it.run("items = [1]")
    ask(it, "go")
    it.run("items.append(2)")
    ask(it, "more?")
    rows = [
        (point.label, point.author, point.variables, list(point.files), len(point.entries))
        for point in it.session.rewinding.points()
    ]
    party = it.session.info.party
    assert rows == [
        ("question 2", "you", {}, [], 2),
        ("In 5", "you", {"items": "~"}, [], 1),
        ("In 4", party, {"n": "−"}, [], 2),
        ("In 2 to 3", party, {"df": "+", "n": "+"}, ["out.txt"], 3),
        ("question 1", "you", {"df": "+", "n": "−"}, ["out.txt"], 7),
        ("In 1", "you", {"items": "+"}, [], 1),
    ]


@watches_files
def test_a_rewind_takes_back_conversation_namespace_and_files_in_one_step(
    open_session: OpenSession, service: Service, project: Path
) -> None:
    answers = ("One.", code(f"items.append(2); {NEW_FILE}"), "It is a pear.", "It is an apple.")
    it = open_with(open_session, service, *answers, watching=watch(project))
    it.run("items = [1]")
    ask(it, "zero?")
    prefix = service.asked[0]["messages"]
    ask(it, "what fruit?")
    before = (printed(it, "items"), it.model_messages())
    assert (project / "out.txt").exists()

    rewound = preview(it, "question 2")
    assert [change.name for change in rewound.restoration.changes] == ["items"]
    assert [(file.path, file.action) for file in rewound.restoration.files] == [
        ("out.txt", "remove")
    ]
    assert len(rewound.entries) == 4
    assert not rewound.unrestorable
    it.session.rewinding.rewind(rewound)
    assert printed(it, "items") == "[1]"
    assert not (project / "out.txt").exists()
    texts_left = [
        entry.plain_text
        for entry in transcript(it).entries
        if not (entry.removed or isinstance(entry, Note))
    ]
    assert texts_left == ["items = [1]", "zero?", "One."]

    it.session.undo.redo()
    assert (printed(it, "items"), it.model_messages()) == before
    assert (project / "out.txt").read_text() == "new"
    assert not any(entry.removed for entry in transcript(it).entries)
    assert not any(cell.undone for cell in transcript(it).entries if isinstance(cell, Cell))

    rewind(it, "question 2")
    ask(it, "what red fruit?")
    messages = service.asked[-1]["messages"]
    # The service has the beginning in its cache.
    assert messages[: len(prefix)] == prefix
    removed = ("pear", "what fruit?", "Let me see", "append(2)")
    assert not any(words in sent(service) for words in removed)
    with pytest.raises(KernelError, match="you have asked the model since"):
        it.session.undo.redo()


@watches_files
def test_only_the_conversation_comes_back_after_the_kernel_was_replaced(
    open_session: OpenSession, service: Service, project: Path
) -> None:
    it = open_with(open_session, service, watching=watch(project))
    it.run("n = 1", NEW_FILE)
    rewind(it, "cell 1", False, False, True)
    rewind(it, "cell 1")
    it.session.cells.reset_kernel()
    it.session.undo.redo()
    assert not any(entry.removed for entry in transcript(it).entries)
    assert not (project / "out.txt").exists()
    assert printed(it, "'n' in globals()") == "False"
    assert texts(it, tags.NOTICE)[-1].startswith("Variables and files stay as they are")
    with pytest.raises(KernelError, match="nothing to redo"):
        it.session.undo.redo()


@watches_files
def test_each_part_goes_back_alone(
    open_session: OpenSession, service: Service, project: Path
) -> None:
    it = open_with(open_session, service, watching=watch(project))
    it.run("items = [1]", f"items.append(2); {NEW_FILE}")

    def state() -> tuple[str, bool, int]:
        removed = [entry for entry in transcript(it).entries if entry.removed]
        return printed(it, "items"), (project / "out.txt").exists(), len(removed)

    for scope, expected in (
        ((True, False, False), ("[1, 2]", True, 1)),
        ((False, True, False), ("[1]", True, 0)),
        ((False, False, True), ("[1, 2]", False, 0)),
        ((False, True, True), ("[1]", False, 0)),
    ):
        rewind(it, "cell 2", *scope)
        assert state() == expected
        it.session.undo.redo()
        assert state() == ("[1, 2]", True, 0)
    assert preview(it, "cell 2", False, False, False).does_nothing
    notes = texts(it, tags.USER_UNDO)
    assert notes[0].endswith("Files stay as they are.")
    assert notes[2].startswith("Files are as they were before cell 2 ran; variables stay")


def test_a_step_of_an_answer_goes_back_and_the_question_stays(
    open_session: OpenSession, service: Service
) -> None:
    answers = (code("a = 1"), "```python\nb = 2\n```", "Both done.", "Good.")
    it = open_with(open_session, service, *answers)
    ask(it, "two steps, please")
    rewound = rewind(it, "cell 2")
    assert (rewound.point.label, rewound.point.text.strip()) == ("In 2", "b = 2")
    assert printed(it, "'b' in globals(), a") == "False 1"
    entries = [entry for entry in transcript(it).entries if not isinstance(entry, Note)]
    rows = [(type(entry), bool(entry.removed)) for entry in entries]
    # The step is only code, so that its answer has no words of its own.
    assert rows == [
        (Question, False),
        (AnswerText, False),
        (Cell, False),
        (Cell, True),
        (AnswerText, True),
    ]
    ask(it, "and now?")
    assert "two steps, please" in sent(service)
    assert "a = 1" in sent(service)
    assert "b = 2" not in sent(service)
    assert "Both done" not in sent(service)


@watches_files
def test_what_cannot_go_back_is_named(
    open_session: OpenSession, service: Service, project: Path
) -> None:
    it = open_with(open_session, service, undo_steps=2, watching=watch(project))
    it.run("old = 1", "older = 2; numbers = (n for n in range(5))")
    it.run("next(numbers)", f"new = 3; {NEW_FILE}")
    (project / "out.txt").write_text("by somebody else")
    rewound = preview(it, "cell 1")
    reasons = {item.name: item.reason for item in rewound.unrestorable}
    assert "only 2 cells can be undone (undo_steps)" in reasons["In 1 and 2"]
    assert "something outside the cells" in reasons["out.txt"]
    assert "numbers" in reasons
    assert rewound.cells == (3, 4)
    it.session.rewinding.rewind(rewound)
    assert printed(it, "old, older, 'new' in globals()") == "1 2 False"
    assert (project / "out.txt").read_text() == "by somebody else"
    assert not it.session.rewinding.points()


def test_nothing_goes_back_if_the_session_has_gone_on_since_the_preview(
    open_session: OpenSession, service: Service
) -> None:
    it = open_with(open_session, service)
    it.run("a = 1", "b = 2")
    rewound = preview(it, "cell 2")
    it.run("c = 3")
    wait_for(lambda: it.session.inbox.idle)
    with pytest.raises(KernelError, match="has run since"):
        it.session.rewinding.rewind(rewound)
    assert printed(it, "b, c") == "2 3"


def test_an_agents_cells_after_the_point_go_back_and_are_named(
    open_session: OpenSession, service: Service
) -> None:
    it = open_with(open_session, service)
    it.run("a = 1")
    it.join_agent()("evaluate", code="b = 2")
    rewound = preview(it, "cell 1")
    assert [it.session.rewinding.author_of(cell) for cell in rewound.cells] == ["you", "codex"]
    it.session.rewinding.rewind(rewound)
    assert printed(it, "'b' in globals()") == "False"


def test_an_agent_is_told_what_did_not_go_back(
    open_session: OpenSession, service: Service, project: Path
) -> None:
    it = open_with(open_session, service, undo_steps=1, watching=watch(project))
    it.run("old = 1", f"new = 2; {NEW_FILE}")
    agent = it.join_agent()
    assert it.session.approvals.answer("guest-1", Decision("run"))
    answer = agent("rewind", point="In[1]", dry_run=False)
    assert answer.splitlines() == [
        "Gone from the conversation: 2 entries.",
        "The namespace is as it was before cell 2 ran. Files: `out.txt` removed.",
        "What did not go back: In 1: Cell 1 can no longer be undone, because only 1 cell can be undone"
        " (undo_steps). The oldest that can is cell 2.",
    ]
    assert printed(it, "old, 'new' in globals()") == "1 False"


def test_an_agent_is_not_told_that_variables_went_back_with_files_alone(
    open_session: OpenSession, service: Service
) -> None:
    it = open_with(open_session, service)
    it.run("a = 1")
    files_alone = preview(it, "cell 1")
    files_alone = replace(
        files_alone, target=UndoTarget(1, UndoScope(namespace=False, file_cell=1))
    )
    text = describe_rewind(files_alone, files_alone.restoration)
    assert "Files are as they were before cell 1 ran; variables stay as they are." in text
    assert "namespace" not in text


@watches_files
@pytest.mark.parametrize("operation", ["undo", "rewind"])
def test_an_agent_may_take_back_files_with_any_name(
    open_session: OpenSession, service: Service, project: Path, operation: str
) -> None:
    it = open_with(open_session, service, watching=watch(project))
    it.run("open('a\\x1b[31m\\n.txt', 'w').close()")
    arguments = {"cell": 1} if operation == "undo" else {"point": "cell 1", "dry_run": False}
    assert it.session.approvals.answer("guest-1", Decision("run"))
    it.join_agent()(operation, **arguments)
    assert not list(project.glob("a*"))
    assert it.wait_approval().text.endswith("remove a␛[31m␊.txt")


def test_an_agent_is_told_in_a_sentence_why_files_are_not_watched(
    open_session: OpenSession, service: Service
) -> None:
    it = open_with(open_session, service, undo_steps=0)
    it.run("a = 1")
    last_line = describe_preview(preview(it, "cell 1")).splitlines()[-1]
    assert last_line.startswith("Files are not watched: ")
    assert last_line.endswith("undo_steps is 0.")


def test_cells_of_a_point_are_found_by_all_their_names(
    open_session: OpenSession, service: Service
) -> None:
    it = open_with(open_session, service, code("a = 1", "b = 2"), "Done.")
    ask(it, "two cells, please")
    find = it.session.rewinding.find
    for name in ("2", "In 2", "in [2]", "In[2]", "cell 2", "In 1 to 2"):
        assert find(name).label == "In 1 to 2"
    with pytest.raises(KernelError, match="no point 'In 3' to go back to"):
        find("In 3")


def test_a_private_variable_stays_private_after_a_rewind(
    open_session: OpenSession, service: Service
) -> None:
    it = open_with(open_session, service)
    it.run("key = 'opensesame'", "private('key')")
    rewind(it, "cell 1")
    assert it.session.private.names == ["key"]
    it.session.undo.redo()
    ask(it, "what is key?")
    assert "opensesame" not in sent(service)


def test_the_model_still_gets_what_happened_before_a_question_that_went_back(
    open_session: OpenSession, service: Service, project: Path
) -> None:
    it = open_with(open_session, service, watching=watch(project))
    it.run("a = 1", "b = 2")
    ask(it, "first?")
    it.session.undo.undo(2)
    it.run(f"{NEW_FILE}  # goes back")
    ask(it, "second?")
    rewind(it, "cell 3")
    ask(it, "third?")
    assert "Cell 2 was undone." in sent(service)
    assert "goes back" not in sent(service)
    # A file that is gone is not described as new.
    assert "`out.txt` new" not in sent(service)


def test_only_the_cells_that_an_undo_undid_are_named(
    open_session: OpenSession, service: Service
) -> None:
    it = open_with(open_session, service)
    it.run("a = 1", "b = 2", "c = 3")
    it.session.undo.undo(3)
    it.run("d = 4")
    it.session.undo.undo(2)
    assert [note.text for note in transcript(it).entries if isinstance(note, Note)][-1].startswith(
        "Cells 2 and 4 were undone."
    )


def test_a_stale_cell_is_told_again_if_the_question_that_told_it_went_back(
    open_session: OpenSession, service: Service
) -> None:
    it = open_with(open_session, service)
    it.run("a = 1", "b = a + 1; b", "a = 5")
    ask(it, "first?")
    assert "In 2 uses `a` from In 1, changed by In 3" in sent(service)
    rewind(it, "question 1")
    ask(it, "second?")
    assert "In 2 uses `a` from In 1, changed by In 3" in sent(service)


def test_a_resumed_session_knows_what_went_back_and_what_came_again(
    open_session: OpenSession, service: Service
) -> None:
    it = open_with(open_session, service, "One.", "Two.", "Three.")
    it.run("a = 1")
    ask(it, "first?")
    ask(it, "second?")
    rewind(it, "question 1")
    it.session.undo.redo()
    rewind(it, "question 2")
    past = tuple(it.store.records)
    it.session.close()
    again = open_with(open_session, service, "Four.", past=past)
    names = [point.name for point in again.session.rewinding.points()]
    assert names == ["question 1", "cell 1"]
    ask(again, "third?")
    assert "first?" in sent(service)
    assert "second?" not in sent(service)
    # Its cell ran in an earlier kernel; the conversation can go back all the same.
    rewound = preview(again, "cell 1")
    assert "did not run in this kernel" in rewound.unrestorable[0].reason
    again.session.rewinding.rewind(rewound)
    assert not again.session.rewinding.points()


def test_held_cells_stay_held_and_a_queue_refuses_a_rewind(
    open_session: OpenSession, service: Service
) -> None:
    it = open_with(open_session, service)
    it.run("a = 1")
    it.session.submit("python", "input()")
    it.session.submit("python", "held = 1")
    it.store.wait(tags.USER_REPL_IN, cell=2)
    with pytest.raises(KernelError, match="Something is running"):
        it.session.rewinding.preview(it.session.rewinding.find("cell 1"))
    wait_for(lambda: it.session.stop() == "cell")
    it.store.wait(tags.USER_REPL_OUT, cell=2)
    rewind(it, "cell 1")
    it.session.inbox.release()
    it.store.wait(tags.USER_REPL_OUT, cell=3)
    assert printed(it, "held, 'a' in globals()") == "1 False"


@watches_files
@pytest.mark.parametrize("seed", range(SEEDS))
def test_random_rewinds_and_redos_restore_each_part(
    project: Path, service: Service, seed: int
) -> None:
    folder = project / "work"
    folder.mkdir()
    run_random_session(folder, service, seed)
