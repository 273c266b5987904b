"""Secrets in a text: disguised by how they are written, by what stands between their letters, and
cut off."""

from __future__ import annotations

import base64
import html
import json
import textwrap
from collections.abc import Callable
from urllib.parse import quote, urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mahtab_tui.bus.masking import LONG, MASK, MaskedStream, Secrets
from mahtab_tui.bus.sanitize import plain
from mahtab_tui.worker.variables import UNTOLD

KEY = "sk-proj-0123456789-abcdefghij-ABCDEFGHIJ"
ODD = 'it\'s "q\\uoted", <ü> & 10% long'
"""Characters that every format escapes differently."""


def typed(*secrets: str) -> Secrets:
    """A session in which these were typed hidden."""
    found = Secrets()
    for secret in secrets:
        found.add(secret)
    return found


def redact(secret: str, text: str) -> str:
    return typed(secret).mask(text)


@pytest.mark.parametrize(
    "between",
    [
        "\0",
        "\x1b[31m",
        "\x1b[0m\x1b[1;32m",
        "\x1b]0;title\x07",
        "\x1bPq…\x1b\\",
        "\u200b",
        "\u202e",
        "\u00ad",
        "\x7f",
        "\x9b",
        "\U000e0041",
        "\r",
        "\n",
        "\x1b",
    ],
    ids=ascii,
)
@pytest.mark.parametrize("offset", [1, 5, 20, len(KEY) - 1])
def test_invisible_characters_do_not_hide_a_key(between: str, offset: int) -> None:
    text = f"it is {KEY[:offset]}{between}{KEY[offset:]}."
    assert redact(KEY, text).replace("\n", "") == f"it is {MASK}."
    assert KEY not in plain(redact(KEY, between.join(KEY))).replace("\n", "")


@pytest.mark.parametrize("begin", ["\x1b]52;c;", "\x1bP", "\x1b_", "\x1b[38;5;"], ids=ascii)
def test_key_inside_a_control_sequence_is_masked(begin: str) -> None:
    assert KEY[6:] not in redact(KEY, f"{begin}{KEY}\x07 and on")


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


@pytest.mark.parametrize("write", WRITERS)
@pytest.mark.parametrize("secret", [KEY, ODD])
def test_key_is_found_in_code_and_data_escapes(write: Callable[[str], str], secret: str) -> None:
    written = redact(secret, write(secret))
    assert MASK in written
    assert not any(secret[start : start + 8] in written for start in range(len(secret) - 8)), (
        written
    )
    assert len(written) < 40


