"""The tools in the namespace, and shell lines."""

from __future__ import annotations

import ast
import contextlib
import json
import os
import warnings
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mahtab_tui.worker import toolbox
from mahtab_tui.worker.magics import transform
from mahtab_tui.worker.text_tools import grep, partition, peek
from mahtab_tui.worker.toolbox import create, edit, load_claude_sessions, needs_terminal, read


def test_peek_reports_its_range() -> None:
    assert peek("abcdef", 2, 1) == "[characters 1 to 3 of 6]\nbc"
    assert peek("abcdef", 2, -2) == "[characters 4 to 6 of 6]\nef"


def test_grep_numbers_lines_and_shows_context() -> None:
    text = "one\ntwo\nthree\nfour\nfive"
    assert grep(text, "three") == "3: three"
    assert grep(text, "three", context=1) == "2- two\n3: three\n4- four"
    assert "2 more matching lines" in grep("x\nx\nx", "x", max_matches=1)
    assert grep(text, "nine") == "no line matches 'nine'"


def test_grep_reports_an_invalid_pattern() -> None:
    with pytest.raises(ValueError, match="is not a regular expression"):
        grep("text", "(")


@given(st.text(), st.integers(1, 20))
def test_partition_parts_join_to_the_original_text(text: str, n: int) -> None:
    parts = partition(text, n)
    assert "".join(parts) == text
    assert len(parts) <= n
    assert all(part.endswith("\n") for part in parts[:-1])


def test_read_numbers_lines(project: Path) -> None:
    (project / "a.txt").write_text("one\ntwo\nthree\n")
    assert read("a.txt", 2, 3) == "     2  two\n     3  three"
    (project / "form.txt").write_bytes(b"one\f\r\ntwo\r\n")
    assert read("form.txt") == "     1  one\f\n     2  two"
    with pytest.raises(FileNotFoundError):
        read("missing.txt")


def test_edit_replaces_unique_text_and_shows_it(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = project / "a.py"
    path.write_bytes(b"x = 1\r\ny = 2\r\n")
    path.chmod(0o640)
    edit("a.py", "y = 2\n", "y = 3\n")
    assert path.read_bytes() == b"x = 1\r\ny = 3\r\n"
    assert path.stat().st_mode & 0o777 == 0o640
    assert "+y = 3" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("old", "message"),
    [
        ("", "empty"),
        ("zzz", "does not occur"),
        ("a", "occurs 2 times"),
        ("alpha = 2", "Line 1 is similar"),
    ],
)
def test_edit_refuses_ambiguous_text(project: Path, old: str, message: str) -> None:
    (project / "a.py").write_text("alpha = 1\nb = 2\n")
    with pytest.raises(ValueError, match=message):
        edit("a.py", old, "new")
    assert (project / "a.py").read_text() == "alpha = 1\nb = 2\n"


def test_edit_keeps_bytes_that_are_not_utf_8(project: Path) -> None:
    (project / "a.txt").write_bytes(b"caf\xe9 one\n")
    edit("a.txt", "one", "two")
    assert (project / "a.txt").read_bytes() == b"caf\xe9 two\n"


@pytest.mark.parametrize(
    ("before", "old", "new", "after"),
    [
        (b"a = 1\r\nb = 2\r\n", "b = 2", "b = 2\nc = 3", b"a = 1\r\nb = 2\r\nc = 3\r\n"),
        (b"a = 1\nb = 2\n", "a = 1\r\nb", "a = 1\r\nc = 2\r\nb", b"a = 1\nc = 2\nb = 2\n"),
        (b"caf\xe9 one\n", "café one", "café für zwei", b"caf\xe9 f\xfcr zwei\n"),
        ("“5 €”\n".encode("cp1252"), "5 €", "6 €", "“6 €”\n".encode("cp1252")),
        ("é è ü\n".encode() + b"\xff one\n", "é è ü", "é", "é\n".encode() + b"\xff one\n"),
        (
            "# coding: cp1251\nx = 'да'\n".encode("cp1251"),
            "да",
            "нет",
            "# coding: cp1251\nx = 'нет'\n".encode("cp1251"),
        ),
        ("é\n".encode("utf-16"), "é", "à", "à\n".encode("utf-16")),
    ],
)
def test_edit_keeps_line_ends_and_encoding(
    project: Path, before: bytes, old: str, new: str, after: bytes
) -> None:
    (project / "a.py").write_bytes(before)
    edit("a.py", old, new)
    assert (project / "a.py").read_bytes() == after


def test_edit_writes_nothing_that_the_files_encoding_cannot_represent(project: Path) -> None:
    (project / "a.txt").write_bytes(b"caf\xe9\n")
    with pytest.raises(ValueError, match="cp1252, which has no '→'"):
        edit("a.txt", "caf", "→")
    assert (project / "a.txt").read_bytes() == b"caf\xe9\n"


def test_create_makes_folders_and_never_overwrites(project: Path) -> None:
    create("deep/down/a.txt", "text\n")
    assert (project / "deep/down/a.txt").read_text() == "text\n"
    with pytest.raises(FileExistsError, match="already exists"):
        create("deep/down/a.txt", "other")
    assert (project / "deep/down/a.txt").read_text() == "text\n"


def test_a_changed_module_is_reloaded(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(str(project))
    monkeypatch.setattr("sys.dont_write_bytecode", True)
    create("a_module_of_ours.py", "value = 1\n")
    import a_module_of_ours  # type: ignore[import-not-found]

    edit("a_module_of_ours.py", "value = 1", "value = 22")
    assert a_module_of_ours.value == 22
    edit("a_module_of_ours.py", "value = 22", "value = (")
    assert "could not be reloaded" in capsys.readouterr().out


def test_claude_sessions_are_read_and_broken_lines_skipped(project: Path, home: Path) -> None:
    assert load_claude_sessions() == []
    folder = home / ".claude" / "projects" / "".join(c if c.isalnum() else "-" for c in os.getcwd())
    folder.mkdir(parents=True)
    lines = [
        "{broken",
        "[]",
        "[" * 200_000,
        json.dumps({"type": "user", "timestamp": "t", "message": {"content": "Fix  the\nbug"}}),
        json.dumps({"type": "assistant"}),
    ]
    (folder / "abc.jsonl").write_text("\n".join(lines))
    [found] = load_claude_sessions()
    assert (found["id"], found["title"], found["messages"]) == ("abc", "Fix the bug", 2)


def test_every_tool_is_documented() -> None:
    for name in toolbox.NAMES:
        assert (getattr(toolbox, name).__doc__ or "").split("\n")[0].endswith(".")


@given(st.text(alphabet="ab!='\"\n ()[]:#\\", max_size=40))
def test_valid_python_and_line_numbers_are_unchanged(source: str) -> None:
    assert transform(source).count("\n") == source.count("\n")
    with contextlib.suppress(SyntaxError, ValueError), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ast.parse(source)
        assert transform(source) == source


@pytest.mark.parametrize(
    "command",
    [
        "vim a.py",
        "git commit",
        "git rebase -i HEAD~3",
        "git add -p",
        "EDITOR=vi less a",
        "sudo vi /etc/hosts",
        "python",
        "ssh host",
        "/usr/bin/top",
    ],
)
def test_terminal_programs_are_recognised(command: str) -> None:
    assert needs_terminal(command)


@pytest.mark.parametrize(
    "command",
    ["ls", "git commit -m x", "git status", "python a.py", "echo vim", "grep 'x y", "make", ""],
)
def test_other_programs_are_captured(command: str) -> None:
    assert not needs_terminal(command)
