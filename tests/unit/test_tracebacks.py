"""The places that a traceback names, told beside its text."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from mahtab_tui.worker.tracebacks import Traceback, cell_filename, describe_safely, syntax_error


def raised(code: str) -> Traceback:
    """The traceback of a cell."""
    try:
        exec(compile(code, cell_filename(1), "exec"), {})
    except Exception as error:
        return describe_safely(error)
    raise AssertionError("nothing was raised")


def rows(traceback: Traceback) -> list[str]:
    """The lines of the text that the frames point to."""
    lines = traceback.text.split("\n")
    return [lines[len(lines) - 1 - frame.row] for frame in traceback.frames]


def frame_locations(traceback: Traceback) -> list[tuple[str, int, str]]:
    return [frame[:3] for frame in traceback.frames]


def test_each_frame_knows_its_line_of_the_text() -> None:
    traceback = raised("def f():\n    1 / 0\n\nf()")
    assert frame_locations(traceback) == [("In [1]", 4, "<module>"), ("In [1]", 2, "f")]
    assert rows(traceback) == [
        '  File "In [1]", line 4, in <module>',
        '  File "In [1]", line 2, in f',
    ]
    assert "\0" not in traceback.text


def test_text_resembling_a_frame_is_not_a_frame() -> None:
    traceback = raised('raise ValueError("""x\n  File "/etc/passwd", line 1, in f\n    root\n""")')
    assert frame_locations(traceback) == [("In [1]", 1, "<module>")]
    assert rows(traceback) == ['  File "In [1]", line 1, in <module>']


def test_causes_contexts_and_repeated_frames_are_located() -> None:
    traceback = raised(
        "def f():\n    return f()\ntry:\n    f()\nexcept RecursionError as error:\n    raise ValueError('no\\nno') from error"
    )
    assert frame_locations(traceback)[0] == ("In [1]", 4, "<module>")
    assert frame_locations(traceback)[-1] == ("In [1]", 6, "<module>")
    assert "Previous line repeated" in traceback.text
    assert all(
        f'File "In [1]", line {frame.line}, in {frame.function}' in row
        for frame, row in zip(traceback.frames, rows(traceback), strict=True)
    )


def test_syntax_error_location_is_a_frame(tmp_path: Path) -> None:
    file = tmp_path / "bad.py"
    file.write_text("x = 1\ny = = 2\n")
    traceback = raised(f"compile(open({str(file)!r}).read(), {str(file)!r}, 'exec')")
    assert frame_locations(traceback) == [("In [1]", 1, "<module>"), (str(file), 2, "")]
    assert rows(traceback)[-1] == f'  File "{file}", line 2'
    try:
        compile("a b", cell_filename(7), "exec")
    except SyntaxError as error:
        traceback = syntax_error(error)
    assert frame_locations(traceback) == [("In [7]", 1, "")]


def test_file_has_its_full_path_and_a_pseudo_file_keeps_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("here.py").write_text("1 / 0\n")
    traceback = raised("exec(compile(open('here.py').read(), 'here.py', 'exec'))")
    assert frame_locations(traceback)[-1] == (os.path.join(tmp_path, "here.py"), 1, "<module>")
    assert frame_locations(raised("exec('1 / 0')"))[-1] == ("<string>", 1, "<module>")


def test_only_the_last_of_very_many_frames_are_listed() -> None:
    chain = "error = None\nfor number in range(300):\n    try:\n        raise ValueError(number) from error\n    except ValueError as e:\n        error = e\n"
    traceback = raised(chain + "raise error")
    assert len(traceback.frames) == 200
    assert rows(traceback)[-2:] == [
        '  File "In [1]", line 7, in <module>',
        '  File "In [1]", line 4, in <module>',
    ]


def test_syntax_error_with_an_arbitrary_line_number_is_shown() -> None:
    traceback = raised(
        "error = SyntaxError('odd')\nerror.filename, error.lineno = 3, 'x'\nraise error"
    )
    assert "SyntaxError: odd" in traceback.text
    assert frame_locations(traceback) == [("In [1]", 3, "<module>")]


def test_overlong_file_and_function_names_are_cut_to_their_end() -> None:
    traceback = raised(
        "code = compile('1 / 0', 'x' * 100_000 + 'end', 'exec')\nexec(code.replace(co_name='n' * 100_000))"
    )
    file, _, function = frame_locations(traceback)[-1]
    assert (len(file), file[-4:], len(function)) == (4096, "xend", 4096)


def test_circular_exceptions_and_unknown_lines_are_listed() -> None:
    traceback = raised(
        "def f(): 1 / 0\nf.__code__ = f.__code__.replace(co_linetable=b'\\xff' * 9)\na, b = ValueError(), KeyError()\na.__cause__, b.__context__ = b, a\ntry: raise a\nexcept ValueError: f()"
    )
    assert frame_locations(traceback)[-2:] == [("In [1]", 6, "<module>"), ("In [1]", 0, "f")]
    assert all(frame.row for frame in traceback.frames)


def test_library_frames_are_collapsed_into_one_line(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text("import pandas\ndef look(table):\n    return table['fare']\n")
    traceback = raised(
        f"exec(compile(open({str(file)!r}).read(), {str(file)!r}, 'exec'))\nlook(pandas.DataFrame({{'Fare': [1]}}))"
    )
    lines = traceback.text.split("\n")
    assert [line for line in lines if "File" in line] == [
        '  File "In [1]", line 2, in <module>',
        f'  File "{file}", line 3, in look',
    ]
    assert lines[-3:] == [
        f"  … {sum(frame.row == 2 for frame in traceback.frames)} frames in pandas",
        "KeyError: 'fare'",
        "",
    ]
    assert "direct cause" not in traceback.text, (
        "pandas' own KeyError with the same message is left out"
    )
    shown = [frame for frame in traceback.frames if frame.row]
    assert [frame.function for frame in shown[:2]] == ["<module>", "look"]
    assert {
        frame.file.rpartition("site-packages/")[2].partition("/")[0] for frame in shown[2:]
    } == {"pandas"}
    assert any("pandas" in frame.file for frame in traceback.frames if not frame.row), (
        "frames of what is left out are listed"
    )


def test_an_error_inside_a_library_with_another_message_is_shown() -> None:
    traceback = raised(
        "import json\ntry:\n    json.loads('{')\nexcept ValueError as error:\n    raise KeyError('no') from error"
    )
    assert "direct cause" in traceback.text
    assert [row for row in rows(traceback) if "frames in json" in row] == [
        "  … 3 frames in json"
    ] * 3
    assert frame_locations(traceback)[-1] == ("In [1]", 5, "<module>")


def test_a_traceback_without_the_users_frames_shows_those_of_libraries() -> None:
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
    file.write_text(
        "import json\ndef wait(pairs):\n    raise KeyboardInterrupt\njson.loads('{}', object_hook=wait)\n"
    )
    try:
        exec(
            compile(
                f"exec(compile(open({str(file)!r}).read(), {str(file)!r}, 'exec'), {{}})",
                cell_filename(1),
                "exec",
            ),
            {},
        )
    except KeyboardInterrupt as error:
        traceback = describe_safely(error)
    assert frame_locations(traceback) == [
        ("In [1]", 1, "<module>"),
        (str(file), 4, "<module>"),
        (str(file), 3, "wait"),
    ]
    assert "json" not in traceback.text.replace("json.loads('{}', object_hook=wait)", "")


@pytest.mark.skipif(sys.version_info < (3, 11), reason="exception groups came with 3.11")
def test_an_exception_group_counts_frames_of_libraries() -> None:
    traceback = raised(
        "import json\ntry: json.loads('{')\nexcept ValueError as e: error = e\nraise ExceptionGroup('two', [error, ValueError('x')])"
    )
    assert "    |   … 3 frames in json" in traceback.text
    assert "|" in next(
        row
        for frame, row in zip(traceback.frames, rows(traceback), strict=True)
        if frame.function == "raw_decode"
    )


def test_a_line_after_the_error_moves_the_frames() -> None:
    traceback = raised("1 / 0")
    longer = traceback.with_last_line("Hint: divide by something else")
    assert longer.text == traceback.text + "Hint: divide by something else\n"
    assert rows(longer) == rows(traceback)
