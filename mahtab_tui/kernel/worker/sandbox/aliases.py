"""Other names of the sandbox's functions, which models know that were trained with other programs
for searches (rlms, dspy)."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any, NoReturn, Protocol

from .parts import SubAnswer

ALIASES = ("llm_query", "llm_query_batched", "rlm_query", "FINAL_VAR", "SUBMIT")

_PROMPT = 20_000
"""A prompt of at most so many characters is the query; of a longer one, which has a text in it,
both ends are."""


class Functions(Protocol):
    """The functions that have other names."""

    def llm(self, query: str, text: str = "") -> SubAnswer: ...

    def llm_map(self, query: Any, texts: Iterable[str] | None = None) -> list[SubAnswer]: ...

    def rlm(self, query: str, subset: str) -> SubAnswer: ...

    def FINAL(self, answer: object) -> NoReturn: ...


class Aliases:
    """The functions by their other names. Their prompts are query and text in one."""

    def __init__(self, functions: Functions) -> None:
        self._functions = functions

    def llm_query(self, prompt: str) -> SubAnswer:
        """The same as llm, for a prompt that has its text in it."""
        return self._functions.llm(*_query_and_text(prompt))

    def llm_query_batched(self, prompts: Iterable[str]) -> list[SubAnswer]:
        """The same as llm_map, for prompts that have their texts in them."""
        return self._functions.llm_map([_query_and_text(prompt) for prompt in prompts])

    def rlm_query(self, prompt: str) -> SubAnswer:
        """The same as rlm, for a prompt that has its text in it."""
        return self._functions.rlm(*_query_and_text(prompt))

    def FINAL_VAR(self, variable: object) -> NoReturn:
        """The same as FINAL, for a variable or its name."""
        if isinstance(variable, str) and variable.isidentifier():
            caller = sys._getframe(2)  # beyond the wrapper
            names = {**caller.f_globals, **caller.f_locals}
            if variable not in names:
                raise NameError(
                    f"FINAL_VAR: there is no variable {variable}. FINAL({variable!r}) answers with that text"
                )
            variable = names[variable]
        self._functions.FINAL(variable)

    def SUBMIT(self, *values: object, **fields: object) -> NoReturn:
        """The same as FINAL, for one value or for several by name."""
        everything: list[Any] = [*values, *fields.values()]
        self._functions.FINAL(
            everything[0] if len(everything) == 1 else fields if not values else everything
        )


def _query_and_text(prompt: Any) -> tuple[str, str]:
    if not isinstance(prompt, str) or len(prompt) <= _PROMPT:
        return prompt, ""
    half = _PROMPT // 10
    return (
        f"Do what the text asks, which is a prompt. It begins: {prompt[:half]}\n…\nIt ends: {prompt[-half:]}",
        prompt,
    )
