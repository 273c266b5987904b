"""The system call filter for both processors, run by an interpreter of its language."""

from __future__ import annotations

import errno
import struct
from collections.abc import Iterable

import pytest

from mahtab_tui.worker.sandbox import call_filter
from mahtab_tui.worker.sandbox.allowed_calls import AARCH64, ALLOWED, X86_64, AllowedCall

ALLOW = 0x7FFF0000
KILL = 0x80000000
REFUSE = 0x00050000 | errno.EPERM
UNKNOWN = 0x00050000 | errno.ENOSYS
ARCHITECTURE = {X86_64: 0xC000003E, AARCH64: 0xC00000B7}

PTHREAD_CREATE = 0x3D0F00
UNUSED = 1 << 32
"""A bit that the kernel ignores in an int."""


def verdict(machine: str, number: int, *arguments: int, architecture: int | None = None) -> int:
    program = list(struct.iter_unpack("=HBBI", call_filter.filter_program(machine)))
    architecture = ARCHITECTURE[machine] if architecture is None else architecture
    data = struct.pack("=IIQ6Q", number, architecture, 0, *(arguments + (0,) * 6)[:6])
    index = 0
    value = 0
    while True:
        operation, yes, no, operand = program[index]
        index += 1
        if operation == 0x20:
            (value,) = struct.unpack_from("=I", data, operand)
        elif operation == 0x54:
            value &= operand
        elif operation == 0x15:
            index += yes if value == operand else no
        elif operation == 0x35:
            index += yes if value >= operand else no
        else:
            assert operation == 0x06
            return int(operand)


def numbers(machine: str, calls: Iterable[AllowedCall]) -> dict[str, int]:
    call_numbers = {call.name: call.x86_64 if machine == X86_64 else call.aarch64 for call in calls}
    return {name: number for name, number in call_numbers.items() if number is not None}


both = pytest.mark.parametrize("machine", [X86_64, AARCH64])


@both
def test_only_listed_system_calls_are_allowed(machine: str) -> None:
    listed = set(numbers(machine, ALLOWED).values())
    unconditional = numbers(machine, (call for call in ALLOWED if call.alternatives == ((),)))
    allowed = {number for number in range(1024) if verdict(machine, number) == ALLOW}
    assert set(unconditional.values()) <= allowed <= listed
    assert {verdict(machine, unlisted) for unlisted in {*range(1024)} - listed} == {REFUSE, UNKNOWN}
    assert verdict(machine, 435) == UNKNOWN


@both
def test_foreign_architecture_call_kills_the_process(machine: str) -> None:
    for other_architecture in (
        0x40000003,
        0x40000028,
        ARCHITECTURE[AARCH64 if machine == X86_64 else X86_64],
    ):
        assert verdict(machine, 0, architecture=other_architecture) == KILL
    if machine == X86_64:
        assert verdict(machine, 0x40000000) == verdict(machine, 0xFFFFFFFF) == KILL


@both
@pytest.mark.parametrize(
    ("expected", "name", "calls"),
    [
        (ALLOW, "mmap", [(0, 4096, 3, 0x22)]),
        (REFUSE, "mmap", [(0, 4096, 5, 0x22)]),
        (REFUSE, "mprotect", [(0, 4096, 7)]),
        (ALLOW, "fcntl", [(3, 4, 0x800)]),
        (REFUSE, "fcntl", [(3, 4, 0x2800), (3, 8, 1), (3, 10, 9), (3, UNUSED | 8, 1)]),
        (ALLOW, "ioctl", [(3, 0x5421)]),
        (REFUSE, "ioctl", [(3, 0x8901), (3, 0x5452), (0, 0x5412), (3, UNUSED | 0x8901)]),
        (ALLOW, "socketpair", [(1, 1 | 0x80800, 0)]),
        (REFUSE, "socketpair", [(1, 2, 0), (2, 1, 0)]),
        (ALLOW, "sendto", [(3, 0, 10, 0x4000, 0, 0)]),
        (REFUSE, "sendto", [(3, 0, 10, 0, 1 << 40, 0), (3, 0, 10, 1, 0, 0)]),
        (REFUSE, "recvfrom", [(3, 0, 10, 1)]),
        (ALLOW, "prlimit64", [(0, 7, 0, 1 << 40)]),
        (REFUSE, "prlimit64", [(0, 7, 1 << 40, 0), (1, 7, 0, 0)]),
        (REFUSE, "sched_getaffinity", [(1,)]),
        (ALLOW, "futex", [(0, 128 | 9)]),
        (REFUSE, "futex", [(0, 128 | 6)]),
        (ALLOW, "pipe2", [(0, 0x80000)]),
        (REFUSE, "pipe2", [(0, 0x80)]),
        (ALLOW, "clone", [(PTHREAD_CREATE,)]),
        (REFUSE, "clone", [(17,), (0x4111,), (UNUSED | 17,), (PTHREAD_CREATE & ~0x10000,)]),
        (REFUSE, "clone", [(PTHREAD_CREATE | 1 << bit,) for bit in (13, 15, 17, *range(25, 31))]),
    ],
)
def test_arguments_decide_the_verdict(
    machine: str, expected: int, name: str, calls: list[tuple[int, ...]]
) -> None:
    number = numbers(machine, ALLOWED)[name]
    assert [verdict(machine, number, *arguments) for arguments in calls] == [expected] * len(calls)
