"""The places that a traceback names, told beside its text."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mahtab_tui.kernel.worker.tracebacks import Traceback, cell_filename, describe_safely, syntax_error


def raised(code: str) -> Traceback:
    """The traceback of a cell."""
    try:
        exec(compile(code, cell_filename(1), "exec"), {})
    except Exception as error:
        return describe_safely(error)
    raise AssertionError("nothing was raised")


def rows(told: Traceback) -> list[str]:
    """The lines of the text that the frames point to."""
    lines = told.text.split("\n")
    return [lines[len(lines) - 1 - frame.row] for frame in told.frames]


def places(told: Traceback) -> list[tuple[str, int, str]]:
    return [frame[:3] for frame in told.frames]


def test_each_frame_knows_its_line_of_the_text() -> None:
    told = raised("def f():\n    1 / 0\n\nf()")
    assert places(told) == [("In [1]", 4, "<module>"), ("In [1]", 2, "f")]
    assert rows(told) == ['  File "In [1]", line 4, in <module>', '  File "In [1]", line 2, in f']
    assert "\0" not in told.text


def test_what_only_looks_like_a_frame_is_none() -> None:
    told = raised('raise ValueError("""x\n  File "/etc/passwd", line 1, in f\n    root\n""")')
    assert places(told) == [("In [1]", 1, "<module>")]
    assert rows(told) == ['  File "In [1]", line 1, in <module>']


def test_causes_contexts_and_a_repeated_frame_are_told_where_they_stand() -> None:
    told = raised("def f():\n    return f()\ntry:\n    f()\nexcept RecursionError as error:\n    raise ValueError('no\\nno') from error")
    assert places(told)[0] == ("In [1]", 4, "<module>")
    assert places(told)[-1] == ("In [1]", 6, "<module>")
    assert "Previous line repeated" in told.text
    assert all(f'File "In [1]", line {frame.line}, in {frame.function}' in row for frame, row in zip(told.frames, rows(told), strict=True))


def test_the_place_that_does_not_compile_is_one(tmp_path: Path) -> None:
    file = tmp_path / "bad.py"
    file.write_text("x = 1\ny = = 2\n")
    told = raised(f"compile(open({str(file)!r}).read(), {str(file)!r}, 'exec')")
    assert places(told) == [("In [1]", 1, "<module>"), (str(file), 2, "")]
    assert rows(told)[-1] == f'  File "{file}", line 2'
    try:
        compile("a b", cell_filename(7), "exec")
    except SyntaxError as error:
        told = syntax_error(error)
    assert places(told) == [("In [7]", 1, "")]


def test_a_file_is_told_by_its_whole_path_and_what_is_none_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("here.py").write_text("1 / 0\n")
    told = raised("exec(compile(open('here.py').read(), 'here.py', 'exec'))")
    assert places(told)[-1] == (os.path.join(tmp_path, "here.py"), 1, "<module>")
    assert places(raised("exec('1 / 0')"))[-1] == ("<string>", 1, "<module>")


def test_of_very_many_frames_the_last_are_told() -> None:
    chain = "error = None\nfor number in range(300):\n    try:\n        raise ValueError(number) from error\n    except ValueError as e:\n        error = e\n"
    told = raised(chain + "raise error")
    assert len(told.frames) == 200
    assert rows(told)[-2:] == ['  File "In [1]", line 7, in <module>', '  File "In [1]", line 4, in <module>']


def test_a_syntax_error_with_anything_for_its_line_is_shown() -> None:
    told = raised("error = SyntaxError('odd')\nerror.filename, error.lineno = 3, 'x'\nraise error")
    assert "SyntaxError: odd" in told.text
    assert places(told) == [("In [1]", 3, "<module>")]


def test_of_a_name_that_no_file_can_have_the_end_is_told() -> None:
    told = raised("code = compile('1 / 0', 'x' * 100_000 + 'end', 'exec')\nexec(code.replace(co_name='n' * 100_000))")
    file, _, function = places(told)[-1]
    assert (len(file), file[-4:], len(function)) == (4096, "xend", 4096)


def test_exceptions_in_a_circle_and_a_line_that_is_not_known_are_told() -> None:
    told = raised(
        "def f(): 1 / 0\nf.__code__ = f.__code__.replace(co_linetable=b'\\xff' * 9)\na, b = ValueError(), KeyError()\na.__cause__, b.__context__ = b, a\ntry: raise a\nexcept ValueError: f()"
    )
    assert places(told)[-2:] == [("In [1]", 6, "<module>"), ("In [1]", 0, "f")]
    assert all(frame.row for frame in told.frames)
