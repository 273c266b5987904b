"""Texts, files, folders and tables become one text with named parts."""

from __future__ import annotations

import codecs
import io
import os
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from mahtab_tui.knowledge.text_decoding import decode
from mahtab_tui.worker.rlm import contexts
from mahtab_tui.worker.rlm.contexts import ContextError, ContextText, read_context

FRAME = pd.DataFrame({"born": [1815, 1906, 1936]})


def parts(context: ContextText) -> dict[str, str]:
    """Return the text of each document by name."""
    return {name: context.text[start:end] for name, start, end in context.parts}


def refuse(monkeypatch: pytest.MonkeyPatch, shut: Path) -> None:
    """Make the system refuse to open one path."""

    def refusing(call: Any, path: Any, *args: Any, **kwargs: Any) -> Any:
        if str(path) == str(shut):
            raise PermissionError(13, "Permission denied", str(path))
        return call(path, *args, **kwargs)

    for name in ("open", "scandir"):
        monkeypatch.setattr(os, name, partial(refusing, getattr(os, name)))


def test_texts_are_unchanged() -> None:
    data = b"a text\n"
    for source in ("a text\n", data, bytearray(data), memoryview(data), io.StringIO("a text\n")):
        assert read_context(source) == ContextText("a text\n")


@pytest.mark.parametrize(
    ("mark", "encoding"),
    [
        (codecs.BOM_UTF8, "utf-8"),
        (codecs.BOM_UTF16_LE, "utf-16-le"),
        (codecs.BOM_UTF16_BE, "utf-16-be"),
    ],
)
def test_byte_order_mark_selects_the_encoding(mark: bytes, encoding: str) -> None:
    assert read_context(mark + "Grüße 🌙".encode(encoding)) == ContextText("Grüße 🌙")


def test_bytes_outside_utf_8_are_read_as_latin_1(tmp_path: Path) -> None:
    data = b"caf\xe9 \xff"
    context = read_context(data)
    assert context.text == decode(data) == "caf\xe9 \xff"
    assert context.notices == ("The bytes are not valid UTF-8, and were read as Latin-1.",)
    file = tmp_path / "old.txt"
    file.write_bytes(data)
    assert read_context(file).text == decode(data)
    assert parts(read_context(tmp_path)) == {"old.txt": decode(data)}
    assert parts(read_context([data, "\ufeffé".encode("utf-16-le")])) == {
        "0": decode(data),
        "1": "é",
    }


def test_path_is_read_and_a_file_name_is_searched(project: Path) -> None:
    (project / "events.log").write_text("one\ntwo\n")
    file = ContextText("one\ntwo\n", about="the file events.log")
    assert read_context(project / "events.log") == file
    with pytest.raises(ContextError, match=r"missing\.log cannot be read: No such file"):
        read_context(project / "missing.log")
    context = read_context("events.log")
    assert context.text == "events.log"
    assert "pass pathlib.Path('events.log')" in context.notices[0]
    assert read_context("other.log") == ContextText("other.log")
    assert read_context("a\0b" * 10) == ContextText("a\0b" * 10)


def test_folder_is_read_as_its_text_files(tmp_path: Path) -> None:
    for name in ("b/two.txt", "a.txt", ".git/config", "b/.hidden", "picture.png"):
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(name)
    (tmp_path / "picture.png").write_bytes(b"\x89PNG\x00\x00")
    (tmp_path / "utf16.txt").write_bytes("\ufeffwide".encode("utf-16-le"))
    context = read_context(tmp_path)
    assert context.kind == "dict"
    assert parts(context) == {"a.txt": "a.txt", "utf16.txt": "wide", "b/two.txt": "b/two.txt"}
    assert context.notices == (
        f"Files in {tmp_path} that are not text, or cannot be read, were left out: 1.",
    )


def test_unsearchable_folder_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ContextError, match="There are no text files"):
        read_context(tmp_path)
    for number in range(4):
        (tmp_path / f"{number}.txt").write_text("x")
    monkeypatch.setattr(contexts, "_MAX_FILES", 3)
    with pytest.raises(ContextError, match="more than 3 files"):
        read_context(tmp_path)


