"""The kernel that masks secrets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from inspect import signature
from typing import Any, Literal, cast, get_args, get_origin, get_type_hints

import pytest

from mahtab_tui.bus.masking import MASK, Secrets
from mahtab_tui.bus.records import DisplayRecord
from mahtab_tui.kernel.base import CellListener, Kernel, KernelError, OnDisplay, OnOutput
from mahtab_tui.kernel.inprocess import InProcessKernel
from mahtab_tui.kernel.jupyter.kernel import JupyterKernel
from mahtab_tui.kernel.masked import CELL_FIELDS, MaskedKernel
from mahtab_tui.kernel.operations import UNMASKED, Operation, Operations
from mahtab_tui.kernel.process import ProcessKernel
from mahtab_tui.kernel.values import CellResult, Lock, Restoration, UndoScope

SECRET = "sk-proj-Qx7Zw9KdVb3mTn5Rj8Lp2Hs6"
MEMBERS = sorted(name for name in vars(Kernel) if not name.startswith("_"))
TABLE: Mapping[str, Operation[Any]] = {
    name: operation
    for name, operation in vars(Operations).items()
    if isinstance(operation, Operation)
}
KEYS = ("name", "kind", "value", "path", "anything")
"""Keys of each planted mapping; elsewhere, some are names of unmasked fields."""


def planted(kind: Any) -> Any:
    """Return a value of a type, with the secret as each text."""
    if kind in (str, Any):
        return SECRET
    if is_dataclass(kind):
        hints = get_type_hints(kind)
        values = {field.name: planted(hints[field.name]) for field in fields(kind)}
        return cast("Any", kind)(**values)
    if isinstance(kind, type) and issubclass(kind, tuple):  # a NamedTuple
        return kind(*map(planted, get_type_hints(kind).values()))
    if isinstance(kind, type) and issubclass(kind, Enum):
        return next(iter(kind))
    origin = get_origin(kind)
    args = get_args(kind)
    if origin is Literal:
        return args[-1]  # of a display: not a picture, whose data is not a text
    if origin in (dict, Mapping):
        return {key: planted(args[1]) for key in KEYS}
    if origin is list:
        return [planted(args[0])]
    if origin is tuple:
        return tuple(planted(item_type) for item_type in args if item_type is not ...)
    return planted(args[0]) if args else kind()


def is_property(member: str) -> bool:
    return isinstance(vars(Kernel)[member], property)


def reply_type(member: str) -> Any:
    attribute = vars(Kernel)[member]
    function = attribute.fget if is_property(member) else attribute
    return get_type_hints(function)["return"]


def texts(value: Any, field: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield field, value
    elif is_dataclass(value):
        for data_field in fields(value):
            yield from texts(getattr(value, data_field.name), data_field.name)
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from texts(item, field or key)
    elif isinstance(value, tuple) and hasattr(value, "_asdict"):
        yield from texts(value._asdict(), "")
    elif isinstance(value, list | tuple):
        for item in value:
            yield from texts(item, field)


class PlantedKernel:
    """Answers every request with the secret, or with an error that contains it."""

    def __init__(self, *, fails: bool = False) -> None:
        self.fails = fails
        self.was_asked = False

    def __getattr__(self, name: str) -> Any:
        if is_property(name):
            return self.answer(reply_type(name))
        return lambda *args, **arguments: self.answer(reply_type(name))

    def answer(self, kind: Any) -> Any:
        self.was_asked = True
        if self.fails:
            raise KernelError(f"{SECRET} is not here.")
        return planted(kind)

    def _ask(self, operation: Operation[Any], timeout: float | None = None, **fields: Any) -> Any:
        return self.answer(operation.result)

    def _undo(self, operation: Operation[Any], cell: int, scope: UndoScope) -> Restoration:
        return cast(Restoration, self.answer(Restoration))

    def _run_cell(
        self, code: str, listener: CellListener, nested: bool, lock: Lock | None
    ) -> CellResult:
        result = cast(CellResult, self.answer(CellResult))
        listener.on_output("stdout", SECRET)
        if listener.on_display is not None:
            listener.on_display(planted(DisplayRecord))
        return result

    def resume_cell(
        self, cell: int, *, on_output: OnOutput, on_display: OnDisplay, nested: bool = False
    ) -> CellResult:
        return self._run_cell("", CellListener(cell, on_output, on_display), nested, None)


def unmasked_fields(member: str) -> frozenset[str]:
    """Return the fields of a member's reply that may contain secrets."""
    if member in ("execute", "resume_cell"):
        return CELL_FIELDS
    if member in ("info", "last_save_request"):
        return frozenset({UNMASKED})
    return TABLE[member].unmasked if member in TABLE else frozenset()


def ask(kernel: MaskedKernel, name: str) -> Any:
    if is_property(name):
        return getattr(kernel, name)
    received: list[Any] = []
    known_arguments: dict[str, Any] = {
        "request": {"do": "repr"},
        "on_output": lambda kind, text: received.append(text),
        "on_display": received.append,
        **dict.fromkeys(("names", "codes", "texts"), ("name",)),
    }
    parameters = list(signature(getattr(Kernel, name)).parameters)[1:]
    arguments = {parameter: known_arguments.get(parameter, 1) for parameter in parameters}
    reply = getattr(kernel, name)(**arguments)
    return [*received, reply] if received else reply


@pytest.fixture
def secrets() -> Secrets:
    secrets = Secrets()
    secrets.add(SECRET)
    return secrets


@pytest.mark.parametrize("name", MEMBERS)
def test_every_reply_is_masked(name: str, secrets: Secrets) -> None:
    planted_kernel = PlantedKernel()
    reply = ask(MaskedKernel(cast("Any", planted_kernel), secrets), name)
    unmasked = unmasked_fields(name)
    assert planted_kernel.was_asked
    if UNMASKED in unmasked:
        assert reply == planted(reply_type(name))
    else:
        fields_with_secret = {field for field, text in texts(reply, "") if SECRET in text}
        assert fields_with_secret <= unmasked


def test_sentences_about_failures_are_masked(secrets: Secrets) -> None:
    kernel = MaskedKernel(cast("Any", PlantedKernel(fails=True)), secrets)
    for name in set(MEMBERS) - {"start", "set_size"}:
        if not is_property(name):
            with pytest.raises(KernelError, match=f"^{MASK} is not here"):
                ask(kernel, name)


def test_table_names_no_field_that_does_not_exist() -> None:
    for name, operation in TABLE.items():
        if operation.result != dict[str, Any]:
            fields_there = {field for field, _ in texts(planted(operation.result), "")}
            assert operation.unmasked - {UNMASKED} <= fields_there, name
    fields_there = {field for field, _ in texts(planted(CellResult), "")}
    assert CELL_FIELDS - {"kinds"} <= fields_there


@pytest.mark.parametrize("kind", [ProcessKernel, InProcessKernel, JupyterKernel])
def test_what_a_kind_of_kernel_does_otherwise_is_done_by_that_kernel(kind: type[Kernel]) -> None:
    overridden_members = {name for name in MEMBERS if name in vars(kind)}
    assert overridden_members <= set(vars(MaskedKernel))
