"""Masks the session's secrets in a kernel's results. Code in the kernel sees them unmasked."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, is_dataclass, replace
from functools import cache, partial
from typing import Any

from mahtab_tui.bus.masking import MASK, MaskedStream, Secrets, SecretSpan, mask_slice, mask_spans
from mahtab_tui.kernel.base import (
    ALL,
    CellResult,
    Completions,
    Kernel,
    KernelError,
    KernelHost,
    NullHost,
    OnDisplay,
    OnOutput,
    Operations,
    OutputKind,
)


class MaskedKernel:
    def __init__(self, inner: Kernel, secrets: Secrets) -> None:
        self.inner = inner
        self._secrets = secrets
        self._host: KernelHost = NullHost()
        self._size = (80, 24)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in vars(Kernel):
            raise AttributeError(name)
        member = getattr(self.inner, name)
        if not callable(member):
            return self._masked(name, member)
        return partial(self._run if name in ("execute", "resume_cell") else self._call, name)

    def start(self, host: KernelHost) -> None:
        self._host = host
        self.inner.start(host)

    def replace_kernel(self, new: Kernel, text: str) -> None:
        """If it raises `KernelError`, the old kernel stays."""
        new.set_size(*self._size)
        try:
            new.start(self._host)
        except KernelError:
            self._host.kernel_state(self.info(), "")
            raise
        old, self.inner = self.inner, new
        old.close()
        self._host.kernel_state(self.info(), text)

    def set_size(self, columns: int, lines: int) -> None:
        self._size = (columns, lines)
        self.inner.set_size(columns, lines)

    def describe(self, names: Sequence[str], limit: int) -> dict[str, str]:
        """Also mask secrets truncated before a ``…``."""
        found: dict[str, str] = self._call("describe", names, limit)
        return {name: self._masked_cut(text) for name, text in found.items()}

    def complete(self, code: str, cursor: int) -> Completions:
        found: Completions = self._call("complete", code, cursor)
        items = (item for item in found.items if not self._secrets.spans(item.text))
        return replace(found, items=tuple(items))

    def inspect_object(self, request: Mapping[str, Any]) -> dict[str, Any]:
        if request["do"] != "text":
            found: dict[str, Any] = self._call("inspect_object", request)
            return found
        reply: dict[str, Any] = {}

        def fetch(start: int, end: int) -> str:
            reply.update(self.inner.inspect_object({**request, "start": start, "end": end}))
            reply["line"] += reply["text"].count("\n", 0, request["start"] - start)
            return str(reply["text"])

        with self._masked_errors():
            text = self._secrets.mask_page(fetch, request["start"], request["end"])
        return {**reply, "text": text}

    def _call(self, name: str, /, *args: Any, **arguments: Any) -> Any:
        with self._masked_errors():
            return self._masked(name, getattr(self.inner, name)(*args, **arguments))

    def _run(
        self,
        name: str,
        /,
        *args: Any,
        on_output: OnOutput,
        on_display: OnDisplay | None = None,
        **arguments: Any,
    ) -> Any:
        output = _Output(self._secrets, on_output)
        if on_display is not None:
            arguments["on_display"] = lambda display: on_display(self._masked(name, display))
        with self._masked_errors():
            result = getattr(self.inner, name)(*args, on_output=output.take, **arguments)
        output.end()
        if result is None:
            return None
        pieces = _mask_pieces(result, self._secrets.spans(result.output))
        return replace(
            self._masked(name, replace(result, output="")),
            output="".join(text for _, text in pieces),
            kinds=tuple((kind, len(text)) for kind, text in pieces),
        )

    def _masked(self, name: str, reply: Any) -> Any:
        forms = self._secrets.forms
        operation = vars(Operations).get(name)
        unmasked = frozenset() if operation is None else operation.unmasked
        if not forms.secrets or ALL in unmasked:
            return reply
        mask = cache(lambda text: mask_spans(text, forms.spans(text)))  # types and names recur
        return _mask_texts(reply, unmasked, mask)

    @contextmanager
    def _masked_errors(self) -> Iterator[None]:
        try:
            yield
        except KernelError as error:
            raise KernelError(self._secrets.mask(str(error))) from None

    def _masked_cut(self, text: str) -> str:
        pieces = text.split("…")
        for index, piece in enumerate(pieces[:-1]):
            start, tolerated = self._secrets.forms.find_partial(piece)
            if len(piece) - start > tolerated:
                pieces[index] = piece[:start] + MASK
        return "…".join(pieces)


def _mask_texts(value: Any, unmasked: frozenset[str], mask: Callable[[str], str]) -> Any:
    if type(value) is str:
        return mask(value)
    if isinstance(value, list | tuple):
        return type(value)(_mask_texts(each, unmasked, mask) for each in value)
    if isinstance(value, Mapping):
        return {
            name: each if name in unmasked else _mask_texts(each, unmasked, mask)
            for name, each in value.items()
        }
    if not is_dataclass(value) or isinstance(value, type):
        return value
    if getattr(value, "mime", "").startswith("image/"):
        unmasked |= {"data"}
    masked = {}
    for name in _field_names(type(value)):
        if name not in unmasked:
            each = getattr(value, name)  # keys of a mapping are names of the user's
            inside = frozenset[str]() if isinstance(each, Mapping) else unmasked
            if (changed := _mask_texts(each, inside, mask)) is not each:
                masked[name] = changed
    return replace(value, **masked) if masked else value


@cache
def _field_names(kind: Any) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind))


class _Output:
    def __init__(self, secrets: Secrets, on_output: OnOutput) -> None:
        self._secrets = secrets
        self._on_output = on_output
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
            self._on_output(self._kind, text)


def _mask_pieces(result: CellResult, spans: Sequence[SecretSpan]) -> list[tuple[OutputKind, str]]:
    """Mask the pieces of an output; a secret belongs to the piece in which it ends."""
    pieces: list[tuple[OutputKind, str]] = []
    waiting, start, offset = deque(spans), 0, 0
    for kind, size in result.kinds:
        offset += size
        inside: list[SecretSpan] = []
        while waiting and waiting[0].end <= offset:
            inside.append(waiting.popleft())
        end = min(offset, waiting[0].start) if waiting else offset
        pieces.append((kind, mask_slice(result.output, inside, start, end)))
        start = end
    return pieces
