"""What the linear interface writes of records."""

from __future__ import annotations

import io
import socket
from pathlib import Path

import pytest
from rich.style import Style
from rich.text import Text

from mahtab_tui.bus.records import Approval, Record
from mahtab_tui.linear.file_links import link_files, link_traceback_file
from mahtab_tui.linear.line_writer import LINK_KEY, LineWriter
from mahtab_tui.linear.record_printer import RecordPrinter
from tests.records import made


class Paper:
    """A printer, and what it has written."""

    def __init__(self) -> None:
        self.stream = io.StringIO()
        self.writer = LineWriter(self.stream, is_plain=True)
        self.printer = RecordPrinter(self.writer, lambda display: False)

    def print(self, *records: Record) -> str:
        """Print records, and return what is new."""
        position = len(self.stream.getvalue())
        self.printer.fold(records)
        return self.stream.getvalue()[position:]


STDOUT = {"cell": 1, "kind": "stdout"}


@pytest.fixture
def paper() -> Paper:
    return Paper()


def begun(node: str, text: str = "", **fields: object) -> Record:
    return made("rlm-call", text, {"event": "begin", "tree": "t", "node": node, **fields})


def ended(node: str, text: str, state: str = "done") -> Record:
    return made("rlm-final", text, {"tree": "t", "node": node, "state": state, "duration": 1.5})


def piece(text: str, kind: str = "chat", block: int | None = None) -> Record:
    attrs = {"turn": 1, "step": 0, "kind": kind, "block": block}
    return made("assistant-chat-stream", text, attrs)


def waiting(code: str) -> Record:
    attrs = {"request": "7", "turn": 1, "step": 0, "block": 0, "blocks": 1, "state": "waiting"}
    return made("approval", code, attrs)


def test_searches_are_indented_by_their_depth(paper: Paper) -> None:
    text = paper.print(
        begun("1", "what failed?"),
        begun("1.1", "in part one?", parent="1", depth=1),
        ended("1.1", "nothing"),
        ended("1", "the disk"),
    )
    assert text.splitlines() == [
        "  1 search: what failed?",
        "    1.1 search: in part one?",
        "    1.1 done in 1.5 s: nothing",
        "  1 done in 1.5 s: the disk",
    ]


def test_answer_of_the_search_of_a_cell_is_left_to_the_cell(paper: Paper) -> None:
    text = paper.print(
        begun("1", "what failed?", cell=1),
        begun("1.1", "in part one?", parent="1", depth=1),
        ended("1.1", "nothing"),
        ended("1", "the disk"),
    )
    assert text.splitlines()[2:] == ["    1.1 done in 1.5 s: nothing", "  1 done in 1.5 s"]


def test_reason_why_the_search_of_a_cell_has_failed_is_written(paper: Paper) -> None:
    text = paper.print(begun("1", "what failed?", cell=1), ended("1", "No model.", "error"))
    assert text.splitlines()[1:] == ["  1 error in 1.5 s: No model."]


def test_of_many_calls_only_the_number_and_failures_are_written(paper: Paper) -> None:
    calls = [begun(f"1.{n}", parent="1", of=40, index=n, model="small") for n in range(40)]
    ends = [ended(f"1.{n}", "x", "error" if n == 7 else "done") for n in range(40)]
    text = paper.print(*calls, *ends)
    assert text.splitlines() == ["  1 makes 40 calls of small", "    1.7 error in 1.5 s: x"]


def test_code_that_was_streamed_is_not_written_twice(paper: Paper) -> None:
    text = paper.print(piece("I add.\n"), piece("1 +", "code", 0), piece(" 1\n", "code", 0))
    assert text == "I add.\n    1 + 1\n"
    request = waiting("1 + 1")
    paper.print(request)
    assert isinstance(request, Approval)
    assert paper.printer.answers.stands_above(request)
    paper.print(made("notice", "Something else.", {"level": "info"}))
    assert not paper.printer.answers.stands_above(request)


def test_code_with_hidden_characters_is_written_again_with_symbols(paper: Paper) -> None:
    code = "print('a\u202eb')"
    paper.print(piece(code, "code", 0))
    request = waiting(code)
    assert isinstance(request, Approval)
    assert not paper.printer.answers.stands_above(request)
    paper.writer.write_code(request.text)
    assert "⟨U+202E⟩" in paper.stream.getvalue()


