"""Masks the session's secrets in a kernel's results. Code in the kernel sees them unmasked."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, is_dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any

from mahtab_tui.bus.masked_streams import MaskedStream
from mahtab_tui.bus.masking import MASK, Secrets, mask_slice, mask_spans
from mahtab_tui.bus.secret_matching import SecretSpan
from mahtab_tui.kernel.base import CellListener, Kernel, KernelError, OnDisplay, OnOutput
from mahtab_tui.kernel.host import KernelHost
from mahtab_tui.kernel.operations import UNMASKED, Operation, Operations, T, UndoAnswer
from mahtab_tui.kernel.values import (
    CellResult,
    Completions,
    KeepResult,
    KernelInfo,
    Lock,
    OutputKind,
    Restoration,
    RestoredFile,
    SavedFile,
    SavedNamespace,
    SaveRequest,
    UndoScope,
    UndoStep,
)

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

CELL_FIELDS = frozenset({"change", "file", "kind", "kinds", "mime", "name", "value"})
"""The fields of a `CellResult` and of a `DisplayRecord` that are not masked."""


class MaskedKernel(Kernel):
    """A kernel whose results and errors contain no secrets of the session."""

    def __init__(self, inner: Kernel, secrets: Secrets) -> None:
        super().__init__()
        self.inner = inner
        self._secrets = secrets
        self._size = (80, 24)

    def start(self, host: KernelHost) -> None:
        self._host = host
        self.inner.start(host)

    def replace_kernel(self, kernel: Kernel, text: str) -> None:
        """Start another kernel, and close this one.

        Args:
            kernel: The other kernel.
            text: A sentence for the user.

        Raises:
            KernelError: It could not start. The old kernel stays.
        """
        kernel.set_size(*self._size)
        try:
            kernel.start(self._host)
        except KernelError:
            self._host.kernel_state(self.info(), "")
            raise
        old_kernel = self.inner
        self.inner = kernel
        old_kernel.close()
        self._host.kernel_state(self.info(), text)

    # What a kernel answers

    def _ask(self, operation: Operation[T], timeout: float | None = None, **fields: Any) -> T:
        with self._masked_errors():
            reply = self.inner._ask(operation, timeout, **fields)
        return self._mask(reply, operation.unmasked)

    def describe(self, names: Sequence[str], limit: int) -> dict[str, str]:
        """Describe variables with their secrets masked, also secrets that are truncated before a ``…``."""
        descriptions = super().describe(names, limit)
        return {name: self._mask_truncated(text) for name, text in descriptions.items()}

    def complete(self, code: str, cursor: int) -> Completions:
        """Leave out completions that contain a secret: a masked one could not be inserted."""
        completions = super().complete(code, cursor)
        items = tuple(item for item in completions.items if not self._secrets.spans(item.text))
        return replace(completions, items=items)

    def inspect_object(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Mask a reply.

        A page of a text is read with what surrounds it, because a secret may begin before the page
        or end after it.
        """
        if request["do"] != "text":
            return super().inspect_object(request)

        reply: dict[str, Any] = {}

        def fetch(start: int, end: int) -> str:
            reply.update(self.inner.inspect_object({**request, "start": start, "end": end}))
            # The number of the line is that of the page's first character.
            reply["line"] += reply["text"].count("\n", 0, request["start"] - start)
            return str(reply["text"])

        with self._masked_errors():
            text = self._secrets.mask_page(fetch, request["start"], request["end"])
        return {**reply, "text": text}

    # Cells

    def _run_cell(
        self, code: str, listener: CellListener, nested: bool, lock: Lock | None
    ) -> CellResult:
        output = _MaskedOutput(self._secrets, listener.on_output)
        on_display: OnDisplay | None = None
        if listener.on_display is not None:
            on_display = self._masked_displays(listener.on_display)
        masked_listener = CellListener(listener.cell, output.add, on_display)
        with self._masked_errors():
            result = self.inner._run_cell(code, masked_listener, nested, lock)
        output.end()
        return self._masked_result(result)

    def resume_cell(
        self, cell: int, *, on_output: OnOutput, on_display: OnDisplay, nested: bool = False
    ) -> CellResult | None:
        output = _MaskedOutput(self._secrets, on_output)
        masked_display = self._masked_displays(on_display)
        with self._masked_errors():
            result = self.inner.resume_cell(
                cell, on_output=output.add, on_display=masked_display, nested=nested
            )
        output.end()
        if result is None:
            return None
        return self._masked_result(result)

    def acknowledge(self, cell: int) -> None:
        with self._masked_errors():
            self.inner.acknowledge(cell)

    def _masked_displays(self, on_display: OnDisplay) -> OnDisplay:
        return lambda display: on_display(self._mask(display, CELL_FIELDS))

    def _masked_result(self, result: CellResult) -> CellResult:
        """Mask a result. A secret may be spread over several pieces of the output."""
        if not self._secrets.matcher.secrets:
            return result
        pieces = _mask_pieces(result, self._secrets.spans(result.output))
        return replace(
            self._mask(replace(result, output=""), CELL_FIELDS),
            output="".join(text for _, text in pieces),
            kinds=tuple((kind, len(text)) for kind, text in pieces),
        )

    # The kernel's process

    @property
    def can_detach(self) -> bool:
        return self.inner.can_detach

    @property
    def was_reattached(self) -> bool:
        return self.inner.was_reattached

    def info(self) -> KernelInfo:
        """Return it unmasked: a version, paths and addresses that the user has chosen."""
        with self._masked_errors():
            return self.inner.info()

    def interrupt(self, cell: int | None = None) -> bool:
        with self._masked_errors():
            return self.inner.interrupt(cell)

    def kill(self) -> None:
        with self._masked_errors():
            self.inner.kill()

    def reset(self) -> None:
        with self._masked_errors():
            self.inner.reset()

    def activate(self, python: str) -> None:
        with self._masked_errors():
            self.inner.activate(python)

    def set_size(self, columns: int, lines: int) -> None:
        self._size = (columns, lines)
        self.inner.set_size(columns, lines)

    def set_reload(self, on: bool) -> None:
        with self._masked_errors():
            self.inner.set_reload(on)

    def close(self, *, leave: bool = False, on_purpose: bool = False) -> None:
        with self._masked_errors():
            self.inner.close(leave=leave, on_purpose=on_purpose)

    # Locked forks, undo and saved variables

    @property
    def lock_unavailable_reason(self) -> str:
        return self._mask(self.inner.lock_unavailable_reason)

    @property
    def protects_files(self) -> bool:
        return self.inner.protects_files

    @property
    def undo_unavailable_reason(self) -> str:
        return self._mask(self.inner.undo_unavailable_reason)

    def undo_steps(self) -> tuple[UndoStep, ...]:
        with self._masked_errors():
            return self.inner.undo_steps()

    def _undo(self, operation: Operation[UndoAnswer], cell: int, scope: UndoScope) -> Restoration:
        with self._masked_errors():
            restoration = self.inner._undo(operation, cell, scope)
        return self._mask(restoration, operation.unmasked)

    def last_save_request(self) -> SaveRequest:
        """Return names of variables and files, unmasked."""
        with self._masked_errors():
            return self.inner.last_save_request()

    def saved_namespace(self) -> SavedNamespace | None:
        with self._masked_errors():
            saved = self.inner.saved_namespace()
        return self._mask(saved, Operations.saved_namespace.unmasked)

    def keep(self, carried: Sequence[str], lost: Sequence[str], seconds: float) -> KeepResult:
        with self._masked_errors():
            result = self.inner.keep(carried, lost, seconds)
        return self._mask(result, Operations.keep.unmasked)

    def restore(self, file: SavedFile) -> RestoredFile:
        with self._masked_errors():
            restored = self.inner.restore(file)
        return self._mask(restored, Operations.restore.unmasked)

    # Masking

    def _mask(self, reply: T, unmasked_fields: frozenset[str] = frozenset()) -> T:
        """Mask the texts in a reply, except those in some fields."""
        matcher = self._secrets.matcher
        if not matcher.secrets or UNMASKED in unmasked_fields:
            return reply
        # Cached, because types and names recur.
        mask = cache(lambda text: mask_spans(text, matcher.spans(text)))
        masked: T = _mask_texts(reply, unmasked_fields, mask)
        return masked

    @contextmanager
    def _masked_errors(self) -> Iterator[None]:
        try:
            yield
        except KernelError as error:
            raise KernelError(self._secrets.mask(str(error))) from None

    def _mask_truncated(self, text: str) -> str:
        """Mask the beginnings of secrets before each ``…``."""
        pieces = text.split("…")
        for index, piece in enumerate(pieces[:-1]):
            partial = self._secrets.matcher.find_partial(piece)
            if len(piece) - partial.start > partial.displayable_chars:
                pieces[index] = piece[: partial.start] + MASK
        return "…".join(pieces)


