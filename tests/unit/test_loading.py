"""The cells that load files."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from mahtab_tui.session import loading
from mahtab_tui.session.loading import (
    MOST_BYTES,
    CannotLoad,
    inspect_files,
    make_loading_cell,
    variable_name,
)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def load(name: str, data: bytes, *, pandas: bool) -> tuple[Any, str]:
    Path(name).write_bytes(data)
    [file] = inspect_files([Path(name)])
    code = make_loading_cell(file, Path.cwd(), pandas=pandas).code
    namespace: dict[str, Any] = {}
    exec(code, namespace)
    return namespace[file.name], code


@pytest.mark.parametrize(
    ("name", "data", "options"),
    [
        ("data.csv", b"name,n\nann,1\n", ""),
        ("semi.csv", b"name;n\nann;1\n", ", sep=';'"),
        ("tabs.tsv", b"name\tn\nann\t1\n", ", sep='\\t'"),
        ("bom.csv", b"\xef\xbb\xbfname,n\nann,1\n", ", encoding='utf-8-sig'"),
        ("windows.csv", "name,n,o\nann,1,“€”\n".encode("cp1252"), ", encoding='cp1252'"),
        ("packed.csv.gz", gzip.compress(b"name;n\nann;1\n", mtime=0), ", sep=';'"),
        (
            "latin.csv",
            "name,n,stra\xdfe\nann,1,K\xf6ln\n".encode("latin-1"),
            ", encoding='latin-1'",
        ),
        ("wide.csv", "name,n\nann,1\n".encode("utf-16"), ", encoding='utf-16'"),
    ],
)
def test_table_is_the_same_with_and_without_pandas(name: str, data: bytes, options: str) -> None:
    frame, written = load(name, data, pandas=True)
    assert isinstance(frame, pd.DataFrame)
    variable = name.partition(".")[0]
    assert written == f"import pandas as pd\n{variable} = pd.read_csv('{name}'{options})"
    rows, written = load(name, data, pandas=False)
    assert "pandas" not in written
    assert (
        [(row["name"], row["n"]) for row in rows]
        == [(row["name"], str(row["n"])) for row in frame.to_dict("records")]
        == [("ann", "1")]
    )


@pytest.mark.parametrize(
    ("name", "data", "value"),
    [
        ("a.json", b'{"a": [1]}', {"a": [1]}),
        ("lines.jsonl", b'{"a": 1}\n\n{"a": 2}\n', [{"a": 1}, {"a": 2}]),
        ("app.py", b"x = 1\n", "x = 1\n"),
        ("notes.txt", "ä\n".encode(), "ä\n"),
        ("notes", b"", ""),
        ("colours.log", b"\x1b[31mred\x1b[0m\n", "\x1b[31mred\x1b[0m\n"),
        ("late.txt", b"a" * 70_000 + b"\xff", "a" * 70_000 + "\ufffd"),
        ("lines.jsonl.xz", lzma.compress(b'{"a": 1}\n'), [{"a": 1}]),
        ("notes.txt.bz2", bz2.compress("ä\n".encode()), "ä\n"),
        ("prices.txt", "5 €\n".encode("cp1252"), "5 €\n"),
        ("cut.txt", b"a" * 65_535 + "ä".encode(), "a" * 65_535 + "ä"),
        ("x'; import os; os.abort() #.txt", b"words", "words"),
        ("a\nb\u202e.txt", b"words", "words"),
        ("b\udcff.txt", b"words", "words"),
    ],
)
def test_other_files_are_loaded_by_their_content(name: str, data: bytes, value: object) -> None:
    loaded, code = load(name, data, pandas=True)
    assert loaded == value
    assert code.isascii()


@pytest.mark.parametrize(
    ("name", "data", "note"),
    [
        ("a.bin", bytes(range(256)), "a.bin is not a text file"),
        ("fake.csv", b"\x89PNG\r\n\0\0\0", "fake.csv is not a text file"),
        ("noise.json", b"{}" + b"\1\2\3" * 20, "noise.json is not a text file"),
        ("table.parquet", b"PAR1", "table.parquet needs pandas"),
    ],
)
def test_binary_file_is_loaded_as_its_path(name: str, data: bytes, note: str) -> None:
    loaded, _ = load(name, data, pandas=False)
    assert loaded == Path(name)
    [file] = inspect_files([Path(name)])
    assert make_loading_cell(file, Path.cwd(), pandas=False).note.startswith(note)


def test_a_pickle_is_never_loaded() -> None:
    loaded, _ = load("model.pkl", b"\x80\x04\x95\0\0", pandas=True)
    assert loaded == Path("model.pkl")


def test_a_huge_file_is_not_read(folder: Path) -> None:
    with Path("huge.csv").open("wb") as file:
        file.write(b"a,b\n")
        file.truncate(MOST_BYTES + 1)
    [file_] = inspect_files([Path("huge.csv")])
    cell = make_loading_cell(file_, folder, pandas=True)
    assert cell.code == "from pathlib import Path\nhuge = Path('huge.csv')"
    assert (
        cell.note == "huge.csv is 0.5 GB, too much to load: huge is its path. rlm() can search it."
    )


def test_only_the_beginning_of_a_file_is_examined(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("long.txt").write_bytes(b"x" * 1_000_000)
    read: list[int] = []
    monkeypatch.setattr(loading, "marked_encoding", lambda data: read.append(len(data)))
    inspect_files([Path("long.txt")])
    assert read == [65_536]


def test_unloadable_file_gives_one_sentence(folder: Path) -> None:
    os.mkfifo("pipe")
    for path, sentence in (
        ("none.csv", "There is no file none.csv."),
        (".", "The folder . cannot be loaded as a variable."),
        ("pipe", "pipe is not a regular file: it cannot be loaded as a variable."),
        ("none\x1b[2J.csv", "There is no file none.csv."),
        ("a" * 300, f"{'a' * 300} cannot be read: File name too long."),
        ("a\0b", "ab cannot be read: embedded null byte."),
    ):
        with pytest.raises(CannotLoad) as error:
            inspect_files([Path(path)])
        assert str(error.value) == sentence


@pytest.mark.parametrize(
    ("name", "variable"),
    [
        ("my-data 2.csv", "my_data_2"),
        ("2024.csv", "_2024"),
        ("class.txt", "class_"),
        ("list.csv", "list_"),
        ("grep.txt", "grep_"),
        ("données.csv", "données"),
        ("m².csv", "m2"),
        ("…", "data"),
        (".env", "env"),
    ],
)
def test_variable_names_shadow_nothing(name: str, variable: str) -> None:
    assert variable_name(Path(name)) == variable
    assert variable.isidentifier()


def test_two_files_never_share_a_variable(folder: Path) -> None:
    paths = [Path("data.csv"), Path("data.json"), Path("data.txt")]
    for path in paths:
        path.write_text("{}")
    assert [file.name for file in inspect_files(paths)] == ["data", "data_2", "data_3"]


def test_file_outside_the_folder_is_named_in_full(folder: Path) -> None:
    Path("data.txt").write_text("x")
    [file] = inspect_files([Path("data.txt")])
    assert (
        make_loading_cell(file, folder / "sub", pandas=False).code
        == f"data = open({str(folder / 'data.txt')!r}, encoding='utf-8', errors='replace').read()"
    )
