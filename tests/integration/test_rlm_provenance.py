"""On which parts of the text an answer rests, through calls of calls: real sandboxes, prepared
answers."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import pytest

from mahtab_tui.bus import tags
from mahtab_tui.llm.prompts import PLAIN
from mahtab_tui.sandbox.base import Text, TextRun
from mahtab_tui.search.api import rlm
from mahtab_tui.search.requests import read_call, read_final
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


VALUES = "".join(
    f"{line:04d} customer C-{line % 40 + 100} paid {line * 7}.25 EUR on day {line % 9}\n"
    for line in range(2_000)
)
"""Each amount is there once, each customer fifty times."""


@pytest.mark.parametrize(
    "code",
    [
        "import json\nfound = [json.loads(a) for a in llm_map('amounts?', partition(8))]\n"
        "FINAL({'amounts': [v for each in found for v in each if v]})",
        "FINAL(', '.join(a.strip('[]').replace('\"', '') for a in llm_map('amounts?', partition(8)) if len(a) > 2))",
        "hits = grep('0007 c|0777 c')\nprint(llm('amounts?', '\\n'.join(hits)))\n"
        "FINAL('They paid ' + ' and '.join(h.split()[4] for h in hits))",
        "hits = grep('0007 c|0777 c')\ntext = '\\n\\n'.join(f'{h.line}: {h}' for h in hits)\n"
        "FINAL(json.loads(llm('amounts?', text)))",
        "import re\nFINAL([re.search(r'paid (\\S+)', h)[1] for h in grep('0007 c|0777 c')])",
        "FINAL(json.loads(rlm('sub', context)))",
    ],
    ids=["json", "join", "joined lines", "numbered lines", "pattern", "depth"],
)
def test_answer_cites_values_that_code_has_taken_apart_and_put_together(code: str) -> None:
    def reply(messages: Any) -> str:
        if PLAIN in str(messages[0].content):
            lines = re.findall(r"(?:0007|0777) customer.*", str(messages[1].content))
            return json.dumps([line.split()[4] for line in lines])
        sub_code = "FINAL(llm('amounts?', [context[:10_000], context[30_000:50_000]]))"
        return python("import json\n" + (sub_code if query_of(messages) == "sub" else code))

    found = rlm("what?", VALUES, model=ScriptedModel(reply=reply), max_depth=2)
    assert [VALUES[start:end] for start, end in found.spans] == ["49.25", "5439.25"]


@pytest.mark.parametrize(
    "text",
    [
        "'\\n'.join(hits)",
        "'\\n\\n'.join(f'{hit.line}: {hit}' for hit in hits)",
        "'They are: ' + str(hits)",
    ],
)
def test_lines_in_a_text_that_code_makes_keep_their_places(text: str) -> None:
    code = f"hits = grep('0007 c|0777 c')\nllm('amounts?', {text})\nFINAL('end')"
    reply = {"what?": python(code), "amounts?": "49.25, 5439.25"}
    found = rlm("what?", VALUES, model=ScriptedModel(reply=lambda asked: reply[query_of(asked)]))
    assert found.tree is not None
    (call,) = found.tree.calls
    assert [VALUES[start:end] for start, end in call.spans] == ["49.25", "5439.25"]


def test_forged_places_of_a_made_text_are_ignored() -> None:
    text = Text.root("0123456789" * 3).joined([(5, 30)])
    runs = [
        [0, 0, 5],
        [2, 7, 3],
        [9, 0, 2],
        [11, 0, 9],
        [11, 1, 2],
        "x",
        [1, 2],
        [11, 5, 3],
        [3, 8, 2],
    ]
    made = {"text": "a 234 56789 01234", "runs": runs}
    request = read_call("llm", {"query": "q", "part": made}, text)
    part, (read,) = request.parts[0], request.read
    assert isinstance(part, Text)
    assert [text.text[start:end] for start, end in read] == ["234"]
    assert part.origin == (TextRun(2, 12, 3),)


@pytest.mark.parametrize(
    ("code", "read", "places"),
    [
        ("FINAL(llm_map('?', partition(2)))", "C-107", 0),
        ("FINAL(llm_map('?', partition(50)))", "C-107", 0),
        ("FINAL(llm('?', partition(50)[2]) + '!')", "C-107", 1),
        ("FINAL(llm('?', partition(50)[2]) + '1')", "C-107", 0),
        ("FINAL(llm('?', context[:40]) + '!')", "25", 0),
        ("FINAL(llm('?', partition(50)[2]) + '!')", "customer", 0),
        ("llm('?', partition(50)[2])\nFINAL('C-107')", "C-109", 0),
    ],
    ids=["often", "several", "once", "other word", "short", "many", "never said"],
)
def test_values_whose_place_is_uncertain_are_not_cited(code: str, read: str, places: int) -> None:
    reply = {"what?": python(code), "?": read}
    model = ScriptedModel(reply=lambda messages: reply[query_of(messages)])
    assert len(rlm("what?", VALUES, model=model).spans) == places


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
    chance = {"text": "The reconciled sum: b.", "spans": [[0, 3], [0, 1], [4, 7], [12, 13]]}
    invented = read_final(chance, Text.root("The context b"), 100)
    assert invented is not None
    assert invented.spans == [(0, 3)], "others stand within words, or by chance"
    forged = """
import gc
for thing in gc.get_objects():
    if type(thing).__name__ == "EngineConnection":
        talk = thing
talk.send("final", {"text": "x straw x", "spans": [[0, 10**20], [6, 11], [0, 5]]})
"""
    assert [TEXT[start:end] for start, end in answer({"what?": forged}).spans] == ["straw"]
