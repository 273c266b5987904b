"""The cells that load files."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import re
import zipfile
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from mahtab_tui.session import file_formats
from mahtab_tui.session.data_files import MAX_LOADED_BYTES, CannotLoad, inspect_files, variable_name
from mahtab_tui.session.loading import LoadingCell, make_loading_cell
from mahtab_tui.session.text_tables import guess_separator

CITIES = {
    "cp1251": "имя;город\nИван;Москва\nМария;Новосибирск\n",
    "cp1252": "name;ort\nJörg;Köln\nÄnne;Düsseldorf – Süd\n",
    "cp932": "名前;都市\n田中太郎;東京\n鈴木花子;大阪\n",
    "gb18030": "姓名;城市\n张伟;北京\n王芳;上海\n",
    "cp949": "이름;도시\n김철수;서울\n이영희;부산\n",
    "cp1253": "όνομα;πόλη\nΓιώργος;Αθήνα\nΜαρία;Θεσσαλονίκη\n",
}


def workbook() -> bytes:
    """Return an archive such as a workbook is, with its content uncompressed."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("xl/worksheets/sheet1.xml", "sheet data " * 100)
    return file.getvalue()


WORKBOOK = workbook()
DAMAGED = "is damaged, or was not copied completely"


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


def loading_cell(name: str) -> LoadingCell:
    [file] = inspect_files([Path(name)])
    return make_loading_cell(file, Path.cwd(), pandas=True)


def note(name: str) -> str:
    return loading_cell(name).note


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
        ("late.txt", b"a" * 70_000 + b"\xff", "a" * 70_000 + "ÿ"),
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
        file.truncate(MAX_LOADED_BYTES + 1)
    [file_] = inspect_files([Path("huge.csv")])
    cell = make_loading_cell(file_, folder, pandas=True)
    assert cell.code == "from pathlib import Path\nhuge = Path('huge.csv')"
    assert (
        cell.note == "huge.csv is 0.5 GB, too much to load: huge is its path. rlm() can search it."
    )


@pytest.mark.parametrize(("encoding", "text"), CITIES.items(), ids=list(CITIES))
def test_older_encoding_is_found_and_called_a_guess(encoding: str, text: str) -> None:
    frame, _ = load("cities.csv", text.encode(encoding), pandas=True)
    rows = [line.split(";") for line in text.splitlines()]
    assert [list(frame.columns), *frame.to_numpy().tolist()] == rows
    assert note("cities.csv") == (
        f"The encoding of cities.csv is a guess: {encoding}. If letters look wrong, change it in the cell."
    )


def test_special_characters_may_be_far_from_the_beginning() -> None:
    plain = "name,n\n" + "ann,1\n" * 200_000
    for encoding, last_name in (
        ("latin-1", "J\xf6rg"),
        ("cp1251", "Новосибирск"),
        ("utf-8", "Jörg"),
    ):
        frame, code = load("late.csv", f"{plain}{last_name},2\n".encode(encoding), pandas=True)
        assert frame.name.iloc[-1] == last_name
        assert ("encoding=" in code) == (encoding != "utf-8")
    rows, _ = load("late.json", b'["' + b"a" * 100_000 + b'\xf6"]', pandas=False)
    assert rows[0].endswith("aö")


def test_damaged_bytes_do_not_make_another_encoding() -> None:
    for middle in ("ann,1\n", "ann,1\n" * 20_000):
        data = f"name,n\nJörg,1\nÄnne,2\n{middle}".encode() + b"b\xff,3\n"
        frame, _ = load("damaged.csv", data, pandas=True)
        assert [frame.name[0], frame.name.iloc[-1]] == ["Jörg", "b\ufffd"]
        assert note("damaged.csv") == "Some bytes of damaged.csv are not UTF-8: they became �."
        rows, _ = load("damaged.csv", data, pandas=False)
        assert rows[-1]["name"] == "b\ufffd"


def test_bytes_that_windows_does_not_have_are_read_as_latin_1() -> None:
    late = b"n\n" + b"K\xf6ln \x96 S\xfcd\n" * 10_000 + b"\x81\n"
    frame, code = load("rare.csv", late, pandas=True)
    assert "latin-1" in code
    assert frame.n.iloc[-1] == "\x81"


