"""A kernel whose results have the session's secrets masked. Code in the kernel sees them
unmasked."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from mahtab_tui.bus.masking import MASK, MaskedStream, Secrets, SecretSpan, mask_spans
from mahtab_tui.kernel.base import Kernel, KernelError, KernelHost, NullHost, OnDisplay, OnOutput
from mahtab_tui.kernel.values import (
    CellResult,
    Change,
    Completions,
    Detail,
    Display,
    Explanation,
    Lock,
    NotSaved,
    OutputKind,
    Restoration,
    RestoredFile,
    SavedFile,
    SavedNamespace,
    Variable,
)

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

T = TypeVar("T", bound="DataclassInstance")

PASS_THROUGH = frozenset(
    "can_detach was_reattached acknowledge saved_before interrupt kill reset activate change_directory installed set_reload private_use cannot_lock cannot_undo "
    "undo_steps keep info close".split()
)
"""Operations that are not masked: commands, names, numbers, and results that nobody sees."""

Ask = Callable[[Mapping[str, Any]], dict[str, Any]]
"""See `Kernel.inspect_object`."""

_TEXT_FIELDS = {
    "open": ("summary", "shown", "problem"),
    "children": ("rows",),
    "evaluate": ("label", "summary"),
    "columns": ("columns",),
    "table": ("labels", "cells"),
    "figures": ("min", "max"),
    "source": ("signature", "doc", "where", "source"),
    "repr": ("text",),
}
"""The text fields of each answer; other fields are numbers or identify objects."""
_IDENTIFIER_FIELDS = ("step", "path", "expression", "known", "kind", "state", "views")
"""Fields within those that identify objects."""


class MaskedKernel:
    """A `Kernel` that masks the results of another one."""

    def __getattr__(self, name: str) -> Any:
        if name not in PASS_THROUGH:
            raise AttributeError(name)
        return getattr(self.inner, name)

    def __init__(self, inner: Kernel, secrets: Secrets) -> None:
        self.inner = inner
        self._secrets = secrets
        self._host: KernelHost = NullHost()
        self._size = (80, 24)

    def start(self, host: KernelHost) -> None:
        self._host = host
        self.inner.start(host)

    def replace_kernel(self, new: Kernel, text: str) -> None:
        """Replace the kernel by another one. text: a sentence about it. If it raises `KernelError`,
        the old one stays."""
        new.set_size(*self._size)
        try:
            new.start(self._host)
        except KernelError:
            self._host.kernel_state(self.info(), "")
            raise
        old, self.inner = self.inner, new
        old.close()
        self._host.kernel_state(self.info(), text)

    def execute(
        self,
        code: str,
        *,
        cell: int,
        on_output: OnOutput,
        limit: int | None = None,
        nested: bool = False,
        on_display: OnDisplay | None = None,
        lock: Lock | None = None,
    ) -> CellResult:
        output = _Output(self._secrets, on_output)
        show = None if on_display is None else self._masking_callback(on_display)
        result = self.inner.execute(
            code,
            cell=cell,
            on_output=output.take,
            limit=limit,
            nested=nested,
            on_display=show,
            lock=lock,
        )
        output.end()
        return self._result(result)

    def resume_cell(
        self, cell: int, *, on_output: OnOutput, on_display: OnDisplay, nested: bool = False
    ) -> CellResult | None:
        output = _Output(self._secrets, on_output)
        result = self.inner.resume_cell(
            cell,
            on_output=output.take,
            on_display=self._masking_callback(on_display),
            nested=nested,
        )
        output.end()
        return None if result is None else self._result(result)

    def set_size(self, columns: int, lines: int) -> None:
        self._size = (columns, lines)
        self.inner.set_size(columns, lines)

    def variables(self) -> list[Variable]:
        return [self._variable(variable) for variable in self.inner.variables()]

    def inspect(self, name: str, *, run_code: bool = True) -> Detail:
        found = self.inner.inspect(name, run_code=run_code)
        attributes = tuple(map(self._variable, found.attributes))
        return replace(
            self._masked(found, "summary", "text", "doc", "source", "where", "error"),
            attributes=attributes,
        )

    def describe(self, names: Sequence[str], limit: int) -> dict[str, str]:
        return {
            name: self._masked_cut(text) for name, text in self.inner.describe(names, limit).items()
        }

    def inspect_object(self, request: Mapping[str, Any]) -> dict[str, Any]:
        return _masked_reply(self.inner.inspect_object, request, self._secrets)

    def complete(self, code: str, cursor: int) -> Completions:
        """Complete, leaving out candidates that contain a secret."""
        found = self.inner.complete(code, cursor)
        items = (
            self._masked(item, "label", "doc")
            for item in found.items
            if self._secrets.mask(item.text) == item.text
        )
        return replace(found, items=tuple(items))

    def explain(self, code: str, cursor: int) -> Explanation | None:
        found = self.inner.explain(code, cursor)
        return None if found is None else self._masked(found, "signature", "doc", "source")

    def preview_undo(self, cell: int) -> Restoration:
        return self._restoration(self.inner.preview_undo(cell))

    def undo(self, cell: int) -> Restoration:
        return self._restoration(self.inner.undo(cell))

    def redo(self) -> Restoration:
        return self._restoration(self.inner.redo())

    def saved_namespace(self) -> SavedNamespace | None:
        saved = self.inner.saved_namespace()
        if saved is None:
            return None
        files = (
            replace(file, variables=tuple(map(self._variable, file.variables)))
            for file in saved.files
        )
        missing = (
            NotSaved(self._variable(each.variable), self._secrets.mask(each.reason))
            for each in saved.missing
        )
        return SavedNamespace(tuple(files), tuple(missing))

    def restore(self, file: SavedFile) -> RestoredFile:
        done = self.inner.restore(file)
        missing = {name: self._secrets.mask(reason) for name, reason in done.missing.items()}
        return RestoredFile(tuple(map(self._change, done.changes)), missing)

    def _result(self, result: CellResult) -> CellResult:
        spans = self._secrets.spans(result.output)
        return replace(
            result,
            output=mask_spans(result.output, spans),
            kinds=_kinds(result.output, result.kinds, spans) if spans else result.kinds,
            changes=tuple(map(self._change, result.changes)),
            detail=self._secrets.mask(result.detail),
            needs=self._secrets.mask(result.needs),
            displays=tuple(map(self._display, result.displays)),
        )

    def _masking_callback(self, on_display: OnDisplay) -> OnDisplay:
        return lambda display: on_display(self._display(display))

    def _display(self, display: Display) -> Display:
        mask = self._secrets.mask
        return replace(
            display,
            text=mask(display.text),
            data=mask(display.data) if display.mime.startswith("text/") else display.data,
        )

    def _change(self, change: Change) -> Change:
        now, before = change.variable, change.before
        return replace(
            change, variable=now and self._variable(now), before=before and self._variable(before)
        )

    def _restoration(self, done: Restoration) -> Restoration:
        as_is = (self._masked(each, "reason") for each in done.kept_as_is)
        return replace(
            done, changes=tuple(map(self._change, done.changes)), kept_as_is=tuple(as_is)
        )

    def _masked(self, reply: T, *fields: str) -> T:
        return replace(
            reply, **{field: self._secrets.mask(getattr(reply, field)) for field in fields}
        )

    def _masked_cut(self, text: str) -> str:
        """Mask secrets, including those truncated before a ``…``."""
        pieces = self._secrets.mask(text).split("…")
        for index, piece in enumerate(pieces[:-1]):
            start, tolerated = self._secrets.forms.find_partial(piece)
            if len(piece) - start > tolerated:
                pieces[index] = piece[:start] + MASK
        return "…".join(pieces)

    def _variable(self, variable: Variable) -> Variable:
        """Mask a variable's summary, but not its name, which identifies it."""
        return replace(variable, summary=self._secrets.mask(variable.summary))


