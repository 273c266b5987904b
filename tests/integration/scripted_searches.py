"""A text to search, and models that give prepared answers."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mahtab_tui.search.api import rlm
from mahtab_tui.worker.rlm.answers import Answer
from tests.recursion_scripts import ScriptedModel, replies

LOG = "".join(
    f"{number:06d} {'ERROR disk full' if number % 1_000 == 500 else 'INFO all is well'}\n"
    for number in range(20_000)
)


def python(code: str) -> str:
    return f"```python\n{code}\n```"


def scripted(script: Mapping[str, str | Sequence[str]]) -> ScriptedModel:
    """Return a model that answers each query with these texts."""
    return ScriptedModel(reply=replies(script))


def search_by(*code: str, text: Any = LOG, **options: Any) -> Answer:
    """Search a text with a model that writes these blocks of code."""
    blocks = [python(block) for block in code]
    return rlm("what?", text, **{"model": scripted({"what?": blocks}), **options})


def run_program(program: str, *options: str) -> str:
    """Run a program that uses this package, and return its output, or its errors."""
    command = [sys.executable, *options, "-c", program]
    root = Path(__file__).parents[2]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=root)
    return done.stderr if done.returncode else done.stdout


SEARCH = {
    "how many errors?": [
        python("print(len(context), peek(30))\nparts = partition(4)"),
        python("counts = rlm_map('count', parts)\nprint(counts)\nFINAL(sum(map(int, counts)))"),
    ],
    "count": python("FINAL(len(grep('ERROR')))"),
}
