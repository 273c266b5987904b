"""The moving picture of the README: the real program on a terminal, as an animated SVG.

The frames lie below one another, and a CSS animation shows one after the other. A row that several
frames share is written once.
"""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import groupby
from typing import NamedTuple
from xml.etree import ElementTree

from pyte.screens import Char

from tests.e2e.terminal import DEADLINE, Terminal
from tests.screenshots import FOLDER, running_program

THEMES = {"dark": "mahtab", "light": "mahtab-day"}
"""The program's theme for each picture."""
COLUMNS = 112
LINES = 31
STILL = "The result of the model's code"
"""The chapter whose last frame is shown where pictures do not move."""

_FONT_SIZE = 13.3
_CELL_WIDTH = 8
_LINE_HEIGHT = 17
_ASCENT = 13
"""From a row's upper edge to the line on which its letters stand. These are in pixels."""
_MARGIN = 10
_FONTS = "ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace"
_SVG = "{http://www.w3.org/2000/svg}"

_TYPING_S = 0.16
"""Seconds for which two new characters are shown."""
_MIN_FRAME_S = 0.12
_MAX_FRAME_S = 1.5
"""Of the frames that the program draws by itself."""
_QUIET_S = 0.6
"""Seconds without a change after which a screen is complete."""

_CITIES = "Oslo Rome Lima Kyiv Bern".split()
_ORDERS = "id,city,price\n" + "".join(
    f"{n},{_CITIES[n * n % 5]},{'' if n % 97 == 0 else 20 + n * n % 41}\n" for n in range(1, 2001)
)
_CAUSES = {397 * n: "backup" if n % 3 else "report" for n in range(1, 8)}
"""What held the table when a request timed out, by the request's number."""


def _log_line(n: int) -> str:
    message = "ok"
    if n in _CAUSES:
        message = "timed out after 30 s"
    elif n + 1 in _CAUSES:
        message = f"waits: {_CAUSES[n + 1]} holds table orders"
    return f"10:{n // 60:02}:{n % 60:02} request {n} {message}\n"


_LOG = "".join(map(_log_line, range(3000)))
_CODE = """\
orders = orders.dropna(subset=["price"])
revenue = orders.groupby("city")["price"].sum()
print(revenue.nlargest(3))"""
_SEARCH_CODE = """\
moments = grep("timed out", context_lines=1)
causes = llm_map("Which job held the table?", moments)
counts = {cause: causes.count(cause) for cause in set(causes)}
FINAL(f"{len(causes)} requests. The table orders was held by " + " and by ".join(
    f"the {cause} ({counts[cause]})" for cause in sorted(counts)) + ".")"""
_ANSWERS = [
    {
        "match": "Which city sells most",
        "text": f"I leave out the orders without a price.\n\n```python\n{_CODE}\n```\n",
        "tokens_per_second": 25,
    },
    {
        "match": "Bern +31",
        "text": "**Bern** sells most: 31,724.",
        "tokens_per_second": 10,
    },
    {"match": "Which requests timed out", "text": f"```python\n{_SEARCH_CODE}\n```\n"},
    *(
        {"match": f"request {n} timed out", "text": cause, "tokens_per_second": 1.5 / (1 + n / 900)}
        for n, cause in _CAUSES.items()
    ),
]


class Run(NamedTuple):
    """Characters of a row that look alike."""

    column: int
    text: str
    style: str
    """CSS; empty for the usual one."""
    ground: str
    """A colour."""


Row = tuple[Run, ...]


