"""The filter of system calls, run by an interpreter of its language: for both processors, on any
machine."""

from __future__ import annotations

import errno
import struct

import pytest

from mahtab_tui.worker.sandbox import confinement
from mahtab_tui.worker.sandbox.confinement import AARCH64, ALLOWED, X86_64

ALLOW, KILL, REFUSE, UNKNOWN = (
    0x7FFF0000,
    0x80000000,
    0x00050000 | errno.EPERM,
    0x00050000 | errno.ENOSYS,
)
ARCHITECTURE = {X86_64: 0xC000003E, AARCH64: 0xC00000B7}


def verdict(machine: str, number: int, *arguments: int, architecture: int | None = None) -> int:
    program = list(struct.iter_unpack("=HBBI", confinement.filter_program(machine)))
    data = struct.pack(
        "=IIQ6Q",
        number,
        ARCHITECTURE[machine] if architecture is None else architecture,
        0,
        *(arguments + (0,) * 6)[:6],
    )
    index, value = 0, 0
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


def number(machine: str, name: str) -> int:
    call = next(call for call in ALLOWED if call.name == name)
    found = call.x86_64 if machine == X86_64 else call.aarch64
    assert found is not None
    return found


both = pytest.mark.parametrize("machine", [X86_64, AARCH64])


@both
def test_only_listed_system_calls_are_allowed(machine: str) -> None:
    listed = {call.x86_64 if machine == X86_64 else call.aarch64 for call in ALLOWED}
    passed = {one for one in range(1024) if verdict(machine, one) == ALLOW}
    assert passed <= listed
    free = {
        call.x86_64 if machine == X86_64 else call.aarch64
        for call in ALLOWED
        if call.alternatives == ((),)
    }
    assert free - {None} <= passed
    assert {verdict(machine, one) for one in range(1024) if one not in listed} == {REFUSE, UNKNOWN}
    assert verdict(machine, 435) == UNKNOWN


@both
def test_foreign_architecture_call_kills_the_process(machine: str) -> None:
    for other in (0x40000003, 0x40000028, ARCHITECTURE[AARCH64 if machine == X86_64 else X86_64]):
        assert verdict(machine, 0, architecture=other) == KILL
    if machine == X86_64:
        assert verdict(machine, 0x40000000) == verdict(machine, 0xFFFFFFFF) == KILL


@both
def test_threads_are_allowed_but_no_processes_or_namespaces(machine: str) -> None:
    clone = number(machine, "clone")
    of_pthread_create = 0x3D0F00
    assert verdict(machine, clone, of_pthread_create) == ALLOW
    assert verdict(machine, clone, 17) == REFUSE
    assert verdict(machine, clone, 0x4111) == REFUSE
    for flag in (
        0x2000,
        0x8000,
        0x20000,
        0x02000000,
        0x04000000,
        0x08000000,
        0x10000000,
        0x20000000,
        0x40000000,
    ):
        assert verdict(machine, clone, of_pthread_create | flag) == REFUSE


@both
def test_arguments_decide_the_verdict(machine: str) -> None:
    def allows(name: str, *arguments: int) -> bool:
        return verdict(machine, number(machine, name), *arguments) == ALLOW

    assert allows("mmap", 0, 4096, 3, 0x22)
    assert not allows("mmap", 0, 4096, 5, 0x22)
    assert not allows("mprotect", 0, 4096, 7)
    assert allows("fcntl", 3, 4, 0x800)
    assert not allows("fcntl", 3, 4, 0x2800)
    assert not allows("fcntl", 3, 8, 1)
    assert not allows("fcntl", 3, 10, 9)
    assert allows("ioctl", 3, 0x5421)
    assert not allows("ioctl", 3, 0x8901)
    assert not allows("ioctl", 3, 0x5452)
    assert not allows("ioctl", 0, 0x5412)
    assert allows("socketpair", 1, 1 | 0x80800, 0)
    assert not allows("socketpair", 1, 2, 0)
    assert not allows("socketpair", 2, 1, 0)
    assert allows("sendto", 3, 0, 10, 0x4000, 0, 0)
    assert not allows("sendto", 3, 0, 10, 0, 1 << 40, 0)
    assert not allows("sendto", 3, 0, 10, 1, 0, 0)
    assert not allows("recvfrom", 3, 0, 10, 1)
    assert allows("prlimit64", 0, 7, 0, 1 << 40)
    assert not allows("prlimit64", 0, 7, 1 << 40, 0)
    assert not allows("prlimit64", 1, 7, 0, 0)
    assert not allows("sched_getaffinity", 1)
    assert allows("futex", 0, 128 | 9)
    assert not allows("futex", 0, 128 | 6)
    assert allows("pipe2", 0, 0x80000)
    assert not allows("pipe2", 0, 0x80)


@both
def test_ignored_upper_bits_do_not_change_the_verdict(machine: str) -> None:
    """A number that only its lower half is used of is the same number whatever the upper half
    is."""
    high = 1 << 32
    assert verdict(machine, number(machine, "fcntl"), 3, high | 8, 1) == REFUSE
    assert verdict(machine, number(machine, "ioctl"), 3, high | 0x8901) == REFUSE
    assert verdict(machine, number(machine, "clone"), high | 17) == REFUSE