@pytest.mark.parametrize("name", ["shut.txt", "shut/in.txt"])
def test_unreadable_files_are_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    (tmp_path / "shut").mkdir()
    for filename in ("open.txt", name):
        (tmp_path / filename).write_text(filename)
    shut = tmp_path / name.partition("/")[0]
    refuse(monkeypatch, shut)
    assert parts(read_context(tmp_path)) == {"open.txt": "open.txt"}
    with pytest.raises(ContextError, match=f"{shut.name} cannot be read: Permission denied"):
        read_context(shut)


@pytest.mark.timeout(20)
def test_endless_files_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")  # to open it would wait for a writer
    for source in (Path("/dev/zero"), tmp_path / "pipe"):
        with pytest.raises(ContextError, match="is not a file but a device or a pipe"):
            read_context(source)
    (tmp_path / "a.txt").write_text("a")
    assert parts(read_context(tmp_path)) == {"a.txt": "a"}
    with pytest.raises(ContextError, match=r"cannot be read: .*null"):
        read_context(Path("a\0b"))


def test_lists_and_dicts_of_texts_become_documents() -> None:
    of_langchain = SimpleNamespace(page_content="of LangChain")
    context = read_context(["plain", b"bytes", of_langchain, {"text": "a", "id": 3}, {"id": 4}, 5])
    assert context.kind == "list"
    texts = ["plain", "bytes", "of LangChain", "a", '{"id": 4}', "5"]
    assert parts(context) == dict(zip("012345", texts, strict=True))
    assert parts(read_context(iter(["a", "", "b\n"]))) == {"0": "a", "1": "", "2": "b\n"}
    assert read_context({"x": "first", 2: "second"}) == ContextText(
        "first\nsecond", "dict", (("x", 0, 5), ("2", 6, 12))
    )
    assert read_context([]) == ContextText("", "list")
    assert read_context(SimpleNamespace(text="alone")) == ContextText("alone")


def test_a_table_is_csv_with_its_columns_named() -> None:
    frame = pd.DataFrame({"name": ["Ada", "Grace"], "born": [1815, 1906]})
    context = read_context(frame)
    assert context.text == "name,born\nAda,1815\nGrace,1906\n"
    assert context.about == "CSV of a DataFrame of 2 rows with the columns name, born"
    wide = pd.DataFrame({f"c{number}": [1] for number in range(150)})
    assert "and 50 more" in read_context(wide).about


@pytest.mark.parametrize(
    ("frame", "text", "columns"),
    [
        (FRAME[FRAME.born > 1900], ",born\n1,1906\n2,1936\n", "(the index), born"),
        (FRAME[::2], ",born\n0,1815\n2,1936\n", "(the index), born"),
        (
            FRAME.set_index(pd.Index([*"abc"], name="n")),
            "n,born\na,1815\nb,1906\nc,1936\n",
            "n, born",
        ),
        (FRAME.rename_axis("id"), "id,born\n0,1815\n1,1906\n2,1936\n", "id, born"),
        (
            FRAME.set_index([["x", "x", "y"], ["a", "b", "a"]]).rename_axis(["k", None])[:2],
            "k,,born\nx,a,1815\nx,b,1906\n",
            "k, (the index), born",
        ),
        (FRAME.born[1:], ",born\n1,1906\n2,1936\n", "(the index), born"),
    ],
)
def test_meaningful_index_becomes_a_column(frame: object, text: str, columns: str) -> None:
    context = read_context(frame)
    assert (context.text, context.about.rpartition("the columns ")[2]) == (text, columns)


def test_tables_and_series_among_documents() -> None:
    table = pd.DataFrame({"n": range(1_000)})
    assert parts(read_context({"all": table})) == {"all": read_context(table).text}
    assert parts(read_context(pd.Series(["a", "b"]))) == {"0": "a", "1": "b"}


@pytest.mark.parametrize("value", [None, 5, object(), len])
def test_unsupported_context_type_is_refused(value: object) -> None:
    name = type(value).__name__
    with pytest.raises(ContextError, match=f"A value of type {name} cannot be searched"):
        read_context(value)
