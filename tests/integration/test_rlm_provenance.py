"""On which parts of the text an answer rests, through calls of calls: real sandboxes, prepared answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from mahtab_tui.bus import tags
from mahtab_tui.llm.search_lines import PLAIN
from mahtab_tui.sandbox.text import Text
from mahtab_tui.search.api import rlm
from mahtab_tui.search.requests import read_call, read_final
from tests.integration.scripted_searches import python
from tests.recursion_scripts import ScriptedModel, Story, query_of

TEXT = "".join(f"{line:05d} {'needle' if line % 1000 == 7 else 'straw'} and the same words in every line\n" for line in range(4_000)) * 2
"""All of it is there twice."""
HALF = len(TEXT) // 2


def answer(script: Mapping[str, str], **options: Any) -> Any:
    """An answer of a search whose calls run this code; plain calls say "read"."""

    def reply(messages: Any) -> str:
        return "read" if PLAIN in str(messages[0].content) else python(script[query_of(messages)])

    return rlm("what?", TEXT, model=ScriptedModel(reply=reply), **options)


def lines(spans: Any) -> list[str]:
    return [TEXT[start:end] for start, end in spans]


FIND = "hits = grep('needle')\nFINAL(hits[-1])"


@pytest.mark.parametrize(
    "code",
    [
        "FINAL(rlm_map('find', partition(4))[2])",
        "FINAL({'found': [rlm('find', partition(4)[2])]})",
        "FINAL(f'It is there: {rlm(\"find\", partition(4)[2])}')",
        "found = rlm_map('find', partition(4)[1:3])\nFINAL('It is {}, I think.'.format(found[1]))",
        "FINAL(rlm('between', context[len(context) // 2 :]))",
    ],
)
def test_what_a_sub_call_quotes_is_where_the_answer_is_from(code: str) -> None:
    found = answer({"what?": code, "find": FIND, "between": "FINAL(rlm('find', context[: len(context) // 2]))"}, max_depth=3)
    start = TEXT.index("01007", HALF)
    assert found.spans == ((start, TEXT.index("\n", start)),)


def test_an_answer_that_was_reused_is_from_the_part_that_was_asked_about() -> None:
    found = answer({"what?": "FINAL([rlm('find', partition(4)[2]), rlm('find', partition(4)[0])])", "find": FIND}, max_depth=2)
    starts = [TEXT.index("01007"), TEXT.index("01007", HALF)]
    assert found.usage.calls == 2, "one answer was reused"
    assert [call.spans for call in found.tree.calls] == [((start, start + 45),) for start in reversed(starts)]
    assert found.spans == tuple((start, start + 45) for start in starts)
    made = "FINAL([rlm('find', partition(4)[2]), rlm('find', ''.join(c for c in partition(4)[0]))])"
    assert answer({"what?": made, "find": FIND}, max_depth=2).spans == ((starts[1], starts[1] + 45),), "code has made that text"


def test_text_that_code_joins_of_parts_keeps_their_places() -> None:
    code = "FINAL(rlm('find', '\\n--- next ---\\n'.join([context[len(context) // 2 + 50_000 :], context[:30_000]])))"
    found = answer({"what?": code, "find": "FINAL([hit for hit in grep('needle')])"}, max_depth=2)
    starts = sorted(TEXT.index(f"{line:05d}", half) for half, line in ((HALF, 2007), (HALF, 3007), (0, 7)))
    assert found.spans == tuple((start, TEXT.index("\n", start)) for start in starts)


def test_a_plain_call_tells_where_its_answer_is_from_only_if_it_read_little() -> None:
    found = answer({"what?": "FINAL(llm('read it', context[50:1_050]))"})
    assert found.spans == ((50, 1_050),)
    assert answer({"what?": "FINAL(llm('read it', context[50:100_050]))"}).spans == ()


def test_what_code_takes_out_of_the_text_counts_as_seen() -> None:
    story = Story()
    answer({"what?": "import re\nx = re.findall('needle', context)\ny = context[100:150]\nFINAL(len(x))"}, on_event=story.append)
    seen = {(record.attrs["how"], tuple(span)) for record in story.of(tags.RLM_CALL, event="touch") for span in record.attrs["spans"]}
    assert ("peek", (100, 150)) in seen
    assert {TEXT[slice(*span)] for how, span in seen if how == "grep"} == {"needle"}
    assert len(seen) == 9


def test_what_a_sandbox_makes_up_is_left_out() -> None:
    text = Text.root("The text of a node.").joined([(4, 19)])
    made = "text of lies, text of a node."
    runs: Any = [[0, 7, 3], [0, 7, 0], [5, 3, 5], [14, 15, 0], [0, 1], "x", [1.5, 1, 1], [14, 500, 0], [0, -3, 0], [0, 7, -7], [True, 1, 1]]
    request = read_call("rlm", {"query": "q", "parts": [{"text": made, "runs": runs}], "map": False}, text)
    part = request.parts[0]
    assert isinstance(part, Text)
    assert part.text == made
    assert part.to_root([(0, len(made))]) == [(4, 11), (4, 19)]
    final = read_final({"text": "x", "spans": [[0, 5], [3], "x"], "answers": [1, True, "2", 10**30, -1]}, text, 10)
    assert final is not None
    assert (final.spans, final.answers) == ([(0, 5)], [1, 10**30, -1])
    forged = """
import gc
for thing in gc.get_objects():
    if type(thing).__name__ == "EngineConnection":
        talk = thing
talk.tell("final", {"text": "x", "spans": [[0, 10**20]], "answers": [0, -1, 1, 10**30, "a", None]})
"""
    assert lines(answer({"what?": forged}).spans) == [TEXT]
