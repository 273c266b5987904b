"""How many calls run at a time, and what happens when a service is busy."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from mahtab_tui.llm.base import ModelBusy, ModelError
from mahtab_tui.llm.failures import is_busy, retry_after
from mahtab_tui.search import limits
from mahtab_tui.search.limits import Gate, run_scheduled


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "_FIRST_PAUSE", 0.02)


class Counter:
    """A call that takes a moment, and how many of it ran at a time."""

    def __init__(self) -> None:
        self.running = self.most = self.done = 0

    async def __call__(self) -> int:
        self.running += 1
        self.most = max(self.most, self.running)
        await asyncio.sleep(0.001)
        self.running -= 1
        self.done += 1
        return self.done


def ignore(seconds: float) -> None: ...


async def test_concurrency_is_limited_and_first_come_first_served() -> None:
    counter, plan, gate = Counter(), Gate(5), Gate(3)
    done = await asyncio.gather(*(run_scheduled(plan, gate, counter, ignore) for _ in range(30)))
    assert counter.most == 3
    assert done == list(range(1, 31))


async def test_global_limit_covers_all_models() -> None:
    counter, plan, gates = Counter(), Gate(5), [Gate(4), Gate(4)]
    await asyncio.gather(
        *(run_scheduled(plan, gates[number % 2], counter, ignore) for number in range(40))
    )
    assert counter.most == 5


async def test_cancelled_waiters_leave_no_gap() -> None:
    gate = Gate(1)
    await gate.enter()
    waiting = [asyncio.ensure_future(gate.enter()) for _ in range(4)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    gate.leave()  # lets the second in, or the first, which is cancelled
    waiting[1].cancel()
    await asyncio.wait(waiting[:3])
    assert not waiting[2].cancelled()
    assert not waiting[3].done()
    gate.leave()
    await waiting[3]
    gate.leave()
    await gate.enter()


async def test_all_calls_pause_when_a_service_is_busy_and_recover() -> None:
    counter, plan, gate = Counter(), Gate(16), Gate(16)
    pauses: list[float] = []
    failures = 16
    running: list[int] = []

    async def call() -> int:
        nonlocal failures
        if failures:
            failures -= 1
            await asyncio.sleep(0)
            raise ModelBusy("It is busy.")
        running.append(counter.running + 1)
        return await counter()

    await asyncio.gather(*(run_scheduled(plan, gate, call, pauses.append) for _ in range(40)))
    assert counter.done == 40
    assert len(pauses) == 16
    assert max(running[:16]) < 16, "after an overload fewer run at a time"
    counter.most = 0
    await asyncio.gather(*(run_scheduled(plan, gate, call, pauses.append) for _ in range(80)))
    assert counter.most == 16, "and as many as before when it works"


async def test_pauses_grow_and_respect_the_services_retry_time() -> None:
    gate = Gate(4)
    assert gate.overloaded() == 0.02
    assert gate.overloaded() == 0.02, "one overload, told by two calls"
    await asyncio.sleep(0.03)
    assert gate.overloaded() == 0.04
    await asyncio.sleep(0.05)
    gate.succeeded()
    assert gate.overloaded() == 0.02
    await asyncio.sleep(0.03)
    assert gate.overloaded(at_least=7.0) == 7.0


async def test_permanently_busy_service_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "_LONGEST_PAUSE", 0.01)
    tried = 0

    async def call() -> None:
        nonlocal tried
        tried += 1
        raise ModelBusy("It is busy.")

    with pytest.raises(ModelBusy):
        await run_scheduled(Gate(2), Gate(2), call, ignore)
    assert tried == 6


async def test_other_failures_are_not_retried() -> None:
    tried = 0

    async def call() -> None:
        nonlocal tried
        tried += 1
        raise ModelError("You are not logged in.")

    with pytest.raises(ModelError, match="logged in"):
        await run_scheduled(Gate(2), Gate(2), call, ignore)
    assert tried == 1


def test_busy_service_is_recognised_by_its_exception() -> None:
    class HttpError(Exception):
        def __init__(self, status: int, **headers: str) -> None:
            self.status_code = status
            self.response = SimpleNamespace(
                status_code=status,
                headers={name.replace("_", "-"): value for name, value in headers.items()},
            )

    assert [is_busy(HttpError(status)) for status in (429, 503, 529, 400, 401)] == [
        True,
        True,
        True,
        False,
        False,
    ]
    assert is_busy(ModelBusy("…"))
    assert not is_busy(ModelError("…"))
    assert [
        retry_after(error)
        for error in (
            HttpError(429, retry_after="12"),
            HttpError(429, retry_after="soon"),
            ValueError(),
        )
    ] == [
        12.0,
        0.0,
        0.0,
    ]
