"""Records as XML, styled text and bytes."""

from __future__ import annotations

import logging
import re

from hypothesis import example, given
from hypothesis import strategies as st
from rich.text import Text

from mahtab_tui.bus import records, tags
from mahtab_tui.bus.formatters import BytesFormatter, RichFormatter, XMLFormatter, attributes, defuse, escape_tags, restore, to_xml
from mahtab_tui.bus.records import UserReplIn
from tests.records import made

ANY_OF = {kind.tag: kind(**{name: "x" for name in kind.hints() if name != "time"}) for kind in vars(records).values() if getattr(kind, "tag", "")}
"""A record of each tag."""
TAG = st.sampled_from(sorted(tags.ROUTES))
HOSTILE = st.lists(
    st.one_of(
        st.sampled_from(["<", "</", ">", "&", "&lt;", "&amp;", "lt;", "amp;", " ", "\n", "/", "USER-CHAT", "-stream", "input", "x"]),
        TAG,
        st.text(max_size=3),
    ),
    max_size=12,
).map("".join)
ELEMENT = re.compile(r'<([\w-]+)((?: \w+="[^"<>]*")*)>(.*?)</\1>', re.DOTALL)


def logged(tag: str, text: str, **attrs: object) -> logging.LogRecord:
    record = logging.LogRecord("mahtab", logging.INFO, "", 0, text, (), None)
    record.record = made(tag, text, attrs)
    return record


@given(TAG, HOSTILE)
@example("user-repl-out", "&amp;lt;user-chat>")
@example("input", "</input>")
def test_what_is_defused_can_be_restored(tag: str, text: str) -> None:
    assert restore(defuse(text, tag), tag) == text


@given(TAG, HOSTILE)
@example("user-repl-out", "</USER-CHAT >")
def test_no_content_forges_a_record(tag: str, text: str) -> None:
    found = ELEMENT.fullmatch(to_xml(ANY_OF[tag].changed(text=text)))
    assert found is not None
    assert found[1] == tag
    assert restore(found[3], tag) == text
    assert not re.search(rf"<\s*/?\s*{tag}(?![\w-])", found[3], re.IGNORECASE)
    for other in tags.ROUTES:
        if "-" in other:
            assert not re.search(rf"<\s*/?\s*{other}(?![\w-])", found[3], re.IGNORECASE)


@given(st.dictionaries(st.sampled_from(["cell", "party", "a b", "x<"]), st.one_of(st.text(), st.integers(), st.booleans(), st.none())))
def test_no_attribute_breaks_out(attrs: dict[str, object]) -> None:
    assert ELEMENT.fullmatch(f"<user-repl-in{attributes(attrs)}></user-repl-in>") is not None


@given(st.text(), st.text())
def test_no_field_breaks_out(party: str, call: str) -> None:
    assert ELEMENT.fullmatch(to_xml(UserReplIn(cell=1, party=party, call=call))) is not None


def test_code_stays_code() -> None:
    code = "if a < b and c & d:\n    html = \"<input value='&lt;x&gt;'>&amp;\""
    assert defuse(code) == code


def test_attributes_are_escaped_and_lists_left_out() -> None:
    shown = attributes({"cell": 3, "party": 'a"b<c>&', "late": True, "turn": None, "kinds": [["x", 1]], "more": {}})
    assert shown == ' cell="3" party="a&quot;b&lt;c&gt;&amp;" late="true"'


def test_xml_of_a_log_record() -> None:
    assert XMLFormatter().format(logged("user-repl-in", "code", cell=3)) == '<user-repl-in cell="3">code</user-repl-in>'


def test_rich_text_is_never_markup_nor_control() -> None:
    text = RichFormatter().format(logged("user-repl-out", "[bold]x[/bold] \x1b[31mred\x1b[0m\x1b]52;c;A\x07", cell=1))
    assert isinstance(text, Text)
    assert text.plain.endswith("\n[bold]x[/bold] red")
    assert any(getattr(span.style, "color", None) for span in text.spans)


def test_bytes_are_utf8_whatever_the_text() -> None:
    data = BytesFormatter().format(logged("user-repl-out", "é\ud800\x00", cell=1))
    assert data.decode("utf-8") == '<user-repl-out cell="1">é\ufffd\x00</user-repl-out>\n'


def test_long_hostile_content_is_no_work() -> None:
    blanks, escapes = "<" + " " * 1_000_000, "&" + "amp;" * 250_000
    assert defuse(blanks + escapes) == blanks + escapes
    assert escape_tags(blanks, "text") == blanks
