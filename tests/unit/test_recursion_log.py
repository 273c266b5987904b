"""The events of searches on disk, and back."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mahtab_tui.bus import tags
from mahtab_tui.bus.records import Record
from mahtab_tui.search.log import Log, read_log, replay
from tests.records import made
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


def test_a_file_that_is_no_log_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    path.write_text("what the search is about\n")
    with pytest.raises(FileExistsError, match="is not the log of a search"):
        Log(path)
    assert path.read_text() == "what the search is about\n"
    for again in (tmp_path / "events.jsonl", tmp_path / "events.jsonl"):
        Log(again).close()


def test_a_log_that_cannot_be_written_any_more_says_so_and_raises_nothing(bench: Bench, tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    log = Log(path)
    os.close(reader)
    for record in a_story(bench):
        log.write(record)
    log.close()
    assert log.trouble == f"The log {path} is not complete: Broken pipe."


def test_what_is_written_is_read_again(bench: Bench, tmp_path: Path) -> None:
    story = a_story(bench)
    path = written(tmp_path / "log.jsonl", story)
    opened = read_log(path)
    assert opened.note == ""
    assert opened.records == [record for record in story if record.tag != tags.RLM_CHAT_STREAM]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_log_that_was_cut_off_anywhere_still_opens(bench: Bench, tmp_path: Path) -> None:
    whole = written(tmp_path / "log.jsonl", a_story(bench)).read_bytes()
    records = read_log(tmp_path / "log.jsonl").records
    cut = tmp_path / "cut.jsonl"
    for end in range(len(whole.split(b"\n")[0]) + 1, len(whole), 101):
        cut.write_bytes(whole[:end])
        opened = read_log(cut)
        assert opened.records == records[: len(opened.records)]
        assert len(opened.records) >= whole[:end].count(b"\n") - 1
        lines = len(whole[:end].splitlines()) - 1
        assert opened.note == ("" if lines == len(opened.records) else f"Damaged lines of {cut} were left out: 1.")


def test_what_is_damaged_is_left_out_and_said(bench: Bench, tmp_path: Path) -> None:
    path = written(tmp_path / "log.jsonl", a_story(bench))
    lines = path.read_bytes().split(b"\n")
    records = read_log(path).records
    lines[2:4] = [b"\xff\xfe\x00 nothing", b'{"tag": 5, "text": "", "attrs": {}, "time": 0}']
    path.write_bytes(b"\n".join(lines))
    opened = read_log(path)
    assert opened.records == [records[0], *records[3:]]
    assert opened.note == f"Damaged lines of {path} were left out: 2."


def test_another_file_is_no_log(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("first\nsecond\n")
    with pytest.raises(ValueError, match=r"notes\.txt is not the log of a search"):
        read_log(path)
    with pytest.raises(OSError, match="No such file"):
        read_log(tmp_path / "missing")
    path.write_text("")
    assert read_log(path).records == []


def test_a_log_has_a_largest_size(tmp_path: Path) -> None:
    log = Log(tmp_path / "log.jsonl", max_bytes=500)
    for number in range(100):
        log.write(made(tags.RLM_CHAT, "words", {"node": str(number)}))
    log.close()
    assert (tmp_path / "log.jsonl").stat().st_size <= 500
    numbers = [int(record.attrs["node"]) for record in read_log(tmp_path / "log.jsonl").records]
    assert numbers == list(range(len(numbers)))
    assert numbers


def test_a_replay_waits_as_the_search_did() -> None:
    records = [made(tags.RLM_CHAT, str(time), {"node": "1"}, time) for time in (100.0, 101.0, 100.5, 103.0, 203.0)]
    assert list(replay(records)) == [(0.0, record) for record in records]
    assert [delay for delay, _ in replay(records, speed=2)] == [0.0, 0.5, 0.0, 1.0, 5.0]
    assert list(replay([])) == []


@given(st.binary(max_size=300))
def test_a_log_with_any_bytes_in_it_opens(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = tmp_path_factory.mktemp("log") / "log.jsonl"
    path.write_bytes(b'{"format":"mahtab-rlm-1"}\n' + data + b'\n{"tag":"rlm-chat","text":"","attrs":{"node":"1"},"time":1}')
    assert read_log(path).records == [made("rlm-chat", "", {"node": "1"}, 1.0)]


@pytest.mark.parametrize("line", ["[" * 100_000, '{"tag":"rlm-chat","text":"","attrs":{"node":"1"},"time":NaN}', "9" * 5_000, '{"tag":"rlm-chat"}'])
def test_lines_that_are_made_up_are_left_out(tmp_path: Path, line: str) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text(f'{{"format":"mahtab-rlm-1"}}\n{line}\n')
    assert read_log(path) == ([], f"Damaged lines of {path} were left out: 1.")
