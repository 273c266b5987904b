"""Sessions as one file: what is written comes back, and a hostile file does nothing but fail."""

from __future__ import annotations

import contextlib
import gzip
import json
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mahtab_tui.bus import records
from mahtab_tui.bus.handlers import StoreError
from mahtab_tui.bus.prompt import RESUMED, PromptHandler
from mahtab_tui.bus.records import Record
from mahtab_tui.session.leftovers import remove_leftovers
from mahtab_tui.store import database as store_database
from mahtab_tui.store import importing, session_file
from mahtab_tui.store.digest import delete_session
from mahtab_tui.store.finding import find_sessions
from mahtab_tui.store.importing import IMPORTED, import_session
from mahtab_tui.store.resume import database, find_session, resumed_store
from mahtab_tui.store.session_file import BadSessionFile, opened_session, write_session
from mahtab_tui.store.sqlite import SqliteStore, list_sessions, load_records

SAID: list[Record] = [
    records.UserReplIn("print('a\ud800b')", cell=1, party="you", time=1000.0),
    records.Display("<picture>", cell=1, mime="image/png", data="iVBORw0KGgo=", time=1000.5),
    records.UserReplOut("a?b\n\x1b[31mred\x1b[0m", cell=1, party="you", status="ok", duration=0.5, kinds=(("stdout", 13),), time=1001.0),
    records.Namespace(cell=1, changes=(records.Change("x", "added", "int", "1"),), time=1002.0),
    records.UserChat("Which month?\nIn short.", turn=1, time=1003.0),
    records.AssistantChat("May.", turn=1, step=0, party="sonnet", time=1004.0),
    records.Usage(model="claude", cost=0.25, turn=1, time=1005.0),
]


def save(session: str, *said: Record) -> None:
    store = SqliteStore(database(), session, name="shop", project="/data/shop")
    for record in said:
        store.append(record)
    store.close()


def loaded(session: str) -> list[Record]:
    return [record for _, record in load_records(database(), session).records]


def exported(folder: Path, session: str = "abc") -> Path:
    file = folder / "it.jsonl.gz"
    write_session(database(), find_session(session, None), file, over=True)
    return file


def lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in gzip.decompress(file.read_bytes()).splitlines()]


def packed(file: Path, *values: object) -> Path:
    """Write a file of lines: values, or bytes as they are."""
    file.write_bytes(gzip.compress(b"".join(value if isinstance(value, bytes) else json.dumps(value).encode() + b"\n" for value in values)))
    return file


def untouched() -> tuple[list[str], int]:
    """The sessions, and how many records there are in all."""
    if not database().exists():
        return [], 0
    with contextlib.closing(sqlite3.connect(database())) as connection:
        (count,) = connection.execute("select count(*) from record").fetchone()
    return [row.id for row in list_sessions(database())], int(count)


def test_what_is_exported_comes_back_as_a_new_session(home: Path, tmp_path: Path) -> None:
    save("abc", *SAID)
    file = exported(tmp_path)
    assert file.stat().st_mode & 0o077 == 0
    made = import_session(database(), file, "/elsewhere")
    assert (made.title, made.records, made.unknown) == ("Which month?", len(SAID), 0)
    assert made.session != "abc"
    assert loaded(made.session)[:-1] == SAID
    assert loaded(made.session)[-1].text == IMPORTED
    row = find_session(made.session, None)
    assert (row.name, row.project, row.title, row.model, row.cost) == ("shop", "/elsewhere", "Which month?", "sonnet", 0.25)
    assert sorted(hit.session.id for hit in find_sessions(database(), "month").hits) == sorted(["abc", made.session])
    again = import_session(database(), file, "/elsewhere")
    assert again.session not in ("abc", made.session)


def test_resuming_it_begins_with_an_empty_namespace(home: Path, tmp_path: Path) -> None:
    save("abc", *SAID)
    made = import_session(database(), exported(tmp_path), "/elsewhere")
    store, _, past = resumed_store(find_session(made.session, None), variables=True)
    assert past[-1].text.startswith("Conversation restored; variables were not.")
    told = PromptHandler()
    told.resume(past)
    assert IMPORTED in told.get_context()
    assert RESUMED in told.get_context()
    assert store.claim is not None
    store.claim.release()


