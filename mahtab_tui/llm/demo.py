"""The demo model: offline, answers by rules, and says so. It shows the whole loop on real variables."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.outputs import ChatGenerationChunk

from mahtab_tui.llm.base import ModelError
from mahtab_tui.llm.chunks import text_of
from mahtab_tui.llm.demo_reading import read_failure, read_question, read_results, read_variables
from mahtab_tui.llm.demo_rules import NO_COLUMN, REAL_MODEL, DemoAnswer, plan, repair
from mahtab_tui.llm.demo_search import WHO, search_answer
from mahtab_tui.llm.prompts import VARIABLES
from mahtab_tui.llm.scripted import ScriptedChatModel, usage_chunk

TOKENS_PER_SECOND = 80.0
SEARCH_TOKENS_PER_SECOND = 600.0
"""Searches produce much text that few read."""
_FIX = re.compile(r"\b(?:fix|mend|repair|error|wrong|fail\w*|traceback|exception|bug)\b", re.IGNORECASE)
_LONG = 1_500


class ChatDemo(ScriptedChatModel):
    """Answers by rules. Raises `ModelError` if no rule applies."""

    @property
    def _llm_type(self) -> str:
        return "demo"

    def _stream(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> Iterator[ChatGenerationChunk]:
        found = search_answer(messages)
        text = answer(messages) if found is None else found
        yield from self.speak(text, TOKENS_PER_SECOND if found is None else SEARCH_TOKENS_PER_SECOND)
        yield usage_chunk("demo", sum(len(text_of(message)) for message in messages) // 4, len(text) // 4, 0.0)


def answer(messages: list[BaseMessage]) -> str:
    """Return the demo's next answer in a conversation. Raises `ModelError` if no rule applies."""
    texts = [text_of(message) for message in messages if isinstance(message, HumanMessage)]
    last = texts[-1] if texts else ""
    if '"is_complete"' in last:
        return _judgement(last)
    if results := read_results(last) if "<assistant-repl-out" in last and VARIABLES not in last else []:
        return _told([output for output, _ in results if output], failed=any(failed for _, failed in results))
    if "skipped block" in last and VARIABLES not in last:
        return "I leave it at that."
    first = not any(isinstance(message, AIMessage) for message in messages)
    question, variables = read_question(last), read_variables(texts)
    failure = read_failure(texts) if _FIX.search(question) else None
    return (WHO if first else "") + _fenced(repair(failure, variables) if failure else plan(question, variables))


def _judgement(prompt: str) -> str:
    failed = 'status="error"' in prompt
    reasoning = "The code raised an error." if failed else "The code ran."
    return json.dumps({"is_complete": not failed, "reasoning": reasoning, "next_action": "Mend the error." if failed else ""})


def _fenced(plan: DemoAnswer) -> str:
    return f"{plan.words}\n\n```python\n{plan.code}\n```\n" if plan.code else plan.words


def _told(outputs: list[str], *, failed: bool) -> str:
    text = "\n".join(outputs)
    if failed:
        raise ModelError(f"The demo model's code failed: {text.splitlines()[-1] if text else 'nothing was printed'}. {REAL_MODEL}")
    if text.startswith(NO_COLUMN):
        raise ModelError(text)
    if not text or text == "(nothing was printed)":
        return "Done; nothing was printed."
    if "\n" not in text:
        return f"The result: {text}."
    shown = text if len(text) <= _LONG else text[:_LONG] + "\n…"
    return f"This came out:\n\n```text\n{shown}\n```"
