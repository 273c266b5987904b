"""Names and texts that others chose come to the terminal as text only, by the screen and by every
command."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.e2e.conftest import PROGRAM, Start
from tests.e2e.terminal import Terminal
from tests.hostile import COPIED, HOSTILE

_NAMES = [
    text.replace("/", "").encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    for text in HOSTILE
    if "\x00" not in text
]
_SHOWN = re.compile(rb"\x1b\[[\d;]*[mH]|\r\n|[\t\n]")
_MODES = re.compile(
    rb"\x1b\[\?\d+(?:[hl]|\$p)|\x1b\[>\d+u|\x1b\[<u|\x1b\]22;[a-z]+\x07"  # Textual's
    rb"|\x1b\[16t|\x1b\[c|\x1b_Gi=31,s=1,v=1,a=q,t=d,f=24;AAAA\x1b\\"  # the questions about graphics
)
_CONTROL = re.compile(rb"[\x00-\x1f\x7f]|\xc2[\x80-\x9f]")


def driven(raw: bytes) -> list[bytes]:
    """Return bytes that could drive a terminal and are not the renderer's."""
    rest = _MODES.sub(b"", _SHOWN.sub(b"", re.sub(rb"\x1b[\[\d;?]*\Z", b"", raw)))
    return [
        rest[max(0, found.start() - 20) : found.end() + 20] for found in _CONTROL.finditer(rest)
    ]


def ended(screen: Terminal) -> bytes:
    screen.drawn = False
    while screen.pump(60):
        pass
    return bytes(screen.raw)


@pytest.fixture
def folder(project: Path) -> Path:
    """A project whose name, settings, files and skills are hostile."""
    texts = _NAMES
    target = project / "".join(texts[:12])[:60]
    target.mkdir()
    for number, text in enumerate(texts):
        (target / f"{number}{text}"[:100]).write_text(text)
        skill = target / "skills" / f"s{number}"
        skill.mkdir(parents=True)
        skill.joinpath("SKILL.md").write_text(
            f"---\nname: s{number}\ndescription: {json.dumps(text)}\n---\n{text}\n"
        )
    (target / ".mahtab").mkdir()
    joined = json.dumps("".join(texts)).replace("\\u007f", "\\u007F")
    (target / ".mahtab" / "config.toml").write_text(
        f"model = {joined}\nsub_model = {joined}\ntheme = {joined}\n"
    )
    (target / "hostile.txt").write_text("".join(texts))
    return target


_TEXT = "".join(_NAMES)[:2_000]
_COMMANDS = [
    ["config"],
    ["config", "--set", f"model={_TEXT}"],
    ["config", "set", _TEXT, _TEXT],
    ["config", "unset", _TEXT],
    ["config", "trust"],
    ["sessions"],
    ["skills", "list"],
    ["skills", "check"],
    ["skills", "show", _TEXT],
    ["doctor"],
    ["ask", _TEXT, "--model", "demo", "--approval", "auto"],
    ["ask", _TEXT, "--model", _TEXT],
    ["rlm", _TEXT, "hostile.txt", "--model", "demo", "--max-calls", "2"],
    ["rlm", _TEXT, _TEXT, "--model", _TEXT],
    ["watch", _TEXT],
    [_TEXT],
    [f"--{_TEXT}"],
    ["--python", _TEXT, "--model", "demo", "--query", _TEXT],
]


@pytest.mark.parametrize(
    "command",
    _COMMANDS,
    ids=lambda command: " ".join(word for word in command if word.isascii() and word.isprintable()),
)
def test_command_prints_hostile_names_as_text(folder: Path, command: list[str]) -> None:
    with Terminal(command, cwd=folder, warm=True) as screen:
        screen.send("n\n")  # to what asks
        assert driven(ended(screen).replace(b"\r\x1b[K", b"")) == []


def test_screen_draws_hostile_names_as_text(folder: Path) -> None:
    with Terminal(["--model", "demo"], cwd=folder, columns=200, lines=60, warm=True) as screen:
        screen.wait("Python")
        screen.enter(
            "import os; print(open('hostile.txt', newline='').read()); names = os.listdir(); names"
        )
        screen.wait("names +list")
        screen.enter("raise ValueError(open('hostile.txt', newline='').read())")
        screen.wait("ValueError")
        screen.press("f2")
        for slash in ("/skills", "/settings", "/cd", "/usage"):
            screen.enter(slash)
            screen.pump(0.5)
            screen.send("\x1b[27u")
            screen.pump(0.2)
        raw = bytes(screen.raw)
        assert driven(raw) == []
        assert COPIED.encode() not in b"".join(re.findall(rb"\x1b\][^\x07\x1b]*", raw))


def test_model_named_on_the_command_line_cannot_write_the_clipboard(start: Start) -> None:
    name = f"ollama:\x1b]52;c;{COPIED}\x07x"
    screen = start("--model", name)
    screen.wait("ollama:x")
    assert driven(bytes(screen.raw)) == []


def test_installed_command_filters_its_arguments(project: Path) -> None:
    with Terminal([*PROGRAM, f"\x1b]52;c;{COPIED}\x07"], cwd=project) as screen:
        raw = ended(screen)
    assert b"There is no file, folder or command" in raw
    assert driven(raw) == []