@pytest.mark.parametrize(
    ("text", "separator"),
    [
        ('"a;b;c","d|e"\n1,2\n3,4\n', ","),
        ("a|b|c,n\nx,1\ny,2\n", ","),
        ("a|b|c,n\nx|y|z,1\nx|y|z,2\n", ","),
        ("name;price\nann;1,5\nbob;2,5\n", ";"),
        ("name;place\nann;Oslo, Norway\nbob;Rome\n", ";"),
        ('a|b\n"one\ntwo, three"|2\n"x"|3\n', "|"),
        ("a\tb\n1\t2,5\n3\t4,5\n", "\t"),
        ("text\nhello; world\nyes; no\n", ","),
        ("a;b\n1;2\n\n3;4\n", ";"),
        ("a;b\n1;2;3\n1;2;3\n", ";"),
        ("", ","),
        ("a\n1\n", ","),
        ("name:price\nann:1.5\nbob:2.5\n", ":"),
        ("name^price\nann^1,5\nbob^2,5\n", "^"),
        ("name:price,n\nann:1,5\nbob:2,5\n", ","),
        ("name:price\nann:1\nbob\n", ","),
        ("time\n10:00:00\n10:01:00\n", ","),
        ("10:00:00\n10:01:00\n", ","),
        ("https://a.org\nhttps://b.org\n", ","),
        ("note: this\nnote: that\n", ","),
    ],
)
def test_separator_fits_most_lines(text: str, separator: str) -> None:
    assert guess_separator(text, is_cut=False) == separator


def test_a_text_of_settings_is_not_a_table() -> None:
    assert guess_separator("host:here\nport:there\n", is_cut=False, tries_rare=False) == ","


def test_incomplete_last_line_does_not_count() -> None:
    assert guess_separator("a;b\n1;2\n3", is_cut=True) == ";"
    row = "x;" * 9 + "x\n"
    _, code = load("long.csv", (row * 5_000).encode(), pandas=True)
    assert "sep=';'" in code


def test_a_tsv_file_may_have_another_separator() -> None:
    assert load("a.tsv", b"a,b\n1,2\n", pandas=True)[0].columns.tolist() == ["a", "b"]
    assert load("b.tsv", b"a,b\tc\n1,2\t3\n", pandas=True)[0].columns.tolist() == ["a,b", "c"]


def test_json_lines_may_be_called_json() -> None:
    lines = b'{"a": 1}\n{"a": [2]}\n'
    assert load("lines.json", lines, pandas=True)[0] == [{"a": 1}, {"a": [2]}]
    assert load("value.json", b'[{"a": 1},\n{"a": 2}]', pandas=True)[0] == [{"a": 1}, {"a": 2}]
    assert load("one.json", b'{"a": 1}\n', pandas=True)[0] == {"a": 1}


def zipped(**files: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, data in files.items():
            archive.writestr(name.replace("_", "."), data)
    return file.getvalue()


@pytest.mark.parametrize("pandas", [True, False])
def test_archive_with_one_file_is_that_file(pandas: bool) -> None:
    table, _ = load("t.zip", zipped(data_csv=b"name;n\nann;1\n"), pandas=pandas)
    rows = table.to_dict("records") if pandas else [{**table[0], "n": 1}]
    assert rows == [{"name": "ann", "n": 1}]
    assert load("j.zip", zipped(a_json=b"[1]"), pandas=pandas)[0] == [1]
    assert load("w.zip", zipped(a_txt="ä\n".encode("latin-1")), pandas=pandas)[0] == "ä\n"
    assert load("p.zip", zipped(a_bin=bytes(range(256))), pandas=pandas)[0] == Path("p.zip")


def test_archive_with_more_files_is_its_path() -> None:
    loaded, _ = load("two.zip", zipped(a_csv=b"a\n", b_csv=b"b\n"), pandas=True)
    assert loaded == Path("two.zip")
    assert note("two.zip") == (
        "two.zip holds 2 files: a.csv, b.csv. two is its path, and zipfile.ZipFile(two).read('a.csv') reads the first."
    )
    assert load("fake.zip", b"PK\0", pandas=True)[0] == Path("fake.zip")
    assert load("empty.zip", zipped(), pandas=True)[0] == Path("empty.zip")


def test_compressed_text_needs_no_suffix_inside() -> None:
    assert load("server.log.1.gz", gzip.compress(b"words"), pandas=True)[0] == "words"
    assert load("dump.gz", gzip.compress(b"words"), pandas=True)[0] == "words"
    assert load("a.tar.gz", gzip.compress(bytes(512)), pandas=True)[0] == Path("a.tar.gz")


def test_text_that_looks_like_a_table_says_so() -> None:
    text, _ = load("table.txt", b"a\tb\n1\t2\n3\t4\n", pandas=True)
    assert text == "a\tb\n1\t2\n3\t4\n"
    assert note("table.txt") == (
        "table.txt looks like a table: pd.read_csv('table.txt', sep='\\t') reads it as one."
    )
    load(
        "prose.txt", b"Well, then.\nIt rained, and rained.\nSo, we left.\n\nThe end.\n", pandas=True
    )
    assert note("prose.txt") == ""


def test_workbook_with_more_sheets_names_them() -> None:
    names = b'<workbook><sheets><sheet name="A &amp; B" sheetId="1"/><sheet sheetId="2" name="C"/></sheets></workbook>'
    with zipfile.ZipFile("book.xlsx", "w") as archive:
        archive.writestr("xl/workbook.xml", names)
    assert note("book.xlsx") == (
        "book.xlsx has 2 sheets: A & B, C. book is the first; pd.read_excel('book.xlsx', sheet_name='C') loads another."
    )


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


def damaged_archive() -> bytes:
    """Return an archive of which one byte of the content has changed."""
    return zipped(data_csv=b"name;n\nann;1\n").replace(b"ann", b"bob", 1)


PACKED = gzip.compress(b"name;n\n" + bytes(range(256)) * 9, mtime=0)


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("deflated.gz", PACKED[:15] + b"\xff" * 20 + PACKED[35:], "Error -3 while decompressing"),
        ("cut.gz", PACKED[:-9], "Compressed file ended before"),
        ("plain.gz", b"words", "Not a gzipped file"),
        ("checked.zip", damaged_archive(), "Bad CRC-32"),
        ("plain.bz2", b"words", "Invalid data stream"),
        ("cut.bz2", bz2.compress(b"words" * 9)[:-9], "Compressed file ended before"),
        ("plain.xz", b"words", "Input format not supported"),
        ("cut.xz", lzma.compress(b"words")[:-9], "Compressed file ended before"),
    ],
)
def test_damaged_compressed_file_gives_one_sentence(name: str, content: bytes, reason: str) -> None:
    Path(name).write_bytes(content)
    with pytest.raises(CannotLoad, match=f"^{name} cannot be read: {reason}"):
        inspect_files([Path(name)])


