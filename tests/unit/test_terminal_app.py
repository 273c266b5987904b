"""Keys from the terminal, the pace of records, garbage collection, failing threads."""

from __future__ import annotations

import contextlib
import errno
import gc
import io
import logging
import os
import re
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from types import ModuleType, SimpleNamespace
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual._ansi_sequences import ANSI_SEQUENCES_KEYS
from textual._xterm_parser import XTermParser
from textual.app import App
from textual.events import AppBlur, AppFocus, Key, MouseDown, Paste, Resize
from textual.message import Message

from mahtab_tui.bus.records import Notice, Record
from mahtab_tui.system import IMPORTS, ImportOrder
from mahtab_tui.tui import terminal_app
from mahtab_tui.tui.key_parser import MAX_PENDING_CHARS, MAX_SEQUENCE_CHARS, MAX_SILENCES, KeyParser
from mahtab_tui.tui.terminal_app import (
    FRAME_S,
    MAX_DELAY_S,
    SWITCH_INTERVAL_S,
    Collector,
    RecordPump,
    TerminalApp,
)
from mahtab_tui.tui.terminal_driver import report_thread_failures
from mahtab_tui.tui.workers import Fetcher
from tests.tui.editor_app import until

MALFORMED = (
    "[1114112u [57441;1:3u [97;5:9u [9999999999u [:R [;:u [;;1114112u [1;;9999999999R [55296u "
    "[<NaN;NaN;1M [<0;undefined;null;m [<0;1.5;-Infinity;1e5M"
).split()
PIECES = [
    *"0123456789;;;:::<?$-MmuRtyABCHPS~IO \r\\\x1b\x07\x9b²",
    *"\x1b[ 48; \x1b[200~ \x1b[201~ 1114112 \x1b]5 \x1bP \x1b[<NaN".split(" "),
]


def read(*reads: str) -> list[Message]:
    parser = KeyParser()
    messages = [message for text in reads for message in parser.feed(text)]
    return [*messages, *parser.flush_pending()]


def pieces(text: str, size: int) -> list[str]:
    return [text[start : start + size] for start in range(0, len(text), size)]


def keys(*reads: str) -> list[str]:
    return [message.key for message in read(*reads) if isinstance(message, Key)]


@pytest.mark.parametrize("sequence", MALFORMED)
def test_malformed_sequence_is_dropped_and_the_next_key_works(sequence: str) -> None:
    assert keys(f"\x1b{sequence}a\x1b[A") == ["a", "up"]


@pytest.mark.parametrize(
    ("sequence", "key"),
    [
        ("d", "alt+d"),
        ("D", "alt+shift+d"),
        ("é", "alt+é"),
        (".", "alt+full_stop"),
        ("/", "alt+slash"),
        (" ", "alt+space"),
        ("1", "alt+1"),
        ("\x7f", "alt+backspace"),
        ("É", "alt+shift+é"),
        ("\r", "alt+enter"),
    ],
)
def test_alt_with_a_letter_or_a_sign_is_a_key_that_types_nothing(sequence: str, key: str) -> None:
    messages = [message for message in read(f"x\x1b{sequence}y") if isinstance(message, Key)]
    assert [(message.key, message.is_printable) for message in messages] == [
        ("x", True),
        (key, False),
        ("y", True),
    ]


def test_keys_with_alt_that_arrive_together_type_nothing() -> None:
    assert keys("\x1bq\x1bz\x1b^") == ["alt+q", "alt+z", "alt+circumflex_accent"]
    assert keys("\x1bb\x1bf\x1bq\x1b[A") == ["ctrl+left", "ctrl+right", "alt+q", "up"]
    assert keys("a\x1bé\x1b\r\x1bÉb") == ["a", "alt+é", "alt+enter", "alt+shift+é", "b"]


@pytest.mark.parametrize("character", ["d", "D", "é", ".", "/", "1", ")"])
def test_a_character_typed_right_behind_escape_is_typed(character: str) -> None:
    messages = [message for message in read("x\x1b", f"{character}y") if isinstance(message, Key)]
    assert [(message.key, message.character) for message in messages] == [
        ("x", "x"),
        ("escape", "\x1b"),
        (messages[2].key, character),
        ("y", "y"),
    ]


