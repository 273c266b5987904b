"""A session whose variables are saved."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from mahtab_tui.bus import records
from mahtab_tui.bus.entries import Note
from mahtab_tui.bus.prompt import PromptHandler
from mahtab_tui.bus.values import Variable
from mahtab_tui.kernel.values import NotSaved
from mahtab_tui.session.namespace_store import describe_restored
from mahtab_tui.tui.namespace.variables import VariableRows
from mahtab_tui.tui.transcript.fold import Transcript
from tests import tags
from tests.integration.saving import SavedSession
from tests.integration.sessions import Opened, OpenSession
from tests.waiting import wait_for

SLOW = """\
import os, time
class Slow:
    def __init__(self, name): self.name, self.x = name, "x" * 100_000
    def __setstate__(self, state):
        self.__dict__.update(state)
        while not os.path.exists(self.name): time.sleep(0.005)
"""


class Sessions:
    """Sessions one after the other, each with the variables that the one before saved."""

    def __init__(self, open_session: OpenSession, home: Path) -> None:
        self._open = open_session
        self.saved = SavedSession(home)

    def open(self, *cells: str, past: Sequence[records.Record] = ()) -> Opened:
        it = self._open(keep=self.saved.location, past=past)
        if cells:
            it.run(*cells)
        return it

    def again(self, it: Opened) -> Opened:
        it.session.close()
        return self.open(past=it.store.records)


@pytest.fixture
def sessions(
    open_session: OpenSession, home: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Sessions]:
    # A busy disk may take longer than a user waits.
    monkeypatch.setattr("mahtab_tui.session.session.QUIT_SAVE_S", 60.0)
    sessions = Sessions(open_session, home)
    yield sessions
    sessions.saved.close()


def states(it: Opened) -> list[tuple[str, str, str]]:
    return [
        (change.name, change.change, record.party or "")
        for record in it.store.records
        if isinstance(record, records.Namespace)
        for change in record.changes
    ]


def test_each_restored_name_is_reported_also_to_the_model(sessions: Sessions) -> None:
    first_session = sessions.open("items = [1]; lock = __import__('threading').Lock()")
    it = sessions.again(first_session)
    restored = it.store.wait(tags.RESTORE)
    assert restored.text == "1 variable restored, 1 not: lock (a lock cannot be saved)."
    assert states(it) == [
        ("items", "restoring", "restoring"),
        ("lock", "absent", "not kept"),
        ("items", "added", "you"),
    ]
    transcript = Transcript(0.0)
    prompt = PromptHandler()
    rows = VariableRows()
    transcript.fold(it.store.records)
    prompt.resume(it.store.records)
    rows.fold(it.store.records)
    assert restored.text in [entry.text for entry in transcript.entries if isinstance(entry, Note)]
    assert f"<restore>{restored.text}</restore>" in prompt.get_context()
    assert [(row.name, row.by, row.summary) for row in rows.visible] == [
        ("items", "❯ 1", "1 item"),
        ("lock", "not kept", "a lock cannot be saved"),
    ]
    assert ("items" in rows, "lock" in rows) == (True, False)
    assert it.run("items").text == "[1]\n"


def test_unsaved_names_are_reported_again_until_a_cell_defines_them(sessions: Sessions) -> None:
    first_session = sessions.open(
        "items = [1]; one, two = (__import__('threading').Lock() for _ in 'ab')"
    )
    it = sessions.again(first_session)
    assert "2 not" in it.store.wait(tags.RESTORE).text
    it.run("one = 1", "del one")
    third = sessions.again(it)
    assert (
        third.store.wait(tags.RESTORE).text
        == "1 variable restored, 1 not: two (a lock cannot be saved)."
    )


def test_a_restored_function_of_unapproved_code_is_not_taken_for_the_users(
    sessions: Sessions,
) -> None:
    first_session = sessions.open("def own(): return 1")
    other = "def other(): return 2"
    first_session.session.cells.run(other, origin="assistant", party="demo", lock="guard")
    it = sessions.again(first_session)
    assert it.store.wait(tags.RESTORE).text == "2 variables restored."
    assert it.session.cells.still_means_same("own")
    assert not it.session.cells.still_means_same("other")
    it.run("def other(): return 3")
    assert it.session.cells.still_means_same("other")


def test_first_change_of_a_restored_variable_says_what_it_was(sessions: Sessions) -> None:
    it = sessions.again(sessions.open("numbers = [1, 2]"))
    it.store.wait(tags.RESTORE)
    it.run("numbers.append(3)")
    record = it.store.wait(tags.NAMESPACE, cell=2)
    assert isinstance(record, records.Namespace)
    (change,) = record.changes
    assert change.before is not None
    assert change.variable is not None
    assert (change.before.summary, change.variable.summary) == ("2 items", "3 items")


def test_cell_waits_only_for_the_variables_it_mentions(sessions: Sessions, project: Path) -> None:
    first_session = sessions.open(SLOW, "one, two, n = Slow('one'), Slow('two'), 5")
    it = sessions.again(first_session)
    it.store.wait(tags.NAMESPACE, restored=True)
    it.session.submit("python", "'n', one.name")
    it.store.wait(tags.USER_REPL_IN, cell=3)
    (project / "one").touch()
    assert it.store.wait(tags.USER_REPL_OUT, cell=3).text == "('n', 'one')\n", (
        "the other one is not read yet"
    )
    assert not [record for record in it.store.records if record.tag == tags.RESTORE]
    (project / "two").touch()
    assert it.run("two.name").text == "'two'\n"
    assert it.store.wait(tags.RESTORE).text == "6 variables restored."


def test_escape_stops_restoring_and_the_variable_stays_on_disk(
    sessions: Sessions, project: Path
) -> None:
    first_session = sessions.open(SLOW, "one = Slow('one')")
    it = sessions.again(first_session)
    it.store.wait(tags.NAMESPACE, restored=True)
    wait_for(lambda: it.session.stop() == "cell")
    assert "one (reading it was stopped)" in it.store.wait(tags.RESTORE).text
    it.run("other = 1")
    (project / "one").touch()
    third = sessions.again(it)
    assert third.store.wait(tags.RESTORE).text == "5 variables restored."


def test_new_kernel_is_called_empty_only_if_nothing_is_restored(sessions: Sessions) -> None:
    it = sessions.open()
    it.session.submit("python", "import os; os._exit(3)")
    assert it.store.wait(tags.RESTORE).text == "The namespace is empty: no variables were saved."
    it.run("items = [1]")
    it.session.namespace_store.save(60)
    it.session.submit("python", "import os; os._exit(3)")
    it.store.wait(tags.RESTORE, text="1 variable restored.")
    texts = [
        record.text for record in it.store.records if record.tag == tags.KERNEL and record.text
    ]
    assert texts.count("Started a new kernel.") == 2
    assert not any("empty" in text for text in texts)


def test_reset_forgets_the_saved_variables(sessions: Sessions) -> None:
    first_session = sessions.open("items = [1]")
    it = sessions.again(first_session)
    it.store.wait(tags.RESTORE)
    it.session.kernel_control.reset()
    it.store.wait(tags.KERNEL, text="Started a fresh kernel; its namespace is empty.")
    it.run("other = 1")
    third = sessions.again(it)
    assert third.store.wait(tags.RESTORE).text == "1 variable restored."
    assert third.run("other, 'items' in globals()").text == "(1, False)\n"


def test_unwritable_variables_are_reported_once(sessions: Sessions) -> None:
    it = sessions.open(
        "import resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); limits = resource.getrlimit(resource.RLIMIT_FSIZE)"
    )
    it.run("resource.setrlimit(resource.RLIMIT_FSIZE, (10, limits[1])); n = 1")
    message = "The variables were not saved: File too large. What was saved earlier is still there."
    it.store.wait(tags.NOTICE, text=message)
    it.run("n = 2")
    it.session.close()
    assert [record.text for record in it.store.records if record.tag == tags.NOTICE].count(
        message
    ) == 1
    assert it.session.namespace_store.has_unwritten_changes


def test_undo_is_saved_too(sessions: Sessions) -> None:
    first_session = sessions.open("items = [1]", "items.append(2)")
    wait_for(sessions.saved.files)
    first_session.session.undo.undo(2)
    it = sessions.again(first_session)
    it.store.wait(tags.RESTORE)
    assert it.run("items").text == "[1]\n"


def test_files_of_others_give_a_warning_and_stay(sessions: Sessions) -> None:
    first_session = sessions.open("items = [1]")
    first_session.session.close()
    index = sessions.saved.folder / "index.json"
    index.chmod(0o660)
    content = index.read_bytes()
    it = sessions.open("items = 'mine'")
    it.session.close()
    warning = it.store.wait(tags.NOTICE, level="warning")
    assert (
        warning.text
        == f"Variables are neither read nor saved, because others can write {index}. If you trust what is in it, run: chmod go-w {index}"
    )
    assert index.read_bytes() == content


def test_restore_sentence_names_some_variables() -> None:
    missing = [NotSaved(Variable(f"n{n}", "int", "", "data"), "why") for n in range(7)]
    message = "1,200 variables restored, 7 not: n0 (why), n1 (why), n2 (why), n3 (why), n4 (why), and 2 more."
    assert describe_restored(["x"] * 1200, missing) == message


def test_variable_that_kills_the_kernel_while_loading_is_named(sessions: Sessions) -> None:
    first_session = sessions.open(
        "import os\nclass Ends:\n    def __setstate__(self, state): os._exit(1)\nbad = Ends(); bad.x = 'x' * 100_000; good = 1"
    )
    it = sessions.again(first_session)
    restored = it.store.wait(tags.RESTORE)
    assert restored.text == "3 variables restored, 1 not: bad (the kernel ended while reading it)."
    assert it.run("good, 'bad' in globals()").text == "(1, False)\n"
