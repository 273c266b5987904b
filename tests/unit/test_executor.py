"""Magics, shell lines and tools of a cell, and limits of its output."""

from __future__ import annotations

import ast
import builtins
import contextlib
import gettext
import io
import itertools
import json
import os
import resource
import signal
import warnings
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mahtab_tui.bus.typed_text import is_complete
from mahtab_tui.kernel import terminal_output
from mahtab_tui.kernel.chunks import Chunks
from mahtab_tui.kernel.terminal_output import TerminalOutput
from mahtab_tui.kernel.values import OutputKind
from mahtab_tui.worker.cells.capture import LimitedOutput, OutputLimitError, shorten
from mahtab_tui.worker.cells.tracebacks import format_safely
from mahtab_tui.worker.link.interrupts import Interrupts
from mahtab_tui.worker.magic import cell_history
from mahtab_tui.worker.magic.syntax import transform
from mahtab_tui.worker.magic.timing import duration
from mahtab_tui.worker.tools import toolbox
from mahtab_tui.worker.tools.claude_sessions import load_claude_sessions
from mahtab_tui.worker.tools.files import create, edit, read
from mahtab_tui.worker.tools.terminal_programs import needs_terminal
from mahtab_tui.worker.tools.text_tools import grep, partition, peek

PLAIN = st.text(st.characters(exclude_characters="\r\b\x1b"), min_size=1, max_size=9)
PIECES = st.lists(st.tuples(st.sampled_from(["stdout", "value", "traceback"]), PLAIN))

COMPLETE = ["!ls", "x = !ls", "df.head??", "%%time\nx", "for x in y:\n    !ls\n", "%%bash\necho\n"]

INCOMPLETE = ["for x in y:\n    !ls", "x = !ls\nif x:", "!ls\nf(", "%%bash", "%%writefile x.txt"]

TOKENS = ["\n", "    ", *"%time ! ? x ( ) ''' = \\ %%".split()]


@given(st.lists(st.text(max_size=12), max_size=12), st.integers(0, 40))
def test_limited_output_is_cut_at_its_limit(texts: list[str], limit: int) -> None:
    stream = LimitedOutput(limit=limit)
    output = "".join(texts)
    with pytest.raises(OutputLimitError) if len(output) > limit else contextlib.nullcontext():
        for text in texts:
            assert stream.write(text) == len(text)
    assert stream.getvalue() == output[:limit]


def test_two_limited_streams_count_together() -> None:
    out = io.StringIO()
    err = io.StringIO()
    stdout = LimitedOutput(out, 5)
    stderr = LimitedOutput(err, 5, sharing=stdout)
    stdout.write("abc")
    with pytest.raises(OutputLimitError):
        stderr.write("defg")
    assert (out.getvalue(), err.getvalue(), stdout.take("f")) == ("abc", "de", "")


@given(st.text(), st.integers(1, 5))
def test_shortening_counts_the_omitted_middle(text: str, keep: int) -> None:
    note = f"\n… {len(text) - 2 * keep:,} characters left out …\n"
    short = text if len(text) <= 2 * keep else text[:keep] + note + text[-keep:]
    assert shorten(text, keep) == short


@given(PIECES, st.integers(1, 20))
def test_kinds_of_reduced_output_add_up(pieces: list[tuple[str, str]], keep: int) -> None:
    complete_text = "".join(text for _, text in pieces)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(terminal_output, "MAX_HEAD_CHARS", keep)
        output = TerminalOutput()
        for kind, text in pieces:
            output.add(cast(OutputKind, kind), text)
        text, kinds = output.text()
    assert text == shorten(complete_text, keep)
    assert sum(count for _, count in kinds) == len(text)
    assert all(left_kind[0] != right_kind[0] for left_kind, right_kind in pairwise(kinds))


@given(st.text(st.characters(codec="utf-8")), st.lists(st.integers(1, 3), min_size=1))
def test_chunks_of_any_size_join_to_the_text(text: str, sizes: list[int]) -> None:
    decoded: list[str] = []
    chunks = Chunks(decoded.append)
    data = text.encode()
    turns = itertools.cycle(sizes)
    while data:
        size = next(turns)
        chunks.feed(data[:size])
        data = data[size:]
    chunks.end()
    assert "".join(decoded) == text


