"""Hooks: the user's own programs and functions, which see cells and questions before and after they run, and may block or change them."""

from __future__ import annotations

import logging
import threading
from typing import Any, Literal

from mahtab_tui.bus.hidden import refusal, visible
from mahtab_tui.bus.masking import Secrets
from mahtab_tui.bus.prompt import shorten
from mahtab_tui.bus.records import Notice, emit
from mahtab_tui.bus.sanitize import plain
from mahtab_tui.session.hook_runs import HookAnswer, HookFailed, HookStopped, run_hook
from mahtab_tui.session.profile import Profile
from mahtab_tui.settings.model import HookName, Settings, SettingsError
from mahtab_tui.settings.sources import project_folder

By = Literal["user", "model", "agent"]

_OUTPUT = 10_000
"""Characters of an output or answer that a hook gets."""
_NOTICE = 2_000
"""Characters of a hook's message that are shown."""
_SLOW = 1.0
"""Seconds after which the user learns that a hook is at work."""


class HookBlocked(Exception):
    """A hook keeps code from running, or a question from being asked; the message is a sentence. The user has been told."""


class Hooks:
    """Runs the hooks of a session, on the threads that run cells and ask questions. ``before_`` hooks fail closed."""

    def __init__(self, log: logging.Logger, settings: Settings, secrets: Secrets, profile: Profile) -> None:
        self._log = log
        self._hooks = dict(settings.hooks)
        self._seconds = settings.hook_seconds
        self._secrets = secrets
        self._profile = profile
        self._lock = threading.Lock()
        self._running: set[threading.Event] = set()
        """Of each hook at work the event that stops it."""
        self._closed = False
        self._failures: dict[HookName, str] = {}
        """How each ``after_`` hook has failed last: the same failure is told once."""

    def before_cell(self, code: str, by: By, party: str, stopped: threading.Event | None = None) -> str:
        """Return the code to run instead of this. stopped: stops the hook when it is set. Raises `HookBlocked`."""
        return self._before("before_cell", "code", code, by, party, stopped)

    def before_question(self, question: str) -> str:
        """Return the question to ask instead of this. Raises `HookBlocked`."""
        return self._before("before_question", "question", question, "user", "you")

    def after_cell(self, cell: int, code: str, by: By, party: str, outcome: str, output: str) -> None:
        """Tell the hook how a cell ended."""
        self._after("after_cell", by=by, party=party, cell=cell, code=code, outcome=outcome, output=shorten(output, _OUTPUT))

    def after_answer(self, question: str, answer: str, outcome: Literal["ok", "error", "stopped"]) -> None:
        """Tell the hook how a question was answered."""
        party = self._profile.party
        self._after("after_answer", by="model", party=party, question=question, outcome=outcome, answer=shorten(answer, _OUTPUT))

    @property
    def at_work(self) -> bool:
        """Whether something waits for a hook."""
        return bool(self._running)

    def stop(self) -> bool:
        """Stop the hooks at work; returns whether there were any."""
        with self._lock:
            for stopped in self._running:
                stopped.set()
            return bool(self._running)

    def close(self) -> None:
        """Stop the hooks at work, and run none any more."""
        self._closed = True
        self.stop()

    def _before(
        self, name: HookName, what: Literal["code", "question"], text: str, by: By, party: str, stopped: threading.Event | None = None
    ) -> str:
        if name not in self._hooks:
            return text
        masked = self._secrets.mask(text)
        try:
            answer = self._run(name, {what: masked, "by": by, "party": party}, stopped)
            if answer.block is not None:
                raise HookFailed(f"blocked it: {plain(answer.block)[:_NOTICE]}".rstrip(": "))
            if answer.change is None or answer.change == masked:
                return text
            if masked != text:
                raise HookFailed("wants to change it, but it holds a secret, which hooks do not get.")
            if what == "code" and (why := refusal(answer.change)):
                raise HookFailed(f"changed it to code that must not run. {why}")
        except (HookFailed, HookStopped) as error:
            reason = "was stopped by the user" if isinstance(error, HookStopped) else str(error)
            raise self._blocked(name, what, masked, reason, by, party) from None
        self._notice(f"The hook {name} changed {f'your {what}' if by == 'user' else f'the code of {party}'}.")
        return answer.change

    def _blocked(self, name: HookName, what: str, text: str, reason: str, by: By, party: str) -> HookBlocked:
        """Tell the user that something does not happen, with its text, which nothing else shows."""
        done = "the question was not asked" if what == "question" else f"{'your code' if by == 'user' else f'code of {party}'} did not run"
        sentence = f"The hook {name} {reason.rstrip('.')}. So {done}."
        self._notice(f"{sentence}\n{visible(text)}", "warning")
        return HookBlocked(sentence)

    def _after(self, name: HookName, **given: Any) -> None:
        if name not in self._hooks:
            return
        given = {key: self._secrets.mask(value) if isinstance(value, str) else value for key, value in given.items()}
        try:
            answer = self._run(name, given)
            unused = [field for field in ("block", "change") if getattr(answer, field) is not None]
            failure = f"answered {unused[0]}, which has no effect here." if unused else ""
        except HookFailed as error:
            failure = str(error)
        except HookStopped:
            failure = "was stopped."
        if failure and self._failures.get(name) != failure:
            self._notice(f"The hook {name} {failure}", "warning")
        self._failures[name] = failure

    def _run(self, name: HookName, about: dict[str, Any], stopped: threading.Event | None = None) -> HookAnswer:
        """Run a hook and show its message. Raises `HookFailed` and `HookStopped`."""
        stopped = stopped or threading.Event()
        with self._lock:
            if self._closed:
                raise HookStopped
            self._running.add(stopped)
        slow = threading.Timer(_SLOW, self._notice, (f"The hook {name} is at work. Stop (Escape or Ctrl+C) ends it.",))
        slow.daemon = True
        slow.start()
        try:
            folder = project_folder()
            given = {"hook": name, "session": self._profile.name, "project": str(folder), **about}
            answer = run_hook(self._hooks[name], given, folder, self._seconds, stopped)
        except SettingsError as error:
            raise HookFailed(f"cannot run. {error}") from None
        finally:
            slow.cancel()
            with self._lock:
                self._running.discard(stopped)
        if answer.notify:
            self._notice(f"{name}: {plain(answer.notify)[:_NOTICE]}")
        return answer

    def _notice(self, text: str, level: str = "info") -> None:
        emit(self._log, Notice(text, level=level))
