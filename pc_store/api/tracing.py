"""OpenTelemetry traces of requests, for servers that are told where to send them.

Nothing of OpenTelemetry is imported unless `OTEL_EXPORTER_OTLP_ENDPOINT` is set; it comes with the
extra `otel`. The endpoint and its headers are read by the exporter itself, from its own variables.
"""

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"

log = logging.getLogger("pc_store.api.tracing")


class Tracer:
    """Makes a span for each request, as a child of the caller's when it sends `traceparent`."""

    def __init__(self) -> None:
        """Set up the exporter. Raises ImportError without the extra `otel`."""
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
        from opentelemetry.trace import SpanKind, Status, StatusCode
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        provider = TracerProvider(
            resource=Resource.create({"service.name": os.environ.get("OTEL_SERVICE_NAME", "pc")})
        )
        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        self._provider = provider
        self._tracer = provider.get_tracer("pc_store.api")
        self._propagator = TraceContextTextMapPropagator()
        self._server = SpanKind.SERVER
        self._failed = Status(StatusCode.ERROR)

    @contextmanager
    def request(self, scope: Any, request_id: str) -> Iterator[Callable[[int, str], None]]:
        """Trace one request; what it yields ends the span with a status and a route template."""
        carrier = {
            key.decode("latin-1"): value.decode("latin-1")
            for key, value in scope["headers"]
            if key in (b"traceparent", b"tracestate")
        }
        with self._tracer.start_as_current_span(
            scope["method"],
            context=self._propagator.extract(carrier),
            kind=self._server,
            attributes={"http.request.method": scope["method"], "pc.request_id": request_id},
            record_exception=False,
            set_status_on_exception=False,
        ) as span:

            def end(status: int, route: str) -> None:
                span.update_name(f"{scope['method']} {route}")
                span.set_attribute("http.route", route)
                span.set_attribute("http.response.status_code", status)
                if status >= 500:
                    span.set_status(self._failed)

            yield end

    def close(self) -> None:
        """Send the spans that are held back, and stop."""
        self._provider.shutdown()


def tracer() -> Tracer | None:
    """The tracer, if an endpoint is configured and the extra is installed."""
    if not os.environ.get(ENDPOINT):
        return None
    try:
        return Tracer()
    except ImportError:
        log.warning(
            "%s is set and the extra is missing: pip install 'pc-pipelines[otel]'", ENDPOINT
        )
        return None
