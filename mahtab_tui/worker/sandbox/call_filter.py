"""Filters of system calls, as programs for seccomp."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import struct
import sys
from collections.abc import Iterator, Sequence

from .allowed_calls import AARCH64, ALLOWED, X86_64, AllowedCall, ArgumentCheck
from .system_calls import buffer_of, prctl

_PR_SET_SECCOMP = 22
_SECCOMP_MODE_FILTER = 2

# Classic BPF: an operation, how many instructions to skip if a comparison holds and if it does not,
# and a value.
_LOAD = 0x20
_AND = 0x54
_JUMP_EQUAL = 0x15
_JUMP_FROM = 0x35
_RETURN = 0x06
_Instruction = tuple[int, int, int, int]

# What a filter returns.
_ALLOW = 0x7FFF0000
_KILL = 0x80000000
_ERRNO = 0x00050000
_NOTIFY = 0x7FC00000
"""The call waits for the answer of the filter's listener."""

# struct seccomp_data: number of the call, architecture, instruction pointer, six arguments.
_NUMBER = 0
_ARCHITECTURE = 4
_ARGUMENTS = 16
ARCHITECTURES = {X86_64: 0xC000003E, AARCH64: 0xC00000B7}
"""The numbers of their usual tables of calls."""
_X32 = 0x40000000
"""Numbers from here on are those of another table, which the filter would not check."""
_CLONE3 = 435
"""The number of `clone3`."""


def machine() -> str | None:
    """Return the name of this processor; None if there is no filter for it."""
    name = os.uname().machine
    is_64_bit = sys.byteorder == "little" and sys.maxsize > 2**32
    if name in ARCHITECTURES and is_64_bit:
        return name
    return None


def filter_program(architecture: str, allowed: Sequence[AllowedCall] = ALLOWED) -> bytes:
    """Return a filter that refuses all calls but these, and these if their checks do not hold."""
    code = _checked_calls(architecture, allowed, _ERRNO | errno.EPERM)
    # A filter cannot see the arguments of `clone3`. Without it, the C library creates threads with
    # `clone`.
    code += [
        (_JUMP_EQUAL, 0, 1, _CLONE3),
        (_RETURN, 0, 0, _ERRNO | errno.ENOSYS),
        (_RETURN, 0, 0, _ERRNO | errno.EPERM),
    ]
    return _compiled(code)


def reporting_program(
    architecture: str, calls: Sequence[AllowedCall], *, reports_other_tables: bool = False
) -> bytes:
    """Return a filter that reports these calls to its listener unless their checks hold, and leaves
    all others to other filters.

    Args:
        reports_other_tables: Whether a program may use calls of another table, such as that of
            32 bits, which are reported.
    """
    other_tables = _NOTIFY if reports_other_tables else _KILL
    code = _checked_calls(architecture, calls, _NOTIFY, other_tables)
    return _compiled([*code, (_RETURN, 0, 0, _ALLOW)])


def _checked_calls(
    architecture: str, calls: Sequence[AllowedCall], refusal: int, other_tables: int = _KILL
) -> list[_Instruction]:
    """Return code that allows these calls if their checks hold, and else returns `refusal` for them,
    and `other_tables` for calls of another table. After it, other calls follow."""
    code: list[_Instruction] = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_JUMP_EQUAL, 1, 0, ARCHITECTURES[architecture]),
        (_RETURN, 0, 0, other_tables),
        (_LOAD, 0, 0, _NUMBER),
    ]
    if architecture == X86_64:
        code += [(_JUMP_FROM, 0, 1, _X32), (_RETURN, 0, 0, other_tables)]
    for call in calls:
        number = call.aarch64
        if architecture == X86_64:
            number = call.x86_64
        if number is not None:
            block = _call_block(call, refusal)
            code += [(_JUMP_EQUAL, 0, len(block), number), *block]
    return code


def _compiled(code: Sequence[_Instruction]) -> bytes:
    """Return code as the system reads it."""
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in code)


@contextlib.contextmanager
def filter_header(compiled: bytes) -> Iterator[ctypes.Array[ctypes.c_char]]:
    """Yield the structure that describes a filter to the system, which must not outlive it."""
    array = buffer_of(compiled)
    yield buffer_of(struct.pack("HP", len(compiled) // 8, ctypes.addressof(array)))


def apply_filter(compiled: bytes) -> None:
    """Filter the system calls of this thread and of threads it creates, permanently. Raises
    `OSError`."""
    with filter_header(compiled) as header:
        prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.addressof(header))


def _call_block(call: AllowedCall, refusal: int) -> list[_Instruction]:
    """Return code that allows a call if all checks of one of its alternatives hold."""
    code: list[_Instruction] = []
    for checks in call.alternatives:
        allow: list[_Instruction] = [(_RETURN, 0, 0, _ALLOW)]
        for check in reversed(checks):
            allow = _check_code(check, len(allow)) + allow
        code += allow
        if not checks:
            return code
    return [*code, (_RETURN, 0, 0, refusal)]


def _check_code(check: ArgumentCheck, skipped_count: int) -> list[_Instruction]:
    """Return code that skips `skipped_count` more instructions if the check does not hold."""
    # A filter loads 32 bits at a time: first the low half of the argument, which is compared with
    # the values, then the high half, which must be 0.
    low = _ARGUMENTS + 8 * check.argument
    code: list[_Instruction] = [(_LOAD, 0, 0, low), (_AND, 0, 0, check.mask & 0xFFFF_FFFF)]
    for later_count, value in zip(reversed(range(len(check.values))), check.values):
        skipped_if_other = 0 if later_count else skipped_count
        code.append((_JUMP_EQUAL, later_count, skipped_if_other, value))
    if not check.mask >> 32:
        return code
    high: list[_Instruction] = [(_LOAD, 0, 0, low + 4), (_AND, 0, 0, check.mask >> 32)]
    return [*high, (_JUMP_EQUAL, 0, len(code) + skipped_count, 0), *code]
