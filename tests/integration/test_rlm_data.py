"""Arguments and results of `rlm` besides one text and its answer: several contexts, sampling, the
tree and the log, searches that share a server."""

from __future__ import annotations

import asyncio
import copy
import os
import pickle
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest

import mahtab_tui
from mahtab_tui.bus import codec
from mahtab_tui.kernel.inprocess import InProcessKernel
from mahtab_tui.llm.base import ModelError
from mahtab_tui.llm.prompts import PLAIN
from mahtab_tui.search import log as logs
from mahtab_tui.search.api import Searcher, rlm
from mahtab_tui.search.log import SessionLog
from mahtab_tui.worker.answers import Answer
from mahtab_tui.worker.contexts import ContextError
from mahtab_tui.worker.search import SearchFailed
from mahtab_tui.worker.search_log import unpack_events
from tests import tags
from tests.integration.kernels import RecordingHost
from tests.integration.scripted_searches import LOG, SEARCH, python, scripted
from tests.records import read_log
from tests.recursion_scripts import ScriptedModel, Story
from tests.waiting import wait_for


def test_answer_carries_the_calls_and_events_of_its_search(tmp_path: Path) -> None:
    answer = rlm(
        "how many errors?", LOG, model=scripted(SEARCH), max_depth=2, log=tmp_path / "log.jsonl"
    )
    written = [codec.as_json(record) for record in read_log(tmp_path / "log.jsonl")]
    assert answer.log == written
    tree = answer.tree
    assert tree is not None
    assert (tree.query, tree.state, tree.answer, tree.model_calls) == (
        "how many errors?",
        "done",
        "20",
        6,
    )
    assert [call.answer for call in tree.calls] == ["5"] * 4
    assert [call.id for call in tree] == ["1", "1.1", "1.2", "1.3", "1.4"]
    assert "parts = partition(4)" in tree.turns[0].code
    assert tree.turns[0].output.startswith(f"{len(LOG)} ")
    assert str(tree).splitlines()[1] == "  1.1 done: count -> 5"
    for same in (copy.copy(answer), pickle.loads(pickle.dumps(answer))):
        assert (same, type(same), same.tree, same.usage, same.spans) == (
            answer,
            Answer,
            tree,
            answer.usage,
            answer.spans,
        )


def test_corrected_answer_has_its_last_tree() -> None:
    answers = [python("FINAL('twenty')"), python("FINAL(20)")]
    answer = rlm(
        "how many?", LOG, model=ScriptedModel(reply=lambda messages: answers.pop(0)), returns=int
    )
    assert answer.tree is not None
    assert (answer.value, answer.tree.id, answer.tree.model_calls, len(answer.log)) == (
        20,
        "2",
        1,
        14,
    )


def test_failed_search_carries_its_tree() -> None:
    with pytest.raises(mahtab_tui.SearchFailed) as failed:
        rlm("what?", LOG, model=scripted({"what?": python("print(1)")}), max_calls=1)
    tree = failed.value.tree
    assert tree is not None
    assert (tree.state, tree.answer) == ("error", str(failed.value))
    kernel = InProcessKernel({})
    kernel.start(RecordingHost())
    kernel.close()
    again = pickle.loads(pickle.dumps(failed.value))
    assert (str(again), again.tree, type(again)) == (str(failed.value), tree, SearchFailed)
    assert SearchFailed("why").tree is None


def test_log_uses_little_memory_and_ends_with_a_sentence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    story = Story()
    rlm("how many errors?", LOG, model=scripted(SEARCH), max_depth=2, on_event=story.append)
    events = [event for event in story if event.tag != tags.RLM_CHAT_STREAM]
    monkeypatch.setattr(logs, "_AT_ONCE", 1_000)
    log = SessionLog()
    for event in story:
        log.add(event)
    assert unpack_events(log.packed()) == [codec.as_json(event) for event in events], (
        "in several portions"
    )
    monkeypatch.setattr(logs, "MOST", 3_000)
    log = SessionLog()
    for event in story * 50:
        log.add(event)
    entries = unpack_events(log.packed())
    assert len(entries) < 30
    assert entries[-1]["text"] == "The log ends here: the search had too many events."


CONTRACT = (
    "".join(f"§ {number} The tenant pays.\n" for number in range(1_000))
    + "§ 1000 Cats are allowed.\n"
)
MAILS = ["Dear landlord,\nmay I have a cat?", "No.\n", "Cats are forbidden, says the landlord.\n"]


