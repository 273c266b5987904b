"""Searches by the `claude` CLI: a fake one that speaks its protocol, real sandboxes."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mahtab_tui.search.limits import Limits
from mahtab_tui.search.models import CLI_CONCURRENCY
from mahtab_tui.search.search import Search
from tests import tags
from tests.fake_claude import FakeClaude, install_fake_claude
from tests.recursion_scripts import TEXT, Story
from tests.waiting import wait_for

Install = Callable[..., FakeClaude]
LIMITS = Limits(small=0, max_depth=1)


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Put a fake `claude` on the PATH."""

    def put(behaviour: str, **options: Any) -> FakeClaude:
        fake = install_fake_claude(tmp_path / "bin", behaviour, **options)
        monkeypatch.setenv("PATH", f"{fake.folder}{os.pathsep}{os.environ['PATH']}")
        return fake

    return put


@pytest.fixture
def story() -> Story:
    return Story()


@pytest.fixture
def search(story: Story) -> Iterator[Search]:
    search = Search(story.append)
    yield search
    search.close()


def python(code: str) -> str:
    return f"```python\n{code}\n```"


def alive(fake: FakeClaude) -> int:
    """How many processes there are."""
    return sum(Path(f"/proc/{start['pid']}").exists() for start in fake.starts)


def test_node_keeps_its_process_and_sends_the_text_only_once(
    install: Install, search: Search, story: Story
) -> None:
    answers = [
        python("print('first')") + "\nI imagine that it says 5.",
        python("print('second')"),
        python("FINAL(len(context))"),
    ]
    fake = install("answers", answers=answers)
    answer = search.run("what?", TEXT, model="claude", limits=LIMITS)
    assert answer.text == str(len(TEXT))
    assert len(fake.starts) == 1
    assert ["<search-query>" in prompt for prompt in fake.prompts] == [True, False, False]
    assert "first" in fake.prompts[1]
    assert "dropped" in fake.prompts[1], (
        "its own words are known to it, so it is told that they do not count"
    )
    assert answer.usage.cost == pytest.approx(0.75)
    assert search._trees[answer.tree].calls.budget.spent.tokens == 3 * (10 + 1 + 2 + 5), (
        "what is read from the cache is read too"
    )
    assert [record.attrs["cost"] for record in story.of(tags.USAGE)] == [0.25] * 3


def test_fan_out_uses_few_processes_and_leaves_none(install: Install, search: Search) -> None:
    fake = install(
        "answers", answers=[python("FINAL(len(rlm_map('read', partition(7))))"), "never said"]
    )
    most = 0
    watching = threading.Event()

    def watch() -> None:
        nonlocal most
        while not watching.wait(0.01):
            most = max(most, alive(fake))

    watcher = threading.Thread(target=watch)
    watcher.start()
    assert search.run("what?", TEXT, model="claude", limits=LIMITS).text == "7"
    watching.set()
    watcher.join()
    assert len(fake.starts) == 8
    assert most <= CLI_CONCURRENCY + 1, "those that are in use, and the root's"
    search.close()
    assert alive(fake) == 0


@pytest.mark.parametrize("behaviour", ["streams", "silent", "deaf"])
def test_a_stopped_search_does_not_wait_for_the_cli(
    install: Install, search: Search, story: Story, behaviour: str
) -> None:
    fake = install(behaviour)

    def stop() -> None:
        wait_for(lambda: fake.prompts)
        search.stop(story[0].attrs["tree"], "1")

    threading.Thread(target=stop).start()
    answer = search.run("what?", TEXT, model="claude", limits=LIMITS)
    assert answer.state == "stopped"
    assert alive(fake) == 1 or behaviour != "deaf", "it goes on for a moment, and nobody waits"
    search.close()
    wait_for(lambda: alive(fake) == 0)
