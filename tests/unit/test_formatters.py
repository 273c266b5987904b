"""Records as XML."""

from __future__ import annotations

import re
from typing import Any, cast

from hypothesis import example, given
from hypothesis import strategies as st

from mahtab_tui.bus.prompt import attributes, defuse, escape_tags, restore, to_xml
from mahtab_tui.bus.records import KINDS, Record, UserReplIn


def any_of(kind: Any) -> Record:
    return cast("Record", kind(**{name: "x" for name in kind.hints() if name != "time"}))


ANY_OF = {tag: any_of(kind) for (tag, _), kind in KINDS.items()}
"""A record of each tag."""
TAG = st.sampled_from(sorted(ANY_OF))
HOSTILE = st.lists(
    st.one_of(
        st.sampled_from(
            [
                "<",
                "</",
                ">",
                "&",
                "&lt;",
                "&amp;",
                "lt;",
                "amp;",
                " ",
                "\n",
                "/",
                "USER-CHAT",
                "-stream",
                "input",
                "x",
            ]
        ),
        TAG,
        st.text(max_size=3),
    ),
    max_size=12,
).map("".join)
ELEMENT = re.compile(r'<([\w-]+)((?: \w+="[^"<>]*")*)>(.*?)</\1>', re.DOTALL)


@given(TAG, HOSTILE)
@example("user-repl-out", "&amp;lt;user-chat>")
@example("input", "</input>")
def test_escaped_text_can_be_restored(tag: str, text: str) -> None:
    assert restore(defuse(text, tag), tag) == text


@given(TAG, HOSTILE)
@example("user-repl-out", "</USER-CHAT >")
def test_no_content_forges_a_record(tag: str, text: str) -> None:
    found = ELEMENT.fullmatch(to_xml(ANY_OF[tag].changed(text=text)))
    assert found is not None
    assert found[1] == tag
    assert restore(found[3], tag) == text
    assert not re.search(rf"<\s*/?\s*{tag}(?![\w-])", found[3], re.IGNORECASE)
    for other in ANY_OF:
        if "-" in other:
            assert not re.search(rf"<\s*/?\s*{other}(?![\w-])", found[3], re.IGNORECASE)


@given(
    st.dictionaries(
        st.sampled_from(["cell", "party", "a b", "x<"]),
        st.one_of(st.text(), st.integers(), st.booleans(), st.none()),
    )
)
def test_no_attribute_breaks_out(attrs: dict[str, object]) -> None:
    assert ELEMENT.fullmatch(f"<user-repl-in{attributes(attrs)}></user-repl-in>") is not None


@given(st.text(), st.text())
def test_no_field_breaks_out(party: str, call: str) -> None:
    assert ELEMENT.fullmatch(to_xml(UserReplIn(cell=1, party=party, call=call))) is not None


def test_code_is_unchanged_by_escaping() -> None:
    code = "if a < b and c & d:\n    html = \"<input value='&lt;x&gt;'>&amp;\""
    assert defuse(code) == code


def test_attributes_are_escaped_and_lists_omitted() -> None:
    shown = attributes(
        {"cell": 3, "party": 'a"b<c>&', "late": True, "turn": None, "kinds": [["x", 1]], "more": {}}
    )
    assert shown == ' cell="3" party="a&quot;b&lt;c&gt;&amp;" late="true"'


def test_xml_of_a_record() -> None:
    assert to_xml(UserReplIn("code", cell=3)) == '<user-repl-in cell="3">code</user-repl-in>'


def test_long_hostile_content_is_handled_quickly() -> None:
    blanks, escapes = "<" + " " * 1_000_000, "&" + "amp;" * 250_000
    assert defuse(blanks + escapes) == blanks + escapes
    assert escape_tags(blanks, "text") == blanks
