"""A model that works in steps, as an editor shows it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from acp import schema

from mahtab_tui.acp.agent import EditorAgent
from mahtab_tui.acp.requests import fan_out_question
from mahtab_tui.bus.records import SearchFanOut
from tests.acp.editor import Editor, SilentEditor, call, editor, send, text_of
from tests.services import OPENAI, Service, serving
from tests.warm import piped

CODE = "I add one.\n\n```python\nitems.append(9)\n```"


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    with serving() as service:
        monkeypatch.setenv("OPENAI_API_KEY", "no-secret")
        monkeypatch.setenv("OPENAI_BASE_URL", f"{service.url}/v1")
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        monkeypatch.setenv("MAHTAB_MODEL", OPENAI.spec)
        yield service


async def begin(user: Editor) -> None:
    await user.begin()
    await user.ask("/run items = [1]")


async def test_words_and_cells_come_in_order_with_what_they_cost(
    service: Service, project: Path
) -> None:
    service.replies = [OPENAI.reply(CODE), OPENAI.reply("Now ", "it has two.")]
    async with editor() as user:
        await begin(user)
        user.answers = ["run"]
        assert await user.ask("add nine") == "end_turn"
        kinds = [update.session_update for update in user.updates]
        assert kinds.index("agent_message_chunk") < kinds.index("tool_call")
        assert user.said.split() == "I add one. Now it has two.".split()
        assert "[~items list 2 items]" in text_of(user.calls["1.0.0"])
        usage = [u for u in user.updates if isinstance(u, schema.UsageUpdate)][-1]
        assert usage.used > 0
        assert usage.size > usage.used
        assert usage.cost is not None
        assert usage.cost.amount > 0


async def test_changes_are_kept_or_undone_in_review_mode(service: Service, project: Path) -> None:
    async with editor() as user:
        await begin(user)
        await user.agent.set_config_option("approval", user.session, "review")
        for answer, expected in (("keep", "[1, 9]"), ("undo", "[1, 9]")):
            service.replies = [OPENAI.reply(CODE), OPENAI.reply("Done.")]
            user.answers = [answer]
            await user.ask("add nine")
            assert user.questions[-1].title == "Keep the changes?"
            assert user.calls[user.questions[-1].tool_call_id].status == "completed"
            assert "~items" in text_of(user.questions[-1])
            await user.ask("/run items")
            assert expected in text_of(user.cell)


async def test_stop_ends_the_question_whether_changes_are_kept(
    service: Service, project: Path
) -> None:
    service.replies = [OPENAI.reply(CODE), OPENAI.reply("Done.")]
    user = SilentEditor()
    async with editor(user):
        await begin(user)
        await user.agent.set_config_option("approval", user.session, "review")
        asking = asyncio.create_task(user.ask("add nine"))
        await user.until(lambda: user.questions)
        await user.agent.cancel(user.session)
        assert await asking == "cancelled"
        await user.ask("/run items")
        assert user.cell.status == "completed"


async def test_control_characters_of_a_model_are_visible(service: Service, project: Path) -> None:
    service.replies = [OPENAI.reply("It is \x1b]0;title\x07 done.")]
    async with editor() as user:
        await user.begin()
        await user.ask("is it done?")
        assert user.said == "It is ␛]0;title␇ done."


class SlowEditor(Editor):
    """An editor that takes its time for each update."""

    async def session_update(self, session_id: str, update: Any, **meta: Any) -> None:
        await asyncio.sleep(0.1)
        await super().session_update(session_id, update, **meta)


async def test_answer_ends_after_a_slow_editor_has_all_its_words(
    service: Service, project: Path
) -> None:
    words = [f"{number} " for number in range(20)]
    service.replies = [OPENAI.reply(*words)]
    user = SlowEditor()
    agent = EditorAgent()
    agent.on_connect(cast(Any, user))
    user.agent = agent
    try:
        await user.begin()
        await user.ask("count")
        assert user.said == "".join(words)
    finally:
        await agent.close()


async def test_code_that_an_editor_cannot_decide_about_stops(
    service: Service, project: Path
) -> None:
    service.replies = [OPENAI.reply(CODE), OPENAI.reply("Done.")]
    async with editor() as user:
        await begin(user)
        user.answers = []
        await user.ask("add nine")
        assert text_of(user.calls["1.0.0"]).endswith("The code did not run.")
        await user.ask("/run items")
        assert "[1]" in text_of(user.cell)


class ConfusedEditor(Editor):
    """An editor that gives the same answer to each question."""

    async def request_permission(self, *args: Any, **meta: Any) -> Any:
        outcome = schema.AllowedOutcome(outcome="selected", option_id=self.answers[0])
        return schema.RequestPermissionResponse(outcome=outcome)


@pytest.mark.parametrize(
    ("mode", "answer", "items"), [("ask", "keep", "[1]"), ("review", "skip", "[1, 9]")]
)
async def test_an_answer_that_was_not_offered_stops(
    service: Service, project: Path, mode: str, answer: str, items: str
) -> None:
    service.replies = [OPENAI.reply(CODE), OPENAI.reply("Done.")]
    user = ConfusedEditor()
    async with editor(user):
        await begin(user)
        await user.agent.set_config_option("approval", user.session, mode)
        user.answers = [answer]
        await user.ask("add nine")
        assert "Done." not in user.said
        assert "failed" not in user.said
        await user.ask("/run items")
        assert items in text_of(user.cell)


async def test_search_is_a_tool_call_of_its_own(service: Service, project: Path) -> None:
    service.replies = [OPENAI.reply("```python\nFINAL('Ada')\n```")]
    async with editor() as user:
        await user.begin()
        await user.ask("/run rlm('who wrote the notes?', 'Ada wrote the notes.\\n' * 2_000)")
        search = next(call for call in user.calls.values() if call.kind == "search")
        assert (search.title, search.status) == ("who wrote the notes?", "completed")
        assert "Ada" in text_of(search)


def test_process_ends_when_its_editor_is_gone_while_code_waits(
    service: Service, project: Path
) -> None:
    service.replies = [OPENAI.reply(CODE)]
    with piped("acp") as program:
        call(program, "initialize", protocolVersion=1)
        session = call(program, "session/new", cwd=os.getcwd(), mcpServers=[])["sessionId"]
        prompt = [{"type": "text", "text": "add nine"}]
        send(program, "session/prompt", sessionId=session, prompt=prompt)
        while '"session/request_permission"' not in program.stdout.readline():
            pass
        program.stdin.close()
        assert program.wait() == 0


@pytest.mark.parametrize(
    ("request_record", "question"),
    [
        (SearchFanOut(node="1", calls=None, made=50), "Make many more calls of a model?"),
        (SearchFanOut(node="1", calls=1_200), "Make 1,200 calls of a model?"),
        (SearchFanOut(node="1", calls=40, made=50), "Make 40 more calls of a model?"),
    ],
)
def test_the_user_is_told_how_many_calls_a_search_wants_to_make(
    request_record: SearchFanOut, question: str
) -> None:
    assert fan_out_question(request_record) == question
