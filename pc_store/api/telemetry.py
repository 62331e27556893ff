"""Logs, metrics and traces of requests: never a body, an id that a caller made, or a token."""

import json
import logging
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from pc_store.services.diagnose import GAUGES

UNROUTED = "(no route)"
METHODS = frozenset({"GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS"})
BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)

log = logging.getLogger("pc_store.api")

Span = Callable[[int, str], None]
"""Ends a span with the status and the route template of its request."""


class Telemetry:
    """The telemetry of one application."""

    def __init__(self) -> None:
        """Make the metrics, and the tracer if an OTLP endpoint is configured."""
        from pc_store.api import tracing

        self._registry = CollectorRegistry()
        labels = ("method", "route")
        self._requests = Counter(
            "pc_http_requests",
            "Requests answered.",
            (*labels, "status"),
            registry=self._registry,
        )
        self._durations = Histogram(
            "pc_http_request_seconds",
            "Time from the request line to the end of the answer.",
            labels,
            buckets=BUCKETS_S,
            registry=self._registry,
        )
        self._gauges = {
            name: Gauge(name, says, registry=self._registry) for name, says in GAUGES.items()
        }
        self._tracer = tracing.tracer()

    @contextmanager
    def span(self, scope: Any, request_id: str) -> Iterator[Span]:
        """Trace a request, if traces are configured."""
        if self._tracer is None:
            yield lambda _status, _route: None
            return
        with self._tracer.request(scope, request_id) as end:
            yield end

    def answered(
        self,
        *,
        request_id: str,
        method: str,
        route: str,
        status: int,
        duration_s: float,
        principal: str,
    ) -> None:
        """Log and count one answered request."""
        method = method if method in METHODS else "OTHER"
        self._requests.labels(method, route, str(status)).inc()
        self._durations.labels(method, route).observe(duration_s)
        log.log(
            logging.ERROR if status == 500 else logging.INFO,
            "request",
            extra={
                "fields": {
                    "request_id": request_id,
                    "method": method,
                    "route": route,
                    "status": status,
                    "duration_ms": round(duration_s * 1000, 2),
                    "principal": principal,
                }
            },
        )

    def failed(self, request_id: str, error: BaseException) -> None:
        """Log an error that nobody expected: its type and where, not what it says.

        A driver's message may hold the values of a statement.
        """
        frames = traceback.extract_tb(error.__traceback__)
        log.error(
            "failure",
            extra={
                "fields": {
                    "request_id": request_id,
                    "error": type(error).__name__,
                    "at": [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames],
                }
            },
        )

    def close(self) -> None:
        """Send what is still held back."""
        if self._tracer is not None:
            self._tracer.close()

    def exposition(self, gauges: Mapping[str, float]) -> bytes:
        """The metrics in Prometheus' text format, with the values of `diagnose.gauges`."""
        for name, value in gauges.items():
            self._gauges[name].set(value)
        return generate_latest(self._registry)


class JsonLines(logging.Formatter):
    """One JSON object a line: time, level, logger, event, and the fields of the event."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line. Exceptions are named by type and place, see `Telemetry.failed`."""
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": record.getMessage(),
        }
        line |= getattr(record, "fields", {})
        if record.exc_info and record.exc_info[0] is not None:
            line["error"] = record.exc_info[0].__name__
            line["at"] = [
                f"{frame.filename}:{frame.lineno} {frame.name}"
                for frame in traceback.extract_tb(record.exc_info[2])
            ]
        return json.dumps(line, ensure_ascii=False, default=str)


def log_to_stderr(level: int = logging.INFO) -> None:
    """Send the logs of the server, and of what serves it, to the error stream as JSON lines."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    for name in ("pc_store", "uvicorn"):
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.setLevel(level)
        logger.propagate = False
