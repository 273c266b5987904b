"""Plans: the model only reads and proposes steps; the user changes and accepts them, and they are done one question after the other."""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence

from mahtab_tui.bus.records import Notice, Plan, Record, emit
from mahtab_tui.bus.sanitize import one_line
from mahtab_tui.session.inbox import Inbox
from mahtab_tui.session.profile import Profile

_STEP = re.compile(r"[ \t]*- \[[ x]\] ([^\n]+)")
_MOST, _LONGEST = 50, 1_000
"""Steps of a plan, and characters of one."""


class Plans:
    """The plan of a session. Any thread may call."""

    def __init__(self, log: logging.Logger, profile: Profile, inbox: Inbox, past: Sequence[Record]) -> None:
        """past: the records of a resumed session, whose last plan goes on."""
        self._log = log
        self._profile = profile
        self._inbox = inbox
        plans = [record for record in past if isinstance(record, Plan)]
        self._plan = plans[-1] if plans else Plan()
        if self._plan.state == "running":
            self._plan = self._plan.changed(state="stopped")
        self._item: int | None = None
        """The question of the step that is being done, in the inbox."""

    def toggle(self) -> None:
        """Let the model only plan from the next question on, or act again."""
        self._profile.set_planning(not self._profile.planning)
        if self._profile.planning:
            self._say("Plan mode: the model only reads and proposes steps; /plan run carries them out, /plan edit changes them, /plan ends it.")

    def is_step(self, item: int) -> bool:
        """Whether a question of the inbox is a step, whose text the model has written."""
        return item == self._item

    def answered(self, item: int, answer: str | None) -> None:
        """Note the model's last words to a question of the inbox: a plan, or the end of a step. answer: None if it was stopped or failed."""
        if item == self._item:
            self._item = None
            if answer is None:
                self._become(state="stopped")
            else:
                self._become(done=self._plan.done + 1)
                self._next()
        elif self._profile.planning and answer:
            steps = steps_in(answer)
            if steps:
                self._plan = Plan()
                self._become(steps=steps, done=0, state="proposed")
            else:
                self._say('The answer has no plan: none of its lines begins with "- [ ] ".')

    def run(self) -> None:
        """Accept the plan: do its next step, and then the others."""
        if self._item is not None:
            self._say("The plan runs already. Esc stops it.")
        elif self._plan.done >= len(self._plan.steps):
            self._say("There is no plan to run. /plan lets the model make one with its next answer.")
        else:
            if self._profile.planning:
                self._profile.set_planning(False)
            self._next()

    def as_text(self) -> str:
        """Return the steps that are left as lines that the user can change."""
        return "\n".join(f"- [ ] {step}" for step in self._plan.steps[self._plan.done :])

    def replace(self, text: str) -> None:
        """Replace the steps that are left."""
        if self._item is not None:
            self._say("The plan runs. Esc stops it; then it can be changed.")
        elif steps := steps_in(text):
            self._become(steps=(*self._plan.steps[: self._plan.done], *steps), state="proposed")
        else:
            self._say('Nothing was changed: write each step as a line that begins with "- [ ] ".')

    def _next(self) -> None:
        done, steps = self._plan.done, self._plan.steps
        if done == len(steps):
            self._become(state="done")
            return
        self._become(state="running")
        plan = "\n".join(f"- [{'x' if place < done else ' '}] {step}" for place, step in enumerate(steps))
        # `is_step` must know it before the thread that answers takes it.
        self._inbox.put("ask", f"Do step {done + 1} of {len(steps)} of the plan, and only that: {steps[done]}\n\n{plan}", self._begin)

    def _begin(self, item: int) -> None:
        self._item = item

    def _become(self, **changed: object) -> None:
        self._plan = self._plan.changed(**changed, time=0.0)
        emit(self._log, self._plan)

    def _say(self, text: str) -> None:
        emit(self._log, Notice(text))


def steps_in(text: str) -> tuple[str, ...]:
    """Return the steps of a plan: the lines that begin with ``- [ ]`` or ``- [x]``."""
    found = (_STEP.fullmatch(line) for line in text.splitlines())
    return tuple(one_line(step[1].strip())[:_LONGEST] for step in found if step is not None and step[1].strip())[:_MOST]
