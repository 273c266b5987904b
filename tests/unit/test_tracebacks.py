"""Tracebacks: their frames, the source of a frame, and the hint after an error."""

from __future__ import annotations

import ast
import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from mahtab_tui.bus.values import TracebackFrame
from mahtab_tui.kernel.base import KernelError
from mahtab_tui.tui.screens.frames import frame_cell, read_code
from mahtab_tui.worker.cells.compiling import cache_source
from mahtab_tui.worker.cells.failure import Failure
from mahtab_tui.worker.cells.hints import MAX_HINT_CHARS, hint_for
from mahtab_tui.worker.cells.tracebacks import (
    Traceback,
    cell_filename,
    describe_safely,
    syntax_error,
)

# The frames that a traceback lists besides its text.

MISSING_COLUMN = """
df['fare']
df.loc[0, 'fare']
df.sort_values('fare')
df.groupby('fare').mean()
df.groupby('Name')['fare'].mean()
df.groupby('Name').agg({'fare': 'mean'})
df.merge(df, on='fare')
df.drop(columns=['fare'])
df.astype({'fare': 'int'})
df.rename(columns={'fare': 'x'}, errors='raise')
df.query('fare > 1')
(lambda table: table['fare'])(df)
df.fare
"""

SPIES = """
ran = []
class Meta(type):
    def __getattribute__(cls, name): ran.append(name); return super().__getattribute__(name)
class Spy(metaclass=Meta):
    def __getattr__(self, name): ran.append(name); raise AttributeError(name)
    def __eq__(self, other): ran.append("eq"); return False
    def __hash__(self): ran.append("hash"); return 1
    def __len__(self): ran.append("len"); return 1
    def __repr__(self): ran.append("repr"); return "spy"
    def __dir__(self): ran.append("dir"); return []
    @property
    def columns(self): ran.append("columns"); return []
class Table(pd.DataFrame):
    @property
    def columns(self): ran.append("columns"); return pd.Index(["Fare"])
    def __len__(self): ran.append("len"); return 1
class Keys(dict):
    def __iter__(self): ran.append("iter"); return iter(())
    def __contains__(self, key): ran.append("in"); return False
class Variables:
    @property
    def __class__(self): ran.append("class"); return dict
    def __getitem__(self, name): raise KeyError(name)
    def __setitem__(self, name, value): pass
class WithVariables(type):
    @classmethod
    def __prepare__(cls, *arguments): return Variables()
spy, keys, table = Spy(), Keys(), Table({"Fare": [1]})
objects = pd.DataFrame({"Fare": [1]})
objects["who"] = pd.Series([spy], dtype=object)
d = {"Fare": spy, 1: spy}
"""

FAILING = ["d['fare']", "objects['who'] + 1", "objects['fare']", "keys['fare']", "missing_name"]
# Its variables are not in a dict.
FAILING += ["class C(metaclass=WithVariables):\n    missing_name"]


def raised(code: str) -> Traceback:
    """Return the traceback of a cell."""
    try:
        exec(compile(code, cell_filename(1), "exec"), {})
    except BaseException as error:
        return describe_safely(error)
    raise AssertionError("nothing was raised")


def run_file(file: Path, code: str) -> str:
    """Write a file, and return the code that runs it."""
    file.write_text(code)
    return f"exec(compile(open({str(file)!r}).read(), {str(file)!r}, 'exec'))\n"


def rows(traceback: Traceback) -> list[str]:
    """Return the lines of the text that the frames point to."""
    lines = traceback.text.split("\n")
    return [lines[len(lines) - 1 - frame.row] for frame in traceback.frames]


def frame_locations(traceback: Traceback) -> list[tuple[str, int, str]]:
    return [frame[:3] for frame in traceback.frames]


def test_each_frame_knows_its_line_of_the_text() -> None:
    traceback = raised("def f():\n    1 / 0\n\nf()")
    assert frame_locations(traceback) == [("In [1]", 4, "<module>"), ("In [1]", 2, "f")]
    first_row = '  File "In [1]", line 4, in <module>'
    second_row = '  File "In [1]", line 2, in f'
    assert rows(traceback) == [first_row, second_row]
    assert "\0" not in traceback.text
    longer = traceback.with_last_line("Hint: divide by something else")
    assert longer.text == traceback.text + "Hint: divide by something else\n"
    assert rows(longer) == rows(traceback)
    forged = raised('raise ValueError("""x\n  File "/etc/passwd", line 1, in f\n    root\n""")')
    assert frame_locations(forged) == [("In [1]", 1, "<module>")]
    assert rows(forged) == ['  File "In [1]", line 1, in <module>']


