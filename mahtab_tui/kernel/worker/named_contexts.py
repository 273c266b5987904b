"""Joins several contexts that have names to one text for a search."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Any

from .contexts import ContextError, ContextText, NamedContext, take
from .sandbox.reserved import why_not_a_name

_MOST_NAMED = 100


def take_all(context: Any, named: Mapping[str, Any], options: Iterable[str]) -> ContextText:
    """Read one context, or several by name. options: names that mean something else, one of which may have been misspelt.

    Raises `ContextError`.
    """
    if not named:
        if context is None:
            raise ContextError("There is nothing to search: give a text, or several by name.")
        return take(context)
    if context is not None:
        raise ContextError(f"Give one context, or all of them by name: the first one has no name beside {', '.join(named)}.")
    if len(named) > _MOST_NAMED:
        raise ContextError(f"At most {_MOST_NAMED} contexts can have names; {len(named)} are given. Pass a dict of them instead.")
    texts: list[str] = []
    contexts: list[NamedContext] = []
    notices: list[str] = []
    start = 0
    for name, value in named.items():
        close = difflib.get_close_matches(name, options, 1, 0.75)
        if close:
            raise ContextError(f"There is no option {name!r}; did you mean {close[0]!r}? A context needs a name that is less like an option.")
        if why := why_not_a_name(name):
            raise ContextError(f"A context cannot be named {name!r}: {why}.")
        try:
            taken = take(value)
        except ContextError as error:
            raise ContextError(f"{name}, which is no option and so a context: {error}") from None
        parts = tuple((part, low + start, high + start) for part, low, high in taken.parts)
        contexts.append(NamedContext(name, taken.kind, start, start + len(taken.text), parts, taken.about))
        texts.append(taken.text)
        notices += taken.notices
        start += len(taken.text) + 1
    whole = tuple((context.name, context.start, context.end) for context in contexts)
    return ContextText("\n".join(texts), "dict", whole, notices=tuple(notices), contexts=tuple(contexts))
