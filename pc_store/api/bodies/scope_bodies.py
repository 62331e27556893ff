"""Scopes, bindings and selections."""

from typing import Annotated, Literal, Self

from pydantic import Field

from pc_store import limits
from pc_store.api.bodies.wire import ScopeId, Wire, example
from pc_store.domain import scope as rules
from pc_store.domain.scope import BindingKey, Scope

QueryField = Literal[
    "scope_id", "title", "summary", "external_reference_value", "binding_external_id"
]
Title = Annotated[str, Field(min_length=1, max_length=limits.SCOPE_TITLE_MAX_CHARS)]
Summary = Annotated[str, Field(min_length=1, max_length=limits.SCOPE_SUMMARY_MAX_CHARS)]


class ExternalReference(Wire):
    """Something outside that the scope is about."""

    kind: str = Field(min_length=1, max_length=128, examples=["repository"])
    value: str = Field(min_length=1, max_length=2_000, examples=["https://example.org/orders.git"])


class _Described(Wire):
    title: Title
    summary: Summary
    parent_scope_id: ScopeId | None = None
    context_references: list[ScopeId] = Field(
        default=[], max_length=100, description="Scopes whose knowledge is read as well."
    )
    external_references: list[ExternalReference] = Field(default=[], max_length=100)

    def references(self) -> tuple[dict[str, str], ...]:
        """The external references, as the domain has them."""
        return tuple(reference.model_dump() for reference in self.external_references)


class CreateScope(_Described):
    """Create a scope."""

    model_config = example(
        {"title": "Orders", "summary": "The order service", "idempotency_key": "orders-1"}
    )

    idempotency_key: str = Field(
        min_length=1, max_length=256, description="The same key makes no second scope."
    )
    scope_id: ScopeId | None = Field(
        default=None, description="An id of your choice; the server makes one unless given."
    )


class UpdateScope(_Described):
    """Replace what a scope says of itself."""

    model_config = example(
        {"expected_version": 1, "title": "Orders", "summary": "The order service, v2"}
    )

    expected_version: int = Field(ge=1, description="The version you read.")


class ScopeDescriptor(_Described):
    """A scope. `version` grows with every update."""

    model_config = example(
        {
            "scope_id": "orders",
            "title": "Orders",
            "summary": "The order service",
            "parent_scope_id": None,
            "context_references": [],
            "external_references": [],
            "version": 1,
        }
    )

    scope_id: ScopeId
    version: int = Field(ge=1)

    @classmethod
    def of(cls, scope: Scope) -> Self:
        """From the domain's."""
        return cls(
            scope_id=scope.scope_id,
            title=scope.title,
            summary=scope.summary,
            parent_scope_id=scope.parent_scope_id,
            context_references=list(scope.context_references),
            external_references=[
                ExternalReference(kind=item["kind"], value=item["value"])
                for item in scope.external_references
            ],
            version=scope.version,
        )


class ScopePage(Wire):
    """A page of scopes."""

    items: list[ScopeDescriptor]
    next_cursor: str | None


class DefaultScope(Wire):
    """Choose the default scope."""

    model_config = example({"scope_id": "orders"})

    scope_id: ScopeId


class AllScopes(Wire):
    """Every scope."""

    mode: Literal["all"]


class ExactScopes(Wire):
    """The named scopes."""

    mode: Literal["exact"]
    scope_ids: list[ScopeId] = Field(min_length=1)


class ScopeSubtree(Wire):
    """A scope and all below it."""

    mode: Literal["subtree"]
    root_scope_id: ScopeId


Selection = Annotated[AllScopes | ExactScopes | ScopeSubtree, Field(discriminator="mode")]


class ResolveSelection(Wire):
    """Which scopes a selection names."""

    model_config = example({"selection": {"mode": "exact", "scope_ids": ["orders"]}})

    selection: Selection


class ScopeBindingKey(Wire):
    """What an integration calls something of its own."""

    integration: str = Field(min_length=1, max_length=128, examples=["git"])
    kind: str = Field(min_length=1, max_length=64, examples=["remote"])
    external_id: str = Field(min_length=1, max_length=256, examples=["git@example.org:orders.git"])

    @classmethod
    def of(cls, key: BindingKey) -> Self:
        """From the domain's."""
        return cls(integration=key.integration, kind=key.kind, external_id=key.external_id)

    def key(self) -> BindingKey:
        """As the domain has it, its rules checked."""
        return rules.binding_key(self.integration, self.kind, self.external_id)


class ScopeBinding(Wire):
    """What an integration's id stands for."""

    key: ScopeBindingKey
    scope_id: ScopeId


class ResolveBinding(Wire):
    """Which scope is meant: the named one, else the first bound key's, else the default."""

    model_config = example(
        {
            "binding_keys": [
                {"integration": "git", "kind": "remote", "external_id": "git@example.org:o.git"}
            ]
        }
    )

    explicit_scope_id: ScopeId | None = None
    binding_keys: list[ScopeBindingKey] = Field(default=[], max_length=100)
    allow_default: bool = True


class ClearBinding(Wire):
    """Unbind an outside id."""

    key: ScopeBindingKey


class Cleared(Wire):
    """Whether it was bound."""

    cleared: bool
