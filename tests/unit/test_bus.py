"""A session's logger, checks of its records, and the prompt made of them."""

from __future__ import annotations

import logging
import logging.config
import re
import threading
from collections.abc import Iterator
from typing import Any, cast

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mahtab_tui.bus.codec import InvalidRecord, decode
from mahtab_tui.bus.display_handler import DisplayHandler
from mahtab_tui.bus.escaping import OVERWRITTEN
from mahtab_tui.bus.logger import close_logging, setup_logging
from mahtab_tui.bus.prompt import MAX_RECORD_CHARS, MAX_RECORDS, RESUMED, PromptHandler
from mahtab_tui.bus.record_xml import escape_content, escape_tags, format_attributes, to_xml
from mahtab_tui.bus.records import KINDS, Namespace, Record, RecordHandler, ReplIn, hints
from mahtab_tui.bus.values import Change, Variable
from mahtab_tui.store.memory_store import MemoryStore
from tests import tags
from tests.records import emit, made

Bus = tuple[logging.Logger, PromptHandler]

PIECE = st.sampled_from([*"<>& \n/x", *"</ &lt; &amp; lt; amp; USER-CHAT -stream input".split()])

ELEMENT = re.compile(r'<([\w-]+)((?: \w+="[^"<>]*")*)>(.*?)</\1>', re.DOTALL)


def add_prompt(log: logging.Logger) -> PromptHandler:
    prompt = PromptHandler()
    log.addHandler(prompt)
    return prompt


@pytest.fixture
def bus() -> Iterator[Bus]:
    log = setup_logging()
    yield log, add_prompt(log)
    close_logging(log)


@pytest.fixture
def log(bus: Bus) -> logging.Logger:
    return bus[0]


@pytest.fixture
def display(log: logging.Logger) -> DisplayHandler:
    handler = DisplayHandler()
    log.addHandler(handler)
    return handler


def texts(records: list[Record]) -> list[str]:
    return [record.text for record in records]


def test_records_for_the_model_are_stored() -> None:
    for (tag, _), kind in KINDS.items():
        assert not (kind.in_store and tag.endswith("-stream"))
        assert kind.in_store or not kind.in_prompt


def test_a_plain_log_call_is_a_notice(log: logging.Logger, display: DisplayHandler) -> None:
    log.debug("no one's business")
    log.warning("%d files", 3)
    [record] = display.pop_records()
    assert (record.tag, record.text, record.attrs) == ("notice", "3 files", {"level": "warning"})


def test_two_sessions_do_not_mix() -> None:
    first_store = MemoryStore()
    second_store = MemoryStore()
    first = setup_logging(first_store)
    first_prompt = add_prompt(first)
    second = setup_logging(second_store)
    second_prompt = add_prompt(second)
    emit(first, tags.USER_REPL_IN, "alpha", cell=1)
    emit(second, tags.USER_REPL_IN, "beta", cell=1)
    assert (texts(first_store.records), texts(second_store.records)) == (["alpha"], ["beta"])
    assert "alpha" not in second_prompt.get_context()
    close_logging(first)
    emit(second, tags.USER_REPL_IN, "gamma", cell=2)
    assert texts(second_store.records) == ["beta", "gamma"]
    assert "gamma" not in first_prompt.get_context()
    close_logging(second)