def _mask_texts(value: Any, unmasked_fields: frozenset[str], mask: Callable[[str], str]) -> Any:
    """Mask the texts in a value, at any depth.

    Args:
        value: A JSON value, or a dataclass.
        unmasked_fields: Names of fields that are not masked.
        mask: Masks one text.
    """
    if type(value) is str:
        return mask(value)
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return type(value)(**_mask_texts(value._asdict(), unmasked_fields, mask))
    if isinstance(value, list | tuple):
        return type(value)(_mask_texts(item, unmasked_fields, mask) for item in value)
    if isinstance(value, Mapping):
        return {
            name: item if name in unmasked_fields else _mask_texts(item, unmasked_fields, mask)
            for name, item in value.items()
        }
    if is_dataclass(value) and not isinstance(value, type):
        return _mask_dataclass(value, unmasked_fields, mask)
    return value


def _mask_dataclass(
    value: DataclassInstance, unmasked_fields: frozenset[str], mask: Callable[[str], str]
) -> DataclassInstance:
    """Mask the texts in the fields of a dataclass; see `_mask_texts`.

    Returns:
        The same object if nothing in it was masked.
    """
    if getattr(value, "mime", "").startswith("image/"):
        unmasked_fields |= {"data"}  # base64
    masked_fields: dict[str, Any] = {}
    for name in _field_names(type(value)):
        if name in unmasked_fields:
            continue
        field_value = getattr(value, name)
        # The keys of a mapping are names in the user's code, which must not be taken for fields.
        inner_fields = frozenset() if isinstance(field_value, Mapping) else unmasked_fields
        masked_value = _mask_texts(field_value, inner_fields, mask)
        if masked_value is not field_value:
            masked_fields[name] = masked_value
    return replace(value, **masked_fields) if masked_fields else value


