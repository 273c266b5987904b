"""Masking of secrets and private texts, however they are written, cut or streamed."""

from __future__ import annotations

import base64
import html
import itertools
import json
import textwrap
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from unittest.mock import Mock
from urllib.parse import quote, urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from mahtab_tui.bus.logger import BusLogger
from mahtab_tui.bus.masked_streams import MaskedStream, MaskingFilter
from mahtab_tui.bus.masking import MASK, Secrets, mask_secret
from mahtab_tui.bus.private_texts import MIN_PRIVATE_CHARS, PrivateTexts
from mahtab_tui.bus.sanitize import plain
from mahtab_tui.bus.secret_forms import MIN_SUBSTRING_CHARS
from mahtab_tui.bus.secret_matching import SecretSpan
from mahtab_tui.settings.model import load_settings
from mahtab_tui.worker.guard import private_use as module
from mahtab_tui.worker.guard.mentioned_names import mentioned_names
from mahtab_tui.worker.guard.private_use import _contained, private_use
from mahtab_tui.worker.magic.state import Aliases, Macro
from mahtab_tui.worker.values.secret_names import HIDDEN_VALUE
from tests import tags
from tests.records import RecordList, emit

KEY = "sk-proj-0123456789"

PROJECT_KEY = "sk-proj-0123456789-abcdefghij-ABCDEFGHIJ"
ODD = 'it\'s "q\\uoted", <ü> & 10% long'
"""Characters that every format escapes differently."""

INVISIBLE = [*"\0\x1b\x7f\x9b\r\n\u00ad\u200b\u202e\U000e0041", "\x1b[31m", "\x1b[0m\x1b[1;32m"]

WRITERS: list[Callable[[str], str]] = [
    repr,
    ascii,
    json.dumps,
    lambda text: json.dumps(text, ensure_ascii=False),
    lambda text: repr(text.encode()),
    lambda text: repr({"key": [text]}),
    lambda text: repr(f"both \" and ' {text}"),
    lambda text: repr(json.dumps({"key": text})),
    lambda text: json.dumps(json.dumps(text)),
    html.escape,
    quote,
    lambda text: quote(text, safe=""),
    lambda text: urlencode({"q": text}),
    lambda text: text.encode().hex(),
    lambda text: text.encode().decode("latin-1"),
]

UNITS = ["s", "sk-proj-0123456789-a", "s\x1b]", "s\x1bP\n", "\x1b[", "s\0", "k-\x1b]k"]

SENTENCE = "The quick brown fox jumps over the lazy dog, and then it sleeps until noon."

REPETITIVE_KEY = "0" * 24 + "8f3kQzP1mNvR7tYx"
HEX_KEY = REPETITIVE_KEY.encode().hex()

OVERLAPPING = "ab-ab-aab"
"""A key that goes on as it begins."""

PARTS = st.sampled_from([OVERLAPPING, OVERLAPPING[:6], OVERLAPPING[3:], "ab-", "a", "-"])


def bus(*secrets: str) -> tuple[BusLogger, RecordList]:
    log = BusLogger()
    handler = RecordList()
    log.addFilter(MaskingFilter(Secrets(lambda: secrets)))
    log.addHandler(handler)
    return log, handler


def streamed(pieces: Sequence[str], *secrets: str) -> list[str]:
    log, handler = bus(*secrets)
    for piece in pieces:
        emit(log, tags.USER_REPL_OUT_STREAM, piece, cell=1, kind="stdout")
    return [record.text for record in handler.records]


def test_ordinary_text_is_not_delayed() -> None:
    pieces = ["hours", "k", "-prompt", "sk-proj-", "ect"]
    assert streamed(pieces, KEY) == ["hours", "k", "-prompt", "sk-proj-ect"]
    assert streamed(["sk-proj-0123", "\n"], KEY) == ["sk-proj-0123\n"]


