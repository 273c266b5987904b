"""Sends traces of a session by OpenTelemetry, if its variables ask for that. Nothing of a session waits for it, but its end for a moment."""

from __future__ import annotations

import contextlib
import logging
import os
import queue
import threading
import uuid
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from mahtab_tui.bus.masking import Secrets
from mahtab_tui.bus.records import Notice, Record, Stream, emit, record_of
from mahtab_tui.session.private_names import PrivateNames
from mahtab_tui.session.profile import Profile
from mahtab_tui.system.exporting import traces_go_to, traces_have_content, unsupported_protocol
from mahtab_tui.system.imports import IMPORTS

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

    from mahtab_tui.session.trace_fold import TraceFold

_WAITING = 50_000
"""Records that wait to be folded; what comes beyond them has no span."""
_LAST = 2.0
"""Seconds that the end of a session waits for the last spans to be sent; it does not wait for a collector that has not taken the last ones."""
_MISSING = (
    "Traces are not sent to {where}, because a package is not installed: install mahtab-tui[otel]. OTEL_SDK_DISABLED=true keeps this from being said."
)


class Traces(logging.Handler):
    """Gives the records of a session to a thread that makes spans of them."""

    def __init__(self, log: logging.Logger, secrets: Secrets, private: PrivateNames, profile: Profile) -> None:
        super().__init__()
        self._log = log
        self._secrets = secrets
        self._private = private
        self._profile = profile
        self._records: queue.Queue[Record | None] = queue.Queue(_WAITING)
        self._ended = False
        """Whether records are no longer wanted."""
        self._failing = False
        """Whether the collector has not taken the last spans."""
        self._said = False
        self._thread = threading.Thread(target=self._run, name="traces", daemon=True)
        self._thread.start()

    def emit(self, record: logging.LogRecord) -> None:
        value = record_of(record)
        if not (self._ended or isinstance(value, Stream)):
            with contextlib.suppress(queue.Full):
                self._records.put_nowait(value)

    def close(self) -> None:
        """Send what is left, for at most two seconds."""
        super().close()
        self._ended = True
        with contextlib.suppress(queue.Full):
            self._records.put_nowait(None)
        if not self._failing:
            self._thread.join(_LAST)

    def _run(self) -> None:
        try:
            self._send()
        finally:
            self._ended = True

    def _send(self) -> None:
        where = traces_go_to()
        if protocol := unsupported_protocol():
            self._notice(f"Traces are not sent to {where}: {protocol} is not supported. Set OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf.")
            return
        try:
            with IMPORTS.turn():
                fold, shutdown = self._made(where)
        except ImportError:
            self._notice(_MISSING.format(where=where))
            return
        except Exception as error:  # the thread's outermost frame: a wrong variable
            self._notice(f"Traces are not sent to {where}. {type(error).__name__}: {error}")
            return
        while (record := self._records.get()) is not None:
            try:
                fold.fold(record)
            except Exception as error:  # the thread's outermost frame: the session goes on without its traces
                self._notice(f"Traces are no longer sent to {where}. {type(error).__name__}: {error}")
                break
        fold.close()
        shutdown()

    def _made(self, where: str) -> tuple[TraceFold, Callable[[], None]]:
        """Load the packages; return what makes spans, and what sends the last ones."""
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        from mahtab_tui import __version__
        from mahtab_tui.session.trace_fold import Content, TraceFold

        loud = logging.getLogger("opentelemetry")  # what it logs would be written over the screen
        loud.addHandler(logging.NullHandler())
        loud.propagate = False
        named = {} if os.environ.get("OTEL_SERVICE_NAME") or "service.name" in os.environ.get("OTEL_RESOURCE_ATTRIBUTES", "") else _SERVICE
        # A provider of our own: the spans of other libraries, with what they hold, go nowhere.
        provider = TracerProvider(resource=Resource.create({**named, "service.version": __version__}), shutdown_on_exit=False)
        processor = BatchSpanProcessor(_watched(OTLPSpanExporter(), lambda failed: self._exported(where, failed)))
        provider.add_span_processor(processor)
        content = Content(self._secrets.told, self._names_private, self._private.used.__contains__) if traces_have_content() else None
        return TraceFold(provider.get_tracer("mahtab-tui", __version__), uuid.uuid4().hex, lambda: self._profile.model, content), processor.shutdown

    def _exported(self, where: str, failed: bool) -> None:
        """Note whether the collector has taken spans; the first failure is told."""
        self._failing = failed
        if failed and not self._said:
            self._said = True
            self._notice(f"Traces cannot be sent to {where}. They are dropped.")

    def _names_private(self, code: str) -> bool:
        """Whether code names a private variable, as far as its text tells: nothing waits for the kernel here."""
        if not self._private.names:
            return False
        from mahtab_tui.kernel.worker.private_use import mentioned, reaches_everything

        words = mentioned(code)
        return reaches_everything(words) or any(map(self._private.hides, words))

    def _notice(self, text: str) -> None:
        emit(self._log, Notice(text, level="warning"))


_SERVICE: dict[str, Any] = {"service.name": "mahtab-tui"}


def _watched(exporter: SpanExporter, on_export: Callable[[bool], None]) -> SpanExporter:
    """Return an exporter that tells after each export whether it has failed."""
    from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

    class Watched(SpanExporter):
        def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
            result = exporter.export(spans)
            on_export(result is SpanExportResult.FAILURE)
            return result

        def shutdown(self) -> None:
            exporter.shutdown()

    return Watched()
