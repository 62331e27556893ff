"""Calls about scopes: themselves, the default one, bindings, selections."""

from collections.abc import Mapping, Sequence
from typing import Any

from pc_store.api.addresses import segment
from pc_store.api.bodies.scope_bodies import (
    Cleared,
    QueryField,
    ScopeBinding,
    ScopeBindingKey,
    ScopeDescriptor,
    ScopePage,
)
from pc_store.client.connection import Connection

Selection = Mapping[str, Any]
"""{mode: all}, {mode: exact, scope_ids} or {mode: subtree, root_scope_id}."""
EVERY_SCOPE: Selection = {"mode": "all"}


class ScopeCalls(Connection):
    """The calls about scopes."""

    def list_scopes(
        self,
        *,
        query: str | None = None,
        query_field: QueryField | None = None,
        parent_scope_id: str | None = None,
        external_reference_kind: str | None = None,
        binding_integration: str | None = None,
        binding_kind: str | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> ScopePage:
        """Scopes by id; with no argument at all every one, on one page."""
        return self._ask(
            ScopePage,
            "GET",
            "/v1/scopes",
            query={
                "query": query,
                "query_field": query_field,
                "parent_scope_id": parent_scope_id,
                "external_reference_kind": external_reference_kind,
                "binding_integration": binding_integration,
                "binding_kind": binding_kind,
                "limit": limit,
                "cursor": cursor,
            },
            repeats=True,
        )

    def create_scope(
        self,
        title: str,
        summary: str,
        *,
        idempotency_key: str,
        scope_id: str | None = None,
        parent_scope_id: str | None = None,
        context_references: Sequence[str] = (),
        external_references: Sequence[Mapping[str, str]] = (),
    ) -> ScopeDescriptor:
        """Create a scope; the key given again with the same values gives the scope it made.

        Args:
            scope_id: None for one that the server makes.
            external_references: each {kind, value}.
        """
        return self._ask(
            ScopeDescriptor,
            "POST",
            "/v1/scopes",
            json={
                "title": title,
                "summary": summary,
                "idempotency_key": idempotency_key,
                "scope_id": scope_id,
                "parent_scope_id": parent_scope_id,
                "context_references": list(context_references),
                "external_references": [dict(reference) for reference in external_references],
            },
            repeats=True,
        )

    def get_scope(self, scope_id: str) -> ScopeDescriptor:
        """A scope."""
        return self._ask(ScopeDescriptor, "GET", f"/v1/scopes/{segment(scope_id)}", repeats=True)

    def update_scope(
        self,
        scope_id: str,
        *,
        expected_version: int,
        title: str,
        summary: str,
        parent_scope_id: str | None = None,
        context_references: Sequence[str] = (),
        external_references: Sequence[Mapping[str, str]] = (),
        idempotency_key: str | None = None,
    ) -> ScopeDescriptor:
        """Replace all that a scope says of itself. Raises ScopeVersionConflict."""
        return self._ask(
            ScopeDescriptor,
            "PUT",
            f"/v1/scopes/{segment(scope_id)}",
            json={
                "expected_version": expected_version,
                "title": title,
                "summary": summary,
                "parent_scope_id": parent_scope_id,
                "context_references": list(context_references),
                "external_references": [dict(reference) for reference in external_references],
            },
            idempotency_key=idempotency_key,
        )

    def get_default_scope(self) -> ScopeDescriptor:
        """The default scope."""
        return self._ask(ScopeDescriptor, "GET", "/v1/scopes/default", repeats=True)

    def set_default_scope(self, scope_id: str) -> ScopeDescriptor:
        """Choose the default scope."""
        body = {"scope_id": scope_id}
        return self._ask(ScopeDescriptor, "PUT", "/v1/scopes/default", json=body, repeats=True)

    def resolve_scope_selection(self, selection: Selection) -> ScopePage:
        """The scopes that a selection names."""
        return self._ask(
            ScopePage,
            "POST",
            "/v1/scopes/selection/resolve",
            json={"selection": dict(selection)},
            repeats=True,
        )

    def resolve_scope_binding(
        self,
        binding_keys: Sequence[ScopeBindingKey] = (),
        *,
        explicit_scope_id: str | None = None,
        allow_default: bool = True,
    ) -> ScopeDescriptor:
        """The named scope, else that of the first bound key, else the default."""
        return self._ask(
            ScopeDescriptor,
            "POST",
            "/v1/scope-bindings/resolve",
            json={
                "explicit_scope_id": explicit_scope_id,
                "binding_keys": [key.model_dump() for key in binding_keys],
                "allow_default": allow_default,
            },
            repeats=True,
        )

    def set_scope_binding(self, key: ScopeBindingKey, scope_id: str) -> ScopeBinding:
        """Bind an outside id to a scope, in place of an earlier binding."""
        return self._ask(
            ScopeBinding,
            "PUT",
            "/v1/scope-bindings",
            json={"key": key.model_dump(), "scope_id": scope_id},
            repeats=True,
        )

    def clear_scope_binding(
        self, key: ScopeBindingKey, *, idempotency_key: str | None = None
    ) -> Cleared:
        """Unbind an outside id; `cleared` is false when it was not bound."""
        return self._ask(
            Cleared,
            "POST",
            "/v1/scope-bindings/clear",
            json={"key": key.model_dump()},
            idempotency_key=idempotency_key,
        )
