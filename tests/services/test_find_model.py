"""Whatever happens to a ledger and to its index, a search finds what a fresh index would find.

The machine writes entries and experiences, embeds texts, builds shards in this process and in
another, tears and deletes files; after every few steps the same questions are asked with the
index as it is, without any index, and with one that was just built.
"""

import itertools
import multiprocessing
import shutil
import zlib

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from pc_store.domain.entry import Draft
from pc_store.domain.experience import Experience
from pc_store.domain.refs import ArtifactRef
from pc_store.domain.text import digest
from pc_store.ledger import artifacts, experiences, unembedded, vectors
from pc_store.ledger.database import open_database
from pc_store.llm import providers
from pc_store.llm.embeddings import Embedded
from pc_store.search import shards
from pc_store.search.tokens import TOKENISER, terms_of
from pc_store.services import administer, find, index_build, read_memory, remember
from pc_store.services.commit import commit_drafts
from pc_store.services.purge import purge
from pc_store.settings import Settings

NOW = 1_700_000_000_000_000
EXAMPLES = 3
DIMS = 16
PROFILE = f"test:hashed:{DIMS}:unit"
WORDS = [
    *["amount", "amounts", "price", "订单", "金额", "订单金额", "存储", "v1.4", "foo.bar"],
    *["データ", "the", "不", "cents", "cent"],
]
texts = st.lists(st.sampled_from(WORDS), min_size=1, max_size=6).map(" ".join)
scopes = st.sampled_from(["shop", "shop-2"])
picks = st.integers(0, 30)


class Hashed:
    """An embedder that adds up a direction for each token."""

    profile = PROFILE
    dims = DIMS

    def embed(self, texts):
        made = np.zeros((len(texts), DIMS), dtype=np.float64)
        for place, text in enumerate(texts):
            for token in {*terms_of(text).split(), "always"}:
                seed = zlib.crc32(token.encode())
                made[place] += np.random.default_rng(seed).standard_normal(DIMS)
        return (made / np.linalg.norm(made, axis=1, keepdims=True)).astype(np.float32)

    def attempt(self, texts):
        return Embedded(dict(enumerate(self.embed(texts))), {})


EMBEDDER = Hashed()


def build_elsewhere(url, folder, shard):
    """Build a shard in another process."""
    providers.embedder = lambda *_, **__: EMBEDDER
    db = open_database(url)
    try:
        index_build.build(db, Settings(index_dir=folder, index_shards=2), shard, force=True)
    finally:
        db.close()