def test_incomplete_character_is_made_visible() -> None:
    decoded: list[str] = []
    chunks = Chunks(decoded.append)
    chunks.feed(b"a\xe2\x82")
    chunks.end()
    assert "".join(decoded) == "a\ufffd"


def test_raising_exception_text_is_replaced() -> None:
    class Trap(Exception):
        def __str__(self) -> str:
            raise SystemExit

    assert "Trap" in format_safely(Trap())


# Lines of a cell that are not Python, and when such a cell is complete.


@pytest.mark.parametrize(
    ("source", "becomes"),
    [
        ("!ls -l", "__mahtab_shell__('ls -l')"),
        ("s = '''\n!no\n'''\n!yes", "s = '''\n!no\n'''\n__mahtab_shell__('yes')"),
        ("x = !ls", "x = __mahtab_lines__('ls')"),
        ("a.b, c = !ls", "a.b, c = __mahtab_lines__('ls')"),
        ("%time f(1)", "__mahtab_magic__('time', 'f(1)')"),
        ("%cd", "__mahtab_magic__('cd', '')"),
        ("x = 1\n%cd 'a b'\ny = 2", "x = 1\n__mahtab_magic__('cd', \"'a b'\")\ny = 2"),
        ("for x in y:\n    %time f(x)", "for x in y:\n    __mahtab_magic__('time', 'f(x)')"),
        ("obj?", "__mahtab_help__('obj', 1)"),
        ("df.head??", "__mahtab_help__('df.head', 2)"),
        ("?df['a']", "__mahtab_help__(\"df['a']\", 1)"),
        ("?\\\nx", "__mahtab_help__('x', 1)\n"),
        (",f a b", "f('a', 'b')"),
        ("/f a b", "f(a, b)"),
        ("%%time\nx = 1\nx", "__mahtab_magic__('%time', '\\nx = 1\\nx')\n\n"),
        ("!!ls", "__mahtab_lines__('ls')"),
        ("t = %timeit -o f()", "t = __mahtab_magic__('timeit', '-o f()')"),
        ("!ls \\\n  -l\ny", "__mahtab_shell__('ls   -l')\n\ny"),
        ("x = !a \\\n b \\\n c", "x = __mahtab_lines__('a  b  c')\n\n"),
        ("%pip install \\\n numpy", "__mahtab_magic__('pip', 'install  numpy')\n"),
    ],
)
def test_shortcut_lines_become_calls(source: str, becomes: str) -> None:
    assert transform(source) == becomes
    assert becomes.count("\n") == source.count("\n")
    ast.parse(becomes)


@pytest.mark.parametrize(
    "source",
    [
        "x = 7\n%3\n",
        "x = (7\n%y)",
        "a != b",
        "print('''\n%cd x\n!ls\nx?\n''')",
        "x = (7\n%time)\nf(",
        "'''\n!ls",
        "x = 7 \\\n%time",
        "?x\\\ny",
        "x?\\\ny = 5",
        "what is this?",
        "f(x)?",
    ],
)
def test_python_and_nested_lines_are_unchanged(source: str) -> None:
    assert transform(source) == source


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        *((2e-9, "2 ns"), (1.5e-6, "1.5 µs"), (0.25, "250 ms"), (0.9996, "1 s"), (3, "3 s")),
        *((59.6, "59.6 s"), (59.97, "1 min 0 s"), (75, "1 min 15 s"), (119.7, "2 min 0 s")),
    ],
)
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@pytest.fixture
def history() -> Iterator[cell_history.CellHistory]:
    """The history of a kernel in which no cell has run. Its names are gone after the test."""
    builtins_before = dict(builtins.__dict__)
    for name in ("_", "__", "___"):
        builtins.__dict__.pop(name, None)
    yield cell_history.CellHistory()
    for name in builtins.__dict__.keys() - builtins_before.keys():
        del builtins.__dict__[name]
    builtins.__dict__.update(builtins_before)


