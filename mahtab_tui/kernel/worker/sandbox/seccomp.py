"""Seccomp: compiles the allow-list of system calls into a program that the kernel runs before each
call."""

from __future__ import annotations

import ctypes
import errno
import os
import struct
import sys
from collections.abc import Sequence

from .calls_allowed import AARCH64, ALLOWED, X86_64, AllowedCall, Check
from .libc import set_filter

# Classic BPF: an operation, how many instructions to skip if a comparison holds and if not, a
# value.
_LOAD, _AND, _JUMP_EQUAL, _JUMP_FROM, _RETURN = 0x20, 0x54, 0x15, 0x35, 0x06
_Instruction = tuple[int, int, int, int]

_ALLOW = 0x7FFF0000
_KILL = 0x80000000
_ERRNO = 0x00050000

# struct seccomp_data: number of the call, architecture, instruction pointer, six arguments.
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16
_LOW, _HIGH = 0, 4

_ARCHITECTURES = {X86_64: 0xC000003E, AARCH64: 0xC00000B7}
_X32 = 0x40000000
_CLONE3 = 435


def machine() -> str | None:
    """Return the architecture, if the filter supports it."""
    name = os.uname().machine
    return (
        name
        if name in _ARCHITECTURES and sys.byteorder == "little" and sys.maxsize > 2**32
        else None
    )


def program(architecture: str, allowed: Sequence[AllowedCall] = ALLOWED) -> bytes:
    """Return the filter as an array of `struct sock_filter`."""
    code: list[_Instruction] = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_JUMP_EQUAL, 1, 0, _ARCHITECTURES[architecture]),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER),
    ]
    if architecture == X86_64:
        code += [(_JUMP_FROM, 0, 1, _X32), (_RETURN, 0, 0, _KILL)]
    for call in allowed:
        number = call.x86_64 if architecture == X86_64 else call.aarch64
        if number is not None:
            block = _block(call)
            code += [(_JUMP_EQUAL, 0, len(block), number), *block]
    # A filter cannot see the arguments of `clone3`. Without it, the C library makes threads by
    # `clone`.
    code += [
        (_JUMP_EQUAL, 0, 1, _CLONE3),
        (_RETURN, 0, 0, _ERRNO | errno.ENOSYS),
        (_RETURN, 0, 0, _ERRNO | errno.EPERM),
    ]
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in code)


def apply(filter_program: bytes) -> None:
    """Filter the system calls of this thread and the threads that it makes, permanently. Raises
    `OSError`."""
    array = ctypes.create_string_buffer(filter_program, len(filter_program))
    packed = struct.pack("HP", len(filter_program) // 8, ctypes.addressof(array))
    header = ctypes.create_string_buffer(packed, len(packed))
    set_filter(ctypes.addressof(header))


def _block(call: AllowedCall) -> list[_Instruction]:
    """Return the code for a system call; it always ends in a return."""
    code: list[_Instruction] = []
    for checks in call.alternatives:
        code += _alternative(checks)
        if not checks:
            return code
    return [*code, (_RETURN, 0, 0, _ERRNO | errno.EPERM)]


def _alternative(checks: Sequence[Check]) -> list[_Instruction]:
    """Return code that allows the call if all checks hold, and otherwise continues after itself."""
    code: list[_Instruction] = [(_RETURN, 0, 0, _ALLOW)]
    for check in reversed(checks):
        code = _check(check, len(code)) + code
    return code


def _check(check: Check, rest: int) -> list[_Instruction]:
    """Return code that continues after itself if the check holds, and otherwise skips `rest` more
    instructions."""
    code: list[_Instruction] = []
    place = _ARGUMENTS + 8 * check.argument
    mask = check.mask & 0xFFFF_FFFF
    for index, value in enumerate(check.values):
        left = len(check.values) - index - 1
        code.append((_JUMP_EQUAL, left, 0 if left else rest, value))
    code = [(_LOAD, 0, 0, place + _LOW), (_AND, 0, 0, mask), *code]
    if check.mask >> 32:
        high = [
            (_LOAD, 0, 0, place + _HIGH),
            (_AND, 0, 0, check.mask >> 32),
            (_JUMP_EQUAL, 0, len(code) + rest, 0),
        ]
        code = high + code
    return code