def test_answered_request_is_forgotten(paper: Paper) -> None:
    request = waiting("1 + 1")
    paper.print(request)
    assert [kept.request for kept in paper.printer.requests] == ["7"]
    paper.print(request.changed(state="run"))
    assert not paper.printer.requests


def test_of_a_running_session_only_what_has_not_ended_is_written(paper: Paper) -> None:
    paper.printer.fold_unfinished(
        [
            made("user-repl-in", "1 + 1", {"cell": 1, "party": "you"}),
            made("user-repl-out", "2\n", {"cell": 1, "status": "ok"}),
            made("user-repl-in", "sleep(9)", {"cell": 2, "party": "you"}),
            made("user-repl-out-stream", "begun\n", {"cell": 2, "kind": "stdout"}),
        ]
    )
    assert paper.stream.getvalue() == "In 2 (you), running:\n    sleep(9)\nbegun\n"


def test_skipped_code_is_not_reported_again_when_lines_follow_the_screen(paper: Paper) -> None:
    request = waiting("1 + 1")
    paper.printer.fold_unfinished([request, request.changed(state="skipped")])
    assert paper.stream.getvalue() == ""
    assert not paper.printer.requests


def test_of_a_resumed_session_only_cells_that_have_not_ended_are_written(paper: Paper) -> None:
    request = waiting("1 + 1")
    paper.printer.fold_running_cells(
        [
            made("user-repl-in", "1 + 1", {"cell": 1, "party": "you"}),
            made("user-repl-out", "2\n", {"cell": 1, "status": "ok"}),
            made("user-repl-in", "sleep(9)", {"cell": 2, "party": "you"}),
            made("user-repl-out-stream", "begun\n", {"cell": 2, "kind": "stdout"}),
            request,
        ]
    )
    assert paper.stream.getvalue() == "In 2 (you), running:\n    sleep(9)\nbegun\n"
    assert not paper.printer.requests


def test_states_are_words(paper: Paper) -> None:
    text = paper.print(
        made("notice", "The disk is full.", {"level": "error"}),
        made("user-repl-in", "1/0", {"cell": 3, "party": "you"}),
        made("user-repl-out", "oops\n", {"cell": 3, "status": "error", "duration": 0.1}),
    )
    assert "Error: The disk is full.\n" in text
    assert text.endswith("oops\nIn 3: error, 0.1 s.\n")


def test_reason_why_a_cell_has_died_is_written_once(paper: Paper) -> None:
    reason = "The kernel died."
    end = {"cell": 3, "status": "died", "duration": 0.1, "detail": reason}
    text = paper.print(
        made("user-repl-in", "crash()", {"cell": 3, "party": "you"}),
        made("notice", reason, {"level": "error"}),
        made("user-repl-out", "", end),
    )
    assert text.endswith("Error: The kernel died.\nIn 3: died, 0.1 s.\n")
    text = paper.print(
        made("user-repl-in", "crash()", {"cell": 4, "party": "you"}),
        made("user-repl-out", "", {**end, "cell": 4, "detail": "It was killed."}),
    )
    assert text.endswith("In 4: died, 0.1 s. It was killed.\n")


def test_reason_from_before_a_cell_is_written_again_at_its_end(paper: Paper) -> None:
    reason = "The kernel died."
    end = {"cell": 3, "status": "died", "duration": 0.1, "detail": reason}
    text = paper.print(
        made("notice", reason, {"level": "error"}),
        made("user-repl-in", "crash()", {"cell": 3, "party": "you"}),
        made("user-repl-out", "", end),
    )
    assert text.endswith("In 3: died, 0.1 s. The kernel died.\n")


def test_cell_that_writes_nothing_is_progress_in_the_plain_form(paper: Paper) -> None:
    paper.print(made("user-repl-in", "sleep(99)", {"cell": 1, "party": "you"}))
    assert paper.printer.progress == "In 1: running."
    paper.print(made("user-repl-out-stream", "a line\n", STDOUT))
    assert paper.printer.progress == ""


def test_line_that_grows_is_written_when_it_ends(paper: Paper) -> None:
    paper.print(made("user-repl-in", "bar()", {"cell": 1, "party": "you"}))
    attrs = {"cell": 1, "kind": "stdout"}
    assert paper.print(made("user-repl-out-stream", "\r10%", attrs)) == ""
    assert paper.print(made("user-repl-out-stream", "\r100%\nnext", attrs)) == "100%\n"
    end = made("user-repl-out", "\r10%\r100%\nnext", {"cell": 1, "status": "ok"})
    assert paper.print(end) == "next\n"


