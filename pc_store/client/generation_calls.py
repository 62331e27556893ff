"""Calls about generations: windows replayed beside the memory, to be promoted or discarded."""

from pc_store.api.addresses import segment
from pc_store.api.bodies.generation_bodies import Generation, GenerationDiff, GenerationPage
from pc_store.client.connection import Connection


class GenerationCalls(Connection):
    """The calls about generations; `replay_window` fills one."""

    def list_generations(
        self, scope_id: str, *, limit: int | None = None, cursor: str | None = None
    ) -> GenerationPage:
        """The generations of a scope, by name."""
        query = {"limit": limit, "cursor": cursor}
        return self._ask(GenerationPage, "GET", _path(scope_id), query=query, repeats=True)

    def get_generation(self, scope_id: str, name: str) -> Generation:
        """One generation: what it is of, how far it is, and how it ended."""
        return self._ask(Generation, "GET", _path(scope_id, name), repeats=True)

    def compare_generation(
        self, scope_id: str, name: str, *, limit: int | None = None, cursor: str | None = None
    ) -> GenerationDiff:
        """What a generation would make of the memory as it is now.

        Raises:
            GenerationEnded: it was promoted or discarded.
        """
        query = {"limit": limit, "cursor": cursor}
        path = f"{_path(scope_id, name)}/diff"
        return self._ask(GenerationDiff, "GET", path, query=query, repeats=True)

    def promote_generation(
        self,
        scope_id: str,
        name: str,
        *,
        expected_revision: int | None = None,
        reason: str | None = None,
    ) -> Generation:
        """Make a generation part of the memory, as one revision; again changes nothing.

        Raises:
            GenerationEnded: it was discarded.
            RevisionConflict: the memory is not at the expected revision.
        """
        return self._ask(
            Generation,
            "POST",
            f"{_path(scope_id, name)}/promote",
            json={"expected_revision": expected_revision, "reason": reason},
            repeats=True,
        )

    def discard_generation(self, scope_id: str, name: str) -> Generation:
        """End a generation and erase what it proposes; again changes nothing.

        Raises:
            GenerationEnded: it was promoted.
        """
        return self._ask(Generation, "POST", f"{_path(scope_id, name)}/discard", repeats=True)


def _path(scope_id: str, name: str | None = None) -> str:
    collection = f"/v1/scopes/{segment(scope_id)}/generations"
    return collection if name is None else f"{collection}/{segment(name)}"