@dataclass
class Film:
    """Frames of a screen, and for how long each is shown."""

    screen: Terminal
    frames: list[tuple[Row, ...]] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    chapters: dict[str, int] = field(default_factory=dict)
    """The number of the frame that ends each chapter, by its title."""

    def type(self, text: str) -> None:
        """Type a text, with a frame for each two characters."""
        for number, character in enumerate(text, 1):
            self.screen.send(character)
            self._settle(0.03)
            if number % 2 == 0 or number == len(text):
                self._add(_TYPING_S)

    def follow(self, pattern: str) -> None:
        """Add a frame for what the program draws, until a pattern is on the screen."""
        self._add(0)
        last_frame = time.monotonic()
        deadline = last_frame + DEADLINE
        while not re.search(pattern, self.screen.text):
            now = time.monotonic()
            if not self.screen.pump() or now > deadline:
                raise AssertionError(f"{pattern!r} was not seen. The screen:\n{self.screen.text}")
            if now - last_frame >= _MIN_FRAME_S:
                self.seconds[-1] += min(now - last_frame, _MAX_FRAME_S)
                self._add(0)
                last_frame = now

    def end_chapter(self, title: str, seconds: float) -> None:
        """Show the complete screen for some seconds."""
        self._settle(_QUIET_S)
        self._add(seconds)
        self.chapters[title] = len(self.frames) - 1

    def _settle(self, quiet_s: float) -> None:
        """Wait until no character has changed for some seconds; a cursor may blink."""
        text = self.screen.text
        last_change = time.monotonic()
        while time.monotonic() - last_change < quiet_s:
            self.screen.pump(quiet_s)
            if self.screen.text != text:
                text = self.screen.text
                last_change = time.monotonic()

    def _add(self, seconds: float) -> None:
        frame = tuple(_read_row(self.screen, line) for line in range(self.screen.lines))
        if not self.frames or self.frames[-1] != frame:
            self.frames.append(frame)
            self.seconds.append(0.0)
        self.seconds[-1] += seconds


def take(theme: str) -> Film:
    """Film a session. theme: a key of `THEMES`."""
    files = {
        "orders.csv": _ORDERS,
        "requests.log": _LOG,
        "answers": "".join(json.dumps(answer) + "\n" for answer in _ANSWERS),
    }
    arguments = ("orders.csv", "--model", "replay:answers")
    env = {"MAHTAB_THEME": THEMES[theme]}
    with running_program(files, *arguments, columns=COLUMNS, lines=LINES, env=env) as screen:
        screen.wait(r"\+ orders")
        film = Film(screen)
        film.end_chapter("The program has started", 1)
        film.type("`Which city sells most?")
        screen.press("enter")
        film.follow("waits for you")
        film.end_chapter("The code waits", 3)
        screen.press_until("y", "In 2", prompt_pattern="waits for you")
        film.follow("sells most: 31,724")
        screen.idle()
        film.end_chapter(STILL, 4)
        film.type("/undo")
        screen.press("enter")
        film.follow("− revenue")
        film.end_chapter("What an undo would do", 3)
        screen.press_until("y", "was undone", prompt_pattern="Keep")
        film.end_chapter("It is undone", 2.5)
        film.type("`log = open('requests.log').read()")
        screen.press("enter", pattern=r"\+ log")
        film.end_chapter("A long text", 1)
        film.type("rlm('Which requests timed out, and why?', log)")
        screen.press("enter")
        film.follow(r"report \(2\)")
        screen.idle()
        film.end_chapter("The tree of the search", 6)
    return film


def _read_row(screen: Terminal, line: int) -> Row:
    cells = [screen.screen.buffer[line][column] for column in range(screen.columns)]
    runs: list[Run] = []
    column = 0
    for (style, ground), group in groupby(cells, _look):
        chars = list(group)
        runs.append(Run(column, "".join(char.data for char in chars), style, ground))
        column += len(chars)
    return tuple(runs)


def _look(char: Char) -> tuple[str, str]:
    """Return the style and the ground of a character."""
    ink, ground = (
        f"#{colour}" if re.fullmatch("[0-9a-f]{6}", colour) else colour
        for colour in (char.fg, char.bg)
    )
    if char.reverse:
        ink, ground = ground, ink
    rules = [
        f"fill:{ink}" if ink != "default" else "",
        "font-weight:bold" if char.bold else "",
        "font-style:italic" if char.italics else "",
        "text-decoration:underline" if char.underscore else "",
    ]
    return ";".join(filter(None, rules)), ground


