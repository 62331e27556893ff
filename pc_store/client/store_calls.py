"""Calls about sources, artifacts, prompts, windows, and the service itself."""

from collections.abc import Mapping, Sequence
from typing import Literal

from pydantic import JsonValue

from pc_store.api.addresses import segment
from pc_store.api.bodies.artifact_bodies import (
    ArtifactPage,
    ArtifactRevision,
    Family,
    PromptConfiguration,
)
from pc_store.api.bodies.memory_bodies import Flushed
from pc_store.api.bodies.service_bodies import (
    Capabilities,
    Health,
    Quarantine,
    Readiness,
    Released,
    Statistics,
    Status,
    WindowPage,
)
from pc_store.api.bodies.source_bodies import Captured, SourceExtra, SourcePage, SourceRecord
from pc_store.client.connection import Connection
from pc_store.client.memory_calls import MODEL_S
from pc_store.client.scope_calls import EVERY_SCOPE, Selection


class StoreCalls(Connection):
    """The calls about sources, artifacts, prompts, windows, and the service."""

    def get_liveness(self) -> Health:
        """Whether the server's process is alive; needs no token."""
        return self._ask(Health, "GET", "/health/live", repeats=True)

    def get_readiness(self) -> Readiness:
        """Whether requests can be answered, and what was looked at; needs no token."""
        answer = self._exchange("GET", "/health/ready", repeats=True, takes=frozenset({503}))
        return self._body(Readiness, answer)

    def get_capabilities(self) -> Capabilities:
        """What the server does, as it is configured."""
        return self._ask(Capabilities, "GET", "/v1/capabilities", repeats=True)

    def get_metrics(self) -> str:
        """Metrics in Prometheus' text format."""
        return self._exchange("GET", "/metrics", repeats=True).text

    def get_stats(
        self,
        selection: Selection = EVERY_SCOPE,
        *,
        period: Literal["today", "7d", "30d"] = "30d",
    ) -> Statistics:
        """What some scopes hold and cost."""
        return self._ask(
            Statistics,
            "POST",
            "/v1/stats",
            json={"selection": dict(selection), "period": period},
            repeats=True,
        )

    def capture_content_source(
        self,
        scope_id: str,
        source_id: str,
        content: str,
        *,
        metadata: Mapping[str, JsonValue] | None = None,
    ) -> Captured:
        """Append a text to a scope's log; again changes nothing.

        Raises:
            SourceConflict: the id holds other content or metadata.
        """
        return self._ask(
            Captured,
            "POST",
            "/v1/sources/content",
            json={
                "scope_id": scope_id,
                "source_id": source_id,
                "content": content,
                "metadata": None if metadata is None else dict(metadata),
            },
            repeats=True,
        )

    def create_source(
        self, scope_id: str, content: JsonValue, *, idempotency_key: str | None = None
    ) -> SourceRecord:
        """Append any JSON value, None too, under an id that the server makes."""
        answer = self._exchange(
            "POST",
            f"/v1/scopes/{segment(scope_id)}/sources",
            whole={"content": content},
            idempotency_key=idempotency_key,
        )
        return self._body(SourceRecord, answer)

    def list_sources(
        self,
        scope_id: str,
        *,
        limit: int | None = None,
        cursor: str | None = None,
        include: Sequence[SourceExtra] = (),
    ) -> SourcePage:
        """Sources by position."""
        return self._ask(
            SourcePage,
            "GET",
            f"/v1/scopes/{segment(scope_id)}/sources",
            query={"limit": limit, "cursor": cursor, "include": list(include)},
            repeats=True,
        )

    def get_source(
        self,
        scope_id: str,
        source_id: str,
        *,
        source_type: str = "content",
        include: Sequence[SourceExtra] = (),
    ) -> SourceRecord:
        """A source as it was captured."""
        path = f"/v1/scopes/{segment(scope_id)}/sources/{segment(source_type)}/{segment(source_id)}"
        query = {"include": list(include)}
        return self._ask(SourceRecord, "GET", path, query=query, repeats=True)

    def list_artifacts(
        self, scope_id: str, family: Family, *, limit: int | None = None, cursor: str | None = None
    ) -> ArtifactPage:
        """The newest revisions of a family's artifacts, by id."""
        path = _artifact(scope_id, family)
        query = {"limit": limit, "cursor": cursor}
        return self._ask(ArtifactPage, "GET", path, query=query, repeats=True)

    def get_artifact(
        self,
        scope_id: str,
        family: Family,
        artifact_id: str,
        *,
        unless_revision: int | None = None,
    ) -> ArtifactRevision | None:
        """The newest revision of an artifact; None when it is `unless_revision`."""
        tag = f'"revision:{unless_revision}"'
        answer = self._exchange(
            "GET",
            _artifact(scope_id, family, artifact_id),
            headers={} if unless_revision is None else {"If-None-Match": tag},
            repeats=True,
            takes=frozenset({304}),
        )
        return None if answer.status_code == 304 else self._body(ArtifactRevision, answer)

    def list_artifact_revisions(
        self,
        scope_id: str,
        family: Family,
        artifact_id: str,
        *,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> ArtifactPage:
        """An artifact's revisions, newest first."""
        path = f"{_artifact(scope_id, family, artifact_id)}/revisions"
        query = {"limit": limit, "cursor": cursor}
        return self._ask(ArtifactPage, "GET", path, query=query, repeats=True)

    def get_artifact_revision(
        self, scope_id: str, family: Family, artifact_id: str, revision: int
    ) -> ArtifactRevision:
        """One exact revision; it never changes."""
        path = f"{_artifact(scope_id, family, artifact_id)}/revisions/{revision}"
        return self._ask(ArtifactRevision, "GET", path, repeats=True)

    def get_prompt_configuration(self, scope_id: str, prompt_key: str) -> PromptConfiguration:
        """The prompt in force."""
        path = f"/v1/scopes/{segment(scope_id)}/prompts/{segment(prompt_key)}"
        return self._ask(PromptConfiguration, "GET", path, repeats=True)

    def set_prompt_instructions(
        self,
        scope_id: str,
        prompt_key: str,
        instructions: str | None,
        *,
        reason: str | None = None,
        idempotency_key: str | None = None,
    ) -> PromptConfiguration:
        """Give a scope instructions of its own; None returns it to the packaged ones."""
        answer = self._exchange(
            "PUT",
            f"/v1/scopes/{segment(scope_id)}/prompts/{segment(prompt_key)}",
            whole={"instructions": instructions, "reason": reason},
            idempotency_key=idempotency_key,
        )
        return self._body(PromptConfiguration, answer)

    def list_windows(
        self,
        scope_id: str,
        *,
        status: Sequence[Status] = (),
        limit: int | None = None,
        cursor: str | None = None,
    ) -> WindowPage:
        """The windows of a scope, newest first."""
        query = {"status": list(status), "limit": limit, "cursor": cursor}
        path = f"/v1/scopes/{segment(scope_id)}/windows"
        return self._ask(WindowPage, "GET", path, query=query, repeats=True)

    def replay_window(
        self,
        scope_id: str,
        window: str,
        *,
        generation: str | None = None,
        idempotency_key: str | None = None,
    ) -> Flushed:
        """Run a window behind the cursor again; the cursor stays.

        Args:
            generation: keep the results there, and the memory as it is.
        """
        return self._ask(
            Flushed,
            "POST",
            f"/v1/scopes/{segment(scope_id)}/windows/{segment(window)}/replay",
            json=None if generation is None else {"generation": generation},
            idempotency_key=idempotency_key,
            timeout_s=MODEL_S,
        )

    def list_quarantined_sources(
        self, scope_id: str, *, include_released: bool = False, limit: int | None = None
    ) -> Quarantine:
        """Sources that were set aside, by position."""
        query = {"include_released": include_released, "limit": limit}
        path = f"/v1/scopes/{segment(scope_id)}/quarantine"
        return self._ask(Quarantine, "GET", path, query=query, repeats=True)

    def retry_quarantined_source(
        self, scope_id: str, position: int, *, idempotency_key: str | None = None
    ) -> Flushed:
        """Process a source in quarantine again; it leaves quarantine if that works."""
        path = f"/v1/scopes/{segment(scope_id)}/quarantine/{position}/retry"
        return self._ask(Flushed, "POST", path, idempotency_key=idempotency_key, timeout_s=MODEL_S)

    def release_quarantined_source(
        self, scope_id: str, position: int, *, idempotency_key: str | None = None
    ) -> Released:
        """Take a source off the list without processing it."""
        path = f"/v1/scopes/{segment(scope_id)}/quarantine/{position}/release"
        return self._ask(Released, "POST", path, idempotency_key=idempotency_key)


def _artifact(scope_id: str, family: str, artifact_id: str | None = None) -> str:
    collection = f"/v1/scopes/{segment(scope_id)}/artifacts/{segment(family)}"
    return collection if artifact_id is None else f"{collection}/{segment(artifact_id)}"