def test_middle_of_a_flood_is_left_out(paper: Paper) -> None:
    paper.print(made("user-repl-in", "flood()", {"cell": 1, "party": "you"}))
    lines = "".join(f"{number}\n" for number in range(5_000))
    text = paper.print(made("user-repl-out-stream", lines, {"cell": 1, "kind": "stdout"}))
    assert "\n199\n… 4,000 lines left out\n4200\n" in text
    assert text.endswith("4999\n")


def test_lines_that_a_cell_changes_later_are_written_again_at_its_end(paper: Paper) -> None:
    paper.print(made("user-repl-in", "bars()", {"cell": 1, "party": "you"}))
    attrs = {"cell": 1, "kind": "stdout"}
    begin = made("user-repl-out-stream", "outer 0%\ninner 0%", attrs)
    assert paper.print(begin) == "outer 0%\n"
    assert paper.print(made("user-repl-out-stream", "\x1b[A\router 100%", attrs)) == ""
    text = "outer 0%\ninner 0%\x1b[A\router 100%"
    end = made("user-repl-out", text, {"cell": 1, "status": "ok"})
    assert paper.print(end) == "inner 0%\nChanged lines:\nouter 100%\n"


def test_changed_lines_are_written_before_a_traceback(paper: Paper) -> None:
    paper.print(made("user-repl-in", "bars()", {"cell": 1, "party": "you"}))
    paper.print(made("user-repl-out-stream", "a 0%\nb 0%", STDOUT))
    paper.print(made("user-repl-out-stream", "\x1b[A\ra 9%", STDOUT))
    attrs = {"cell": 1, "kind": "traceback"}
    error = "Traceback (most recent call last):\n  1/0\n  ~^~\nZeroDivisionError: no\n"
    text = paper.print(made("user-repl-out-stream", error, attrs))
    assert text == f"b 0%\nChanged lines:\na 9%\n{error}".replace("  ~^~\n", "")
    end = made("user-repl-out", "", {"cell": 1, "status": "ok"})
    assert paper.print(end) == ""


def test_prompt_that_a_cell_has_printed_is_not_repeated_after_its_input(paper: Paper) -> None:
    paper.print(made("user-repl-in", "greet()", {"cell": 1, "party": "you"}))
    paper.print(made("user-repl-out-stream", "Enter your name: ", STDOUT))
    request = made("input", "", {"request": "7", "cell": 1, "state": "waiting"})
    assert paper.print(request) == "Enter your name: \n"
    paper.printer.expect_echo(1, "Ann\n")
    assert paper.print(made("user-repl-out-stream", "An", STDOUT)) == ""
    assert paper.print(made("user-repl-out-stream", "n\nHello Ann\n", STDOUT)) == "Hello Ann\n"
    assert paper.print(made("user-repl-out", "", {"cell": 1, "status": "ok"})) == ""


def test_answer_that_comes_whole_is_told_from_the_thoughts_before_it(paper: Paper) -> None:
    attrs = {"turn": 1, "step": 0, "party": "demo"}
    text = paper.print(
        made("assistant-thought", "Let me see.", attrs),
        made("assistant-chat", "So it is.", attrs),
    )
    assert text == "Thoughts of Demo:\nLet me see.\nAnswer:\nSo it is.\n"


@pytest.mark.parametrize(
    ("states", "lines"),
    [
        (["read one", "read one two", "read one two"], ["read one", "two"]),
        (["step 1", "step 12 of 20"], ["step 1", "12 of 20"]),
        (["76% ##### 19/25", "80% [====>---] 20/25"], ["76% 19/25", "80% 20/25"]),
        (["[#    ] 20%", "[##   ] 40%", "[██   ] 50%"], ["20%", "40%", "50%"]),
    ],
)
def test_plain_form_writes_what_is_new_of_a_line_that_grows(
    paper: Paper, monkeypatch: pytest.MonkeyPatch, states: list[str], lines: list[str]
) -> None:
    monkeypatch.setattr("mahtab_tui.linear.line_writer.PROGRESS_INTERVAL_S", 0.0)
    paper.writer.show_progress("")
    for state in states:
        paper.writer.show_progress(state)
    assert paper.stream.getvalue().splitlines() == lines