def test_key_in_pieces_is_masked() -> None:
    for cut in range(1, len(KEY)):
        output = "".join(streamed([f"key: {KEY[:cut]}", f"{KEY[cut:]} end"], KEY))
        assert output.endswith(f"{MASK} end")
        assert not any(part in output for part in (KEY[:4], KEY[-4:]))
    output = "".join(streamed([*f"a {KEY} b {KEY}{KEY}"], KEY, "another-key-1"))
    assert output.count(MASK) == 3
    assert not any(part in output for part in (KEY[:4], KEY[3:]))
    assert "".join(streamed(["xaa", "ab-key-1"], "aab-key-1")) == f"xaa{MASK}"


def test_streams_do_not_mix() -> None:
    log, handler = bus(KEY)
    for piece, cell in ((KEY[:6], 1), ("two", 2), (KEY[6:], 1)):
        emit(log, tags.USER_REPL_OUT_STREAM, piece, cell=cell, kind="stdout")
    received = [(record.text, record.attrs["cell"]) for record in handler.records]
    assert received == [("two", 2), (MASK, 1)]


@pytest.mark.parametrize(
    ("value", "masked"),
    [
        (f"{KEY} and {KEY}", f"{MASK} and {MASK}"),
        ([KEY, {"name": [KEY]}], [MASK, {"name": [MASK]}]),
        ({"arguments": {KEY: 1}}, {"arguments": {MASK: 1}}),
        ({"n": 3, "none": None, "on": True}, {"n": 3, "none": None, "on": True}),
    ],
)
def test_key_is_masked_anywhere_in_a_value(value: object, masked: object) -> None:
    assert Secrets(lambda: [KEY]).mask_value(value) == masked


def test_too_short_key_is_treated_as_a_word() -> None:
    assert mask_secret("none of them", "none") == "none of them"
    assert mask_secret("12345678", "12345678") == MASK
    assert streamed(["hell", "o"], "hello") == ["hell", "o"]


@pytest.mark.parametrize(
    "name", ["OPENAI_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"]
)
def test_key_from_the_environment_is_masked_too(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, KEY)
    log, handler = bus(*load_settings().secrets())
    emit(log, tags.NOTICE, f"the key is {KEY}")
    assert [record.text for record in handler.records] == [f"the key is {MASK}"]


# Secrets in a text: in other spellings, with invisible characters, or cut off.


def typed(*secrets: str) -> Secrets:
    typed_secrets = Secrets()
    for secret in secrets:
        typed_secrets.add(secret)
    return typed_secrets


def redact(secret: str, text: str) -> str:
    return typed(secret).mask(text)


INVISIBLE += ["\x1b]0;title\x07", "\x1bPq…\x1b\\"]


@pytest.mark.parametrize("between", INVISIBLE, ids=ascii)
@pytest.mark.parametrize("offset", [1, 5, 20, len(PROJECT_KEY) - 1])
def test_invisible_characters_do_not_hide_a_key(between: str, offset: int) -> None:
    text = f"it is {PROJECT_KEY[:offset]}{between}{PROJECT_KEY[offset:]}."
    assert redact(PROJECT_KEY, text).replace("\n", "") == f"it is {MASK}."
    spread = plain(redact(PROJECT_KEY, between.join(PROJECT_KEY)))
    assert PROJECT_KEY not in spread.replace("\n", "")


@pytest.mark.parametrize("begin", ["\x1b]52;c;", "\x1bP", "\x1b_", "\x1b[38;5;"], ids=ascii)
def test_key_inside_a_control_sequence_is_masked(begin: str) -> None:
    assert PROJECT_KEY[6:] not in redact(PROJECT_KEY, f"{begin}{PROJECT_KEY}\x07 and on")


@pytest.mark.parametrize("write", WRITERS)
@pytest.mark.parametrize("secret", [PROJECT_KEY, ODD])
def test_key_is_found_in_code_and_data_escapes(write: Callable[[str], str], secret: str) -> None:
    written = redact(secret, write(secret))
    assert MASK in written
    pieces = [secret[start : start + 8] for start in range(len(secret) - 8)]
    assert not any(piece in written for piece in pieces), written
    assert len(written) < 40