def picture(film: Film) -> str:
    """Return a film as an animated SVG."""
    rows: dict[Row, str] = {}
    styles: dict[str, str] = {}
    area_by_ground: Counter[str] = Counter()
    for run in (run for frame in film.frames for row in frame for run in row):
        area_by_ground[run.ground] += len(run.text)
        styles.setdefault(run.style, f"s{len(styles)}")
    page_ground = area_by_ground.most_common(1)[0][0]

    frames = []
    for number, frame in enumerate(film.frames):
        uses = []
        for line, row in enumerate(frame):
            name = rows.setdefault(row, f"r{len(rows)}")
            y = (number * len(frame) + line) * _LINE_HEIGHT + _ASCENT
            uses.append(f'<use href="#{name}" y="{y}"/>')
        frames.append(f"<g>{''.join(uses)}</g>")

    width = COLUMNS * _CELL_WIDTH
    height = LINES * _LINE_HEIGHT
    outer = f"{width + 2 * _MARGIN} {height + 2 * _MARGIN}"
    still_y = -film.chapters[STILL] * height
    rules = [
        f"text{{font:{_FONT_SIZE}px {_FONTS};white-space:pre}}",
        *(f".{name}{{{style}}}" for style, name in styles.items() if style),
        f".film{{transform:translateY({still_y}px);animation:film {sum(film.seconds):.2f}s step-end infinite}}",
        f"@keyframes film{{{''.join(_key_frames(film.seconds, height))}}}",
        "@media (prefers-reduced-motion:reduce){.film{animation:none}}",
    ]
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {outer}" role="img" xml:space="preserve">',
        "<title>mahtab-tui: a question, its code, an undo and a search</title>",
        f"<style>{''.join(rules)}</style>",
        f"<defs>{''.join(_draw_row(row, name, styles, page_ground) for row, name in rows.items())}</defs>",
        f'<rect width="100%" height="100%" rx="8" fill="{page_ground}"/>',
        f'<svg x="{_MARGIN}" y="{_MARGIN}" width="{width}" height="{height}"><g class="film">',
        *frames,
        "</g></svg></svg>",
    ]
    return "\n".join(lines) + "\n"


def _key_frames(seconds: Sequence[float], height: int) -> Iterator[str]:
    elapsed_s = 0.0
    for number, frame_s in enumerate(seconds):
        percent = 100 * elapsed_s / sum(seconds)
        yield f"{percent:.3f}%{{transform:translateY({-number * height}px)}}"
        elapsed_s += frame_s


def _draw_row(row: Row, name: str, styles: dict[str, str], page_ground: str) -> str:
    parts = [f'<g id="{name}">']
    for ground, runs_on_it in groupby(row, lambda run: run.ground):
        runs = list(runs_on_it)
        if ground != page_ground:
            x = runs[0].column * _CELL_WIDTH
            width = sum(len(run.text) for run in runs) * _CELL_WIDTH
            parts.append(
                f'<rect x="{x}" y="-{_ASCENT}" width="{width}" height="{_LINE_HEIGHT}" fill="{ground}"/>'
            )
        for run in runs:
            if text := run.text.strip(" "):
                x = (run.column + run.text.index(text)) * _CELL_WIDTH
                width = len(text) * _CELL_WIDTH
                parts.append(
                    f'<text class="{styles[run.style]}" x="{x}" textLength="{width}">{escape(text, quote=False)}</text>'
                )
    return "".join([*parts, "</g>"])


def chapter_texts(film: Film) -> dict[str, str]:
    """Return the text of the frame that ends each chapter, by its title."""
    return {
        title: _comparable(_text(film.frames[number])) for title, number in film.chapters.items()
    }


def _text(frame: tuple[Row, ...]) -> str:
    return "\n".join("".join(run.text for run in row) for row in frame)


def frame_texts(svg: str) -> list[str]:
    """Return the text of each frame of a picture, in order."""
    root = ElementTree.fromstring(svg)
    rows = {}
    for group in root.iterfind(f"{_SVG}defs/{_SVG}g"):
        row = ""
        for text in group.iterfind(f"{_SVG}text"):
            column = int(text.get("x", "")) // _CELL_WIDTH
            row = row.ljust(column) + (text.text or "")
        rows[f"#{group.get('id')}"] = row
    frames = root.iterfind(f"{_SVG}svg/{_SVG}g/{_SVG}g")
    return [_comparable("\n".join(rows[use.get("href", "")] for use in frame)) for frame in frames]


def _comparable(text: str) -> str:
    """Return a screen's text without what differs from run to run and from system to system."""
    text = re.sub(r"\d[\d.]* s\b", "… s", text)
    text = re.sub(r"\b\d+\.\d+(?:\.\d+)?\b", "…", text)
    text = "\n".join(" ".join(row.split()) for row in text.split("\n"))
    # The header names some environments, as developers call them.
    return re.sub(r"(kernel …) \S+ (?=idle|writing|waiting|thinking|busy)", r"\1 ", text)


def main() -> None:
    """Make the picture for each theme anew."""
    for theme in THEMES:
        (FOLDER / f"film-{theme}.svg").write_text(picture(take(theme)), "utf-8")


if __name__ == "__main__":
    main()