def test_out_contains_the_newest_values(
    history: cell_history.CellHistory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cell_history, "MAX_REMEMBERED_VALUES", 2)
    for cell, value in enumerate("abc", 1):
        history.add_result(cell, value)
    assert history.outputs == {2: "b", 3: "c"}
    history.add_result(4, history.outputs)
    assert history.outputs == {2: "b", 3: "c"}
    assert builtins.__dict__["_"] == "c", "as in IPython"


def test_the_underscore_of_gettext_is_not_replaced(history: cell_history.CellHistory) -> None:
    history.add_result(1, "a")
    assert builtins.__dict__["_"] == "a"
    gettext.install("domain")
    translate = builtins.__dict__["_"]
    history.add_result(2, "b")
    assert builtins.__dict__["_"] is translate
    assert builtins.__dict__["_2"] == "b"
    del builtins.__dict__["_"]
    history.add_result(3, "c")
    assert builtins.__dict__["_"] == "c"
    assert builtins.__dict__["__"] == "b"


def test_the_underscore_goes_on_after_an_undo(history: cell_history.CellHistory) -> None:
    for cell, value in enumerate("abc", 1):
        history.add_result(cell, value)
    builtins.__dict__["_"] = history.outputs[1]
    history.add_result(4, "d")
    assert builtins.__dict__["_"] == "d"


COMPLETE += ["%time f()", "%matplotlib inline"]
INCOMPLETE += [
    "%%writefile x.txt\n",
    "%%time",
    "%%bash\necho",
    "!ls \\",
    "%pip install \\",
    "?x \\",
]


@pytest.mark.parametrize("source", COMPLETE + INCOMPLETE)
def test_completeness_of_shortcut_lines(source: str) -> None:
    assert is_complete(source) == (source in COMPLETE)


def test_peek_reports_its_range() -> None:
    assert peek("abcdef", 2, 1) == "[characters 1 to 3 of 6]\nbc"
    assert peek("abcdef", 2, -2) == "[characters 4 to 6 of 6]\nef"


def test_grep_numbers_lines_and_shows_context() -> None:
    text = "one\ntwo\nthree\nfour\nfive"
    assert grep(text, "three") == "3: three"
    assert grep(text, "three", context=1) == "2- two\n3: three\n4- four"
    assert "2 more matching lines" in grep("x\nx\nx", "x", max_matches=1)
    assert grep(text, "nine") == "no line matches 'nine'"
    with pytest.raises(ValueError, match="is not a regular expression"):
        grep(text, "(")


@given(st.text(), st.integers(1, 20))
def test_parts_join_to_the_text(text: str, n: int) -> None:
    parts = partition(text, n)
    assert "".join(parts) == text
    assert len(parts) <= n
    assert all(part.endswith("\n") for part in parts[:-1])