def test_plain_form_writes_progress_whole_after_something_else(
    paper: Paper, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mahtab_tui.linear.line_writer.PROGRESS_INTERVAL_S", 0.0)
    paper.writer.show_progress("Downloading")
    paper.writer.write_line("Downloading a.txt")
    paper.writer.show_progress("Downloading b.txt")
    assert paper.stream.getvalue().splitlines() == [
        "Downloading",
        "Downloading a.txt",
        "Downloading b.txt",
    ]


def test_line_with_tabs_is_drawn_over_itself_in_one_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    stream = io.StringIO()
    LineWriter(stream, is_plain=False).show_progress("a\tb" + "\tc" * 500)
    line = stream.getvalue().removeprefix("\r\x1b[K")
    assert line.startswith("a       b       c")
    assert "\t" not in line
    assert len(line) < 500


def test_line_that_has_not_ended_is_progress_until_it_ends(paper: Paper) -> None:
    paper.print(made("user-repl-in", "bar()", {"cell": 1, "party": "you"}))
    attrs = {"cell": 1, "kind": "stdout"}
    paper.print(made("user-repl-out-stream", "\r10%", attrs))
    paper.print(made("user-repl-out-stream", "\r40%", attrs))
    assert paper.printer.progress == "40%"
    paper.print(made("user-repl-out-stream", "\r100%\n", attrs))
    assert paper.printer.progress == ""


def test_line_that_has_not_ended_is_progress_while_a_newer_cell_writes_nothing(
    paper: Paper,
) -> None:
    paper.print(
        made("user-repl-in", "bar()", {"cell": 1, "party": "you"}),
        made("user-repl-out-stream", "\r40%", STDOUT),
        made("user-repl-in", "sleep(99)", {"cell": 2, "party": "you"}),
    )
    assert paper.printer.progress == "40%"


def test_reading_of_a_long_prompt_is_progress_until_the_answer_begins(paper: Paper) -> None:
    attrs = {"turn": 1, "step": 0, "party": "demo", "share": 0.4}
    assert paper.print(made("assistant-reading", "", attrs)) == ""
    assert paper.printer.progress == "Demo has read 40% of the prompt."
    paper.print(piece("It is"))
    assert paper.printer.progress == ""


def test_thoughts_are_written_before_their_answer(paper: Paper) -> None:
    attrs = {"turn": 1, "step": 0, "party": "demo"}
    text = paper.print(
        made("assistant-thought-stream", "\n", attrs),
        made("assistant-thought-stream", "Let me ", attrs),
        made("assistant-thought-stream", "see.\n", attrs),
        piece("So it is."),
        made("assistant-thought", "Let me see.", attrs),
    )
    assert text == "Thoughts of Demo:\nLet me see.\nAnswer:\nSo it is."


def test_thought_of_which_no_piece_came_is_written_whole(paper: Paper) -> None:
    attrs = {"turn": 1, "step": 0, "party": "demo"}
    text = paper.print(made("assistant-thought", "Let me see.", attrs))
    assert text == "Thoughts of Demo:\nLet me see."


def test_progress_is_drawn_over_until_a_line_takes_its_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    stream = io.StringIO()
    writer = LineWriter(stream, is_plain=False)
    writer.show_progress("10%")
    writer.show_progress("10%")
    writer.show_progress("20%\x1b[2J")
    writer.write_line("done")
    assert stream.getvalue() == "\r\x1b[K10%\r\x1b[K20%\r\x1b[Kdone\n"


def test_plain_form_draws_nothing_over(paper: Paper) -> None:
    paper.writer.show_progress("")
    paper.writer.show_progress("10%")
    assert paper.stream.getvalue() == ""


def test_files_are_linked_on_this_machine(tmp_path: Path) -> None:
    (tmp_path / "a b.csv").write_text("")
    text = Text("files: `a b.csv` new, `gone.csv` removed")
    link_files(text, ["a b.csv", "gone.csv"], str(tmp_path))
    [span] = text.spans
    assert isinstance(span.style, Style)
    assert text.plain[span.start : span.end] == "`a b.csv`"
    assert span.style.meta[LINK_KEY] == f"file://{socket.gethostname()}{tmp_path}/a%20b.csv"


@pytest.mark.parametrize("form", ['  File "{}", line 3, in f', "File {}:3"])
def test_file_of_a_traceback_is_linked(form: str) -> None:
    text = Text(form.format(__file__))
    link_traceback_file(text)
    [span] = text.spans
    assert text.plain[span.start : span.end] == __file__