@pytest.mark.parametrize("prefix", ["", "u", "us", "user:"])
@pytest.mark.parametrize("encode", [base64.b64encode, base64.urlsafe_b64encode, base64.encodebytes])
def test_a_key_in_base64_cannot_be_decoded(prefix: str, encode: Callable[[bytes], bytes]) -> None:
    encoded = encode(f"{prefix}{PROJECT_KEY} and more".encode()).decode()
    written = redact(PROJECT_KEY, encoded).replace("\n", "")
    assert MASK in written
    key_parts = [PROJECT_KEY[start : start + 3].encode() for start in range(len(PROJECT_KEY) - 3)]
    for piece in written.split(MASK):
        for cut in range(4):
            decoded = base64.urlsafe_b64decode(piece[cut : cut + (len(piece) - cut) // 4 * 4])
            assert not any(key_part in decoded for key_part in key_parts)


def test_keys_with_a_common_start_are_fully_masked() -> None:
    first_key = f"{'a' * 24}-one-{'b' * 24}"
    second_key = f"{'a' * 24}-or-another-{'b' * 24}"
    assert (
        typed(first_key, second_key).mask(f"{first_key} {second_key} {first_key}")
        == f"{MASK} {MASK} {MASK}"
    )
    assert typed(KEY, f"{KEY}-longer").mask(f"{KEY}-longer, x{KEY}") == f"{MASK}, x{MASK}"


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        (f"key=00{REPETITIVE_KEY}", f"key={MASK}"),
        (f"key=00{REPETITIVE_KEY[:-2]}…", f"key={MASK}…"),
        (f"…{REPETITIVE_KEY[2:]}", f"…{MASK}"),
        (f"x30{HEX_KEY}", f"x{MASK}"),
        (f"{REPETITIVE_KEY}{REPETITIVE_KEY}", MASK + MASK),
    ],
)
def test_key_is_masked_after_a_false_start(text: str, masked: str) -> None:
    assert redact(REPETITIVE_KEY, text) == masked


@given(st.text("ab", min_size=8, max_size=30), st.text("ab", max_size=40), st.text("ab"))
def test_every_occurrence_of_a_key_is_masked(key: str, before: str, after: str) -> None:
    text = f"{before}{key}{after}"
    spans = typed(key).spans(text)
    for start in range(len(text)):
        if text.startswith(key, start):
            end = start + len(key)
            assert any(span.start <= start and end <= span.end for span in spans)


@pytest.mark.parametrize("zeros", range(40))
def test_key_is_masked_in_a_stream_after_a_false_start(zeros: int) -> None:
    stream = MaskedStream(typed(REPETITIVE_KEY))
    output = stream.feed("0" * zeros) + stream.feed(f"{REPETITIVE_KEY}.") + stream.finish()
    assert output.strip("0").replace(MASK, "") == "."


def test_truncated_or_wrapped_key_is_masked() -> None:
    assert redact(PROJECT_KEY, f"'{PROJECT_KEY[:30]}…") == f"'{MASK}…"
    note = "[… 80 characters left out …]"
    assert redact(PROJECT_KEY, f"{note}{PROJECT_KEY[10:]}") == f"{note}{MASK}"
    wrapped = redact(PROJECT_KEY, "\n".join(textwrap.wrap(PROJECT_KEY, 7)))
    assert wrapped == MASK + "\n" * 5, "the number of lines must not change"