class _Output:
    """Masks a cell's streamed output, each kind separately."""

    def __init__(self, secrets: Secrets, hand_on: OnOutput) -> None:
        self._secrets = secrets
        self._hand_on = hand_on
        self._kind: OutputKind = "stdout"
        self._stream = MaskedStream(secrets)

    def take(self, kind: OutputKind, text: str) -> None:
        if kind != self._kind:
            self.end()
            self._kind = kind
        self._report(self._stream.feed(text))

    def end(self) -> None:
        self._report(self._stream.finish())

    def _report(self, text: str) -> None:
        if text:
            self._hand_on(self._kind, text)


def _kinds(
    text: str, kinds: Sequence[tuple[OutputKind, int]], spans: Sequence[SecretSpan]
) -> tuple[tuple[OutputKind, int], ...]:
    """Recompute the lengths of an output's kinds after masking; a secret belongs to the kind in
    which it ends."""
    result: list[tuple[OutputKind, int]] = []
    waiting = deque(spans)
    offset = done = longer = 0
    for kind, size in kinds:
        offset += size
        while waiting and waiting[0].end <= offset:
            start, end = waiting.popleft()
            longer += len(mask_spans(text[start:end], [SecretSpan(0, end - start)])) - (end - start)
        end = longer + (min(offset, waiting[0].start) if waiting else offset)
        result.append((kind, end - done))
        done = end
    return tuple(result)


def _masked_reply(ask: Ask, asked: Mapping[str, Any], secrets: Secrets) -> dict[str, Any]:
    question = asked["do"]
    if question == "text":
        return _text(ask, asked, secrets)
    reply = ask(asked)
    if not secrets.forms.secrets:
        return reply
    return {
        **reply,
        **{name: _masked(reply[name], secrets) for name in _TEXT_FIELDS.get(question, ())},
    }


def _masked(value: Any, secrets: Secrets) -> Any:
    if isinstance(value, str):
        return secrets.mask(value)
    if isinstance(value, list):
        return [_masked(each, secrets) for each in value]
    if isinstance(value, dict):
        return {
            name: each if name in _IDENTIFIER_FIELDS else _masked(each, secrets)
            for name, each in value.items()
        }
    return value


def _text(ask: Ask, asked: Mapping[str, Any], secrets: Secrets) -> dict[str, Any]:
    """Return a masked part of a text, with the number of line breaks before it."""
    reply: dict[str, Any] = {}

    def fetch(start: int, end: int) -> str:
        reply.update(ask({**asked, "start": start, "end": end}))
        reply["line"] += reply["text"].count("\n", 0, asked["start"] - start)
        return str(reply["text"])

    text = secrets.mask_page(fetch, asked["start"], asked["end"])
    return {**reply, "text": text}
