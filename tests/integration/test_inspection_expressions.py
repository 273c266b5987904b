"""How an object is written in code: what is copied, exported and asked about is the very object
that is seen."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from mahtab_tui.kernel.inspector_client import InspectedObject
from mahtab_tui.tui.inspector.table_view import export_code, suggest_file
from tests.integration.inspection import Looking, looking, named

OBJECTS = """
import collections, numpy as np, pandas as pd, polars as pl, pyarrow as pa
class Thing: pass
thing = Thing(); thing.x = [1, 2]; thing.__dict__["class"] = [3]
table = {"k": [1], 7: [2], 2.5: [3], b"b": [4], None: [5], True: [6], "it's \\n": [7], (1, 2): [8], 10 ** 5000: [9], float("nan"): [10], "x" * 5000: [11], -3: [12]}
queue = collections.deque([[1], [2]])
frame = pd.DataFrame([[1, 2, 3]], columns=["a", "same", "same"])
numbered = pd.DataFrame([[1, 2]], columns=[1, True])
polar, arrow, cube = pl.DataFrame({"a": [1, 2]}), pa.table({"a": [1, 2]}), np.arange(8).reshape(2, 2, 2)
line, grid = np.arange(3), np.arange(4).reshape(2, 2)
fields = np.array([(1, "x")], dtype=[("n", int), ("t", "U3")])
globals()["a b"] = [1]
globals()["x); print('run'"] = [2]
globals()["class"] = [3]
"""


@pytest.fixture(scope="module")
def objects() -> Iterator[Looking]:
    with looking() as found:
        found.run(OBJECTS)
        yield found


@pytest.mark.parametrize(
    ("name", "step", "expression"),
    [
        ("thing", ["attribute", "x"], "thing.x"),
        ("thing", ["attribute", "class"], ""),
        *(
            ("table", ["item", index], key and f"table[{key}]")
            for index, key in enumerate(["'k'", "7", "2.5", "b'b'", "None", "True", '"it\'s \\n"'])
        ),
        *(("table", ["item", index], "") for index in (7, 8, 9, 10)),
        ("table", ["item", 11], "table[-3]"),
        ("queue", ["item", 1], "queue[1]"),
        ("frame", ["column", 0], "frame['a']"),
        ("frame", ["column", 2], "frame.iloc[:, 2]"),
        ("numbered", ["column", 1], "numbered.iloc[:, 1]"),
        ("polar", ["column", 0], "polar['a']"),
        ("arrow", ["cell", 1, 0], "arrow.column(0)[1].as_py()"),
        ("cube", ["slice", [1, None, None]], "cube[1, :, :]"),
        ("fields", ["column", 0], "fields['n']"),
        ("grid", ["column", 1], "grid[:, 1]"),
        ("line", ["column", 0], ""),
        ("a b", None, "globals()['a b']"),
        ("x); print('run'", None, "globals()[\"x); print('run'\"]"),
        ("class", None, "globals()['class']"),
    ],
)
def test_object_is_written_exactly_or_not_at_all(
    objects: Looking, name: str, step: list[Any] | None, expression: str
) -> None:
    path = named(name) if step is None else (*named(name), step)
    opened = objects.look.open(path)
    assert opened.expression == expression
    if expression:
        result = objects.cells.run(f"{expression}")
        assert result.status.name == "OK", result.output


def test_child_of_an_unwritable_key_has_no_expression(
    objects: Looking,
) -> None:
    objects.run("kept = {(1,): thing}")
    for way in ([["attribute", "x"]], [["attribute", "x"], ["item", 0]]):
        assert objects.look.open((*named("kept"), ["item", 0], *way)).expression == ""


EXPORTED = {
    "frame": ("frame.csv", ",a,same,same\n0,1,2,3\n"),
    "single": ("single.json", '[{"a":1}]'),
    "polar": ("polar.csv", "a\n1\n2\n"),
    "polar ": ("polar.json", '[{"a":1},{"a":2}]'),
    "arrow": ("arrow.csv", '"a"\n1\n2\n'),
    "flat": ("flat.csv", "0,1\n2,3\n"),
    "flat ": ("flat.json", "[[0, 1], [2, 3]]\n"),
    "thing.x": ("x.json", "[\n 1,\n 2\n]\n"),
    "words": ("words.txt", "one\ntwo"),
    "words ": ("words.json", '"one\\ntwo"\n'),
    "queue": ("queue.txt", "deque([[1], [2]])\n"),
    "days": ("days.json", '["2026-03-01 00:00:00"]\n'),
}


@pytest.mark.parametrize("name", EXPORTED)
def test_exported_object_is_in_the_file(
    objects: Looking, name: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    file, content = EXPORTED[name]
    folder = tmp_path_factory.mktemp("exported")
    objects.run(
        f"import os; os.chdir({str(folder)!r}); flat = cube[0]; single = frame[['a']]; words = 'one\\ntwo'; days = np.array(['2026-03-01'], 'M8[ms]')"
    )
    variable, *attribute = name.strip().split(".")
    opened = objects.look.open((*named(variable), *(["attribute", one] for one in attribute)))
    objects.run(export_code(opened, file))
    written = (folder / file).read_text(encoding="utf-8")
    assert "".join(written.split()) == "".join(content.split())


def test_value_is_restored_from_a_pickle(
    objects: Looking, tmp_path_factory: pytest.TempPathFactory
) -> None:
    file = tmp_path_factory.mktemp("exported") / "frame.pkl"
    objects.run(export_code(objects.look.open(named("frame")), str(file)))
    assert (
        objects.cells.run(
            f"import pickle; print(pickle.load(open({str(file)!r}, 'rb')).equals(frame))"
        ).output
        == "True\n"
    )


@pytest.mark.parametrize("ending", ["csv", "json", "txt", "pkl"])
def test_existing_file_is_not_overwritten(
    objects: Looking, ending: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    file = tmp_path_factory.mktemp("kept") / f"frame.{ending}"
    file.write_text("precious")
    result = objects.cells.run(export_code(objects.look.open(named("frame")), str(file)))
    assert "FileExistsError" in result.output
    assert file.read_text() == "precious"


@pytest.mark.parametrize("ending", ["csv", "json", "txt", "pkl"])
def test_failed_export_leaves_no_file(
    objects: Looking, ending: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    file = tmp_path_factory.mktemp("failed") / f"bad.{ending}"
    objects.run(
        "class Bad:\n    def fail(self, *args): raise RuntimeError('it fails')\n    __repr__ = __str__ = __reduce_ex__ = fail\n"
        "rows = [Bad() if row == 5_000 else 'x' for row in range(10_000)]; bad = pd.DataFrame({'a': rows}) if "
        f"{ending == 'csv'} else rows"
    )
    result = objects.cells.run(export_code(objects.look.open(named("bad")), str(file)))
    assert "RuntimeError: it fails" in result.output
    assert not file.exists()


def test_a_file_in_the_home_folder_can_be_named(
    objects: Looking, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/somewhere")
    assert "'/somewhere/it.csv'" in export_code(objects.look.open(named("frame")), "~/it.csv")


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("frame", "frame.csv"),
        ("cube", "cube.csv"),
        ("queue", "queue.pkl"),
        ("thing", "thing.pkl"),
        ("table", "table.json"),
    ],
)
def test_suggested_file_name_fits_the_object(objects: Looking, name: str, file: str) -> None:
    opened: InspectedObject = objects.look.open(named(name))
    assert suggest_file(opened) == file