class Histories(RuleBasedStateMachine):
    """Two scopes of a real ledger; `create` gives a new database's URL."""

    create = None
    folder = None
    numbers = itertools.count()

    @initialize()
    def begin(self):
        self.url = type(self).create()
        self.db = open_database(self.url)
        self.home = type(self).folder / str(next(type(self).numbers))
        self.store = Settings(index_dir=self.home / "index", index_shards=2)
        for scope in ("shop", "shop-2"):
            administer.create_scope(self.db, scope, now_us=NOW)
        self.heads: dict[tuple[str, str], int] = {}
        self.clock = itertools.count(NOW, 1_000)

    def teardown(self):
        if hasattr(self, "db"):
            self.answers_are_those_of_a_fresh_index("amount 金额 cents")
            self.db.close()
            shutil.rmtree(self.home, ignore_errors=True)

    def listed(self, scope, state):
        found = read_memory.page_entries(self.db, scope, include_inactive=True, limit=100).entries
        return [one for one in found if one.entry.state == state]

    @rule(scope=scopes, added=st.lists(texts, min_size=1, max_size=5))
    def write(self, scope, added):
        with self.db.write() as conn:
            drafts = [Draft("add", "fact", f"{text} #{n}") for n, text in enumerate(added)]
            commit_drafts(conn, scope, drafts, origin="explicit", now_us=next(self.clock))

    @rule(scope=scopes, pick=picks, text=texts)
    def revise(self, scope, pick, text):
        if active := self.listed(scope, "active"):
            citation = active[pick % len(active)].citation
            at = next(self.clock)
            remember.revise(self.db, scope, citation, kind="fact", text=text, now_us=at)

    @rule(scope=scopes, pick=picks)
    def retire(self, scope, pick):
        if active := self.listed(scope, "active"):
            citation = active[pick % len(active)].citation
            remember.retire(self.db, scope, citation, now_us=next(self.clock))

    @rule(scope=scopes, pick=picks)
    def reactivate(self, scope, pick):
        if inactive := self.listed(scope, "inactive"):
            citation = inactive[pick % len(inactive)].citation
            remember.reactivate(self.db, scope, citation, now_us=next(self.clock))

    @rule(scope=scopes, pick=picks, active=st.booleans())
    def purge(self, scope, pick, active):
        if found := self.listed(scope, "active" if active else "inactive"):
            entry_id = found[pick % len(found)].citation.entry_id
            purge(self.db, scope, entry_id, now_us=next(self.clock))

    @rule(scope=scopes, pick=st.integers(0, 5), text=texts)
    def experience(self, scope, pick, text):
        name = f"exp_{pick}"
        head = self.heads.get((scope, name), 0)
        content = Experience(situation=text, action="do", outcome="done", lesson="price")
        at = next(self.clock)
        with self.db.write() as conn:
            artifacts.ensure(conn, scope, "experience", name, now_us=at)
            artifacts.commit(
                conn,
                scope,
                "experience",
                name,
                expected=head,
                content=content.to_json(),
                reason=None,
                origin="explicit",
                window_id=None,
                now_us=at,
            )
            experiences.put_document(
                conn,
                scope,
                ArtifactRef("experience", name, head + 1),
                content,
                terms=terms_of(content.document_text()),
                terms_version=TOKENISER,
                now_us=at,
            )
        self.heads[scope, name] = head + 1

    @rule(scope=scopes, pick=st.integers(0, 5))
    def withdraw_experience(self, scope, pick):
        with self.db.write() as conn:
            experiences.drop_document(conn, scope, f"exp_{pick}")

    @rule(scope=scopes, limit=st.integers(1, 6))
    def embed_some(self, scope, limit):
        with self.db.read() as conn:
            some = unembedded.missing(conn, scope, PROFILE, limit=limit)
        made = EMBEDDER.embed([one.text for one in some])
        with self.db.write() as conn:
            found = {digest(one.text): made[n] for n, one in enumerate(some)}
            vectors.put(conn, PROFILE, found)

    @rule(shard=st.integers(0, 1), hnsw=st.booleans())
    def build(self, shard, hnsw):
        chosen = self.store.model_copy(update={"hnsw_min_rows": 6 if hnsw else 1_000})
        index_build.build(self.db, chosen, shard)

    @rule(shard=st.integers(0, 1))
    def build_in_another_process(self, shard):
        context = multiprocessing.get_context("fork")
        other = context.Process(
            target=build_elsewhere, args=(self.url, self.store.index_path, shard)
        )
        other.start()
        other.join(60)
        assert other.exitcode == 0

    @rule()
    def delete_the_folder(self):
        shutil.rmtree(self.store.index_path, ignore_errors=True)

    @precondition(lambda self: list(self.store.index_path.rglob("*.duckdb")))
    @rule(pick=picks, at=st.integers(0, 9))
    def tear_a_file(self, pick, at):
        files = sorted(self.store.index_path.rglob("*.duckdb"))
        path = files[pick % len(files)]
        whole = path.read_bytes()
        shards.close_all()
        path.unlink()
        path.write_bytes(whole[: len(whole) * at // 10])

    @rule(query=texts | st.sampled_from(["amount 金额", "price", "cents v1.4"]))
    def answers_are_those_of_a_fresh_index(self, query):
        nothing = self.store.model_copy(update={"index_dir": self.home / "none"})
        fresh = self.store.model_copy(update={"index_dir": self.home / "fresh"})
        for shard in (0, 1):
            index_build.build(self.db, fresh, shard, force=True)
        for scope, search, mode in itertools.product(
            ("shop", "shop-2"),
            (find.search, find.search_experiences),
            ("fts", "vector", "hybrid"),
        ):
            asked = {"mode": mode, "limit": 5}
            exact = search(self.db, nothing, scope, query, **asked)
            for chosen in (self.store, fresh):
                found = search(self.db, chosen, scope, query, **asked)
                assert shape(found) == shape(exact)
                assert scores(found) == pytest.approx(scores(exact), abs=1e-6)
        assert not (self.home / "none").exists()


def shape(result):
    """All of a result that is no measure."""
    return (
        result.mode,
        result.coverage,
        [
            (
                hit.citation if hasattr(hit, "citation") else hit.ref,
                dict(hit.ranks),
                hit.matched_terms,
                hit.matched_by,
            )
            for hit in result.hits
        ],
    )


def scores(result):
    return [score for hit in result.hits for score in (hit.score, *hit.channels.values())]


def test_any_history_is_found_as_in_a_fresh_index(new_database, tmp_path, monkeypatch):
    def migrate(url):
        open_database(url).close()

    monkeypatch.setattr(providers, "embedder", lambda *_, **__: EMBEDDER)
    monkeypatch.setattr(Histories, "create", lambda: new_database(migrate))
    monkeypatch.setattr(Histories, "folder", tmp_path)
    run_state_machine_as_test(
        Histories,
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=20,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


@pytest.mark.slow
def test_many_histories_are_found_as_in_a_fresh_index(new_database, tmp_path, monkeypatch):
    monkeypatch.setattr("test_find_model.EXAMPLES", 60)
    test_any_history_is_found_as_in_a_fresh_index(new_database, tmp_path, monkeypatch)