def test_a_mark_of_a_paste_may_be_cut_behind_its_escape() -> None:
    (paste,) = read("\x1b[200~text\x1b", "no mark\x1b", "[201~")
    assert isinstance(paste, Paste)
    assert paste.text == "text\x1bno mark"


def test_malformed_mouse_report_may_arrive_in_any_pieces() -> None:
    sequence = "\x1b[<NaN;1.5;undefinedM"
    for cut in range(3, len(sequence)):
        assert keys(sequence[:cut], sequence[cut:] + "a") == ["a"]


@given(
    st.lists(st.lists(st.sampled_from(PIECES), max_size=12).map("".join), min_size=1, max_size=4)
)
def test_no_input_raises_or_blocks_later_keys(reads: list[str]) -> None:
    parser = KeyParser()
    for text in [*reads, "", "\x1b[201~", "x" * MAX_SEQUENCE_CHARS]:
        list(parser.feed(text) if text else parser.flush_pending())
        assert len(parser._pending) <= MAX_PENDING_CHARS
    assert [message.key for message in parser.feed("k") if isinstance(message, Key)] == ["k"]


def test_every_key_sequence_known_to_textual_is_read() -> None:
    # Textual reads Alt with a digit as another sign, as a keyboard of a Mac would.
    alt_keys = {keys for keys in ANSI_SEQUENCES_KEYS if re.fullmatch(r"\x1b[^a-zA-Z]", keys)}
    for sequence in ANSI_SEQUENCES_KEYS.keys() - alt_keys:
        parser = XTermParser()
        events = list(parser.feed(sequence))
        if parser._timeout_time is not None:
            parser._timeout_time = 0.0
        assert list(map(str, read(sequence))) == list(map(str, [*events, *parser.tick()]))


@pytest.mark.parametrize(
    "sequence",
    ["\x1b[1;5A", "\x1b[<0;5;6M", "\x1b[97;5u", "\x1b[200~ab\x1b[201~", "\x1b[48;20;60;400;600t"],
)
def test_sequence_may_arrive_in_any_pieces(sequence: str) -> None:
    messages = [str(message) for message in read(sequence)]
    assert messages
    for cut in range(1, len(sequence)):
        assert [str(message) for message in read(sequence[:cut], sequence[cut:])] == messages


def read_slowly(*reads: str) -> list[Message]:
    """Read pieces with a silence after each."""
    parser = KeyParser()
    messages: list[Message] = []
    for data in reads:
        messages += [*parser.feed(data), *parser.flush_pending(), *parser.flush_pending()]
    return messages


@pytest.mark.parametrize(
    "sequence",
    [
        *(
            "\x1b[1;5A",
            "\x1b[<0;5;6M",
            "\x1b[97;5u",
            "\x1b[I",
            "\x1b[O",
            "\x1b[15~",
            "\x1bOP",
            "\x1b[A",
        ),
        *("\x1b[200~ab\x1b[201~", "\x1b[48;20;60;400;600t", "\x1b]11;rgb:1e1e/1e1e/2e2e\x1b\\"),
    ],
    ids=repr,
)
def test_sequence_in_slow_pieces_is_never_typed(sequence: str) -> None:
    messages = [str(message) for message in read(sequence)]
    start = 3 if sequence.startswith("\x1b]") else 2
    for cut in range(start, len(sequence)):
        assert [str(message) for message in read_slowly(sequence[:cut], sequence[cut:])] == messages
    if sequence.startswith(("\x1b[4", "\x1b]")):
        return
    escape, *received = read_slowly("\x1b", sequence[1:])
    assert isinstance(escape, Key)
    assert escape.key == "escape"
    assert list(map(str, received)) == messages