def test_nothing_of_private_variables_is_exported(home: Path, tmp_path: Path) -> None:
    save(
        "abc",
        records.UserReplIn("salaries = [51234]", cell=1, time=1.0),
        records.Display("51234", cell=1, mime="text/html", data="<b>51234</b>", time=1.5),
        records.UserReplOut("51234", cell=1, status="ok", time=2.0),
        records.Namespace(cell=1, changes=(records.Change("salaries", "added", "list", "51234"), records.Change("x", "added", "int", "1")), time=2.5),
        records.Private(name="salaries", private=True, cells=(1,), time=3.0),
        records.UserReplIn("other = 1", cell=2, time=4.0),
    )
    file = tmp_path / "it"
    assert "Left out: 1 cell that uses a private variable." in write_session(database(), find_session("abc", None), file)
    text = gzip.decompress(file.read_bytes()).decode()
    assert "51234" not in text
    assert "other = 1" in text
    assert '"x"' in text


def test_a_file_that_is_there_is_kept(home: Path, tmp_path: Path) -> None:
    save("abc", *SAID)
    (tmp_path / "it").write_text("mine")
    with pytest.raises(FileExistsError):
        write_session(database(), find_session("abc", None), tmp_path / "it")
    assert (tmp_path / "it").read_text() == "mine"
    assert [each.name for each in tmp_path.iterdir()] == ["it"]


def test_records_that_would_tie_it_to_this_machine_are_left_out(home: Path, tmp_path: Path) -> None:
    tied: list[Record] = [
        records.Branch("A branch.", origin="abc", copy="def", cell=3, time=2000.0),
        records.Skill(name="evil", loaded=True, chars=1, budget=1, time=2001.0),
        records.Plan(steps=("rm -rf /",), state="proposed", time=2002.0),
        records.NotebookFile("opened", file="/etc/passwd", digest="", first=1, cells=1, kept=True, time=2003.0),
        records.NotebookWritten(digest="x", time=2004.0),
    ]
    save("abc", *SAID, *tied)
    made = import_session(database(), exported(tmp_path), "/p")
    assert loaded(made.session)[:-1] == SAID


def header(**other: object) -> dict[str, object]:
    return {"kind": "mahtab session", "format": 1, "session": "abc", "name": "n", "title": "t", "started": 1.0, "last": 2.0, **other}


def record(**other: object) -> dict[str, object]:
    return {"tag": "user-chat", "time": 5.0, "attrs": {"turn": 1}, "text": "Hello"} | other


BAD: dict[str, Callable[[Path], object]] = {
    "no gzip": lambda file: file.write_text("{}"),
    "empty": lambda file: file.write_bytes(b""),
    "cut off": lambda file: file.write_bytes(gzip.compress(json.dumps(header()).encode() + b"\n" + b"x" * 10_000)[:40]),
    "garbage after": lambda file: file.write_bytes(gzip.compress(json.dumps(header()).encode() + b"\n") + b"\x1f\x8bgarbage"),
    "no lines": lambda file: packed(file),
    "no header": lambda file: packed(file, record()),
    "another kind": lambda file: packed(file, header(kind="other")),
    "newer": lambda file: packed(file, header(format=2)),
    "a list": lambda file: packed(file, [1], [2]),
    "no JSON": lambda file: packed(file, header(), b"{nonsense\n"),
    "no UTF-8": lambda file: packed(file, header(), b'{"tag": "\xff\xfe"}\n'),
    "deep": lambda file: packed(file, header(), b"[" * 200_000 + b"\n"),
    "digits": lambda file: packed(file, header(), b'{"tag": "user-chat", "time": ' + b"9" * 10_000 + b"}\n"),
    "NaN": lambda file: packed(file, header(), b'{"tag": "user-chat", "time": NaN, "attrs": {}, "text": ""}\n'),
    "no text": lambda file: packed(file, header(), record(text=5)),
    "no time": lambda file: packed(file, header(), record(time=None)),
    "a time beyond dates": lambda file: packed(file, header(), record(time=1e15)),
    "a negative time": lambda file: packed(file, header(), record(time=-1)),
    "attributes": lambda file: packed(file, header(), record(attrs=[])),
    "a field": lambda file: packed(file, header(), record(attrs={"turn": "one"})),
    "a giant number": lambda file: packed(file, header(), record(attrs={"turn": 2**62})),
    "a giant number within": lambda file: packed(file, header(), record(tag="user-undo", attrs={"cells": [1, 10**15], "undone": True})),
    "a stream": lambda file: packed(file, header(), record(tag="assistant-chat-stream", attrs={})),
    "of the session": lambda file: packed(file, header(), record(tag="queue", attrs={})),
    "the last line": lambda file: packed(file, header(), *[record() for _ in range(1_000)], record(text=None)),
    "many lists": lambda file: packed(file, header(), b'{"tag": [' + b"[]," * 2_000_000 + b"[]]}\n"),
}


