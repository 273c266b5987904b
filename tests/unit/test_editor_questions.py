"""The words of a question that an editor has sent in parts."""

from __future__ import annotations

from pathlib import Path

import pytest

from mahtab_tui.acp.questions import PromptAttachment, write_question
from mahtab_tui.session.mentions import find_mentions


@pytest.mark.parametrize("address", ["https://example.org/", "file:///", "git:"])
def test_embedded_files_keep_their_names(address: str, tmp_path: Path) -> None:
    attachment = PromptAttachment(f"{address}my%20notes.txt", b"one")
    question = write_question(["Read", attachment], tmp_path)
    assert [mention.name for mention in find_mentions(question)] == [
        str(tmp_path / "2" / "my notes.txt")
    ]


@pytest.mark.parametrize("name", ["a%22b.txt", "a%0Ab.txt", "a%0Db.txt"])
def test_embedded_files_can_be_mentioned_whatever_their_names(name: str, tmp_path: Path) -> None:
    question = write_question([PromptAttachment(f"file:///{name}", b"one")], tmp_path)
    (mention,) = find_mentions(question)
    assert Path(mention.name).read_bytes() == b"one"
