"""A typed, blocking client of the HTTP edge. `Client` is all that callers need.

Answers are the bodies of `pc_store.api.bodies`, and refusals are raised as the errors of
`pc_store.errors`, so that a program reads the same whether the store is here or elsewhere.
"""

from pc_store.api.bodies.artifact_bodies import ArtifactRevision, PromptConfiguration
from pc_store.api.bodies.candidate_bodies import ArtifactCandidate, CandidateExtra
from pc_store.api.bodies.dream_bodies import DreamOperation, DreamRun, DreamStatus
from pc_store.api.bodies.generation_bodies import Generation, GenerationDiff
from pc_store.api.bodies.memory_bodies import BatchMutation, Flushed, Mutation
from pc_store.api.bodies.scope_bodies import ScopeBindingKey
from pc_store.api.bodies.source_bodies import SourceRecord
from pc_store.api.bodies.wire import ArtifactRef, Citation, SourceRef
from pc_store.client.context_calls import ContextCalls
from pc_store.client.dream_calls import DreamCalls
from pc_store.client.experience_calls import ExperienceCalls
from pc_store.client.generation_calls import GenerationCalls
from pc_store.client.memory_calls import MemoryCalls
from pc_store.client.scope_calls import ScopeCalls
from pc_store.client.store_calls import StoreCalls
from pc_store.client.work_calls import WorkCalls


class Client(
    ScopeCalls,
    StoreCalls,
    MemoryCalls,
    GenerationCalls,
    ExperienceCalls,
    DreamCalls,
    ContextCalls,
    WorkCalls,
):
    """Every call of the HTTP edge, one method each, named after its operation.

    Safe to share between threads. Use it as a context manager, or call `close`.
    """


__all__ = [
    "ArtifactCandidate",
    "ArtifactRef",
    "ArtifactRevision",
    "BatchMutation",
    "CandidateExtra",
    "Citation",
    "Client",
    "DreamOperation",
    "DreamRun",
    "DreamStatus",
    "Flushed",
    "Generation",
    "GenerationDiff",
    "Mutation",
    "PromptConfiguration",
    "ScopeBindingKey",
    "SourceRecord",
    "SourceRef",
]