@pytest.mark.parametrize(
    "sequence",
    [
        *("\x1b[?62;c", "\x1b[?62;22;52c", "\x1b[>1;10;0c", "\x1b[?1u", "\x1b[4;600;800t"),
        *("\x1b[5n", "\x1b[99~", "\x1b[65A", "\x1b[M !!", "\x1b[?2026;0$y"),
    ],
    ids=repr,
)
def test_reply_that_nobody_waits_for_is_never_typed(sequence: str) -> None:
    assert keys(sequence, "a") == ["a"]
    for cut in range(1, len(sequence)):
        messages = read_slowly(sequence[:cut], sequence[cut:], "a")
        typed = [message.key for message in messages if isinstance(message, Key)]
        assert typed == (["escape", "a"] if cut == 1 else ["a"])


@pytest.mark.parametrize(
    ("start", "rest"),
    [
        ("\x1b]", "11;rgb:1e1e/1e1e/2e2e\x1b\\"),
        ("\x1b", "]11;rgb:1e1e/1e1e/2e2e\x07"),
        ("\x1bP", ">|xterm(390)\x1b\\"),
        ("\x1b_", "Gi=31;OK\x1b\\"),
    ],
    ids=repr,
)
def test_rest_of_a_reply_is_not_typed_after_its_start_was_a_key(start: str, rest: str) -> None:
    (key,) = read_slowly(start, rest)
    assert isinstance(key, Key)
    assert key.character in (None, "\x1b")
    for first in (rest[:4], rest[:-1]):
        assert [*read_slowly(start, first, rest[len(first) :])][1:] == []
    typed = [message for message in read_slowly(start, "a") if isinstance(message, Key)]
    assert typed[-1].character == "a"


def test_sequence_without_an_end_is_dropped_after_a_second() -> None:
    for start in ("\x1b[<0;5", "\x1b[1;", "\x1b]11;rgb:1e1e", "\x1b]1"):
        parser = KeyParser()
        messages = list(parser.feed(start))
        for _ in range(MAX_SILENCES):
            messages += parser.flush_pending()
        assert messages == []
        assert [str(key) for key in parser.feed("a")] == [str(Key("a", "a"))]


def test_characters_typed_after_escape_are_typed() -> None:
    for text in ("[1, 2]", "Once", "[", "<", "OP"):
        assert [
            message.key for message in read_slowly("\x1b", *text) if isinstance(message, Key)
        ] == [
            "escape",
            *keys(*text),
        ]


@pytest.mark.parametrize("size", [4_096, 100, 7])
@pytest.mark.parametrize(
    "parameters",
    ["1" * 5_000, ";" * 5_000, "1:" * 2_500, "\x1b[" * 2_500],
    ids=lambda text: repr(text[:3]),
)
def test_long_control_sequence_is_not_typed(parameters: str, size: int) -> None:
    assert keys(*pieces(f"\x1b[{parameters}u", size), "b") in (["b"], [chr(1), "b"])


@pytest.mark.parametrize("size", [4_096, 100, 7])
@pytest.mark.parametrize(
    ("start", "end"), [("\x1b]52;c;", "\x07"), ("\x1bP", "\x1b\\"), ("\x1b_G", "\x1b\\")], ids=repr
)
def test_long_reply_is_not_typed(start: str, end: str, size: int) -> None:
    reply = f"{start}{'a' * 5_000}{end}"
    first_size = MAX_PENDING_CHARS + 10
    assert keys(reply[:first_size], *pieces(reply[first_size:], size), "b") == ["b"]


@pytest.mark.parametrize(
    "start", ["\x1b[" + "1:" * 500, "\x1b]52;c;" + "a" * 1_000], ids=["CSI", "OSC"]
)
def test_key_works_after_a_long_sequence_with_a_lost_end(start: str) -> None:
    parser = KeyParser()
    assert [*parser.feed(start), *parser.flush_pending()] == []
    assert [str(key) for key in parser.feed("6")] == [str(Key("6", "6"))]


def test_only_the_last_of_many_focus_reports_counts() -> None:
    assert [type(message) for message in read("\x1b[I\x1b[O" * 1_000)] == [AppBlur]
    assert [type(message) for message in read("\x1b[O\x1b[Ia\x1b[O")] == [AppFocus, Key, AppBlur]


