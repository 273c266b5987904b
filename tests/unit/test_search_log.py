"""The events of searches on disk, and back."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from mahtab_tui.bus.records import Record
from mahtab_tui.search.log import Log
from tests import tags
from tests.records import made, read_log
from tests.recursion_scripts import Bench, Seat, code, replies


def a_story(bench: Bench) -> list[Record]:
    async def halves(seat: Seat) -> None:
        seat.print("Zeichen: ä 🌙 \ud800")
        seat.final("|".join(await seat.rlm("half", *seat.partition(2))), (0, 5))

    bench.run(replies({"what?": code("halves"), "half": "read"}), {"halves": halves}, max_depth=1)
    return bench.story


def written(path: Path, records: list[Record]) -> Path:
    log = Log(path)
    for record in records:
        log.write(record)
    log.close()
    log.write(records[0])  # too late, and no error
    return path


def test_foreign_file_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    path.write_text("what the search is about\n")
    with pytest.raises(FileExistsError, match="is not the log of a search"):
        Log(path)
    assert path.read_text() == "what the search is about\n"
    for again in (tmp_path / "events.jsonl", tmp_path / "events.jsonl"):
        Log(again).close()


def test_unwritable_log_reports_it_and_raises_nothing(bench: Bench, tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    log = Log(path)
    os.close(reader)
    for record in a_story(bench):
        log.write(record)
    log.close()
    assert log.trouble == f"The log {path} is not complete: Broken pipe."


def test_written_log_can_be_read(bench: Bench, tmp_path: Path) -> None:
    story = a_story(bench)
    path = written(tmp_path / "log.jsonl", story)
    assert read_log(path) == [record for record in story if record.tag != tags.RLM_CHAT_STREAM]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_log_size_is_limited(tmp_path: Path) -> None:
    log = Log(tmp_path / "log.jsonl", max_bytes=500)
    for number in range(100):
        log.write(made(tags.RLM_CHAT, "words", {"node": str(number)}))
    log.close()
    assert (tmp_path / "log.jsonl").stat().st_size <= 500
    numbers = [int(record.attrs["node"]) for record in read_log(tmp_path / "log.jsonl")]
    assert numbers == list(range(len(numbers)))
    assert numbers
