"""The kernel that masks secrets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from inspect import signature
from typing import Any, Literal, cast, get_args, get_origin, get_type_hints

import pytest

from mahtab_tui.bus.masking import MASK, Secrets
from mahtab_tui.kernel.base import ALL, Display, Kernel, KernelError, Operation, Operations
from mahtab_tui.kernel.inprocess import InProcessKernel
from mahtab_tui.kernel.masked import MaskedKernel

SECRET = "sk-proj-Qx7Zw9KdVb3mTn5Rj8Lp2Hs6"
MEMBERS = sorted(name for name in vars(Kernel) if not name.startswith("_"))
TABLE: Mapping[str, Operation[Any]] = {
    name: each for name, each in vars(Operations).items() if isinstance(each, Operation)
}
KEYS = ("name", "kind", "value", "path", "anything")
"""Keys of each planted mapping; elsewhere, some are names of unmasked fields."""


def planted(kind: Any) -> Any:
    """Return a value of a type, with the secret as each text."""
    if kind in (str, Any):
        return SECRET
    if is_dataclass(kind):
        hints = get_type_hints(kind)
        return cast("Any", kind)(**{each.name: planted(hints[each.name]) for each in fields(kind)})
    if isinstance(kind, type) and issubclass(kind, tuple):  # a NamedTuple
        return kind(*map(planted, get_type_hints(kind).values()))
    if isinstance(kind, type) and issubclass(kind, Enum):
        return next(iter(kind))
    origin, args = get_origin(kind), get_args(kind)
    if origin is Literal:
        return args[-1]  # of a display: no picture, whose data is no text
    if origin in (dict, Mapping):
        return {key: planted(args[1]) for key in KEYS}
    if origin is list:
        return [planted(args[0])]
    if origin is tuple:
        return tuple(planted(each) for each in args if each is not ...)
    return planted(args[0]) if args else kind()


def is_property(member: str) -> bool:
    return isinstance(vars(Kernel)[member], property)


def reply_type(member: str) -> Any:
    found = vars(Kernel)[member]
    return get_type_hints(found.fget if is_property(member) else found)["return"]


def texts(value: Any, field: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield field, value
    elif is_dataclass(value):
        for each in fields(value):
            yield from texts(getattr(value, each.name), each.name)
    elif isinstance(value, Mapping):
        for key, each in value.items():
            yield from texts(each, field or key)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from texts(each, field)


class PlantedKernel:
    def __init__(self, *, fails: bool = False) -> None:
        self.fails = fails

    def __getattr__(self, name: str) -> Any:
        def reply(*args: Any, **arguments: Any) -> Any:
            if self.fails:
                raise KernelError(f"{SECRET} is not here.")
            if "on_output" in arguments:
                arguments["on_output"]("stdout", SECRET)
                arguments["on_display"](planted(Display))
            return planted(reply_type(name))

        return planted(reply_type(name)) if is_property(name) else reply


def ask(kernel: MaskedKernel, name: str) -> Any:
    if is_property(name):
        return getattr(kernel, name)
    received: list[Any] = []
    known: dict[str, Any] = {
        "request": {"do": "repr"},
        "on_output": lambda kind, text: received.append(text),
        "on_display": received.append,
    }
    parameters = list(signature(getattr(Kernel, name)).parameters)[1:]
    reply = getattr(kernel, name)(**{each: known.get(each, 1) for each in parameters})
    return [*received, reply] if received else reply


@pytest.fixture
def secrets() -> Secrets:
    secrets = Secrets()
    secrets.add(SECRET)
    return secrets


@pytest.mark.parametrize("name", MEMBERS)
def test_every_reply_is_masked(name: str, secrets: Secrets) -> None:
    reply = ask(MaskedKernel(cast("Any", PlantedKernel()), secrets), name)
    unmasked = TABLE[name].unmasked if name in TABLE else frozenset()
    if ALL in unmasked:
        assert reply == planted(reply_type(name))
    else:
        found = {field for field, text in texts(reply, "") if SECRET in text}
        assert found <= unmasked


def test_sentences_about_failures_are_masked(secrets: Secrets) -> None:
    kernel = MaskedKernel(cast("Any", PlantedKernel(fails=True)), secrets)
    for name in set(MEMBERS) - {"start", "set_size"}:
        if not is_property(name):
            with pytest.raises(KernelError, match=f"^{MASK} is not here"):
                ask(kernel, name)


def test_table_names_no_field_that_does_not_exist() -> None:
    for name, operation in TABLE.items():
        if name in MEMBERS and operation.result != dict[str, Any]:
            fields_there = {field for field, _ in texts(planted(reply_type(name)), "")}
            assert operation.unmasked - {ALL} <= fields_there | {"kinds"}, name


def test_unlisted_kernel_member_is_blocked() -> None:
    masked = MaskedKernel(InProcessKernel({}), Secrets())
    where = "it runs inside the program that opened this session"
    assert masked.cannot_undo == f"the kernel cannot be forked, because {where}"
    with pytest.raises(AttributeError):
        _ = masked._namespace
