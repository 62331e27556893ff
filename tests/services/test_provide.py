"""The proposer in force, and the vectors it leaves in the ledger."""

import numpy as np
import pytest
import sqlalchemy as sa

from pc_store.domain.source import new_source
from pc_store.domain.text import digest
from pc_store.errors import ModelMisconfigured
from pc_store.ledger import vectors
from pc_store.ledger.schema import vectors as table
from pc_store.llm.embeddings import PackagedEncoder
from pc_store.services import administer, capture, extract, remember
from pc_store.services.embed import LedgerEmbedder
from pc_store.services.provide import proposer
from pc_store.settings import Settings

RULE = "Import errors must include the original CSV row number."


class CountingEncoder(PackagedEncoder):
    """The packaged encoder, and how many texts it was asked for."""

    asked = 0

    def embed(self, texts):
        self.asked += len(texts)
        return super().embed(texts)


def test_a_text_is_computed_once_for_all_processes(db):
    first = CountingEncoder()
    kept = LedgerEmbedder(db, first)
    kept.keep([RULE, "金额以整数分存储"])
    later = CountingEncoder()
    vectors_again = LedgerEmbedder(db, later).embed(["金额以整数分存储", RULE, "something else"])
    assert later.asked == 1
    assert np.allclose(vectors_again[:2], first.embed(["金额以整数分存储", RULE]), atol=1e-6)
    assert np.allclose(np.linalg.norm(vectors_again, axis=1), 1.0, atol=1e-5)


def test_nothing_to_embed_gives_no_rows(db):
    embedder = LedgerEmbedder(db, PackagedEncoder())
    embedder.keep([])
    assert embedder.embed([]).shape == (0, embedder.dims)


def test_what_the_builtin_provider_adds_has_its_vector_in_the_ledger(db, tmp_path):
    settings = Settings(home=tmp_path, llm_provider="builtin")
    administer.create_scope(db, "orders", now_us=1)
    capture.capture(db, "orders", new_source("s1", f"Ok. {RULE} Thanks!"), now_us=1)
    extract.flush(db, settings, proposer(db, settings), "orders")
    _, entries = remember.list_entries(db, "orders", limit=10)
    texts = [cited.entry.text for cited in entries]
    assert RULE in texts
    with db.read() as conn:
        profile = conn.execute(sa.select(table.c.profile).distinct()).scalar_one()
        stored = vectors.get(conn, profile, [digest(text) for text in texts])
    assert set(stored) == {digest(text) for text in texts}


def test_an_endpoint_without_a_model_name_is_misconfigured(db, tmp_path):
    settings = Settings(home=tmp_path, llm_provider="openai", llm_base_url="http://127.0.0.1:1/v1")
    with pytest.raises(ModelMisconfigured, match="PC_LLM_MODEL"):
        proposer(db, settings)