def test_record_logged_by_a_handler_comes_second(log: logging.Logger) -> None:
    class Answering(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.msg == "question":
                emit(log, tags.NOTICE, "answer")

    log.addHandler(Answering())
    display = DisplayHandler()
    log.addHandler(display)
    emit(log, tags.NOTICE, "question")
    assert texts(display.pop_records()) == ["question", "answer"]


def test_a_handler_gets_only_its_kinds_of_records(log: logging.Logger) -> None:
    class Cells(RecordHandler):
        kinds = (ReplIn,)

        def __init__(self) -> None:
            super().__init__()
            self.texts: list[str] = []

        def fold(self, record: Record) -> None:
            self.texts.append(record.text)

    first_handler = Cells()
    log.addHandler(first_handler)
    emit(log, tags.USER_REPL_IN, "1", cell=1)
    second_handler = Cells()
    log.addHandler(second_handler)
    emit(log, tags.NOTICE, "between")
    log.warning("from a library")
    emit(log, tags.ASSISTANT_REPL_IN, "2", cell=2)
    log.removeHandler(first_handler)
    emit(log, tags.USER_REPL_IN, "3", cell=3)
    assert (first_handler.texts, second_handler.texts) == (["1", "2"], ["2", "3"])


def test_only_pieces_of_one_stream_are_joined(log: logging.Logger, display: DisplayHandler) -> None:
    for text, kind in (("a", "stdout"), ("b", "stdout"), ("c", "traceback"), ("d", "stdout")):
        emit(log, tags.USER_REPL_OUT_STREAM, text, cell=1, kind=kind)
    emit(log, tags.USER_REPL_OUT_STREAM, "e", cell=2, kind="stdout")
    emit(log, tags.NOTICE, "n")
    emit(log, tags.USER_REPL_OUT_STREAM, "f", cell=2, kind="stdout")
    assert texts(display.pop_records()) == ["ab", "c", "d", "e", "n", "f"]
    emit(log, tags.USER_REPL_OUT_STREAM, "g", cell=2, kind="stdout")
    assert texts(display.pop_records()) == ["g"]
    assert display.pop_records() == []


def test_records_of_many_threads_all_arrive(log: logging.Logger, display: DisplayHandler) -> None:
    def work(cell: int) -> None:
        for _ in range(2_000):
            emit(log, tags.USER_REPL_OUT_STREAM, "x", cell=cell, kind="stdout")

    threads = [threading.Thread(target=work, args=(cell,)) for cell in range(3)]
    for thread in threads:
        thread.start()
    received: list[Record] = []
    while any(thread.is_alive() for thread in threads):
        received += display.pop_records()
    received += display.pop_records()
    assert sum(map(len, texts(received))) == 6_000


@pytest.mark.parametrize(
    ("tag", "attrs"),
    [
        (tags.USER_REPL_IN, {"cell": "1"}),
        (tags.USER_REPL_IN, {"cell": True}),
        (tags.USER_REPL_OUT, {"cell": 1, "kinds": 3}),
        (tags.USER_REPL_OUT, {"cell": 1, "kinds": [["stdout"]]}),
        (tags.USER_REPL_OUT, {"cell": 1, "duration": "long"}),
        (tags.USER_REPL_OUT, {"cell": 1, "frames": [["file", 1]]}),
        (tags.NAMESPACE, {"changes": [{"name": "x"}]}),
        (tags.NAMESPACE, {"changes": ["x"]}),
        (tags.NAMESPACE, {"changes": None}),
        (tags.USER_CHAT, {"turn": []}),
        (tags.USAGE, {"cost": "much"}),
        (tags.USAGE, {"input_tokens": None}),
        (tags.SKILL, {"name": "a", "loaded": True}),
        (tags.DISPLAY, {"cell": 1}),
        (tags.APPROVAL, {"guest": 0, "call": 3}),
        (tags.ASSISTANT_CHAT, {"figures": [{"text": "10"}]}),
        (tags.ASSISTANT_CHAT, {"figures": [{"text": "10", "found": 1}]}),
        (tags.ASSISTANT_CHAT, {"figures": [{"text": "10", "found": True, "cell": "quit()"}]}),
    ],
)
def test_malformed_attributes_are_rejected(tag: str, attrs: dict[str, Any]) -> None:
    with pytest.raises(InvalidRecord):
        decode(tag, "text", attrs, 1.0)


X = {"name": "x", "change": "added", "type": "int", "summary": "1", "kind": "data"}


@pytest.mark.parametrize(
    "written",
    [
        X,
        {**X, "change": "rebound", "type": "str", "was_type": "int", "was": "1"},
        {**X, "change": "changed", "columns": "+ column `z`", "size": 10**9},
        {**X, "change": "deleted"},
        {**X, "change": "absent", "summary": "its class is gone"},
        {**X, "change": "a word of a newer version", "kind": "another word"},
        {"name": "x", "change": "deleted"},
    ],
    ids=lambda written: str(written["change"]),
)
def test_change_is_written_as_one_flat_object(written: dict[str, Any]) -> None:
    record = decode(tags.NAMESPACE, "", {"cell": 1, "changes": [written]}, 1.0)
    assert record is not None
    assert record.attrs["changes"] == [written]


def test_earlier_value_is_written_only_if_it_looks_different() -> None:
    variable = Variable("x", "list", "2 items", "data")
    change = Change("x", "changed", variable, variable)
    (written,) = Namespace(changes=(change,)).attrs["changes"]
    assert written == {**X, "change": "changed", "type": "list", "summary": "2 items"}


def test_cells_of_other_agents_are_named_as_such(bus: Bus) -> None:
    log, prompt = bus
    about: dict[str, Any] = {"cell": 1, "party": "claude", "guest": 0, "call": "guest-1"}
    emit(log, tags.ASSISTANT_REPL_IN, "obey()", **about)
    emit(log, tags.ASSISTANT_REPL_OUT, "Obey!", status="ok", duration=0.1, **about)
    author = 'party="claude, another agent"'
    assert prompt.get_context().splitlines() == [
        f'<assistant-repl-in cell="1" {author}>obey()</assistant-repl-in>',
        f'<assistant-repl-out cell="1" {author} status="ok">Obey!</assistant-repl-out>',
    ]


def test_agent_gets_neither_its_own_cells_nor_their_number(bus: Bus) -> None:
    log, prompt = bus
    emit(log, tags.USER_REPL_IN, "x" * 100, cell=1)
    for cell in (2, 3, 4):
        about = {"cell": cell, "party": "claude", "guest": 0, "call": f"guest-{cell}"}
        emit(log, tags.ASSISTANT_REPL_IN, "mine()", **about)
    emit(log, tags.USER_REPL_IN, "y" * 100, cell=5)
    elements = [
        f'<user-repl-in cell="{cell}">{text * 100}</user-repl-in>'
        for cell, text in ((1, "x"), (5, "y"))
    ]
    assert prompt.get_context(agent="claude").splitlines() == elements
    short_context = prompt.get_context(250, agent="claude").splitlines()
    assert short_context == ["[1 earlier records left out]", elements[1]]
    assert prompt.get_context(agent="codex").count("claude, another agent") == 3


def test_number_of_omitted_records_is_without_dropped_ones_of_the_agent(bus: Bus) -> None:
    log, prompt = bus
    emit(log, tags.USER_REPL_IN, "first", cell=1)
    for cell in range(2, 203):
        about = {"cell": cell, "party": "claude", "guest": 0, "call": f"guest-{cell}"}
        emit(log, tags.ASSISTANT_REPL_IN, "mine()", **about)
    for cell in range(203, 203 + MAX_RECORDS):
        emit(log, tags.USER_REPL_IN, "x", cell=cell)
    context = prompt.get_context(10**6, agent="claude")
    assert context.startswith("[1 earlier records left out]\n")


def test_cells_come_as_xml_until_cleared(bus: Bus) -> None:
    log, prompt = bus
    emit(log, tags.USER_REPL_IN, "1 + 1", cell=3, party="you", turn=None)
    emit(log, tags.USER_REPL_OUT, "2\n", cell=3, status="ok", kinds=[["value", 2]])
    code = '<user-repl-in cell="3">1 + 1</user-repl-in>'
    assert prompt.get_context() == f'{code}\n<user-repl-out cell="3" status="ok">2</user-repl-out>'
    prompt.clear()
    assert prompt.get_context() == ""


def test_chat_messages_are_not_sent_again(bus: Bus) -> None:
    log, prompt = bus
    emit(log, tags.USER_CHAT, "why?", turn=1)
    emit(log, tags.ASSISTANT_CHAT, "because", turn=1)
    emit(log, tags.USER_REPL_OUT_STREAM, "piece", cell=1, kind="stdout")
    emit(log, tags.KERNEL, "ready", state="idle")
    assert prompt.get_context() == ""


def test_progress_bars_are_reduced(bus: Bus) -> None:
    log, prompt = bus
    bar = "".join(f"\r\x1b[32m{percent}%\x1b[0m" for percent in range(101))
    emit(log, tags.USER_REPL_OUT, bar + "\ndone\x1b]52;c;AAAA\x07", cell=1)
    expected_output = f"␛[32m100%␛[0m\ndone␛]52;c;AAAA␇\n{OVERWRITTEN}"
    assert prompt.get_context() == f'<user-repl-out cell="1">{expected_output}</user-repl-out>'


def test_middle_of_long_output_is_counted(bus: Bus) -> None:
    log, prompt = bus
    emit(log, tags.USER_REPL_OUT, "a" * 50_000 + "b" * 50_000, cell=1)
    context = prompt.get_context()
    assert len(context) < MAX_RECORD_CHARS + 200
    assert re.search("aaa\n.* characters left out .*\nbbb", context)


def test_oldest_records_are_omitted_and_counted(bus: Bus) -> None:
    log, prompt = bus
    number = MAX_RECORDS + 50
    for cell in range(number):
        emit(log, tags.USER_REPL_IN, "x" * 100, cell=cell)
    context = prompt.get_context(2_000)
    omitted = number - context.count("<user-repl-in")
    assert context.startswith(f"[{omitted:,} earlier records left out]\n")
    assert f'cell="{number - 1}"' in context
    assert len(context) <= 2_000


def test_hidden_records_use_no_space(bus: Bus) -> None:
    log, prompt = bus
    emit(log, tags.USER_REPL_OUT, "first", cell=1)
    emit(log, tags.USER_REPL_OUT, "x" * 4_000, cell=2)
    emit(log, tags.USER_REPL_OUT, "last", cell=3)
    assert "first" not in prompt.get_context(200)
    emit(log, tags.HIDE, entry="cell 2", hidden=True)
    context = prompt.get_context(200)
    assert all(text in context for text in ("first", "last", "xxx"))
    assert "earlier records left out" not in context


def test_resumed_prompt_has_earlier_cells(bus: Bus) -> None:
    _, prompt = bus
    past = [
        made(tags.USER_REPL_IN, "x = 1", {"cell": 1}, 0.0),
        made(tags.DISPLAY, "shown", {"cell": 1, "mime": "image/png", "data": ""}, 0.0),
        made(tags.USER_CHAT, "why?", {"turn": 1}, 0.0),
        made(tags.HIDE, "", {"entry": "question 1", "hidden": True}, 0.0),
    ]
    prompt.resume(past)
    code = '<user-repl-in cell="1">x = 1</user-repl-in>'
    assert prompt.get_context() == f"{code}\n<kernel>{RESUMED}</kernel>"
    assert "question 1" in prompt.hidden
    prompt.clear()
    prompt.resume(past[1:])
    assert prompt.get_context() == ""


@given(outputs=st.lists(st.text(max_size=300), max_size=12), limit=st.integers(100, 1_000))
def test_context_fits_the_requested_length(outputs: list[str], limit: int) -> None:
    log = setup_logging()
    prompt = add_prompt(log)
    for output in outputs:
        emit(log, tags.USER_REPL_OUT, output, cell=1)
    assert len(prompt.get_context(limit)) <= limit
    close_logging(log)


def any_of(kind: Any) -> Record:
    return cast("Record", kind(**{name: "x" for name in hints(kind) if name != "time"}))


ANY_OF = {tag: any_of(kind) for (tag, _), kind in KINDS.items()}
"""A record of each tag."""
TAG = st.sampled_from(sorted(ANY_OF))
HOSTILE = st.lists(st.one_of(PIECE, TAG, st.text(max_size=3)), max_size=12).map("".join)


def unescaped(text: str, tag: str) -> str:
    """Undo `escape_content`."""
    names = "|".join([tag, *(name for name in ANY_OF if "-" in name)])
    tag_end = rf"\s*/?\s*(?:{names})(?![\w-])"
    escapes = rf"&lt;(?={tag_end})|&amp;(?=(?:amp;)*lt;{tag_end})"

    def character(match: re.Match[str]) -> str:
        return "<" if match[0].lower() == "&lt;" else "&"

    return re.sub(escapes, character, text, flags=re.IGNORECASE)


@given(TAG, HOSTILE)
@example("user-repl-out", "&amp;lt;user-chat>")
@example("input", "</input>")
def test_escaped_content_can_be_restored(tag: str, text: str) -> None:
    assert unescaped(escape_content(text, tag), tag) == text


@given(TAG, HOSTILE)
@example("user-repl-out", "</USER-CHAT >")
def test_no_content_forges_a_record(tag: str, text: str) -> None:
    element = ELEMENT.fullmatch(to_xml(ANY_OF[tag].changed(text=text)))
    assert element is not None
    assert element[1] == tag
    assert unescaped(element[3], tag) == text
    for other_tag in {tag, *(name for name in ANY_OF if "-" in name)}:
        assert not re.search(rf"<\s*/?\s*{other_tag}(?![\w-])", element[3], re.IGNORECASE)


@given(
    st.dictionaries(
        st.sampled_from(["cell", "party", "a b", "x<"]),
        st.one_of(st.text(), st.integers(), st.booleans(), st.none()),
    )
)
def test_no_attribute_breaks_out(attrs: dict[str, object]) -> None:
    assert ELEMENT.fullmatch(f"<user-repl-in{format_attributes(attrs)}></user-repl-in>") is not None


def test_long_hostile_content_is_handled_quickly() -> None:
    blanks = "<" + " " * 1_000_000
    escapes = "&" + "amp;" * 250_000
    assert escape_content(blanks + escapes) == blanks + escapes
    assert escape_tags(blanks, "text") == blanks


def test_process_logging_configuration_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*args: object, **kwargs: object) -> logging.LogRecord:
        raise RuntimeError

    store = MemoryStore()
    log = setup_logging(store)
    monkeypatch.setattr(logging, "_logRecordFactory", broken)
    logging.disable(logging.CRITICAL)
    try:
        logging.config.dictConfig({"version": 1, "disable_existing_loggers": True})
        emit(log, tags.USER_REPL_IN, "heard", cell=1)
    finally:
        logging.disable(logging.NOTSET)
        close_logging(log)
    assert texts(store.records) == ["heard"]
