"""Completes and explains what is typed, for the editor of a session."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mahtab_tui.tui.commands import complete_slash

if TYPE_CHECKING:
    from mahtab_tui.kernel.values import Completions, Explanation
    from mahtab_tui.session import Session
    from mahtab_tui.session.mentions import MentionChip


class SessionInputHelp:
    """The `InputHelp` of a session. Each call goes to the part of the session that can answer it,
    which the session creates when the first text needs it."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def complete(self, code: str, cursor: int) -> Completions:
        return self._session.complete(code, cursor)

    def complete_question(self, question: str, cursor: int) -> Completions:
        return self._session.attachments.complete(question, cursor)

    def complete_command(self, text: str, cursor: int) -> Completions | None:
        return complete_slash(text, cursor)

    def explain(self, code: str, cursor: int) -> Explanation | None:
        return self._session.explain(code, cursor)

    def mention_chips(self, question: str) -> Sequence[MentionChip]:
        return self._session.attachments.chips(question)
