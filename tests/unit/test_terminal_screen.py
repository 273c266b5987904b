"""Output that rewrites its lines, as a terminal shows it."""

from __future__ import annotations

import io
from itertools import pairwise

import pyte
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from rich.progress import Progress
from tqdm import tqdm

from mahtab_tui.bus import terminal_screen
from mahtab_tui.bus.sanitize import plain
from mahtab_tui.bus.screen_line import ScreenLine
from mahtab_tui.bus.sgr import styled
from mahtab_tui.bus.terminal_screen import MAX_BLANKS, MAX_LINE_COLUMNS, Screen, collapse, rewrites
from mahtab_tui.kernel.terminal_output import TerminalOutput

SEQUENCES = "\x1b[K \x1b[0K \x1b[1K \x1b[2K \x1b[31m \x1b[0m".split(" ")
PLAYED = st.lists(
    st.sampled_from([*"\r\b\t\na ", "bcd", "xyz", "\r\n", *SEQUENCES]), max_size=25
).map("".join)


CONTROLS = "\r \b \x1b[A \x1b[3A \x1b[B \x1b[2B \x1b[C \x1b[4C \x1b[D \x1b[2D \x1b[G \x1b[3G \x1b[H \x1b[2;3H"
ERASES = "\x1b[J \x1b[1J \x1b[2J \x1b[K \x1b[1K \x1b[2K \x1b[?25l \x1b[31m \x1b[0m \x1b[0K"
PRINTED = ["\n", "\r\n", "a", "bcd", "xyz", "\t", "a\n", "line\n"]
MOVED = st.lists(st.sampled_from([*f"{CONTROLS} {ERASES}".split(" "), *PRINTED]), max_size=30)
LINES = 5

FAR = {
    "right": "\x1b[9999999999C.",
    "down": "\x1b[999999999B",
    "right and down": "\x1b[5000;5000H.",
    "right in each line": "x\x1b[999C.\n",
    "thousands of digits": "\x1b[" + "9" * 9_000 + "A",
}


def trimmed(lines: list[str]) -> list[str]:
    return "\n".join(line.rstrip() for line in lines).rstrip("\n").split("\n")


def on_a_small_terminal(text: str) -> list[str]:
    screen = pyte.HistoryScreen(80, LINES)
    screen.set_mode(pyte.modes.LNM)
    pyte.Stream(screen).feed(text)
    above = ["".join(line[column].data for column in range(80)) for line in screen.history.top]
    return trimmed([*above, *screen.display])


@given(MOVED)
def test_the_cursor_moves_as_in_a_terminal(pieces: list[str]) -> None:
    text = "".join(pieces)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(terminal_screen, "HEIGHT", LINES)
        collapsed = collapse(text)
    lines = trimmed([plain(line).expandtabs(8) for line in collapsed.split("\n")])
    assert lines == on_a_small_terminal(text)


@given(MOVED, st.lists(st.integers(0, 60), max_size=4))
def test_text_in_pieces_renders_the_same(pieces: list[str], offsets: list[int]) -> None:
    text = "".join(pieces)
    cuts = sorted({0, len(text), *(min(offset, len(text)) for offset in offsets)})
    printed = TerminalOutput()
    for start, end in pairwise(cuts):
        printed.add("stdout", text[start:end])
    output, kinds = printed.text()
    lines = trimmed(plain(output).split("\n"))
    assert lines == trimmed(plain(collapse(text)).split("\n"))
    assert sum(count for _, count in kinds) == len(output)
    assert rewrites(text) or not printed.rewritten


@given(st.text(st.characters(exclude_categories=["Cc"])))
def test_plain_text_is_unchanged(text: str) -> None:
    assert collapse(text) is text


@given(st.one_of(PLAYED, st.text()))
def test_collapsing_again_changes_nothing(text: str) -> None:
    once = collapse(text)
    assert collapse(once) == once


@pytest.mark.parametrize(
    ("text", "expected_text"),
    [
        ("abc\rX", "Xbc"),
        ("100%\r  5%", "  5%"),
        ("abc\b\bX", "aXc"),
        ("abc\r\bX", "Xbc"),
        ("abc\r\x1b[Kd", "d"),
        ("windows\r\nlines\r\n", "windows\nlines\n"),
        ("half\r", "half"),
        ("漢字\rab", "ab字"),
        ("漢字\ra", "a 字"),
        ("e\u0301x\ra", "ax"),
        ("abc\rx\u0301", "x\u0301bc"),
        ("keeps\x1b]0;title\x07\rK", "Keeps"),
    ],
)
def test_line_is_overwritten(text: str, expected_text: str) -> None:
    assert plain(collapse(text)) == expected_text