def test_any_byte_of_an_archive_may_be_damaged() -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("data.csv", "name;n\nann;1\n" * 5)
    whole = packed.getvalue()
    sentences: list[str] = []
    for name in ("a.zip", "a.xlsx"):
        for offset, byte in enumerate(whole):
            Path(name).write_bytes(whole[:offset] + bytes([255 - byte]) + whole[offset + 1 :])
            try:
                inspect_files([Path(name)])
            except CannotLoad as error:
                sentences.append(str(error))
    assert len(sentences) > len(whole) / 4
    assert all(re.match(r"a\.zip cannot be read: \w", sentence) for sentence in sentences)


@pytest.mark.parametrize(
    ("name", "variable"),
    [
        ("my-data 2.csv", "my_data_2"),
        ("2024.csv", "data_2024"),
        ("1.csv", "data_1"),
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


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("page.xls", b"<html>Please log in</html>", "is not a workbook, or is damaged"),
        ("half.xlsx", WORKBOOK[: len(WORKBOOK) // 2], DAMAGED),
        ("rotten.xlsx", WORKBOOK.replace(b"sheet data", b"sheet dust"), DAMAGED),
        ("half.parquet", b"PAR1 data", DAMAGED),
        ("text.feather", b"a,b", "is not a Feather file, or is damaged"),
        ("none.ods", b"", "is empty"),
        ("none.csv", b"", "is empty"),
        ("none.json", b"", "is empty"),
    ],
)
def test_damaged_file_is_named_in_a_sentence_and_not_read(
    name: str, content: bytes, reason: str
) -> None:
    Path(name).write_bytes(content)
    cell = loading_cell(name)
    variable = Path(name).stem
    assert cell.note == f"{name} {reason}: {variable} is its path."
    assert cell.code == f"from pathlib import Path\n{variable} = Path('{name}')"


def test_half_of_a_large_workbook_is_damaged_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_formats, "_MAX_TESTED_BYTES", 0)
    Path("half.xlsx").write_bytes(WORKBOOK[: len(WORKBOOK) // 2])
    assert DAMAGED in str(loading_cell("half.xlsx").note)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("whole.xlsx", WORKBOOK),
        ("old.xls", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"),
        ("new.xls", WORKBOOK),
        ("whole.parquet", b"PAR1 data PAR1"),
    ],
)
def test_whole_file_is_read(name: str, content: bytes) -> None:
    Path(name).write_bytes(content)
    assert "pd.read_" in loading_cell(name).code


@pytest.mark.parametrize(
    ("content", "values"),
    [
        ("town;km\nUlm;1,5\nBonn;12,25\n", [1.5, 12.25]),
        ("town;km\nUlm;1,5\nBonn;12.25\n", ["1,5", "12.25"]),
        ("town;km\nUlm;north, 1,5\nBonn;2\n", ["north, 1,5", "2"]),
    ],
)
def test_decimal_commas_are_read_if_no_number_has_a_point(
    content: str, values: list[object]
) -> None:
    table, code = load("towns.csv", content.encode(), pandas=True)
    assert list(table["km"]) == values
    assert ("decimal=','" in code) == (values[0] == 1.5)
