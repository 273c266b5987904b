"""Plans in answers: their steps, the request to carry them out, and the step that an answer
names."""

from __future__ import annotations

import re
from collections.abc import Sequence

PLAN_HEADING = "Carry out your plan now."
"""What people read of the request to carry out a plan, above its steps."""
CARRY_OUT_PLAN = (
    f"{PLAN_HEADING} Begin each reply with the step that it carries out, as in **Step 2**."
)
MAX_PLAN_CHARS = 20_000
"""Characters at the end of an answer in which its plan is searched."""
MAX_STEPS = 50
MAX_STEP_CHARS = 300

_ITEM = re.compile(r"(?P<mark>\d{1,3}[.)]|[-*+])[ \t]+(?:\[[ xX]\][ \t]+)?(?P<text>\S.*)")
_STEP_NAME = re.compile(r"^[ \t]*(?:#{1,6}[ \t]+)?[*_]{0,3}step[ \t](\d{1,3})\b", re.I | re.M)


def find_steps(answer: str) -> list[str]:
    """Return the steps of the plan at the end of an answer: the items of its last numbered list, or
    of its last list if none is numbered. Indented lines belong to an item and are left out."""
    numbered: list[str] = []
    others: list[str] = []
    items: list[str] | None = None
    """The list that the last line belongs to."""
    for line in answer[-MAX_PLAN_CHARS:].split("\n"):
        if not line.strip() or line[0] in " \t":
            continue
        item = _ITEM.fullmatch(line)
        if item is None:
            items = None
        elif item["mark"][0].isdigit():
            if items is not numbered:
                numbered = items = []
            numbered.append(item["text"])
        else:
            if items is not others:
                others = items = []
            others.append(item["text"])
    return [_shorten(step) for step in (numbered or others)[:MAX_STEPS]]


def _shorten(step: str) -> str:
    step = step.strip()
    if len(step) <= MAX_STEP_CHARS:
        return step
    return f"{step[: MAX_STEP_CHARS - 1]}…"


def plan_request(steps: Sequence[str]) -> str:
    """Return the question that has the model carry out a plan; the steps may be unknown."""
    numbered = [f"{number}. {step}" for number, step in enumerate(steps, 1)]
    return "\n".join([CARRY_OUT_PLAN, *numbered])


def requested_steps(question: str) -> list[str]:
    """Return the steps of a question that `plan_request` made; none of any other question."""
    if not question.startswith(CARRY_OUT_PLAN):
        return []
    return find_steps(question.removeprefix(CARRY_OUT_PLAN))


def last_named_step(words: str) -> int | None:
    """Return the number of the step that words name last at the beginning of a line."""
    numbers = _STEP_NAME.findall(words)
    return int(numbers[-1]) if numbers else None


def opening_step(words: str) -> int | None:
    """Return the number of the step that words begin with."""
    name = _STEP_NAME.match(words.lstrip())
    return int(name[1]) if name else None
