"""Gives a hostile text of 300,000 characters to each reader of texts from outside. Run as a program, with the piece that the text repeats."""

from __future__ import annotations

import contextlib
import resource
import sys

LENGTH = 300_000
SECONDS = 60
"""Of the processor, for all of them."""


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
    from mahtab_tui.bus.overwrite import collapse

    collapse(text)


def printed(text: str) -> None:
    from mahtab_tui.kernel.output import TerminalOutput
    from mahtab_tui.tui.cell_output.output import OutputBuffer

    kept, shown = TerminalOutput(), OutputBuffer()
    for start in range(0, len(text), 8_192):
        kept.add("stdout", text[start : start + 8_192])
        shown.feed("stdout", text[start : start + 8_192])
    kept.text()


def code_of_an_answer(text: str) -> None:
    from mahtab_tui.search.answer_code import code_of, last_answer

    code_of(text)
    last_answer(text)
    code_of("```python\n" + text)


def streamed_answer(text: str) -> None:
    from mahtab_tui.bus.splitter import AnswerSplitter

    splitter = AnswerSplitter()
    for start in range(0, len(text), 10_000):
        list(splitter.feed(text[start : start + 10_000]))
    list(splitter.end())


def frame(text: str) -> None:
    from mahtab_tui.kernel.worker.frames import FrameReader, encode
    from mahtab_tui.sandbox.characters import without_surrogates

    data = encode({"op": "x", "text": text + "\ud800"})
    reader = FrameReader(bare_limit=1_000)
    for start in range(0, len(data), 65_536):
        for each in reader.feed(data[start : start + 65_536]):
            without_surrogates(each)


def requests(text: str) -> None:
    from mahtab_tui.sandbox.text import Text
    from mahtab_tui.search.requests import read_call, read_final

    read_call("rlm", {"query": "q", "parts": [{"text": text}], "map": False}, Text.root(text))
    read_final({"text": text[:40_000], "spans": [[0, 1]] * 100_000}, Text.root(text))


def grounds(text: str) -> None:
    from mahtab_tui.kernel.worker.sandbox.grounds import Grounds
    from mahtab_tui.kernel.worker.sandbox.parts import Part

    found = Grounds(text)
    found.give([Part(text[place : place + 30], place, place + 30) for place in range(0, 30_000, 30)])
    found.of(text[:40_000], text[:40_000], True)


def sub_call_text(text: str) -> None:
    from mahtab_tui.search.events import Events

    Events("t", lambda record: None).query(text[:100_000], text)


def partitions(text: str) -> None:
    from mahtab_tui.kernel.worker.text_tools import cuts

    list(cuts(text, 5_000))


READERS = [
    plain, styled, defused, collapsed, printed, code_of_an_answer, streamed_answer, frame, requests, grounds, sub_call_text, partitions,
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
}


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    piece = PIECES[sys.argv[1]]
    for read in READERS:
        print(read.__name__, flush=True)
        with contextlib.suppress(Exception):  # it may refuse what it is given
            read(piece * (LENGTH // len(piece)))
    print("all have ended")