@pytest.mark.parametrize(
    ("secret", "text", "masked"),
    [
        ("1234", "the PIN 1234, not 12345 and 91234", f"the PIN {MASK}, not 12345 and 91234"),
        ("secret", "secret_file secrets 'secret' secret", f"secret_file secrets '{MASK}' {MASK}"),
        ("a+b+c", "xa+b+cx = a+b+c", f"xa+b+cx = {MASK}"),
        ("tést", "tést detest", f"{MASK} detest"),
        ("t\"'st", repr("t\"'st"), f"'{MASK}'"),
        ("hunter2", "\x1b[31mhun\x1b[32mter2\x1b[0m", f"\x1b[31m{MASK}\x1b[0m"),
        ("hunter2", "hunter\x002 hunter2\x1b", f"{MASK} {MASK}\x1b"),
        ("hunter2", "\x1bhunter2", f"\x1b{MASK}"),
        ("abc", "abc of an abc", "abc of an abc"),
        ("abc", "'abc'\n", f"{MASK}\n"),
        ("y", "y", MASK),
        ("y", "yes, why?", "yes, why?"),
        ("", "", ""),
        ("hunter2 ", "hunter2", MASK),
        ("correct horse", "the correct horse!", f"the {MASK}!"),
        ("hunter2hunter2", "xhunter2hunter2x", f"x{MASK}x"),
        ("a--a", "xa--a--a;", f"xa--{MASK};"),
    ],
)
def test_short_secret_is_masked_as_a_whole_word(secret: str, text: str, masked: str) -> None:
    assert redact(secret, text) == masked


def test_structural_attributes_are_not_masked() -> None:
    secrets = typed("password", "stdout", "interrupted", "data", "waiting")
    record = {"password": True, "kind": "stdout", "status": "interrupted", "state": "waiting"}
    detail = {"detail": "stdout interrupted"}
    assert secrets.mask_value(record | detail) == record | {"detail": f"{MASK} {MASK}"}
    row = {"name": "data", "change": "added", "type": "str", "summary": "'data'", "kind": "data"}
    assert secrets.mask_value({"changes": [row]}) == {"changes": [{**row, "summary": f"'{MASK}'"}]}
    assert secrets.mask_value({"mime": "image/png", "data": "password"})["data"] == "password"


def test_former_key_stays_secret() -> None:
    keys = [PROJECT_KEY]
    secrets = Secrets(lambda: keys)
    assert secrets.mask(PROJECT_KEY) == MASK
    keys[:] = ["another-key"]
    assert secrets.mask(f"{PROJECT_KEY} another-key") == f"{MASK} {MASK}"


@given(
    st.text(st.sampled_from("abAB\\'\"\n\0é€😀 <%+/="), min_size=8, max_size=40),
    st.sampled_from(WRITERS),
)
def test_any_secret_is_found_in_any_encoding(secret: str, write: Callable[[str], str]) -> None:
    long = len(secret.replace("\0", "").replace("\n", "").strip()) >= MIN_SUBSTRING_CHARS
    assert MASK in typed(secret).mask(f"({write(secret)})") or not long


@given(
    st.lists(st.sampled_from([*"sk-proj0", "\0", "\x1b[1m", "x"]), max_size=30).map("".join),
    st.lists(st.integers(1, 9), min_size=1, max_size=60),
)
def test_no_key_passes_through_a_stream(noise: str, sizes: list[int]) -> None:
    hidden = f"{PROJECT_KEY[:4]}\0{PROJECT_KEY[4:9]}\x1b[31m{PROJECT_KEY[9:]}"
    text = f"{noise}{hidden} {PROJECT_KEY}{noise}."
    output = ""
    stream = MaskedStream(typed(PROJECT_KEY))
    while text:
        size = sizes.pop(0) if sizes else len(text)
        output += stream.feed(text[:size])
        text = text[size:]
    output += stream.finish()
    assert PROJECT_KEY[3:] not in plain(output)
    assert PROJECT_KEY[:9] not in plain(output)
    assert output.count(MASK) == 2
    assert output.endswith(f"{noise}.")


def test_withheld_text_is_released_at_the_end() -> None:
    stream = MaskedStream(typed(PROJECT_KEY))
    assert stream.feed(f"x {PROJECT_KEY[:12]}") == "x "
    assert stream.finish() == PROJECT_KEY[:12]
    assert stream.feed("new") == "new"