def test_several_contexts_are_variables_and_spans_name_theirs() -> None:
    sent: list[Any] = []

    def reply(messages: Sequence[Any]) -> str:
        sent[:] = messages
        return python(
            "a, b = contract.splitlines()[-1], mails[2]\nFINAL([peek(24, contract.find('§ 1000')), mails[2], len(context['mails'])])"
        )

    answer = rlm(
        "Are cats allowed?",
        contract=CONTRACT,
        mails=MAILS,
        model=ScriptedModel(reply=reply),
        returns=list[str | int],
    )
    assert answer.value == ["§ 1000 Cats are allowed.", MAILS[2], len("\n".join(MAILS))]
    start = CONTRACT.index("§ 1000")
    assert [(span.context, CONTRACT[span.start : span.end]) for span in answer.spans[:1]] == [
        ("contract", "§ 1000 Cats are allowed.")
    ]
    assert answer.spans[0] == (start, start + 24), "it is a pair, too"
    assert [
        (span.context, "\n".join(MAILS)[span.start : span.end]) for span in answer.spans[1:]
    ] == [("mails", MAILS[2])]
    assert answer.tree is not None
    assert answer.tree.spans == answer.spans
    system, first = (str(message.content) for message in sent[:2])
    assert "- contract: a str that also has .start" in system
    assert "- mails: a list of 3 strings, each a str that also has" in system
    assert f"contract is a str of {len(CONTRACT):,} characters in" in first
    assert "mails is a list of 3 documents, together" in first
    assert CONTRACT[:200] in first
    assert "says the landlord." in first


def test_contexts_of_all_kinds_combine_and_reach_sub_calls() -> None:
    code = "FINAL([type(table).__name__, table['b'], notes, llm('read', notes), llm_map('read', list(table.values()))[1]])"
    model = ScriptedModel(
        reply=lambda messages: "read" if PLAIN in str(messages[0].content) else python(code)
    )
    answer = rlm(
        "what?",
        table={"a": "one " * 9_000, "b": "two"},
        notes=b"bytes",
        model=model,
        returns=list[str],
    )
    assert answer.value == ["dict", "two", "bytes", "read", "read"]


def test_contexts_of_any_name_are_given_as_a_dict() -> None:
    model = ScriptedModel(reply=lambda messages: python("FINAL([prompt, max_call, key[:5]])"))
    contexts = {"prompt": "one", "max_call": "two"}
    answer = rlm("what?", contexts=contexts, key="three " * 9000, model=model, returns=list[str])
    assert answer.value == ["one", "two", "three"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "There is nothing to search"),
        ({"context": "a", "mails": "b"}, "Give one context, or all of them by name"),
        ({"grep": "a"}, "a search has that name already"),
        ({"list": "a"}, "Python has that name already"),
        ({"_a": "a"}, "begins with an underscore"),
        ({"max_call": "a"}, "no option 'max_call'; did you mean 'max_calls'"),
        ({"tree": 7}, "no option 'tree', and a value of type int is no text"),
        ({"tree": len}, "The context 'tree': A value of type builtin_function"),
        ({"api_key": "a"}, "no option 'api_key'. If it is a text for the model, pass contexts="),
        ({"max_iterations": 7}, "no option 'max_iterations'"),
        ({"github_token": "x" * 40}, "github_token looks like a secret and is sent to no model"),
        ({"mail": "sk-" + "a1" * 20}, "The value of mail looks like a secret"),
        ({"mail": b"ghp_" + b"a1" * 18}, "The value of mail looks like a secret"),
        ({"contexts": {"grep": "a"}}, "a search has that name already"),
        ({f"a{number}": "" for number in range(101)}, "At most 100 contexts"),
    ],
)
def test_unsupported_contexts_are_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ContextError, match=message):
        rlm("what?", model="demo", **given)


class SampledModel(ScriptedModel):
    """Takes a temperature and a seed."""

    used: ClassVar[list[tuple[float | None, int | None]]] = []

    temperature: float | None = None
    seed: int | None = None

    async def _astream(self, *args: Any, **kwargs: Any) -> Any:
        self.used.append((self.temperature, self.seed))
        async for chunk in super()._astream(*args, **kwargs):
            yield chunk