def test_colours_stay_with_their_text() -> None:
    assert collapse("\x1b[31mred\x1b[0m\rX") == "X\x1b[31med\x1b[0m"
    text = styled(collapse("\x1b[32m 10%\r 90%\x1b[0m\nplain"))
    assert text.plain == " 90%\nplain"
    assert text.spans[0].end == 4


def test_colour_continues_over_lines() -> None:
    text = styled(collapse("a\x1b[31mb\ncd\re\nf\x1b[0mg"))
    assert text.plain == "ab\ned\nfg"
    coloured = "".join(text.plain[span.start : span.end] for span in text.spans if span.style)
    assert coloured.replace("\n", "") == "bedf"
    text = styled(collapse("\x1b[31ma\nbc\r\x1b[1mX"))
    looks = {text.plain[span.start : span.end]: str(span.style) for span in text.spans}
    assert looks == {"a": "color(1)", "X": "bold color(1)", "c": "color(1)"}


@pytest.mark.parametrize("piece", FAR.values(), ids=FAR)
def test_no_cursor_move_creates_huge_output(piece: str) -> None:
    assert len(collapse(piece * 10)) < 120_000
    times = 1_000_000 // len(piece)
    assert len(collapse(piece * times)) <= 8 * len(piece) * times + MAX_BLANKS


@pytest.mark.parametrize("end", ["\b", ""])
def test_endless_line_is_broken(end: str) -> None:
    screen = Screen()
    for _ in range(50):
        screen.feed("x" * 10_000 + end)
    assert max(map(len, screen.rows())) <= MAX_LINE_COLUMNS + 10_000


def test_traceback_starts_below_a_moved_cursor() -> None:
    printed = TerminalOutput()
    printed.add("stdout", "outer\ninner\x1b[A")
    printed.add("traceback", "KeyError\n")
    assert printed.text()[0] == "outer\ninner\nKeyError\n"


def test_plain_output_is_not_replayed_on_a_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(Screen, "feed")
    printed = TerminalOutput()
    for _ in range(1_000):
        printed.add("stdout", "\x1b[32mgreen\x1b[0m and plain\r\n" * 100)
    assert printed.text()[0].count("green") == 100_000


def test_long_progress_bar_keeps_its_visible_part() -> None:
    printed = TerminalOutput()
    printed.add("stdout", "begin\n")
    for number in range(20_000):
        printed.add("stdout", f"\router\n\rinner {number:10}" + " " * 50 + "\x1b[A")
    text, _ = printed.text()
    assert text.split() == ["begin", "outer", "inner", "19999"]


def test_nested_bars_have_one_line_each() -> None:
    out = io.StringIO()
    for _ in tqdm(range(3), desc="outer", file=out, mininterval=0, ncols=60):
        for _ in tqdm(range(20), desc="inner", file=out, mininterval=0, ncols=60, colour="green"):
            pass
    lines = plain(collapse(out.getvalue())).rstrip().splitlines()
    assert [line.split(":")[0] for line in lines] == ["inner", "inner", "inner", "outer"]


def test_rich_bars_have_one_line_each() -> None:
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=70)
    with Progress(console=console, refresh_per_second=100) as progress:
        tasks = [progress.add_task(name, total=5) for name in ("one", "two")]
        for number in range(5):
            for task in tasks:
                progress.update(task, advance=1, refresh=True)
            console.print(f"step {number}")
    lines = plain(collapse(out.getvalue())).rstrip().splitlines()
    assert [line.split()[0] for line in lines] == ["step"] * 5 + ["one", "two"]
    assert "100%" in lines[-1]


@pytest.mark.timeout(60)
@pytest.mark.parametrize("erase", ["\x1b[1K", "\x1b[1J"])
def test_erasing_a_wide_line_takes_linear_time(erase: str) -> None:
    output = TerminalOutput()
    output.add("stdout", "x" * (MAX_LINE_COLUMNS - 1_000) + "\b\b" + erase * 300_000)
    assert output.text()[0].strip() in ("", "x")


@pytest.mark.parametrize("erasure", ["\r\x1b[K", "\r\x1b[0K", "\r\x1b[2K", "\x1b[2K\r"])
def test_what_is_erased_with_its_whole_line_is_not_written_first(
    erasure: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[str] = []
    write = ScreenLine.write

    def noting_write(line: ScreenLine, text: str, column: int, pen: str) -> int:
        written.append(text)
        return write(line, text, column, pen)

    monkeypatch.setattr(ScreenLine, "write", noting_write)
    text = collapse("\x1b[31m" + f"red{erasure}" * 1_000 + "end")
    assert text.startswith("\x1b[31mend\x1b[0m")
    assert len(written) < 10


def test_what_is_erased_on_another_line_stays_where_the_cursor_was() -> None:
    assert collapse("one\ntwo\x1b[A\r\x1b[Kthree") == "three\ntwo"