@pytest.mark.parametrize("kind", BAD)
def test_a_file_that_is_wrong_is_one_sentence_and_leaves_no_trace(home: Path, tmp_path: Path, kind: str) -> None:
    save("abc", *SAID)
    before = untouched()
    file = tmp_path / "bad.gz"
    BAD[kind](file)
    with pytest.raises(BadSessionFile) as raised:
        import_session(database(), file, "/p")
    assert str(raised.value).startswith(str(file))
    assert "\n" not in str(raised.value)
    assert "\x1b" not in str(raised.value)
    assert untouched() == before


def test_a_file_is_read_to_its_end_before_anything_is_written(home: Path, tmp_path: Path) -> None:
    BAD["the last line"](file := tmp_path / "bad.gz")
    with pytest.raises(BadSessionFile):
        import_session(database(), file, "/p")
    assert not database().exists()


def test_what_takes_much_more_memory_than_its_bytes_is_not_even_read(home: Path, tmp_path: Path) -> None:
    BAD["many lists"](file := tmp_path / "bad.gz")
    with pytest.raises(BadSessionFile, match="line 2 is no record"):
        import_session(database(), file, "/p")
    text = '[1, "a\\" b", {}] ' * 300_000
    assert import_session(database(), packed(file, header(), record(text=text)), "/p").records == 1


def test_a_file_that_unpacks_to_too_much_is_refused_while_it_is_read(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_file, "LONGEST_LINE", 10_000)
    monkeypatch.setattr(session_file, "LARGEST", 50_000)
    for values in ([header(), record(text="x" * 20_000)], [header(), *[record(text="x" * 5_000) for _ in range(20)]]):
        file = packed(tmp_path / "bomb.gz", *values)
        with pytest.raises(BadSessionFile, match="larger than a session may be"):
            import_session(database(), file, "/p")
    monkeypatch.setattr(session_file, "RECORDS", 10)
    with pytest.raises(BadSessionFile, match="larger than a session may be"):
        import_session(database(), packed(tmp_path / "bomb.gz", header(), *[record() for _ in range(20)]), "/p")
    assert untouched() == ([], 0)


def test_what_only_a_newer_version_knows_is_counted_and_left_out(home: Path, tmp_path: Path) -> None:
    file = packed(tmp_path / "it.gz", header(extra=1), record(), record(tag="hologram", attrs={"x": 1}), record(attrs={"turn": 2, "mood": "good"}))
    made = import_session(database(), file, "/p")
    assert (made.records, made.unknown) == (2, 1)


def test_what_nobody_reads_may_be_deep(home: Path, tmp_path: Path) -> None:
    line = json.dumps(record(attrs={"turn": 1, "later": 0})).replace('"later": 0', '"later": ' + "[" * 480 + "]" * 480)
    made = import_session(database(), packed(tmp_path / "deep.gz", header(), line.encode() + b"\n"), "/p")
    assert loaded(made.session)[0] == records.UserChat("Hello", turn=1, time=5.0)


