"""A recording that is played."""

from __future__ import annotations

from collections.abc import Iterator

from mahtab_tui.bus.records import Record
from mahtab_tui.tui.player import PACES, Player
from tests.records import made


class Clock:
    """Goes on when it is told to."""

    def __init__(self) -> None:
        self.now = 50.0

    def __call__(self) -> float:
        return self.now


def events(*delays: float, speed: float = 1.0) -> Iterator[tuple[float, Record]]:
    time = 1000.0
    for number, delay in enumerate(delays):
        time += delay
        yield delay / speed, made("rlm-chat", str(number), {"node": "1"}, time)


def taken(player: Player, limit: int = 100) -> str:
    return "".join(record.text for record in player.take(limit))


def test_events_come_up_when_it_is_their_time() -> None:
    clock = Clock()
    player = Player(events(0, 1, 2), clock)
    assert taken(player) == "0"
    clock.now += 0.9
    assert taken(player) == ""
    clock.now += 0.2
    assert taken(player) == "1"
    assert not player.ended
    clock.now += 5
    assert taken(player) == "2"
    assert player.ended
    assert player.now == 1003.0


def test_its_time_goes_on_between_events_whatever_the_speed() -> None:
    clock = Clock()
    player = Player(events(0, 10, speed=5), clock)
    assert taken(player) == "0"
    clock.now += 1
    taken(player)
    assert player.now == 1005.0


def test_a_pause_stops_it_and_the_pace_changes_it() -> None:
    clock = Clock()
    player = Player(events(0, 4), clock)
    taken(player)
    player.paused = True
    clock.now += 100
    assert taken(player) == ""
    player.paused = False
    player.change_pace(1)
    clock.now += 1.9
    assert taken(player) == ""
    clock.now += 0.2
    assert taken(player) == "1"


def test_the_pace_has_its_bounds() -> None:
    player = Player(events(0), Clock())
    for _ in range(20):
        player.change_pace(1)
    assert player.pace == PACES[-1]
    for _ in range(20):
        player.change_pace(-1)
    assert player.pace == PACES[0]


def test_all_that_is_left_comes_in_pieces() -> None:
    player = Player(events(0, 60, 60, 60), Clock())
    player.paused = True
    player.finish()
    assert [taken(player, 3), player.ended, taken(player, 3), player.ended] == ["012", False, "3", True]


def test_nothing_is_a_recording_that_has_ended() -> None:
    player = Player(iter(()), Clock())
    assert player.ended
    assert taken(player) == ""
    assert player.now == 0.0


def test_a_step_takes_the_next_event_and_pauses() -> None:
    clock = Clock()
    player = Player(events(0, 100, 100), clock)
    assert taken(player) == "0"
    player.step()
    assert taken(player, 1) == "1"
    clock.now += 1_000
    assert taken(player) == ""
    player.step()
    assert taken(player, 1) == "2"
    assert player.ended
    player.step()
    assert taken(player) == ""
