"""Gives hostile texts of 100,000 characters to each reader of texts from outside."""

from __future__ import annotations

import contextlib
import resource
import sys
import tempfile
from pathlib import Path

LENGTH = 100_000
"""Characters: a linear reader takes at most a second for them, a quadratic one 5,000,000,000
steps."""
SECONDS = 8
"""CPU seconds after which a reader is ended, and the program with it."""


def plain(text: str) -> None:
    from mahtab_tui.bus.sanitize import plain

    plain(text)


def styled(text: str) -> None:
    from mahtab_tui.bus.sanitize import styled

    styled(text[: LENGTH // 10])


def defused(text: str) -> None:
    from mahtab_tui.search.prompts import plain_message

    plain_message("what?", text)


def collapsed(text: str) -> None:
    from mahtab_tui.bus.terminal_screen import collapse

    collapse(text)


def printed(text: str) -> None:
    from mahtab_tui.bus.output import OutputBuffer
    from mahtab_tui.kernel.cells import TerminalOutput

    output, shown = TerminalOutput(), OutputBuffer()
    for start in range(0, len(text), 8_192):
        output.add("stdout", text[start : start + 8_192])
        shown.feed("stdout", text[start : start + 8_192])
    output.text()


def code_of_an_answer(text: str) -> None:
    from mahtab_tui.search.turns import extract_code

    extract_code(text)


def code_in_a_fence(text: str) -> None:
    from mahtab_tui.search.turns import extract_code

    extract_code("```python\n" + text)


def answer_in_words(text: str) -> None:
    from mahtab_tui.search.turns import last_answer

    last_answer(text)


def streamed_answer(text: str) -> None:
    from mahtab_tui.bus.answers import AnswerSplitter

    splitter = AnswerSplitter()
    for start in range(0, len(text), 10_000):
        list(splitter.feed(text[start : start + 10_000]))
    list(splitter.end())


def frame(text: str) -> None:
    from mahtab_tui.sandbox.base import without_surrogates
    from mahtab_tui.worker.frames import FrameReader, encode

    data = encode({"op": "x", "text": text + "\ud800"})
    reader = FrameReader(bare_limit=1_000)
    for start in range(0, len(data), 65_536):
        for each in reader.feed(data[start : start + 65_536]):
            without_surrogates(each)


def requests(text: str) -> None:
    from mahtab_tui.sandbox.base import Text
    from mahtab_tui.search.requests import read_call, read_final

    read_call("rlm", {"query": "q", "parts": [{"text": text}], "map": False}, Text.root(text))
    read_final({"text": text, "spans": [[0, 1]] * 100_000}, Text.root(text), len(text))


def evidence(text: str) -> None:
    from mahtab_tui.worker.sandbox.text import EvidenceFinder, Part

    finder = EvidenceFinder(text)
    finder.remember([Part(text[offset : offset + 30], offset) for offset in range(0, 30_000, 30)])
    finder.find(text, text, True)
    finder.find_runs(text)


def evidence_of_sub_calls(text: str) -> None:
    from mahtab_tui.sandbox.base import Text
    from mahtab_tui.search.requests import SubAnswers

    answers = SubAnswers(Text.root(text))
    for start in range(0, LENGTH, 100):
        answers.add(text[start : start + 100], (), [(0, LENGTH)])
    answers.evidence(text)


def lines_with_words_of_a_query(text: str) -> None:
    from mahtab_tui.search.prompts import find_query_lines

    find_query_lines(text, text)
    find_query_lines(text[:50], f"head\n{text}", header=True)


def partitions(text: str) -> None:
    from mahtab_tui.worker.text_tools import partition_spans

    list(partition_spans(text, 5_000))


def figures_of_an_answer(text: str) -> None:
    from mahtab_tui.bus.figures import FigureSource, find_figures

    find_figures(text, [], "")
    find_figures("12 of 'foo bar' on 2013-01-05 at 10:30", [FigureSource(1, text)], "")


def cells_of_a_script(text: str) -> None:
    _read_as_cells(f"# %%\n{text}", "a.py")


def cells_of_markdown(text: str) -> None:
    _read_as_cells(f"---\n{text}\n---\n{text}", "a.md")


def _read_as_cells(text: str, name: str) -> None:
    from mahtab_tui.export.reading import read_notebook
    from mahtab_tui.export.writing import render_text

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_text(text, "utf-8", errors="replace")
        file = read_notebook(path)
    content = {
        **file.content,
        "cells": [
            *file.cells,
            {
                "cell_type": "code",
                "source": "x",
                "metadata": {},
                "outputs": [],
                "execution_count": 1,
            },
        ],
    }
    render_text(file, content)


READERS = [
    plain, styled, defused, collapsed, printed, code_of_an_answer, code_in_a_fence, answer_in_words, streamed_answer, frame, requests, evidence,
    evidence_of_sub_calls, lines_with_words_of_a_query,
    partitions, figures_of_an_answer, cells_of_a_script, cells_of_markdown,
]  # fmt: skip
PIECES = {
    "letters": "a",
    "blanks": " ",
    "line ends": "\n",
    "returns": "\r",
    "returns and letters": "a\r",
    "backspaces": "a\b",
    "escapes": "\x1b",
    "cursor up": "\x1b[A",
    "cursor up and down": "a\x1b[A\n",
    "cursor to the right": "\x1b[999C.",
    "erased screens": "x\n\x1b[2J",
    "combining characters": "\u0301\x1b[K",
    "kept places": "\x1b7\n\x1b8",
    "strings of a terminal": "\x1b]",
    "pictures of a terminal": "\x1b_a\n",
    "colours": "\x1b[31m",
    "tags": "<search-text ",
    "ends of tags": "</assistant-repl-in ",
    "brackets": "<",
    "ampersands": "&amp;",
    "fences": "```python\n",
    "docstrings": '"""\\',
    "quotes": "'",
    "quotations": "> ",
    "thoughts": "<think>",
    "lists": "1. ",
    "backslashes": "\\",
    "brackets of code": "(",
    "line numbers": "line 1 and ",
    "numbers": "1,234 ",
    "quoted values": "'A b\" ",
}


def limited() -> None:
    """From now on, the processor is ours for so many seconds."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    _, most = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (int(used.ru_utime + used.ru_stime) + SECONDS, most))


if __name__ == "__main__":
    for name in sys.argv[1:]:
        piece = PIECES[name]
        for read in READERS:
            print(f"{read.__name__} of {name}", flush=True)
            limited()
            with contextlib.suppress(Exception):  # it may refuse what it is given
                read(piece * (LENGTH // len(piece)))
    print("all have ended")
