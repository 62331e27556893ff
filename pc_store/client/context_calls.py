"""Calls about prepared contexts and the log of recalls."""

from collections.abc import Mapping, Sequence
from typing import Any

from pc_store.api.addresses import segment
from pc_store.api.bodies.context_bodies import ContextExtra, PreparedContext, RecallPage
from pc_store.client.connection import Connection


class ContextCalls(Connection):
    """The calls about prepared contexts and the log of recalls."""

    def prepare_context(
        self,
        scope_id: str,
        query: str,
        *,
        max_bytes: int | None = None,
        assembly: Mapping[str, Any] | None = None,
        include: Sequence[ContextExtra] = (),
    ) -> PreparedContext:
        """What the scope, and those it references, know about a question, within a budget.

        Args:
            assembly: {sections: [{family, limit}], show: [confidence, recall_rank]} for Markdown.
        """
        return self._ask(
            PreparedContext,
            "POST",
            "/v1/context/prepare",
            json={
                "scope_id": scope_id,
                "query": query,
                "max_bytes": max_bytes,
                "assembly": None if assembly is None else dict(assembly),
                "include": list(include) or None,
            },
            repeats=True,
        )

    def list_recalls(
        self, scope_id: str, *, limit: int | None = None, cursor: str | None = None
    ) -> RecallPage:
        """What was recalled in the scope, newest first."""
        path = f"/v1/scopes/{segment(scope_id)}/recalls"
        query = {"limit": limit, "cursor": cursor}
        return self._ask(RecallPage, "GET", path, query=query, repeats=True)
