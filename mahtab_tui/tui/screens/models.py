"""Choosing who answers."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from textual import work
from textual.content import Content
from textual.message import Message

from mahtab_tui.bus.sanitize import plain
from mahtab_tui.llm.available import ModelChoice, found_models, ollama_address, ollama_models, problem_of
from mahtab_tui.tui.screens.listing import Listing
from mahtab_tui.tui.widgets.line import Line

_NAME = 26
"""Columns of a model's name."""


class ModelPicker(Listing[ModelChoice, str | None]):
    """The name of the model that was chosen, or None after Escape. Any name can be typed."""

    TITLE = "Model"
    HINT = "Enter takes it · any name can be typed · Esc leaves all as it is"

    class Came(Message):
        """Somebody was asked which models there are."""

        def __init__(self, models: Sequence[ModelChoice] | None, whole: bool) -> None:
            super().__init__()
            self.models = models
            """None where nobody answers."""
            self.whole = whole
            """Nobody else is asked."""

    def __init__(self, present: str, chosen: Sequence[tuple[str, str]], used: Sequence[str], access: Mapping[str, Any]) -> None:
        """present: the model that is to be replaced; empty for none. The rest: as for `available.found_models`."""
        super().__init__()
        self._present = present
        self._chosen = chosen
        self._used = used
        self._access = access
        self._models: list[ModelChoice] = []

    def on_mount(self) -> None:
        self.count("looking…")
        # Not one of the pool's threads, which the program would wait for at its end.
        threading.Thread(target=self._look, name="models", daemon=True).start()

    def _look(self) -> None:
        """On a thread: what is here, then whoever has to be asked."""
        present = [(self._present, "chosen now")] if self._present else []
        self.post_message(self.Came(found_models([*present, *self._chosen], self._used, self._access), False))
        self.post_message(self.Came(ollama_models(), True))

    def on_model_picker_came(self, message: Came) -> None:
        known = {model.spec for model in self._models}
        self._models += [model for model in message.models or () if model.spec not in known]
        if message.models is None:
            self._models = [
                model._replace(about=f"{model.about}; nobody answers at {ollama_address()}") if model.spec == "ollama:" else model
                for model in self._models
            ]
        self.count("" if message.whole else "asking Ollama…")
        self.fill()

    def rows(self, wanted: str) -> Sequence[ModelChoice]:
        words = wanted.lower().split()
        found = [model for model in self._models if all(word in f"{model.spec} {model.about} {model.problem}".lower() for word in words)]
        found.sort(key=lambda model: not model.spec.startswith(wanted))
        if wanted and not any(model.spec == wanted for model in self._models):
            found.append(ModelChoice(wanted, "as it is typed"))
        return found

    def line(self, row: ModelChoice, width: int) -> Content:
        mark = ("● ", "$moon") if row.spec == self._present else ("✗ ", "$bad") if row.problem else "  "
        name = plain(f"{row.spec}…" if row.is_provider else row.spec)
        return Content.assemble(mark, (f"{name:<{_NAME}} ", "$muted" if row.problem else ""), (plain(row.problem or row.about), "$muted"))

    def about(self, row: ModelChoice | None) -> Content:
        if row is None:
            return Content("")
        return Content.styled(plain(row.problem), "$bad") if row.problem else Content(plain(row.about))

    def take(self, row: ModelChoice) -> None:
        if row.problem:
            self.say(row.problem)
        elif row.is_provider:
            line = self.query_one(Line)
            line.value = row.spec
            line.cursor_position = len(row.spec)
        else:
            self._try(row.spec)

    @work(exclusive=True)
    async def _try(self, spec: str) -> None:
        """Take a model that can be had."""
        problem = await asyncio.to_thread(problem_of, spec, self._access)
        if not self.is_current:
            return
        if problem:
            self.say(problem)
        else:
            self.dismiss(spec)
