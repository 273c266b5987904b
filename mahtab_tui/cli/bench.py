"""``mahtab-tui bench``: searches with known answers, by a model of the user's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mahtab_tui.cli.printing import say, warn
from mahtab_tui.kernel.worker.logged import SearchFailed
from mahtab_tui.llm.base import ModelError
from mahtab_tui.llm.providers import default_model, get_llm
from mahtab_tui.sandbox.base import SandboxError
from mahtab_tui.search.api import rlm
from mahtab_tui.search.bench.score import HEADING, Score, row, score
from mahtab_tui.search.bench.tasks import make
from mahtab_tui.settings.model import Settings

DONE, FAILED, INTERRUPTED = 0, 1, 130


def run_tasks(settings: Settings, kinds: Sequence[str], sizes: Sequence[float], max_usd: float | None) -> int:
    """Run a task of each kind and size, print a line for each, and return the exit code. max_usd: for all of them."""
    access = settings.model_access()
    scores: list[Score] = []
    try:
        model = get_llm(settings.model or default_model(), timeout=settings.model_timeout, **access)
        sub_model = get_llm(settings.sub_model, timeout=settings.model_timeout, **access) if settings.sub_model else None
        say(HEADING)
        for megabytes in sizes:
            for kind in kinds:
                left = None if max_usd is None else max_usd - sum(each.usd for each in scores)
                if left is not None and left <= 0:
                    say("The limit of --max-usd is reached.", err=True)
                    return _end(scores)
                task = make(kind, megabytes)

                def search(question: str, text: str, returns: Any, left: float | None = left) -> Any:
                    return rlm(question, text, returns=returns, model=model, sub_model=sub_model, max_usd=left, yes=True)

                scores.append(score(task, search, (SearchFailed,)))
                say(row(task, megabytes, scores[-1]))
    except (ModelError, SandboxError) as error:
        warn(str(error))
        return FAILED
    except KeyboardInterrupt:
        _end(scores)
        return INTERRUPTED
    return _end(scores)


def _end(scores: Sequence[Score]) -> int:
    seconds, usd = sum(each.seconds for each in scores), sum(each.usd for each in scores)
    say(f"{sum(each.exact for each in scores)} of {len(scores)} answers are exact; ${usd:.4f}, {seconds:.0f} s.")
    return DONE
