"""Output of a cell whose kernel ended without a screen, as a record of its session."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from mahtab_tui.bus.masking import Secrets
from mahtab_tui.bus.records import (
    AssistantReplIn,
    AssistantReplOut,
    Notice,
    Record,
    ReplOut,
    UserReplIn,
    UserReplOut,
)
from mahtab_tui.kernel.detached import save_last_output, sockets_folder
from mahtab_tui.session.kernel import add_recovered_output
from mahtab_tui.store.resume import database, find_session, new_store, remove_session, resumed_store

pytestmark = pytest.mark.usefixtures("home")


def resumed(project: Path, started: Record, printed: str) -> tuple[str, list[Record], list[Record]]:
    """A session whose screen was killed while a cell ran, resumed twice after its kernel ended: its
    id, and its records each time."""
    store, _, _ = new_store(project)
    store.append(started)
    store.partial("cell", UserReplOut("beg", cell=3, cut=True, time=time.time()))
    store.close()
    assert store.claim is not None
    store.claim.release()
    save_last_output(store.session, "abc", 3, [b"begun \x1b[31mred\x1b[0m\n", printed.encode()])
    recovered = []
    for _ in range(2):
        again, _, past = resumed_store(find_session(store.session, None))
        recovered.append(add_recovered_output(again, past, Secrets(lambda: ["hunter22"])))
        again.close()
        assert again.claim is not None
        again.claim.release()
    return store.session, recovered[0], recovered[1]


def outputs(records: list[Record]) -> list[ReplOut]:
    return [record for record in records if isinstance(record, ReplOut)]


@pytest.mark.parametrize("by_user", [True, False])
def test_full_output_replaces_the_stored_part(project: Path, by_user: bool) -> None:
    started = (UserReplIn if by_user else AssistantReplIn)(
        "work()", cell=3, party="you", time=time.time()
    )
    _, first, second = resumed(project, started, "my key is hunter22\nend")
    for records in (first, second):
        (output,) = outputs(records)
        assert isinstance(output, UserReplOut if by_user else AssistantReplOut)
        assert "hunter22" not in output.text
        assert output.text.startswith("begun")
        assert output.text.endswith("\nend")
        assert (output.cell, output.status, output.cut) == (3, "died", False)
        assert (
            next(record.text for record in records if isinstance(record, Notice))
            == "The kernel ended in cell 3 while no screen was open."
        )
    assert list(sockets_folder().iterdir()) == []


def test_output_of_an_unknown_cell_is_dropped(project: Path) -> None:
    _, first, _ = resumed(project, UserReplIn("work()", cell=4, party="you", time=time.time()), "")
    assert [output.text for output in outputs(first)] == ["beg"]
    assert list(sockets_folder().iterdir()) == []


def test_recovered_output_is_deleted_with_its_session(project: Path) -> None:
    session, _, _ = resumed(
        project, UserReplIn("work()", cell=3, party="you", time=time.time()), ""
    )
    save_last_output(session, "def", 9, [b"more"])
    remove_session(find_session(session, None))
    assert list(sockets_folder().iterdir()) == []
    assert database().exists()