def test_read_numbers_lines(project: Path) -> None:
    (project / "a.txt").write_bytes(b"one\f\r\ntwo\r\nthree\n")
    assert read("a.txt", 2, 3) == "     2  two\n     3  three"
    assert read("a.txt") == "     1  one\f\n     2  two\n     3  three"
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
    ("old", "new", "message"),
    [
        ("", "new", "empty"),
        ("zzz", "new", "does not occur"),
        ("a", "new", "occurs more than once"),
        ("xx", "new", "occurs more than once"),
        ("gamma = 3", "new", "Line 3 is similar"),
        ("alpha = 2", "new", "Line 1 is similar"),
        ("caf", "→", "cp1252, which has no '→'"),
    ],
)
def test_edit_refuses_ambiguous_or_unencodable_text(
    project: Path, old: str, new: str, message: str
) -> None:
    original_bytes = b"alpha = 1\ncaf\xe9\x0cxxx\ngamma = 1\n"
    (project / "a.py").write_bytes(original_bytes)
    with pytest.raises(ValueError, match=message):
        edit("a.py", old, new)
    assert (project / "a.py").read_bytes() == original_bytes


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("original_bytes", "old", "new", "edited_bytes"),
    [
        (b"a = 1\r\nb = 2\r\n", "b = 2", "b = 2\nc = 3", b"a = 1\r\nb = 2\r\nc = 3\r\n"),
        (b"a = 1\nb = 2\n", "a = 1\r\nb", "a = 1\r\nc = 2\r\nb", b"a = 1\nc = 2\nb = 2\n"),
        (b"a\r\nb\r\n", "\nb", "\nc\nd", b"a\r\nc\r\nd\r\n"),
        (b"caf\xe9 one\n", "café one", "café für zwei", b"caf\xe9 f\xfcr zwei\n"),
        ("“5 €”\n".encode("cp1252"), "5 €", "6 €", "“6 €”\n".encode("cp1252")),
        (b"\x81\xff one\n", "one", "é", b"\x81\xff \xc3\xa9\n"),
        ("é\n".encode("utf-16"), "é", "à", "à\n".encode("utf-16")),
        ("\ufeffé\n".encode("utf-16-be"), "é", "à", "\ufeffà\n".encode("utf-16-be")),
        ("é è ü\n".encode() + b"\xff one\n", "é è ü", "é", "é\n".encode() + b"\xff one\n"),
    ],
)
def test_edit_keeps_line_ends_and_encoding(
    project: Path, original_bytes: bytes, old: str, new: str, edited_bytes: bytes
) -> None:
    file = project / "a.py"
    file.write_bytes(original_bytes)
    edit("a.py", old, new)
    assert file.read_bytes() == edited_bytes


@pytest.mark.parametrize(
    ("original_bytes", "old", "new", "edited_bytes", "sentence"),
    [
        (b"a\nb\n", "a\n", "a\r\n", b"a\r\nb\n", "only line ends changed"),
        (b"a\r\nb\r\n", "a\r\n", "a\n", b"a\nb\r\n", "only line ends changed"),
        (b"a\nb\r\nc\r\n", "a\n", "a\r\n", b"a\r\nb\r\nc\r\n", "only line ends changed"),
        (b"a\nb\n", "a", "a", b"a\nb\n", "nothing changed"),
    ],
)
def test_edit_says_so_if_no_words_change(
    project: Path,
    capsys: pytest.CaptureFixture[str],
    original_bytes: bytes,
    old: str,
    new: str,
    edited_bytes: bytes,
    sentence: str,
) -> None:
    file = project / "a.txt"
    file.write_bytes(original_bytes)
    edit("a.txt", old, new)
    assert file.read_bytes() == edited_bytes
    assert capsys.readouterr().out == f"a.txt: {sentence}\n"


def test_no_line_is_similar_to_blanks(project: Path) -> None:
    (project / "a.txt").write_text("a\n\nb\n")
    with pytest.raises(ValueError, match=r"does not occur\.$"):
        edit("a.txt", "   ", "c")