@pytest.mark.parametrize("size", ["0;0;0;0", "20;60;0;0", "0;80;400;800", "999999;999999;400;800"])
def test_impossible_size_is_ignored(size: str) -> None:
    messages = read("\x1b[48;24;80;480;800t", f"\x1b[48;{size}t", "\x1b[<0;105;41M")
    resize, press = messages
    assert isinstance(resize, Resize)
    assert (resize.size.width, resize.size.height) == (80, 24)
    assert isinstance(press, MouseDown)
    assert (press.x, press.y) == (10, 2)


def test_sequences_inside_a_paste_produce_no_keys() -> None:
    (paste,) = read("\x1b[200~a\x1b[1", "114112ub\x1b]5;c\x07\x1b[I\x1bprint()\r\x1b[20", "1~")
    assert isinstance(paste, Paste)
    assert paste.text == "a\x1b[1114112ub\x1b]5;c\x07\x1b[I\x1bprint()\r"


@pytest.mark.parametrize(("key", "name"), [("\x03", "ctrl+c"), ("\x1b[113;5u", "ctrl+q")])
def test_key_ends_a_paste_with_a_lost_end(key: str, name: str) -> None:
    parser = KeyParser()
    assert [*parser.feed("\x1b[200~lost"), *parser.flush_pending()] == []
    paste, pressed = parser.feed(key)
    assert isinstance(paste, Paste)
    assert isinstance(pressed, Key)
    assert (paste.text, pressed.key) == ("lost", name)


def test_paste_is_not_parsed_character_by_character(monkeypatch: pytest.MonkeyPatch) -> None:
    fed: list[str] = []
    feed = XTermParser.feed

    def counted(parser: XTermParser, data: str) -> Iterable[Message]:
        fed.append(data)
        return feed(parser, data)

    monkeypatch.setattr(XTermParser, "feed", counted)
    (key_before, paste, key_after) = read("a\x1b[200~" + "x" * 4_000, "y" * 4_000 + "\x1b[201~b")
    assert isinstance(paste, Paste)
    assert paste.text == "x" * 4_000 + "y" * 4_000
    assert isinstance(key_before, Key)
    assert isinstance(key_after, Key)
    assert "".join(fed) == "ab"


def test_escape_is_a_key_when_nothing_follows() -> None:
    assert keys("a\x1b") == ["a", "escape"]
    assert keys("\x1b", "\x1b") == ["escape", "escape"]
    assert keys("\x1b", "[A") == ["up"]


def test_alt_with_letters_are_keys() -> None:
    assert keys("\x1b]") == ["alt+right_square_bracket"]
    assert keys("\x1bPab")[-2:] == ["a", "b"]


