"""On which parts of the text an answer rests, through calls of calls: real sandboxes, prepared
answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from mahtab_tui.llm.prompts import PLAIN
from mahtab_tui.sandbox.base import Text
from mahtab_tui.search.api import rlm
from mahtab_tui.search.requests import read_final
from tests import tags
from tests.integration.scripted_searches import python
from tests.recursion_scripts import ScriptedModel, Story, query_of

TEXT = (
    "".join(
        f"{line:05d} {'needle' if line % 1000 == 7 else 'straw'} and the same words in every line\n"
        for line in range(4_000)
    )
    * 2
)
"""All of it is there twice."""
HALF = len(TEXT) // 2


def answer(script: Mapping[str, str], plain_answer: str = "read", **options: Any) -> Any:
    """An answer of a search whose calls run this code, and what plain calls say."""

    def reply(messages: Any) -> str:
        return (
            plain_answer
            if PLAIN in str(messages[0].content)
            else python(script[query_of(messages)])
        )

    return rlm("what?", TEXT, model=ScriptedModel(reply=reply), **options)


FIND = "hits = grep('needle')\nFINAL(hits[-1])"


@pytest.mark.parametrize(
    "code",
    [
        "FINAL(rlm_map('find', partition(4)[1:3])[1])",
        "FINAL({'found': [rlm('find', partition(4)[2])]})",
        "FINAL(f'It is there: {rlm(\"find\", partition(4)[2])}')",
        "found = rlm_map('find', partition(4)[1:3])\nFINAL('It is {}, I think.'.format(found[1]))",
        "FINAL(rlm('between', context[len(context) // 2 :]))",
    ],
)
def test_answer_cites_the_text_quoted_by_a_sub_call(code: str) -> None:
    found = answer(
        {
            "what?": code,
            "find": FIND,
            "between": "FINAL(rlm('find', context[: len(context) // 2]))",
        },
        max_depth=3,
    )
    start = TEXT.index("01007", HALF)
    assert found.spans == ((start, TEXT.index("\n", start)),)


def test_reused_answer_cites_the_part_that_was_asked_about() -> None:
    found = answer(
        {
            "what?": "FINAL([rlm('find', partition(4)[2]), rlm('find', partition(4)[0])])",
            "find": FIND,
        },
        max_depth=2,
    )
    starts = [TEXT.index("01007"), TEXT.index("01007", HALF)]
    assert found.usage.calls == 2, "one answer was reused"
    assert [call.spans for call in found.tree.calls] == [
        ((start, start + 45),) for start in reversed(starts)
    ]
    assert found.spans == (), "both answers are equal, and it is unknown which one is meant"


def test_combined_parts_keep_their_offsets() -> None:
    code = "FINAL(rlm('find', [context[len(context) // 2 + 50_000 :], context[:30_000]]))"
    found = answer({"what?": code, "find": "FINAL([hit for hit in grep('needle')])"}, max_depth=2)
    starts = sorted(
        TEXT.index(f"{line:05d}", half) for half, line in ((HALF, 2007), (HALF, 3007), (0, 7))
    )
    assert found.spans == tuple((start, TEXT.index("\n", start)) for start in starts)


def test_plain_call_answer_cites_its_unique_occurrence() -> None:
    code = f"FINAL(llm('read it', context[{HALF + 90}:{HALF + 1_050}]))"
    start = TEXT.index("00007", HALF)
    for quoted, spans in (
        ("It is `00007 needle`.", ((start, start + 12),)),
        ("00007", ((start, start + 5),)),
        ("same words", ()),
    ):
        assert answer({"what?": code}, plain_answer=quoted).spans == spans


def test_parts_are_passed_on_and_read_and_answers_cite_some() -> None:
    story = Story()
    answer(
        {"what?": "context[100:150]\ngrep('00007')\nFINAL(llm('read it', partition(40)[1]))"},
        plain_answer="00223",
        on_event=story.append,
    )
    touched = {
        (record.attrs["how"], tuple(map(tuple, record.attrs["spans"])))
        for record in story.of(tags.RLM_CALL, event="touch")
    }
    first, second = TEXT.index("00007"), TEXT.index("00007", HALF)
    part, quoted = next(spans for how, spans in touched if how == "handed"), TEXT.index("00223")
    assert touched == {
        ("peek", ((100, 150),)),
        ("grep", ((first, first + 45), (second, second + 45))),
        ("handed", part),
        ("peek", part),
        ("answer", ((quoted, quoted + 5),)),
    }


def test_forged_sandbox_spans_are_ignored() -> None:
    text = Text.root("The text of a node.").joined([(4, 19)])
    final = read_final(
        {"text": "It says: text, of a.", "spans": [[0, 4], [0, 9], [3], "x", [5, 9], [0, 10**20]]},
        text,
        100,
    )
    assert final is not None
    assert final.spans == [(0, 4), (5, 9)], "those that it quotes"
    named = read_final(
        {"text": "See line 2.", "spans": [[0, 1], [2, 3], [2, 5]]}, Text.root("a\nb\nc"), 100
    )
    assert named is not None
    assert named.spans == [(2, 3)]
    forged = """
import gc
for thing in gc.get_objects():
    if type(thing).__name__ == "EngineConnection":
        talk = thing
talk.send("final", {"text": "x straw x", "spans": [[0, 10**20], [6, 11], [0, 5]]})
"""
    assert [TEXT[start:end] for start, end in answer({"what?": forged}).spans] == ["straw"]
