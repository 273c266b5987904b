"""Ways of prepared models to do a task: the code of the root, and the answers about parts."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import NamedTuple

from tests.benchmarks.quality.tasks import COMPLAINTS

LABEL = "List the values in this part as JSON."
"""The question to the model that reads a part."""
PART = 15_000
"""Characters of a part."""

_JOIN = "sorted({v.split(' belongs to ')[1] for v in values for d in values if d.split()[-1] == v.split()[1] and 'door' in d and 'badge' in v[:5]})"

_VALUES = (
    "values = [v for a in llm_map({label!r}, {texts}) for v in json.loads(a)]\nFINAL({combine})"
)


class Skill(NamedTuple):
    """Abilities of a model for a kind of task."""

    pattern: str
    """Pattern to search for. None finds all reviews by meaning."""
    value: Callable[[str], str | None]
    """Read the value of a line."""
    combine: str
    """Code that makes the answer from the list `values`."""


def _found(pattern: str) -> Callable[[str], str | None]:
    def value(line: str) -> str | None:
        match = re.fullmatch(pattern, line.strip())
        return match and match.group(1)

    return value


def _complaint(line: str) -> str | None:
    return next((text for text in COMPLAINTS if line.endswith(text)), None)


_NEEDLE = Skill(
    r"code of the north vault",
    _found(r"[-\d]+ [:\d]+ NOTE the code of the north vault is (\S+)"),
    "values[0]",
)

SKILLS = {
    "needle": _NEEDLE,
    "hostile": _NEEDLE,
    "meaning": Skill(r"(?i)late|deliver|wait|arriv", _complaint, "len(values)"),
    "count": Skill(r"ERROR billing timeout", _found(r"(.*ERROR billing timeout.*)"), "len(values)"),
    "timeline": Skill(
        r"T-4711:", _found(r"(.*T-4711:.*)"), "[v.split(': ', 1)[1] for v in sorted(values)]"
    ),
    "pairs": Skill(
        r"door archive|belongs to", _found(r"(.*door archive.*|badge.*belongs to.*)"), _JOIN
    ),
    "contradiction": Skill(
        r"bridge 9 is",
        _found(r"(.*bridge 9 is.*)"),
        "int(re.search(r'is (\\d+) t', max(values)).group(1))",
    ),
}


def read(skill: Skill, text: str) -> str:
    """Answer of the model that reads a part."""
    return json.dumps(
        [value for line in text.splitlines() if (value := skill.value(line)) is not None]
    )


def _map_all(skill: Skill) -> list[str]:
    texts = f"partition(max(1, len(context) // {PART}))"
    return ["import json, re\n" + _VALUES.format(label=LABEL, texts=texts, combine=skill.combine)]


def _grep_then_map(skill: Skill) -> list[str]:
    grep = f"import json, re\nhits = grep({skill.pattern!r}, max_matches=None)\nprint(len(hits), hits[:3])"
    texts = "['\\n'.join(hits[n:n + 100]) for n in range(0, len(hits), 100)]"
    return [grep, _VALUES.format(label=LABEL, texts=texts, combine=skill.combine)]


def _join(skill: Skill) -> list[str]:
    return [
        "import re\nopened = {line.split()[-1] for line in grep('door archive', max_matches=None)}\n"
        "people = dict(line.split(' belongs to ') for line in grep('belongs to', max_matches=None))\nprint(opened, people)",
        "FINAL(sorted(people['badge ' + badge] for badge in opened))",
    ]


def _faulty(skill: Skill) -> list[str]:
    mistakes = [
        "values = (",
        "print(the_hits)",
        "print(context[:3_000_000])",
        "import os\nos.listdir('/home')",
        "grep('(')",
        "while True:\n    pass",
    ]
    return [*mistakes, *_grep_then_map(skill)]


POLICIES: dict[str, Callable[[Skill], list[str]]] = {
    "map all": _map_all,
    "grep then map": _grep_then_map,
    "join by code": _join,
    "faulty": _faulty,
}