def test_causes_and_repeated_frames_are_located() -> None:
    traceback = raised(
        "def f():\n    return f()\ntry:\n    f()\nexcept RecursionError as error:\n    raise ValueError('no\\nno') from error"
    )
    locations = frame_locations(traceback)
    assert (locations[0], locations[-1]) == (("In [1]", 4, "<module>"), ("In [1]", 6, "<module>"))
    assert "Previous line repeated" in traceback.text
    for (_, line, function), row in zip(locations, rows(traceback), strict=True):
        assert f'File "In [1]", line {line}, in {function}' in row


def test_syntax_error_location_is_a_frame(tmp_path: Path) -> None:
    file = tmp_path / "bad.py"
    traceback = raised(run_file(file, "x = 1\ny = = 2\n"))
    assert frame_locations(traceback) == [("In [1]", 1, "<module>"), (str(file), 2, "")]
    assert rows(traceback)[-1] == f'  File "{file}", line 2'
    with pytest.raises(SyntaxError) as failed:
        compile("a b", cell_filename(7), "exec")
    assert frame_locations(syntax_error(failed.value)) == [("In [7]", 1, "")]
    # Code may set any line number.
    code = "error = SyntaxError('odd')\nerror.filename, error.lineno = 3, 'x'\nraise error"
    traceback = raised(code)
    assert "SyntaxError: odd" in traceback.text
    assert frame_locations(traceback) == [("In [1]", 3, "<module>")]


def test_frames_have_full_paths_except_pseudo_files(project: Path) -> None:
    traceback = raised(run_file(Path("here.py"), "1 / 0\n"))
    assert frame_locations(traceback)[-1] == (str(project / "here.py"), 1, "<module>")
    assert frame_locations(raised("exec('1 / 0')"))[-1] == ("<string>", 1, "<module>")


def test_overlong_names_in_frames_are_cut() -> None:
    traceback = raised(
        "code = compile('1 / 0', 'x' * 100_000 + 'end', 'exec')\nexec(code.replace(co_name='n' * 100_000))"
    )
    file, _, function = frame_locations(traceback)[-1]
    assert (len(file), file[-4:], len(function)) == (4096, "xend", 4096)


def test_circular_causes_are_listed() -> None:
    traceback = raised(
        "def f(): 1 / 0\nf.__code__ = f.__code__.replace(co_linetable=b'\\xff' * 9)\na, b = ValueError(), KeyError()\na.__cause__, b.__context__ = b, a\ntry: raise a\nexcept ValueError: f()"
    )
    assert frame_locations(traceback)[-2:] == [("In [1]", 6, "<module>"), ("In [1]", 0, "f")]
    assert all(frame.row for frame in traceback.frames)


