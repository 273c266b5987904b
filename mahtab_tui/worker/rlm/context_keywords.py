"""Tells keywords that name a text to search from misspelt options, options of other programs, and secrets.

`rlm(query, contract=text)` takes any keyword as the name of a text, which is sent to a model. So a key of a service
must not be taken for one.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

_MIN_SIMILARITY = 0.75
"""How similar a keyword is to an option that was meant, from 0 to 1."""
_FOREIGN_OPTIONS = frozenset(
    "api_key base_url api_base api_version azure_endpoint organization project backend backend_kwargs environment environment_kwargs headers"
    " extra_headers extra_body default_headers custom_system_prompt system_prompt system prompt messages question task signature"
    " stop logger callbacks lm sub_lm llm client provider root_model recursive_model recursive_prompt orchestrator user"
    " response_format output_type schema reasoning_effort thinking interpreter".split()
)
"""Options of other programs, so hardly the name of a context."""
_SECRET_WORDS = frozenset(
    "key apikey token secret password passwd credential credentials auth authorization".split()
)
"""Parts of the names of keywords that are hardly names of texts."""
_SECRET = re.compile(
    r"(?:(?:sk|pk|rk)[-_][\w-]{10,}|gh[a-z]_\w{20,}|github_pat_\w{20,}|glpat-[\w-]{15,}|hf_\w{20,}|xox[a-z]-[\w-]{10,}|AKIA[A-Z0-9]{12,}"
    r"|AIza[\w-]{20,}|eyJ[\w-]{10,}\.[\w-]{10,}\.[\w-]*|Bearer\s+\S{10,})\s*"
)
"""Forms of keys of services."""
_MAX_SECRET_CHARS = 500
"""Longer values are texts."""


def rejection_reason(name: str, value: object, options: Iterable[str]) -> str:
    """Return why a keyword is not taken for a context, as sentences; empty if it is.

    Args:
        name: The keyword.
        value: What it was given.
        options: The names of options, one of which may be misspelt.
    """
    otherwise = f"If it is a text for the model, pass contexts={{{name!r}: …}}."
    if close := difflib.get_close_matches(name, options, 1, _MIN_SIMILARITY):
        return f"There is no option {name!r}; did you mean {close[0]!r}? {otherwise}"
    if name in _FOREIGN_OPTIONS:
        return f"There is no option {name!r}. {otherwise}"
    if isinstance(value, (str, bytes)) and len(value) <= _MAX_SECRET_CHARS:
        text = value.decode("latin-1") if isinstance(value, bytes) else value
        if _SECRET_WORDS & set(name.lower().split("_")):
            return f"{name} looks like a secret and is sent to no model. {otherwise}"
        if _SECRET.fullmatch(text.strip()):
            return f"The value of {name} looks like a secret and is sent to no model. {otherwise}"
    if value is None or isinstance(value, (bool, int, float, complex)):
        return f"There is no option {name!r}, and a value of type {type(value).__name__} is no text to search."
    return ""