def test_an_interrupt_after_an_edit_is_not_hidden(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def replace_and_interrupt(source: str, target: str, real_replace: Any = os.replace) -> None:
        real_replace(source, target)
        raise KeyboardInterrupt

    (project / "a.txt").write_text("a\n")
    monkeypatch.setattr(os, "replace", replace_and_interrupt)
    with pytest.raises(KeyboardInterrupt):
        edit("a.txt", "a", "b")
    assert (project / "a.txt").read_text() == "b\n"


def test_a_file_that_could_not_be_created_can_be_created_later(project: Path) -> None:
    with pytest.raises(ValueError, match=r"utf-8, which has no '\\ud800'"):
        create("deep/a.txt", "x\ud800y")
    assert list(project.iterdir()) == []
    create("deep/a.txt", "x\udc80y\r\n")
    assert (project / "deep/a.txt").read_bytes() == b"x\x80y\r\n"


def test_a_file_that_could_not_be_written_to_its_end_is_removed(project: Path) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, limits[1]))
    try:
        with pytest.raises(OSError, match="too large"):
            create("a.txt", "x" * 100_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert list(project.iterdir()) == []


def test_create_makes_folders_and_never_overwrites(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    create("deep/down/a.txt", "text\n")
    create("two.txt", "one\ntwo")
    printed = capsys.readouterr().out
    assert printed == "deep/down/a.txt: 1 line written\ntwo.txt: 2 lines written\n"
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
    edit("a_module_of_ours.py", "value = (", "raise SystemExit(3)")
    assert "could not be reloaded: SystemExit: 3" in capsys.readouterr().out


def test_claude_sessions_are_read(project: Path, home: Path) -> None:
    assert load_claude_sessions() == []
    name = "".join(char if char.isalnum() else "-" for char in os.getcwd())
    file = home / ".claude" / "projects" / name / "abc.jsonl"
    file.parent.mkdir(parents=True)
    user = {"type": "user", "timestamp": "t", "message": {"content": "Fix  the\nbug"}}
    assistant = {"type": "assistant", "message": {"content": []}}
    broken = ["{broken", "[]", "[" * 200_000]
    file.write_text("\n".join([*broken, json.dumps(user), json.dumps(assistant)]))
    file.with_name("broken.jsonl").symlink_to("missing")
    [session] = load_claude_sessions()
    assert (session["id"], session["title"], session["messages"]) == ("abc", "Fix the bug", 2)


@pytest.mark.parametrize("name", toolbox.NAMES)
def test_every_tool_is_documented(name: str) -> None:
    assert (getattr(toolbox, name).__doc__ or "").split("\n")[0].endswith(".")


@given(
    st.text(alphabet="ab!='\"\n ()[]:#\\%?", max_size=40)
    | st.lists(st.sampled_from(TOKENS), max_size=12).map("".join)
)
@example(" #")
@example(" # first\nx = 1")
def test_valid_python_is_unchanged(source: str) -> None:
    assert transform(source).count("\n") == source.count("\n")
    with contextlib.suppress(SyntaxError, ValueError), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ast.parse(source)
        assert transform(source) == source


def test_terminal_programs_are_recognised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setenv("EDITOR", "python3 -m ed")
    terminal = "vim a.py|git commit|git rebase -i HEAD~3|git add -p|EDITOR=vi less a|sudo vi /etc/hosts|python|python3.12|ssh host|/usr/bin/top"
    terminal += "|git -C /tmp commit|git -c user.name=x commit --amend|git rebase --continue|git tag -a v1|sudo -u bob vim|env -u A vi|python3 -m ed a"
    captured = "ls|git commit -m x|git status|python a.py|echo vim|grep 'x y|"
    captured += "|git -C commit status|git commit -qm x|git tag v1|git tag -am x v1|git tag -l|sudo -u vim ls|python3 a.py|git|sudo"
    assert [command for command in terminal.split("|") if not needs_terminal(command)] == []
    assert [command for command in captured.split("|") if needs_terminal(command)] == []
    monkeypatch.setenv("EDITOR", "vi 'a")
    assert [needs_terminal("ls"), needs_terminal("vi a")] == [False, True]


@pytest.mark.parametrize(
    "command",
    [
        "cd app && vim a.py",
        "cd app;vim a.py",
        "ls || vim a.py",
        "(cd app; A=b vim a.py)",
        "python3;ls",
        "make 2>&1 && less log",
        "/usr/bin/sudo -u bob /usr/bin/env A=b vim a.py",
    ],
)
def test_programs_that_need_the_terminal_may_come_after_others(command: str) -> None:
    assert needs_terminal(command)


@pytest.mark.parametrize(
    "command",
    [
        "git log | less",
        "echo 1 | python3",
        "echo select 1 |& psql && ls",
        "ls > vim",
        "ls 2>&1 vim",
        "ls & echo vim",
        "echo 'a && vim b'",
        "&& | ;",
        "",
    ],
)
def test_programs_that_read_from_a_pipe_need_no_terminal(
    command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setenv("EDITOR", "vi")
    assert not needs_terminal(command)


def test_an_interrupt_for_a_cell_that_has_not_begun_waits_for_it() -> None:
    interrupts = Interrupts()
    with interrupts.allowed(1):
        interrupts.requested = 2
        interrupts.handle(signal.SIGINT, None)
        with pytest.raises(KeyboardInterrupt), interrupts.allowed(2):
            pass
        interrupts.requested = 1
        with pytest.raises(KeyboardInterrupt):
            interrupts.handle(signal.SIGINT, None)


def ends_code(interrupts: Interrupts) -> bool:
    """Return whether a signal raises `KeyboardInterrupt` now."""
    try:
        interrupts.handle(signal.SIGINT, None)
    except KeyboardInterrupt:
        return True
    return False


def can_begin(interrupts: Interrupts, cell: int) -> bool:
    """Return whether a cell begins without `KeyboardInterrupt`."""
    try:
        with interrupts.allowed(cell):
            return True
    except KeyboardInterrupt:
        return False


def can_send(interrupts: Interrupts) -> bool:
    """Return whether a frame is sent without `KeyboardInterrupt`."""
    try:
        with interrupts.shielded():
            return True
    except KeyboardInterrupt:
        return False


def test_an_interrupt_for_a_cell_that_has_ended_spares_the_one_around_it() -> None:
    open_cells = {1, 2}
    interrupts = Interrupts()
    interrupts.is_open = open_cells.__contains__
    with interrupts.allowed(1):
        assert can_begin(interrupts, 2)
        interrupts.requested = 2
        open_cells.discard(2)
        assert not ends_code(interrupts)
        assert ends_code(interrupts)


def test_an_interrupt_before_variables_are_restored_does_not_end_the_next_restoring() -> None:
    cell = -1
    interrupts = Interrupts()
    interrupts.requested = cell
    assert not ends_code(interrupts)
    assert [can_begin(interrupts, cell) for _ in range(2)] == [False, True]


def test_a_signal_after_a_nested_cell_was_refused_ends_the_cell_around_it() -> None:
    open_cells = {1, 2}
    interrupts = Interrupts()
    interrupts.is_open = open_cells.__contains__
    with interrupts.allowed(1):
        interrupts.requested = 2
        assert not ends_code(interrupts)
        open_cells.discard(2)
        assert ends_code(interrupts)


def test_a_signal_in_the_cell_after_one_that_was_interrupted_while_it_sent_a_frame_ends_it() -> (
    None
):
    open_cells = {1}
    interrupts = Interrupts()
    interrupts.is_open = open_cells.__contains__
    with interrupts.allowed(1):
        interrupts.requested = 1
        with pytest.raises(KeyboardInterrupt), interrupts.shielded():
            assert not ends_code(interrupts)
    open_cells.remove(1)
    with interrupts.allowed(2):
        assert ends_code(interrupts)


def test_an_interrupt_while_a_frame_cannot_be_sent_does_not_end_the_next_sending() -> None:
    interrupts = Interrupts()

    def fail_to_send() -> None:
        with interrupts.shielded():
            interrupts.handle(signal.SIGINT, None)
            raise ValueError("the frame is too large")

    with interrupts.allowed(1):
        with pytest.raises(KeyboardInterrupt):
            fail_to_send()
        with interrupts.shielded():
            pass


def test_a_second_signal_just_after_a_frame_was_sent_does_not_end_the_next_sending() -> None:
    class TwiceInterrupted(Interrupts):
        def __setattr__(self, name: str, value: object) -> None:
            super().__setattr__(name, value)
            if name == "_is_shielded" and self.running and not value and self._has_delayed:
                self.handle(signal.SIGINT, None)

    interrupts = TwiceInterrupted()
    with interrupts.allowed(1):
        with pytest.raises(KeyboardInterrupt), interrupts.shielded():
            assert not ends_code(interrupts)
        assert can_send(interrupts)


def test_two_interrupts_for_cells_that_have_not_begun_end_both() -> None:
    interrupts = Interrupts()
    with interrupts.allowed(1):
        for cell in (2, 3):
            interrupts.requested = cell
            assert not ends_code(interrupts)
        assert [can_begin(interrupts, cell) for cell in (2, 3, 4)] == [False, False, True]


def test_an_interrupt_of_a_cell_that_was_refused_spares_a_later_one_of_its_number() -> None:
    interrupts = Interrupts()
    interrupts.requested = 0
    assert not ends_code(interrupts)
    interrupts.forget(0)
    assert can_begin(interrupts, 0)
