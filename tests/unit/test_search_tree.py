"""Events of a search, folded into a tree and written to a log; merged spans."""

from __future__ import annotations

import contextlib
import stat
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mahtab_tui.bus.codec import InvalidRecord, as_json, decode, from_json
from mahtab_tui.bus.records import Record
from mahtab_tui.sandbox.searched_text import merge_spans
from mahtab_tui.search.logs import LogFile
from mahtab_tui.search.tree import MAX_FINISHED_CHARS, SearchTree
from mahtab_tui.search.tree_nodes import FINISHED, SearchNode
from mahtab_tui.search.trees import MAX_TREES, Trees
from tests import tags
from tests.records import made, read_log
from tests.recursion_scripts import ScriptedSearches, TurnAccess, code, replies
from tests.tui.search_records import Scribe, asking, done, running, wide

SEARCH_RECORDS = done()

_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 10**20)
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(["1", "1.5", "1.7", "b2", "q1"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)
_NAMES = st.sampled_from(
    "node parent kind batch index of spans chars model cell turn turns seconds request calls tokens usd state cost duration".split()
)


def folded(records: list[Record]) -> SearchTree:
    tree = SearchTree("t1")
    for record in records:
        tree.fold(record)
    return tree


def shape(tree: SearchTree) -> list[tuple[Any, ...]]:
    return [
        (
            node.id,
            node.state,
            node.answer,
            node.usage,
            node.running_descendants,
            node.duration_s,
            [(turn.number, turn.is_complete and turn.answer, turn.code) for turn in node.turns],
        )
        for node in tree.nodes.values()
    ]


def check(tree: SearchTree) -> None:
    below: Counter[str] = Counter()
    seen_ids: set[str] = set()

    def walk(node: SearchNode) -> None:
        assert node.id not in seen_ids
        seen_ids.add(node.id)
        assert tree.nodes[node.id] is node
        for child in node.children:
            walk(child)
        above = node.parent
        while above is not None:
            below[above.id] += not node.finished
            above = above.parent

    for root in tree.roots:
        walk(root)
    assert seen_ids == set(tree.nodes)
    assert all(node.running_descendants == below[node.id] for node in tree.nodes.values())
    states = Counter(node.state for node in tree.nodes.values())
    assert +tree.counts == states
    assert all((node.duration_s is not None) == node.finished for node in tree.nodes.values())
    for node in tree.nodes.values():
        assert len({turn.number for turn in node.turns}) == len(node.turns)
        for batch in node.fan_outs.values():
            assert +batch.counts == Counter(slot.state for slot in batch.nodes_by_part.values())
            assert sum(
                batch.count(state) for state in ("waiting", "thinking", "running", *FINISHED)
            ) == max(batch.part_count, len(batch.nodes_by_part))
    for node, batch in tree.questions.values():
        assert batch.is_waiting
        assert node.fan_outs[batch.id] is batch


def test_running_search_is_shown() -> None:
    tree = folded(running())
    check(tree)
    root = tree.root
    assert root is not None
    assert (root.state, root.running_descendants, tree.depth) == ("running", 6, 2)
    states = [child.state for child in root.children[:6]]
    assert states == ["done", "done", "done", "waiting", "running", "error"]
    assert tree.nodes["1.5.2"].last_line == 'print(*grep("deploy|migrat'
    assert tree.nodes["1.9"].retry_at is not None
    assert root.usage == tree.usage


def test_finished_search_is_shown() -> None:
    tree = folded(SEARCH_RECORDS)
    check(tree)
    assert tree.finished
    assert tree.nodes["1.7"].state == "partial"
    assert tree.nodes["1.6"].answer.startswith("The model could not be reached")
    assert len(tree.nodes["1"].evidence) == 3


def test_fan_out_is_confirmed_and_counted() -> None:
    tree = folded(asking())
    node, batch = tree.questions["q1"]
    assert (node.id, batch.estimated_calls, batch.estimated_usd) == ("1.7", 200, 0.68)
    tree = folded(wide())
    assert not tree.questions
    count = tree.nodes["1.7"].fan_outs["b2"].count
    assert [count(state) for state in ("done", "error", "thinking", "waiting")] == [177, 3, 12, 8]


def test_parts_not_yet_started_are_waiting() -> None:
    scribe = Scribe()
    tree = folded([scribe.begin("1", "q"), scribe.begin("1.1", "q", batch="b", index=0, of=9)])
    assert tree.nodes["1"].fan_outs["b"].count("waiting") == 9


@given(st.integers(0, len(SEARCH_RECORDS)))
@settings(max_examples=40, deadline=None)
def test_any_event_prefix_gives_a_tree(length: int) -> None:
    tree = folded(SEARCH_RECORDS[:length])
    check(tree)
    tree.close()
    check(tree)
    assert not tree.roots or tree.finished


@given(st.data())
@settings(max_examples=25, deadline=None)
def test_lost_streams_and_repeated_events_change_nothing(data: st.DataObject) -> None:
    lost = data.draw(st.sets(st.integers(0, len(SEARCH_RECORDS) - 1)))
    repeated = data.draw(st.sets(st.integers(0, len(SEARCH_RECORDS) - 1), max_size=30))
    records = []
    for number, record in enumerate(SEARCH_RECORDS):
        if record.tag.endswith("-stream") and number in lost:
            continue
        records += [record] * (1 + (number in repeated and not record.tag.endswith("-stream")))
    tree = folded(records)
    check(tree)
    assert shape(tree) == shape(folded(SEARCH_RECORDS))


@given(st.data())
@settings(max_examples=80, deadline=None)
def test_damaged_events_still_give_a_tree(data: st.DataObject) -> None:
    records = list(SEARCH_RECORDS[: data.draw(st.integers(1, 130))])
    for _ in range(data.draw(st.integers(1, 12))):
        index = data.draw(st.integers(0, len(records) - 1))
        damage = data.draw(st.dictionaries(_NAMES, _VALUES, min_size=1, max_size=3))
        original = as_json(records[index])
        with contextlib.suppress(InvalidRecord):
            records[index] = (
                from_json({**original, "attrs": {**original["attrs"], **damage}}) or records[index]
            )
    check(folded(records))


def test_event_of_a_newer_version_is_ignored() -> None:
    attrs = {"tree": "t1", "node": "1", "event": "unknown"}
    assert decode(tags.RLM_CALL, "", attrs, 1.0) is None


def test_memory_of_finished_turns_is_bounded() -> None:
    scribe = Scribe()
    records = [scribe.begin("1", "q")]
    for part in range(1, 800):
        node = f"1.{part}"
        records += [
            scribe.begin(node, "q"),
            *scribe.turn(node, 1, "w" * 30_000, "c" * 10_000, "o" * 30_000),
            scribe.final(node, "done"),
        ]
    tree = folded(records)
    stored_chars = sum(turn.size for node in tree.nodes.values() for turn in node.turns)
    assert stored_chars < MAX_FINISHED_CHARS + 5_000_000
    assert tree.nodes["1.799"].turns[0].output == "o" * 30_000
    assert "left out" in (tree.nodes["1.1"].turns[0].output or "")


@pytest.mark.slow
@pytest.mark.timeout(300)  # a look at every node for each event would take much longer
def test_event_costs_the_same_in_a_large_tree() -> None:
    part_count = 20_000
    scribe = Scribe()
    records = [scribe.begin("1", "q")]
    for part in range(1, part_count):
        records += [
            scribe.begin(f"1.{part}", "q", batch="b", index=part, of=part_count),
            *scribe.thinks(f"1.{part}", 1, "words"),
            scribe.final(f"1.{part}", "a"),
        ]
    assert len(folded(records).nodes) == part_count


def test_trees_are_distinguished_with_the_newest_first() -> None:
    trees = Trees()
    assert trees.fold([*done("a"), *running()])
    assert [tree.id for tree in trees] == ["t1", "a"]
    assert not trees.fold([made(tags.NOTICE, "hello", {})])
    assert not trees.fold([made(tags.USAGE, "", {"source": "agent"})])


def test_restarted_answer_is_shown_once() -> None:
    scribe = Scribe()
    trees = Trees()
    trees.fold([scribe.begin("1", "q"), *scribe.thinks("1", 1)])
    about = {"tree": "t1", "node": "1", "turn": 1}
    for words, fresh in (("Hello fr", False), ("", True), ("Hello", False)):
        trees.fold([made(tags.RLM_CHAT_STREAM, words, {**about, "fresh": fresh})])
    (root,) = next(iter(trees)).roots
    assert root.turns[0].answer == "Hello"


@pytest.mark.parametrize("tag", [tags.RLM_FINAL, tags.USAGE, tags.RLM_CHAT_STREAM])
def test_search_without_a_begin_event_is_not_shown(tag: str) -> None:
    trees = Trees()
    trees.fold([made(tag, "x", {"tree": "gone", "node": "1"})])
    assert not len(trees)


def test_only_the_newest_finished_trees_are_retained() -> None:
    trees = Trees()
    for number in range(MAX_TREES + 10):
        scribe = Scribe(f"t{number}")
        structure_before = trees.structure_version
        trees.fold([scribe.begin("1", "q"), scribe.final("1", "a")])
        assert trees.structure_version != structure_before
    assert len(trees) == MAX_TREES
    assert next(iter(trees)).id == f"t{MAX_TREES + 9}"


def test_foreign_file_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    path.write_text("what the search is about\n")
    with pytest.raises(FileExistsError, match="is not the log of a search"):
        LogFile(path)
    assert path.read_text() == "what the search is about\n"
    for again in (tmp_path / "events.jsonl", tmp_path / "events.jsonl"):
        LogFile(again).close()


def test_written_log_can_be_read(searches: ScriptedSearches, tmp_path: Path) -> None:
    async def halves(access: TurnAccess) -> None:
        access.print("Zeichen: ä 🌙 \ud800")
        access.final("|".join(await access.rlm("half", *access.partition(2))), (0, 5))

    searches.run(replies({"what?": code("halves"), "half": "read"}), halves, max_depth=1)
    path = tmp_path / "log.jsonl"
    log = LogFile(path)
    for record in searches.events:
        log.write(record)
    log.close()
    log.write(searches.events[0])  # too late, and no error
    written = [record for record in searches.events if record.tag != tags.RLM_CHAT_STREAM]
    assert read_log(path) == written
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@given(st.lists(st.tuples(st.integers(0, 300), st.integers(0, 300)), max_size=12))
def test_merged_spans_contain_what_was_given(spans: list[tuple[int, int]]) -> None:
    merged = merge_spans(spans)
    expected_offsets = {offset for start, end in spans for offset in range(start, end)}
    assert {offset for start, end in merged for offset in range(start, end)} == expected_offsets
    assert all(left_span[1] < right_span[0] for left_span, right_span in pairwise(merged))
