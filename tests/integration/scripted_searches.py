"""A text to search, and models with scripted answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tests.recursion_scripts import ScriptedModel, replies

LOG = "".join(
    f"{number:06d} {'ERROR disk full' if number % 1_000 == 500 else 'INFO all is well'}\n"
    for number in range(20_000)
)


def python(code: str) -> str:
    return f"```python\n{code}\n```"


def scripted(script: Mapping[str, str | Sequence[str]]) -> ScriptedModel:
    """Return a model that answers each query with these blocks of code."""
    return ScriptedModel(reply=replies(script))


SEARCH = {
    "how many errors?": [
        python("print(len(context), peek(30))\nparts = partition(4)"),
        python("counts = rlm_map('count', parts)\nprint(counts)\nFINAL(sum(map(int, counts)))"),
    ],
    "count": python("FINAL(len(grep('ERROR')))"),
}