class Drawing:
    """A pump with a clock of its own. cost: the time that a fold takes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, cost: float) -> None:
        self.now = self.worked = 1000.0
        self.cost = cost
        self.texts: list[str] = []
        self.log = logging.Logger("test")
        self.calls: list[Callable[[], object]] = []
        """What the pump has asked the application to call soon."""
        app = SimpleNamespace(
            call_later=self.calls.append, set_timer=lambda delay, call: self.calls.append(call)
        )
        self.pump = RecordPump(cast("App[None]", app))
        self.pump.folds = [self._fold]
        self.pump.install(self.log)
        monkeypatch.setattr(terminal_app, "monotonic", lambda: self.now)
        monkeypatch.setattr(terminal_app, "thread_time", lambda: self.worked)

    def _fold(self, records: Sequence[Record]) -> None:
        self.texts += [record.text for record in records]
        self.worked += self.cost

    def log_text(self, text: str) -> None:
        fields = {"msg": text, "levelno": logging.INFO, "record": Notice(text)}
        self.log.handle(logging.makeLogRecord(fields))

    def second(self) -> int:
        """Return how many ticks of a second have drawn something."""
        drawn = 0
        for number in range(round(1 / FRAME_S)):
            old_count = len(self.texts)
            self.log_text(str(number))
            self.pump.tick()
            self.now += FRAME_S
            drawn += len(self.texts) > old_count
        return drawn


def test_fast_drawing_gets_records_at_every_tick(monkeypatch: pytest.MonkeyPatch) -> None:
    drawing = Drawing(monkeypatch, 0.005)
    assert drawing.second() == 30
    assert drawing.texts == [str(number) for number in range(30)]


def test_slow_drawing_skips_ticks_and_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    drawing = Drawing(monkeypatch, 0.015)
    assert drawing.second() == 15
    drawing.now += FRAME_S
    drawing.pump.tick()
    assert drawing.texts == [str(number) for number in range(30)]


def test_record_waits_no_longer_than_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    drawing = Drawing(monkeypatch, 10)
    drawing.log_text("first")
    drawing.pump.tick()
    drawing.log_text("second")
    drawing.now += MAX_DELAY_S - 0.01
    drawing.pump.tick()
    assert drawing.texts == ["first"]
    drawing.now += 0.011
    drawing.pump.tick()
    assert drawing.texts == ["first", "second"]


def test_the_pump_is_called_only_while_records_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    drawing = Drawing(monkeypatch, 0.001)
    drawing.log_text("before the panes")
    assert not drawing.calls
    drawing.pump.start()
    assert drawing.texts == ["before the panes"]
    assert not drawing.calls
    for text in ("one", "two"):
        drawing.log_text(text)
    assert len(drawing.calls) == 1, "at the first record that waits"
    drawing.calls.pop()()
    assert len(drawing.calls) == 1, "a frame later"
    drawing.now += FRAME_S
    drawing.calls.pop()()
    assert drawing.texts[1:] == ["one", "two"]
    assert not drawing.calls


@pytest.fixture
def own_collector() -> Iterator[None]:
    old_threshold = gc.get_threshold()
    callbacks = list(gc.callbacks)
    yield
    gc.callbacks[:] = callbacks
    gc.unfreeze()
    gc.set_threshold(*old_threshold)
    gc.enable()
    IMPORTS.freezes_modules = False


@pytest.mark.usefixtures("own_collector")
def test_collection_starts_after_the_first_screen_and_freezes_survivors_of_long_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    collector = Collector()
    assert not gc.isenabled()
    collector.settle()
    assert gc.isenabled()
    assert gc.get_freeze_count() > 0
    libraries = [[number] for number in range(1_000)]
    monkeypatch.setattr(terminal_app, "HEAVY_COLLECTION_S", 1e6)
    gc.collect()
    assert set(map(id, libraries)) <= set(map(id, gc.get_objects()))
    monkeypatch.setattr(terminal_app, "HEAVY_COLLECTION_S", 0.0)
    gc.collect()
    assert set(map(id, libraries)).isdisjoint(map(id, gc.get_objects())), "they are not frozen"


@pytest.mark.usefixtures("own_collector")
def test_all_objects_are_collected_only_when_nobody_types(monkeypatch: pytest.MonkeyPatch) -> None:
    full_collections: list[str] = []
    timers: list[Callable[[], object]] = []

    def note(phase: str, info: dict[str, int]) -> None:
        if info["generation"] == 2:
            full_collections.append(phase)

    app: App[None] = App()
    monkeypatch.setattr(app, "set_timer", lambda seconds, callback: timers.append(callback))
    monkeypatch.setattr(terminal_app, "FULL_COLLECTION_DUE", 1)
    collector = Collector()
    collector.settle()
    gc.callbacks.append(note)
    gc.collect(1)
    for _ in range(2):
        collector.plan(app)
    assert len(timers) == 1

    monkeypatch.setattr(terminal_app, "IDLE_S", 3_600.0)
    collector.note_key()
    timers.pop()()
    assert (len(timers), full_collections) == (1, [])
    monkeypatch.setattr(terminal_app, "IDLE_S", 0.0)
    timers.pop()()
    assert (timers, full_collections) == ([], ["start", "stop"])
    collector.plan(app)
    assert not timers


@pytest.mark.usefixtures("own_collector")
def test_imported_modules_are_not_collected_in_a_process_of_ours(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    order = ImportOrder()
    with order.turn():
        modules = [[number] for number in range(1_000)]
    assert set(map(id, modules)) <= set(map(id, gc.get_objects()))
    order.freezes_modules = True
    with order.turn():
        modules = [[number] for number in range(1_000)]
    assert set(map(id, modules)) <= set(map(id, gc.get_objects())), "nothing was imported"
    with order.turn():
        monkeypatch.setitem(sys.modules, "imported_in_turn", ModuleType("imported_in_turn"))
        modules = [[number] for number in range(1_000)]
    assert set(map(id, modules)).isdisjoint(map(id, gc.get_objects())), "they are not frozen"


def test_threads_take_short_turns_only_while_the_screen_is_open() -> None:
    interval_s = sys.getswitchinterval()
    intervals_s: list[float] = []

    class OneLook(TerminalApp[None]):
        def on_mount(self) -> None:
            intervals_s.append(sys.getswitchinterval())
            self.exit()

    OneLook().run(headless=True)
    assert intervals_s == [pytest.approx(SWITCH_INTERVAL_S, rel=0.01)]
    assert sys.getswitchinterval() == interval_s


def run(work: Callable[[], object], name: str = "kernel reader") -> None:
    thread = threading.Thread(target=work, name=name)
    thread.start()
    thread.join()


def test_thread_failure_is_reported_with_its_name_and_traceback(
    capfd: pytest.CaptureFixture[str],
) -> None:
    reports: list[str] = []
    old_hook = threading.excepthook
    with report_thread_failures(reports.append):
        run(lambda: [].pop())
        run(sys.exit)
    assert threading.excepthook is old_hook
    assert len(reports) == 1
    assert reports[0].startswith(
        "Internal error in thread 'kernel reader'. If something breaks, restart with --continue.\n"
    )
    assert reports[0].endswith("IndexError: pop from empty list")
    assert capfd.readouterr().err == ""


def test_write_error_of_a_closed_terminal_is_not_reported() -> None:
    reports: list[str] = []

    def write(error: int) -> None:
        raise OSError(error, os.strerror(error))

    with report_thread_failures(reports.append):
        for error in (errno.EIO, errno.ENOSPC):
            run(partial(write, error), "textual-output")
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert reports == [f"The thread 'textual-output' of mahtab-tui has ended: {full}."]


async def test_raising_work_is_reported_and_does_not_stop_later_work() -> None:
    done: list[int] = []
    async with App[None]().run_test() as pilot:
        fetcher = Fetcher(pilot.app.screen, max_running_jobs=1)
        with contextlib.redirect_stderr(io.StringIO()) as printed:
            fetcher.run("divided", lambda: 1 // 0, done.append)
            await until(pilot, lambda: "ZeroDivisionError" in printed.getvalue())
        fetcher.run("divided", lambda: 1 // 1, done.append)
        await until(pilot, lambda: done == [1])


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
async def test_work_that_ends_its_thread_lets_waiting_and_later_work_run() -> None:
    done: list[str] = []
    go_on = threading.Event()

    def end_thread() -> str:
        go_on.wait(30)
        sys.exit()

    async with App[None]().run_test() as pilot:
        fetcher = Fetcher(pilot.app.screen, max_running_jobs=1)
        fetcher.run("names", end_thread, done.append)
        fetcher.run("names", lambda: "waiting", done.append)
        go_on.set()
        await until(pilot, lambda: done == ["waiting"])
        fetcher.run("names", end_thread, done.append)
        fetcher.run("names", lambda: "later", done.append, delay_s=0.01)
        await until(pilot, lambda: done == ["waiting", "later"])


async def test_only_the_newest_job_of_a_slot_counts() -> None:
    started = list[str]()
    done = list[str]()
    go_on = threading.Event()

    def work(name: str) -> str:
        started.append(name)
        go_on.wait(30)
        return name

    async with App[None]().run_test() as pilot:
        fetcher = Fetcher(pilot.app.screen, max_running_jobs=1)
        for name in ("running", "waiting", "newest"):
            fetcher.run("names", partial(work, name), done.append)
        go_on.set()
        await until(pilot, lambda: bool(done))
        assert started == ["running", "newest"]
        for name in ("typed", "typed more"):
            fetcher.run("names", partial(work, name), done.append, delay_s=0.01)
        await until(pilot, lambda: len(done) > 1)
        assert done == ["newest", "typed more"]
        assert started == ["running", "newest", "typed more"]