def test_sampling_options_reach_models_that_accept_them() -> None:
    SampledModel.used.clear()
    model = SampledModel(reply=lambda messages: python("FINAL(1)"))
    with Searcher(model=model, temperature=0.5) as searcher:
        searcher.rlm("what?", LOG)
        searcher.rlm("what?", LOG, temperature=0, seed=7)
    rlm("what?", LOG, model=model)
    assert SampledModel.used == [(0.5, None), (0, 7), (None, None)]
    with pytest.raises(ModelError, match="scripted takes no top_p"):
        rlm("what?", LOG, model=model, top_p=0.9)
    with pytest.raises(ModelError, match="demo takes no temperature"):
        rlm("what?", LOG, model="demo", temperature=0.1)
    with pytest.raises(ValueError, match=r"seed must be a whole number, not 0\.5"):
        rlm("what?", LOG, model=model, seed=0.5)  # type: ignore[arg-type]


def test_searcher_reuses_its_server_and_separates_its_callers() -> None:
    who = python("import os\nFINAL(os.getppid())")
    stories = [Story(), Story()]
    with Searcher(
        model=scripted(
            {"what?": who, "how many errors?": SEARCH["how many errors?"], "count": SEARCH["count"]}
        ),
        max_calls=50,
        max_depth=2,
    ) as searcher:
        first = searcher.rlm("what?", LOG, on_event=stories[0].append)
        second = searcher.rlm("what?", LOG, on_event=stories[1].append)
        assert first == second, "the same process makes the sandboxes"
        assert first.tree != second.tree
        assert all(
            len({event.attrs["tree"] for event in story if "tree" in event.attrs}) == 1
            for story in stories
        )

        async def several() -> list[Answer]:
            return await asyncio.gather(*(searcher.arlm("how many errors?", LOG) for _ in range(3)))

        assert asyncio.run(several()) == ["20"] * 3
        with pytest.raises(mahtab_tui.SearchFailed, match="budget of 1 model call"):
            searcher.rlm("how many errors?", LOG, max_calls=1)
    with pytest.raises(mahtab_tui.SearchFailed, match="was stopped"):
        searcher.rlm("what?", LOG)
    with pytest.raises(TypeError, match="Searcher has no option 'max_call'"):
        Searcher(max_call=3)
    assert os.getpid() != int(first)


def test_fork_gets_an_error_from_its_parents_searcher() -> None:
    program = """
import os
from mahtab_tui import Searcher, rlm
model = lambda messages: "```python\\nFINAL(len(context))\\n```"
with Searcher(model=model) as searcher:
    searcher.rlm("how long?", "x" * 30_000)
    child = os.fork()
    if not child:
        with searcher:
            try:
                searcher.rlm("how long?", "x" * 30_000)
            except RuntimeError as error:
                print(error, rlm("how long?", "y" * 40_000, model=model), flush=True)
        os._exit(0)
    os.waitpid(child, 0)
    print(searcher.rlm("how long?", "x" * 50_000))
"""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True, timeout=60
    )
    assert done.stdout.splitlines() == [
        "A search cannot be run by a fork of the process that made its Searcher. Make a Searcher after the fork. 40000",
        "50000",
    ], done.stderr


def test_unclosed_searcher_is_closed_when_it_is_collected() -> None:
    searcher = Searcher(model=scripted({"what?": python("FINAL(1)")}))
    assert searcher.rlm("what?", LOG) == "1"
    thread, loop, sandboxes = (
        getattr(searcher._search, name) for name in ("_thread", "_loop", "_opened")
    )
    with pytest.warns(ResourceWarning, match="unclosed <mahtab_tui.search.api.Searcher"):
        del searcher
    wait_for(loop.is_closed)
    assert not thread.is_alive()
    assert sandboxes._server is None


def test_cancelling_one_search_of_a_searcher_spares_the_others() -> None:
    story = Story()

    async def reply(messages: Sequence[Any]) -> str:
        if "endless" in str(messages[1].content):
            await asyncio.Event().wait()
        return python("FINAL(1)")

    async def program(searcher: Searcher) -> str:
        endless = asyncio.ensure_future(searcher.arlm("endless", LOG, on_event=story.append))
        while not story.of(tags.RLM_CALL, event="turn"):
            await asyncio.sleep(0.01)
        endless.cancel()
        with pytest.raises(asyncio.CancelledError):
            await endless
        return await searcher.arlm("what?", LOG)

    with Searcher(model=ScriptedModel(reply=reply)) as searcher:
        assert asyncio.run(program(searcher)) == "1"
    assert story.of(tags.RLM_FINAL)[0].attrs["state"] == "stopped"