def test_library_frames_are_collapsed_into_one_line(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    code = run_file(file, "import pandas\ndef look(table):\n    return table['fare']\n")
    traceback = raised(f"{code}look(pandas.DataFrame({{'Fare': [1]}}))")
    lines = traceback.text.split("\n")
    assert [line for line in lines if "File" in line] == [
        '  File "In [1]", line 2, in <module>',
        f'  File "{file}", line 3, in look',
    ]
    hidden = sum(frame.row == 2 for frame in traceback.frames)
    assert lines[-3:] == [f"  … {hidden} frames in pandas", "KeyError: 'fare'", ""]
    assert "direct cause" not in traceback.text, "pandas' own KeyError says the same"
    source_frames = [frame for frame in traceback.frames if frame.row]
    assert [frame.function for frame in source_frames[:2]] == ["<module>", "look"]
    for frame in source_frames[2:]:
        assert "site-packages/pandas/" in frame.file


def test_different_library_error_is_shown() -> None:
    traceback = raised(
        "import json\ntry:\n    json.loads('{')\nexcept ValueError as error:\n    raise KeyError('no') from error"
    )
    assert "direct cause" in traceback.text
    json_rows = [row for row in rows(traceback) if "frames in json" in row]
    assert json_rows == ["  … 3 frames in json"] * 3
    assert frame_locations(traceback)[-1] == ("In [1]", 5, "<module>")


def test_frames_of_a_library_alone_are_shown() -> None:
    with pytest.raises(ValueError, match="Expecting") as failed:
        json.loads("{")
    traceback = describe_safely(failed.value.with_traceback(failed.tb.tb_next))
    assert "in raw_decode" in traceback.text
    assert "frames in" not in traceback.text


def test_a_recursion_through_a_library_is_short() -> None:
    traceback = raised(
        "import copy\nclass X:\n    def __deepcopy__(self, memo): return copy.deepcopy([self])\ncopy.deepcopy(X())"
    )
    assert "frames left out" in traceback.text
    assert len(traceback.text.split("\n")) < 90
    assert traceback.text.rstrip().split("\n")[-1].startswith("RecursionError")


def test_an_interrupt_shows_the_users_frames_only(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    line = "json.loads('{}', object_hook=wait)"
    code = f"import json\ndef wait(pairs):\n    raise KeyboardInterrupt\n{line}\n"
    traceback = raised(run_file(file, code))
    assert frame_locations(traceback) == [
        ("In [1]", 1, "<module>"),
        (str(file), 4, "<module>"),
        (str(file), 3, "wait"),
    ]
    assert "json" not in traceback.text.replace(line, "")


@pytest.mark.skipif(sys.version_info < (3, 11), reason="exception groups came with 3.11")
def test_exception_group_counts_library_frames() -> None:
    traceback = raised(
        "import json\ntry: json.loads('{')\nexcept ValueError as e: error = e\nraise ExceptionGroup('two', [error, ValueError('x')])"
    )
    assert "    |   … 3 frames in json" in traceback.text
    functions = [frame.function for frame in traceback.frames]
    assert "|" in rows(traceback)[functions.index("raw_decode")]


# The source of a frame, and its line there.


def marked(file: str, line: int, cell: str | None = None) -> str:
    """Return the marked line in the source of a frame. cell: the code of cell 7."""
    frame = TracebackFrame(file, line, "f", 1)
    code = read_code(frame, {} if cell is None else {7: cell})
    return "none" if code.line is None else code.text[code.line.start : code.line.stop]


def test_the_line_of_a_file_and_of_a_cell_is_found(tmp_path: Path) -> None:
    file = tmp_path / "m.py"
    file.write_bytes("# -*- coding: latin-1 -*-\r\nx = 'é'\r\n\r\ny = 2".encode("latin-1"))
    lines = ["none", "# -*- coding: latin-1 -*-", "x = 'é'", "", "y = 2", "none"]
    assert [marked(str(file), line) for line in range(6)] == lines
    assert marked("In [7]", 1, "\n") == marked("In [7]", 1, "") == ""
    assert marked("In [7]", 2, "a = 1\r\nb = 2") == "b = 2"


@pytest.mark.parametrize(
    ("file", "message"),
    [
        ("In [8]", "The code of cell 8 was not kept."),
        ("<string>", "This frame is in no file, and its source was not kept."),
        ("/no/such/file.py", "The file cannot be read: No such file or directory."),
        ("/tmp", "The file cannot be read: Is a directory."),
        ("/dev/zero", "This is not a regular file."),
        ("/a\0b", "No file can have this name."),
    ],
)
def test_missing_source_is_explained_in_a_sentence(file: str, message: str) -> None:
    with pytest.raises(KernelError) as error:
        marked(file, 1)
    assert str(error.value) == message


def test_pipe_does_not_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(KernelError, match="not a regular file"):
        marked(str(tmp_path / "pipe"), 1)


def test_other_names_are_not_cells() -> None:
    for file in ("In []", "In [x]", "In [1", "In [²]", "In [12345678901]", "xIn [1]"):
        assert frame_cell(TracebackFrame(file, 1, "f", 1)) is None, file


# The hint after an error: help to fix it, found without running the user's code.

pa = pytest.importorskip("pyarrow")


def shown_and_hint(code: str, **names: Any) -> tuple[str, str]:
    """Return the traceback of a cell, and its hint."""
    cache_source(code, cell_filename(1))
    try:
        exec(compile(code, cell_filename(1), "exec"), names)
    except Exception as error:
        text = describe_safely(error).text
        return text, hint_for(error, text)
    raise AssertionError("nothing was raised")


def hint(code: str, **names: Any) -> str:
    return shown_and_hint(code, **names)[1]


def titanic() -> dict[str, Any]:
    columns = {
        "PassengerId": [1, 2],
        "Fare": [7.25, 8.5],
        "Name": ["Ann", "Bob"],
        "day": ["2020-01-01", "2020-01-02"],
        "price": ["$1,200", "3"],
    }
    df = pd.DataFrame(columns)
    tables = {"df": df, "s": df["Name"], "p": pl.DataFrame(columns), "t": pa.table(columns)}
    return {**tables, "pd": pd, "pl": pl, "np": np}


@pytest.mark.parametrize("code", MISSING_COLUMN.strip().split("\n"))
def test_missing_column_hint_lists_columns(code: str) -> None:
    message, hint = shown_and_hint(code, **titanic())
    assert "'fare'" in hint
    assert "'Fare'" in message + hint
    assert "Columns of df: PassengerId, Fare, Name, day, price" in hint
    assert "site-packages" not in message


@pytest.mark.parametrize(
    ("code", "expected_texts"),
    [
        ("df.dropna()['fare']", ["no column 'fare'. Did you mean 'Fare'? Columns: PassengerId"]),
        ("df[['a', 'b']]", ["there is no column 'a', 'b'"]),
        ("pd.DataFrame({' a': [1], 'b': [2]})['a']", ["Did you mean ' a'? Columns: ' a', b"]),
        (
            "df.groupby('Name').first()['Name']",
            ["'Name' is the index, not a column", "reset_index()"],
        ),
        ("df.loc['Name']", ["'Name' is a column, not a row label"]),
        ("s.dt.year", ["'Name' has dtype", "for example 'Ann'", "pd.to_datetime(s)"]),
        ("df['day'].dt.year", ["'day' has dtype", "'2020-01-01'", "pd.to_datetime(df['day'])"]),
        ("df['Fare'].str.lower()", ["'Fare' has dtype float64.", "df['Fare'].astype(str)"]),
        (
            "df['price'].astype(float)",
            ["'price' has dtype", "pd.to_numeric(df['price'].str.replace(", "errors='coerce'"],
        ),
        ("df['price'].mean()", ["'$1,200'", "pd.to_numeric(df['price'].str.replace("]),
        ("df['Fare'] + df['price']", ["'price' has dtype"]),
        ("df['day'] > pd.Timestamp('2020-01-01')", ["pd.to_datetime(df['day'])"]),
        ("df['Name'].mean()", ["text, not numbers"]),
        ("df.corr()", ["columns with text: Name, day, price", "numeric_only=True", "get_dummies"]),
        ("df.loc[7]", ["no label 7. Labels of df: 0, 1"]),
        (
            "df.set_index('Name').loc['ann']",
            ["no label 'ann'. Did you mean 'Ann'? Labels: Ann, Bob"],
        ),
        (
            "x = pd.Series({'Fare': 1})\nx['fare']",
            ["no label 'fare'. Did you mean 'Fare'? Labels of x: Fare"],
        ),
        ("df.apply(lambda row: row['fare'], axis=1)", ["no label 'fare'. Did you mean 'Fare'?"]),
        (
            "df.assign(day=['2012/01/31', '2013/01/31'])['year']",
            [
                "no column 'year', but 'day' has dates. Their year: pd.to_datetime(df['day']).dt.year"
            ],
        ),
        ("df['Fare'].idxmax().strftime('%Y')", ["a whole number is not a date", "df.loc[label"]),
        ("df['Fare'].max().idxmax()", ["one numpy.float64, not a column with .idxmax"]),
        ("pd.Timestamp('2020-01-01').dt.year", ["one Timestamp, not a column: leave out .dt"]),
        ("df['Name'].iloc[0].str.lower()", ["one str, not a column: leave out .str"]),
        ("Fare.mean()", ["no variable 'Fare', but a column of df: df['Fare']"]),
        ("p['fare']", ["no column 'fare'", "Columns of p: PassengerId, Fare"]),
        ("t['fare']", ["no column 'fare'. Did you mean 'Fare'? Columns of t: PassengerId"]),
        (
            "t.select(['fare'])",
            ["no column 'fare'. Did you mean 'Fare'? Columns of t: PassengerId"],
        ),
        (
            "d = {'Fare': 1, 2: 3}\nd['fare']",
            ["no key 'fare'. Did you mean 'Fare'? Keys of d: Fare, 2"],
        ),
        ("d = {'a': [{'total': 1}]}\nd['a'][0]['totl']", ["no key 'totl'. Did you mean 'total'?"]),
        ("df.append(df)", ["use pd.concat([a, b])"]),
        ("p.sort_values('Fare')", ["no .sort_values: use .sort(by)"]),
        ("p.append(p)", ["no .append: use pl.concat([a, b])"]),
        ("x = [2, 1].sort()\nx.index(1)", ["the value is None", "inplace=True"]),
        (
            "df[df['Fare'] > 1 and df['Name'] == 'Ann']",
            ["& | ~ instead of and, or, not", "parentheses"],
        ),
        ("if np.array([1, 2]): pass", ["& | ~ instead of and, or, not"]),
        ("df.sort_values(by='Fare', ascend=True)", ["sort_values(by, *, axis=0, ascending=True,"]),
        ("pd.read_csv('x', heade=1)", ["read_csv(filepath_or_buffer, *, sep=", "…"]),
        ("def add(a, b, *, scale=1): pass\nadd(1)", ["it is called as add(a, b, *, scale=1)"]),
        (
            "def add(a, b: int = 2, *more): pass\nadd(1, c=2)",
            ["it is called as add(a, b=2, *more)"],
        ),
        (
            "class Car:\n    def __init__(self, colour): pass\nCar()",
            ["it is called as Car(colour)"],
        ),
    ],
)
def test_hints(code: str, expected_texts: list[str]) -> None:
    message, hint = shown_and_hint(code, **titanic())
    assert hint.startswith("Hint: ")
    assert [text for text in expected_texts if text not in hint] == [], message + hint


@pytest.mark.parametrize(
    "code",
    [
        "'x'.items()",
        "'{}'.get('a')",
        "(1.0).keys()",
        "'abc'.copy()",
        "'s'.values",
        "(1).index",
        "import datetime\ndatetime.max",
        "str.dt",
    ],
)
def test_what_others_than_columns_have_is_not_taken_for_a_columns(code: str) -> None:
    message, hint = shown_and_hint(code, **titanic())
    assert "AttributeError" in message
    assert "column" not in hint


@pytest.mark.parametrize(
    ("code", "expected_text"),
    [
        ("np.zeros(3)", "Hint: import numpy as np"),
        ("df.head()", "Hint: there is no variable 'df'. Tables: cars (DataFrame, 2 × 5)"),
        ("prnt(1)", "'print'"),
        ("pasenger = passeger", "'passenger'"),
        ("import os\nos.getcwdd()", "'getcwd'"),
        ("class Car:\n    colour = 1\nCar().color", "'colour'"),
        ("math.sqrt(2)", "import math"),
        ("statistics.mean([1])", "import statistics"),
    ],
)
def test_names_are_suggested_once(code: str, expected_text: str) -> None:
    """Since Python 3.12 tracebacks do so, too."""
    message, hint = shown_and_hint(code, passenger=1, cars=titanic()["df"])
    assert (message + hint).count("Did you") <= 1
    assert expected_text in message.rpartition("Error: ")[2] + hint


def test_missing_column_hint_names_the_table_that_has_it() -> None:
    shops = pd.DataFrame({"shop": ["a"], "town": ["A"]})
    towns = pd.DataFrame({"town": ["A"], "county": ["North"]})
    tables = {"shops": shops, "towns": towns}
    assert hint("shops[shops['county'] == 'North']", **tables) == (
        "Hint: there is no column 'county' in shops, but in towns."
        " Both tables together: shops.merge(towns, on='town')"
    )
    for other in (towns.assign(shop="a"), towns.rename(columns={"town": "place"})):
        assert "no column 'county'. Columns of shops" in hint(
            "shops['county']", shops=shops, towns=other
        )


def test_missing_file_hint_names_files(project: Path) -> None:
    for name in ("Cars_2020.csv", "notes.txt", ".hidden"):
        (project / name).touch()
    cars = titanic()["df"]
    loaded = "The table is loaded already: cars (DataFrame, 2 × 5). Use it."
    files = "Files here: Cars_2020.csv, notes.txt"
    hint_text = hint("pd.read_csv('your_dataset.csv')", cars=cars, pd=pd)
    assert hint_text == f"Hint: there is no file 'your_dataset.csv'. {loaded} {files}"
    hint_text = hint("open('cars2020.csv')")
    assert hint_text == "Hint: there is no file 'cars2020.csv'. Did you mean 'Cars_2020.csv'?"
    assert f"no folder '/mnt/data'. {files}" in hint("open('/mnt/data/x')")
    for number in range(30):
        (project / f"file{number:02}").touch()
    assert hint("open('x')").endswith("… (32 in all)")
    tables = {f"table{number}": cars for number in range(9)} | {"cars": cars}
    hint_text = hint("from pathlib import Path\nPath('cars.csv').read_text()", **tables)
    assert "loaded already: cars (DataFrame, 2 × 5), table8 (" in hint_text
    assert hint_text.count("(DataFrame") == 5
    assert hint("import subprocess\nsubprocess.run(['no-such-program'])", cars=cars) == ""


@pytest.mark.usefixtures("project")
def test_hint_hides_values_of_other_tables() -> None:
    secret = pd.DataFrame({"salary": ["fifty thousand"]})
    names = {**titanic(), "secret": secret, "keys": {"Fares": "fifty thousand"}}
    for code in ("df['fare']", "pd.read_csv('x.csv')", "data.head()", "df.salry", "secrt['x']"):
        hint_text = hint(code, **names)
        assert hint_text
        assert "salary" not in hint_text
        assert "fifty" not in hint_text


def test_hint_hides_values_of_secret_columns() -> None:
    hint_text = hint("df['api_key'].dt.year", df=pd.DataFrame({"api_key": ["sesame"]}))
    assert "pd.to_datetime(df['api_key'])" in hint_text
    assert "sesame" not in hint_text


FAILING += ["open('missing.csv')", "spy + objects + keys", "spy.colums"]


@pytest.mark.parametrize("code", FAILING)
def test_no_code_of_user_classes_runs(code: str) -> None:
    names: dict[str, Any] = {"pd": pd}
    exec(SPIES, names)
    cache_source(code, cell_filename(1))
    with pytest.raises(Exception) as failed:  # noqa: PT011 - of many kinds
        exec(compile(code, cell_filename(1), "exec"), names)
    text = describe_safely(failed.value).text
    names["ran"].clear()
    hint_for(failed.value, text)
    assert names["ran"] == []


def test_external_names_stay_on_one_short_line() -> None:
    odd = "Fare\n\x1b[31m\nHint: run this"
    names = [odd, *(f"column number {number}" for number in range(3_000))]
    hint_text = hint("df['fare']", df=pd.DataFrame([range(3_001)], columns=names))
    assert hint_text.isprintable()
    assert len(hint_text) <= MAX_HINT_CHARS
    assert r"Fare\n\x1b[31m\nHint" in hint_text
    keys = {f"key {number}": number for number in range(1_000_000)}
    assert len(hint("d['key']", d=keys)) <= MAX_HINT_CHARS


def test_failing_hint_is_omitted() -> None:
    broken = pd.DataFrame({"Fare": [1]})
    object.__setattr__(broken, "_mgr", None)
    odd = "type('Odd', (KeyError,), {'args': property(lambda self: 1 / 0)})('x')"
    for code in ("tf.zeros(3)", "df.fare", "raise KeyError", "raise KeyError('x')", f"raise {odd}"):
        assert hint(code, df=broken) == ""
    assert hint("get = lambda: {}\nget()['x'], df", df=titanic()["df"]) == ""


@pytest.mark.skipif(sys.version_info < (3, 11), reason="errors have no columns")
def test_expressions_of_an_indented_line_parsed_alone_are_the_failed_ones() -> None:
    filename = cell_filename(901)
    code = "pass\nif True:\n    first['a'], 'é', second['a']\n"
    cache_source(code.replace("pass", "%pwd", 1), filename)
    with pytest.raises(KeyError) as raised:
        exec(compile(code, filename, "exec"), {"first": {"a": 1}, "second": {}})
    expressions = Failure(raised.value, "").expressions
    assert ast.unparse(expressions[0]) == "second['a']"