@pytest.mark.parametrize("before", ["", "u", "us", "user:"])
@pytest.mark.parametrize("encode", [base64.b64encode, base64.urlsafe_b64encode, base64.encodebytes])
def test_a_key_in_base64_cannot_be_decoded(before: str, encode: Callable[[bytes], bytes]) -> None:
    written = redact(KEY, encode(f"{before}{KEY} and more".encode()).decode()).replace("\n", "")
    assert MASK in written
    for piece in written.split(MASK):
        for cut in range(4):
            decoded = base64.urlsafe_b64decode(piece[cut : cut + (len(piece) - cut) // 4 * 4])
            assert not any(
                KEY[start : start + 3].encode() in decoded for start in range(len(KEY) - 3)
            )


def test_truncated_or_wrapped_key_is_masked() -> None:
    assert redact(KEY, f"'{KEY[:30]}…") == f"'{MASK}…"
    assert (
        redact(KEY, f"[… 80 characters left out …]{KEY[10:]}")
        == f"[… 80 characters left out …]{MASK}"
    )
    wrapped = redact(KEY, "\n".join(textwrap.wrap(KEY, 7)))
    assert wrapped == MASK + "\n" * 5, "the lines after it stay where they were"


def test_keys_with_a_common_start_and_end_are_each_fully_masked() -> None:
    one, other = f"{'a' * 24}-one-{'b' * 24}", f"{'a' * 24}-or-another-{'b' * 24}"
    assert typed(one, other).mask(f"{one} {other} {one}") == f"{MASK} {MASK} {MASK}"


@pytest.mark.parametrize(
    ("secret", "text", "shown"),
    [
        ("1234", "the PIN 1234, not 12345 and 91234", f"the PIN {MASK}, not 12345 and 91234"),
        ("secret", "secret_file secrets 'secret' secret", f"secret_file secrets '{MASK}' {MASK}"),
        ("a+b+c", "xa+b+cx = a+b+c", f"xa+b+cx = {MASK}"),
        ("tést", "tést detest", f"{MASK} detest"),
        ("t\"'st", repr("t\"'st"), f"'{MASK}'"),
        (
            "hunter2",
            "\x1b[31mhun\x1b[32mter2\x1b[0m hunter\x002 hunter2\x1b",
            f"\x1b[31m{MASK}\x1b[0m {MASK} {MASK}\x1b",
        ),
        ("hunter2", "\x1bhunter2", f"\x1b{MASK}"),
        ("abc", "abc of an abc", "abc of an abc"),
        ("abc", "'abc'\n", f"{MASK}\n"),
        ("y", "y", MASK),
        ("y", "yes, why?", "yes, why?"),
        ("", "", ""),
        ("hunter2 ", "hunter2", MASK),
        ("correct horse", "the correct horse!", f"the {MASK}!"),
        ("hunter2hunter2", "xhunter2hunter2x", f"x{MASK}x"),
    ],
)
def test_a_short_secret_is_masked_as_a_word_or_as_the_whole_text(
    secret: str, text: str, shown: str
) -> None:
    assert redact(secret, text) == shown


def test_structural_attributes_are_not_masked() -> None:
    """Somebody may type one of the program's own words."""
    secrets = typed("password", "stdout", "interrupted", "data", "waiting")
    record = {
        "password": True,
        "kind": "stdout",
        "status": "interrupted",
        "state": "waiting",
        "detail": "stdout interrupted",
    }
    assert secrets.mask_value(record) == {**record, "detail": f"{MASK} {MASK}"}
    row = {"name": "data", "change": "added", "type": "str", "summary": "'data'", "kind": "data"}
    assert secrets.mask_value({"changes": [row]}) == {"changes": [{**row, "summary": f"'{MASK}'"}]}
    assert secrets.mask_value({"mime": "image/png", "data": "password"})["data"] == "password"


def test_former_key_stays_secret() -> None:
    keys = [KEY]
    secrets = Secrets(lambda: keys)
    assert secrets.mask(KEY) == MASK
    keys[:] = ["another-key"]
    assert secrets.mask(f"{KEY} another-key") == f"{MASK} {MASK}"


def test_sessions_do_not_share_typed_secrets() -> None:
    assert typed("hunter2hunter2").mask("hunter2hunter2") == MASK
    assert Secrets().mask("hunter2hunter2") == "hunter2hunter2"


@given(
    st.text(st.sampled_from("abAB\\'\"\n\0é€😀 <%+/="), min_size=8, max_size=40),
    st.sampled_from(WRITERS),
)
def test_any_secret_is_found_in_any_encoding(secret: str, write: Callable[[str], str]) -> None:
    assert (
        MASK in typed(secret).mask(f"({write(secret)})")
        or len(secret.replace("\0", "").replace("\n", "").strip()) < LONG
    )


# Streams


@given(
    st.lists(st.sampled_from([*"sk-proj0", "\0", "\x1b[1m", "x"]), max_size=30).map("".join),
    st.lists(st.integers(1, 9), min_size=1, max_size=60),
)
def test_no_key_passes_through_a_stream_in_any_pieces(noise: str, sizes: list[int]) -> None:
    text, stream, shown = (
        f"{noise}{KEY[:4]}\0{KEY[4:9]}\x1b[31m{KEY[9:]} {KEY}{noise}.",
        MaskedStream(typed(KEY)),
        "",
    )
    while text:
        size = sizes.pop(0) if sizes else len(text)
        shown += stream.feed(text[:size])
        text = text[size:]
    shown += stream.finish()
    assert KEY[3:] not in plain(shown)
    assert KEY[:9] not in plain(shown)
    assert shown.count(MASK) == 2
    assert shown.endswith(f"{noise}.")


def test_short_secret_streamed_by_letters_is_not_shown() -> None:
    stream = MaskedStream(typed("hunter2"))
    shown = "".join(map(stream.feed, "it is hunter2 indeed")) + stream.finish()
    assert MASK in shown
    assert "hun" not in shown
    assert shown.endswith(" indeed")


def test_withheld_text_is_released_at_the_end_of_a_stream() -> None:
    stream = MaskedStream(typed(KEY))
    assert stream.feed(f"x {KEY[:12]}") == "x "
    assert stream.finish() == KEY[:12]
    assert stream.feed("new") == "new"


# Pages


@pytest.mark.parametrize("size", [1, 7, 16, 1000])
def test_key_across_pages_is_dotted_without_shifting_text(size: int) -> None:
    text = f"before\n{KEY[:11]}\0{KEY[11:]}\nafter {KEY} end"
    secrets = typed(KEY)
    pages = [
        secrets.mask_page(lambda start, end: text[start:end], start, min(start + size, len(text)))
        for start in range(0, len(text), size)
    ]
    dots = MASK[0] * len(KEY)
    assert "".join(pages) == f"before\n{dots}{MASK[0]}\nafter {dots} end"


# Cost


@pytest.mark.parametrize(
    "unit",
    [
        "s",
        "sk-proj-0123456789-a",
        "s\x1b]",
        "s\x1bP\n",
        "\x1b[",
        "s\0",
        "k-\x1b]k",
        "\u200b",
        "\x1b]s\x07",
        "\n",
        KEY,
        KEY[:30],
    ],
    ids=ascii,
)
def test_masking_time_is_bounded_for_hostile_texts(unit: str) -> None:
    """Each would take minutes where the time grew with the square of the text."""
    secrets = typed(KEY, "s" * 300, "sk-proj", "k-" * 50)
    text = unit * (300_000 // len(unit))
    assert secrets.mask(text) is not None
    stream = MaskedStream(secrets)
    for start in range(0, len(text), 8192):
        stream.feed(text[start : start + 8192])


def test_kernel_placeholder_equals_the_mask() -> None:
    assert UNTOLD == MASK