def test_names_of_the_file_are_not_believed(home: Path, tmp_path: Path) -> None:
    save("abc", *SAID)
    file = packed(
        tmp_path / "it.gz",
        header(session="abc", name="../../x\x1b]0;y\x07\n", title="\x1b[31m" + "T" * 9_999, started="yesterday", last=[1], project="/etc"),
        record(text="\x1b]52;c;AAAA\x07Hello"),
    )
    made = import_session(database(), file, "/p")
    row = find_session(made.session, None)
    assert made.session != "abc"
    assert loaded("abc") == SAID
    assert (row.name, row.project, len(row.title)) == ("../../x ", "/p", 100)
    assert row.started > 1e9


def test_a_failure_while_it_is_written_leaves_nothing(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save("abc", *SAID)
    file = packed(tmp_path / "it.gz", header(), *[record() for _ in range(1_200)])
    before = untouched()

    row, written = importing._row, list[str]()

    def broken(session: str, record: Record) -> object:
        written.append(session)
        if len(written) > 700:
            raise OSError(28, "No space left on device")
        return row(session, record)

    monkeypatch.setattr(importing, "_row", broken)
    with pytest.raises(Exception, match="No space left"):
        import_session(database(), file, "/p")
    assert untouched() == before


KILLED = """
import pathlib, sys
from mahtab_tui.store import importing
from mahtab_tui.store.resume import database
def stopping(lines, limit):
    for number, line in enumerate(lines):
        if number == 700:
            print("half", flush=True)
            sys.stdin.read()
        yield line
importing._first = stopping
importing.import_session(database(), pathlib.Path(sys.argv[1]), "/p")
"""


@pytest.mark.parametrize("by", ["a start", "an import"])
def test_what_a_killed_import_has_written_is_removed_and_what_a_running_one_writes_is_not(home: Path, tmp_path: Path, by: str) -> None:
    save("abc", *SAID)
    file = packed(tmp_path / "it.gz", header(), *[record() for _ in range(1_200)])
    before = untouched()

    def look() -> None:
        if by == "a start":
            remove_leftovers()
        else:
            with pytest.raises(BadSessionFile):
                import_session(database(), packed(tmp_path / "other.gz", header(), record(tag="kernel", attrs={"state": 1})), "/p")
            import_session(database(), packed(tmp_path / "empty.gz", header()), "/p", limit=0)
            for row in list_sessions(database(), "/p"):
                delete_session(database(), row.id)

    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", KILLED, str(file)], stdin=pipe, stdout=pipe) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"half\n"
        look()
        assert untouched() == (before[0], before[1] + 500)
        other.kill()
    look()
    assert untouched() == before


def test_it_waits_for_programs_that_write(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save("abc", *SAID)
    monkeypatch.setattr(store_database, "WAIT", 0.05)
    monkeypatch.setattr(importing, "_CATCH_UP", 0.0)
    other = sqlite3.connect(database(), isolation_level=None, check_same_thread=False)
    other.execute("begin immediate")
    end = threading.Timer(0.4, other.execute, ("commit",))
    end.start()
    made = import_session(database(), packed(tmp_path / "it.gz", header(), record()), "/p")
    end.join()
    other.close()
    assert find_session(made.session, None).title == "t"


def test_an_index_that_cannot_be_written_now_fails_no_import(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(path: Path, seconds: float) -> int:
        raise StoreError("It cannot be used.")

    monkeypatch.setattr(importing, "catch_up", fail)
    made = import_session(database(), packed(tmp_path / "it.gz", header(), record()), "/p")
    assert find_session(made.session, None).title == "t"


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.binary(max_size=200), at=st.integers(0, 10_000), kept=st.integers(0, 10_000))
def test_no_bytes_are_more_than_a_sentence(home: Path, tmp_path: Path, data: bytes, at: int, kept: int) -> None:
    whole = gzip.compress(b"".join(json.dumps(each).encode() + b"\n" for each in (header(), record(), record())))
    file = tmp_path / "any.gz"
    for content in (data, b"\x1f\x8b" + data, gzip.compress(data), whole[: at % len(whole)] + data + whole[kept % len(whole) :]):
        file.write_bytes(content)
        with contextlib.suppress(BadSessionFile), opened_session(file) as (_, found):
            for _ in found:
                pass