@pytest.mark.parametrize("size", [1, 7, 16, 1000])
def test_masked_pages_keep_their_length(size: int) -> None:
    text = f"before\n{PROJECT_KEY[:11]}\0{PROJECT_KEY[11:]}\nafter {PROJECT_KEY} end"
    secrets = typed(PROJECT_KEY)
    pages = [
        secrets.mask_page(lambda start, end: text[start:end], start, min(start + size, len(text)))
        for start in range(0, len(text), size)
    ]
    dots = MASK[0] * len(PROJECT_KEY)
    assert "".join(pages) == f"before\n{dots}{MASK[0]}\nafter {dots} end"


UNITS += ["x" * 9, "-", "\u200b", "\x1b]s\x07", "\n", PROJECT_KEY, PROJECT_KEY[:30]]


@pytest.mark.parametrize("unit", UNITS, ids=ascii)
def test_hostile_texts_are_masked_in_time(unit: str) -> None:
    secrets = typed(PROJECT_KEY, "s" * 300, "sk-proj", "k-" * 50, "x" * 8, "----")
    text = unit * (100_000 // len(unit))
    assert secrets.mask(text) is not None
    stream = MaskedStream(secrets)
    for start in range(0, len(text), 8192):
        stream.feed(text[start : start + 8192])


def test_kernel_placeholder_equals_the_mask() -> None:
    assert HIDDEN_VALUE == MASK


# Texts of private variables: which the kernel reports, and where they are found.


def redact_private(text: str, *private: str) -> str:
    secrets = Secrets()
    secrets.private.add(private)
    return secrets.redact_for_model(text)


def texts(value: Any) -> list[str]:
    private_texts: list[str] = private_use({"x": value}, ["x"], [])["texts"]
    return private_texts


def used(namespace: dict[str, Any], code: str, *names: str) -> list[str]:
    (private_names,) = private_use(namespace, names, [code])["used"]
    return list(private_names)


def test_magic_commands_that_run_or_show_other_code_use_private_variables() -> None:
    namespace = {"word": "x" * 20, "macro_name": Macro("print(word)"), "tb": 1}
    reaching = ("%run -i s.py", "%run -e -i s.py", "%rerun 1", "%hist -o", "tb", "macro_name")
    for code in (*reaching, "    word"):
        assert used(namespace, code, "word") == ["word"], code
    for code in ("%run s.py", "%history_of", "print(tb)", "hist = 1"):
        assert used(namespace, code, "word") == [], code


def test_aliases_use_the_private_variables_of_their_commands(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Aliases, "commands", {"show": "echo $word"})
    monkeypatch.setattr(Aliases, "magics", {"again": "rerun"})
    for code in ("show", "%show", "%again 1"):
        assert used({"word": "x" * 20}, code, "word") == ["word"], code


def test_long_text_matches_in_part() -> None:
    assert redact_private("it is Jane Miller, not Jane", "Jane Miller") == f"it is {MASK}, not Jane"
    assert redact_private(f"a {SENTENCE[10:60]} b", SENTENCE) == f"a{MASK} b"
    assert redact_private(f"a {SENTENCE[10:24]} b", SENTENCE) == f"a {SENTENCE[10:24]} b"
    assert redact_private(SENTENCE + SENTENCE, SENTENCE) == MASK
    assert redact_private("Jane Miller" * 2, "Jane Miller") in (MASK, MASK * 2)


@pytest.mark.parametrize("write", [repr, json.dumps])
def test_private_text_is_found_in_escapes(write: Any) -> None:
    text = 'say "ä", \\it\'s\nall the same'
    assert redact_private(write(text), text).count(MASK) == 2


def test_private_texts_in_results_are_masked() -> None:
    secrets = Secrets()
    secrets.private.add(["interrupted by Jane", SENTENCE])
    assert secrets.redact_value({"status": "interrupted by Jane", "output": [SENTENCE]}) == {
        "status": "interrupted by Jane",
        "output": [MASK],
    }


def test_matching_hostile_text_takes_linear_time() -> None:
    private = ["-" * 5_000, "ab" * 3_000, *(f"{at:08} value" for at in range(2_000))]
    assert redact_private("-" * 200_000 + "x" + "ab" * 100_000, *private).count("x") == 1


@given(
    st.text("ab", min_size=MIN_PRIVATE_CHARS, max_size=70),
    st.text("ab", max_size=80),
    st.text("ab"),
)
def test_every_occurrence_of_a_private_line_is_masked(line: str, before: str, after: str) -> None:
    private = PrivateTexts()
    private.add([line])
    text = f"{before}{line}{after}"
    spans = private.spans(text)
    for start in range(len(text)):
        if text.startswith(line, start):
            end = start + len(line)
            assert any(span.start <= start and end <= span.end for span in spans)


def test_private_line_is_masked_after_a_false_start() -> None:
    assert redact_private(f"it is 00{REPETITIVE_KEY}.", REPETITIVE_KEY) == f"it is {MASK}."


def test_private_texts_stay_hidden_while_others_become_public() -> None:
    private = PrivateTexts()
    private.add([SENTENCE, "Jane Miller"])
    spans_seen_meanwhile: list[SecretSpan] = []

    def remaining_texts() -> Iterator[str]:
        search = threading.Thread(
            target=lambda: spans_seen_meanwhile.extend(private.spans(SENTENCE))
        )
        search.start()
        search.join()
        yield SENTENCE

    private.replace(remaining_texts())
    assert spans_seen_meanwhile == private.spans(SENTENCE) == [SecretSpan(0, len(SENTENCE))]
    assert private.spans("Jane Miller") == []


def test_private_texts_are_found_while_another_thread_adds_some() -> None:
    """Lines of other lengths that begin in the same way come in the middle of a comparison."""
    private = PrivateTexts()
    private.add(["Jane Miller", "Jane Miller, Rome"])
    added_lines = iter(["Jane Miller, Berlin", "Jane Miller, Constantinople"])

    class Text(str):
        """A text during whose comparison another thread adds a line."""

        def __getitem__(self, key: Any) -> str:
            adding = threading.Thread(target=private.add, args=([next(added_lines, "")],))
            adding.start()
            adding.join()
            return super().__getitem__(key)

    assert private.spans(Text("it is Jane Miller."), words=False) == [SecretSpan(6, 17)]
    added_lines = iter(["Jane Miller, Ur", "Jane Miller, Alexandria"])
    assert private.spans(Text("Jane Miller")) == [SecretSpan(0, 11)]


def test_single_words_are_no_private_texts() -> None:
    holder = type("Holder", (), {})()
    holder.it = "text of an instance"
    omitted = ["customer", "Country_name", "yes", 7]
    private_texts = texts([*omitted, "Jane Miller", 12345678, b"bytes of it"])
    assert set(private_texts) == {"Jane Miller", "12345678", "bytes of it"}
    deep = {"some key": {"in another": ("and deeper",)}}
    assert texts(deep) == ["some key", "in another", "and deeper"]
    assert texts(ValueError("an error that quotes")) == ["an error that quotes"]
    assert texts(holder) == ["text of an instance"]


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_table_labels_and_cells_are_included(library: str) -> None:
    module = pytest.importorskip(library)
    columns = {"the column": ["the 1st cell", "the 2nd cell"], "number": [1, 2]}
    table = module.table(columns) if library == "pyarrow" else module.DataFrame(columns)
    assert set(texts(table)) == {"the column", "the 1st cell", "the 2nd cell"}


def test_no_code_of_user_classes_runs() -> None:
    ran = []

    def spy(self: object, *args: Any) -> Any:
        ran.append(args)
        return NotImplemented

    methods = dict.fromkeys(["__eq__", "__hash__", "__getattribute__", "__repr__"], spy)
    odd = type("Meta", (type,), methods)("Odd", (), methods)
    namespace: dict[str, Any] = {"odd": object.__new__(odd), "box": [object.__new__(odd)]}
    ran.clear()
    private_use(namespace, ["odd"], ["box", "odd"])
    assert ran == []


def test_code_uses_everything_reachable() -> None:
    namespace: dict[str, Any] = {"secret": ["a value of it"], "number": 5, "five": 5}
    exec(
        "def show(): return inner()\ndef inner(): return secret\nbox = {'it': [secret]}\nalias = secret",
        namespace,
    )
    uses = ["secret", "show()", "box", "alias", "globals()", "'secret'", "f'{secret}'"]
    for code in (*uses, "def f(): return secret", "%time secret", "del secret"):
        assert used(namespace, code, "secret") == ["secret"], code
    for code in ("number", "x = 1", "for _ in range(3): pass", "secrets", "other.secret_one"):
        assert used(namespace, code, "secret") == [], code
    assert used(namespace, "five", "number") == [], "equal numbers are no aliases"
    assert private_use(namespace, ["secret"], [])["aliases"] == ["alias"]


def test_only_the_start_of_collections_is_searched() -> None:
    class Own(list[Any]):
        """A list with attributes."""

    secret = ["a value of it"]
    numbers = range(10**6)
    own_object = Own()
    own_object.more = secret  # type: ignore[attr-defined]
    large = [secret, *numbers]
    for collection in (large, dict.fromkeys(numbers, 0) | {"k": 1}, set(numbers)):
        assert len(_contained(collection)) <= 2 * 20_000
    for value in (large, own_object):
        assert used({"secret": secret, "value": value}, "value", "secret") == ["secret"]


def test_each_variable_is_traversed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    walk = Mock(wraps=module._walk)
    monkeypatch.setattr(module, "_walk", walk)
    private_use({"secret": ["a value"], "box": [1]}, ["secret"], ["box"] * 1_000)
    assert [call.args[0] for call in walk.call_args_list] == [[1]]


def test_names_in_strings_are_mentioned() -> None:
    assert mentioned_names("eval('df.head()')") >= {"eval", "df", "head"}
    assert "df" in mentioned_names("!echo {df}\n%whos")
    assert "df" in mentioned_names("print(df")
    assert "_" not in mentioned_names("for _ in x: pass")
    assert "_" in mentioned_names("_ + 1")


def test_keys_with_a_common_prefix_are_masked() -> None:
    keys = {"openai": SecretStr(KEY), "anthropic": SecretStr(f"{KEY}-longer")}
    log, handler = bus(*load_settings(api_keys=keys).secrets())
    frames = [[KEY, 1, "f", 1]]
    emit(log, tags.USER_REPL_OUT, f"{KEY}-longer, x{KEY}", detail=f"{KEY}-longer", frames=frames)
    [record] = handler.records
    assert record.text == f"{MASK}, x{MASK}"
    assert (record.attrs["detail"], record.attrs["frames"]) == (MASK, [[MASK, 1, "f", 1]])


@given(st.lists(PARTS, max_size=6).map("".join), st.lists(st.integers(1, 6), min_size=1))
def test_stream_in_any_pieces_loses_only_the_key(text: str, sizes: list[int]) -> None:
    secret = OVERLAPPING
    sentence = f"{text}."
    ends = list(itertools.accumulate(itertools.islice(itertools.cycle(sizes), len(sentence))))
    pieces = [sentence[start:end] for start, end in itertools.pairwise([0, *ends])]
    output = "".join(streamed(pieces, secret))
    assert secret not in output
    if secret in sentence:
        assert MASK in output
        assert output.endswith(".")
    else:
        assert output == sentence


def test_sessions_do_not_share_typed_secrets() -> None:
    assert typed("hunter2hunter2").mask("hunter2hunter2") == MASK
    assert Secrets().mask("hunter2hunter2") == "hunter2hunter2"


def test_short_secret_is_masked_in_a_stream() -> None:
    stream = MaskedStream(typed("hunter2"))
    output = "".join(map(stream.feed, "it is hunter2 indeed")) + stream.finish()
    assert MASK in output
    assert "hun" not in output
    assert output.endswith(" indeed")