@cache
def _field_names(dataclass_type: Any) -> tuple[str, ...]:
    return tuple(field.name for field in fields(dataclass_type))


class _MaskedOutput:
    """Masks pieces of output on their way to a listener; a secret may be spread over several."""

    def __init__(self, secrets: Secrets, on_output: OnOutput) -> None:
        self._secrets = secrets
        self._on_output = on_output
        self._kind: OutputKind = "stdout"
        self._stream = MaskedStream(secrets)

    def add(self, kind: OutputKind, text: str) -> None:
        if kind != self._kind:
            self.end()
            self._kind = kind
        self._report(self._stream.feed(text))

    def end(self) -> None:
        self._report(self._stream.finish())

    def _report(self, text: str) -> None:
        if text:
            self._on_output(self._kind, text)


def _mask_pieces(result: CellResult, spans: Sequence[SecretSpan]) -> list[tuple[OutputKind, str]]:
    """Mask the pieces of an output; a secret belongs to the piece in which it ends."""
    pieces: list[tuple[OutputKind, str]] = []
    remaining_spans = deque(spans)
    masked_end = 0
    piece_end = 0
    for kind, size in result.kinds:
        piece_end += size
        inner_spans: list[SecretSpan] = []
        while remaining_spans and remaining_spans[0].end <= piece_end:
            inner_spans.append(remaining_spans.popleft())

        # A secret that ends in a later piece is left for it.
        end = piece_end
        if remaining_spans:
            end = min(end, remaining_spans[0].start)
        pieces.append((kind, mask_slice(result.output, inner_spans, masked_end, end)))
        masked_end = end
    return pieces
