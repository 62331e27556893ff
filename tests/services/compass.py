"""An embedder of three dimensions, and a scope that is searched with it."""

import numpy as np
import pytest

from pc_store.domain.entry import Draft
from pc_store.domain.text import digest
from pc_store.errors import ModelAnsweredBadly, ModelUnavailable
from pc_store.ledger import vectors
from pc_store.llm import providers
from pc_store.llm.embeddings import Embedded
from pc_store.search import shards
from pc_store.services import find, index_build
from pc_store.services.commit import commit_drafts
from pc_store.settings import Settings

SCOPE = "shop"
NOW = 1_700_000_000_000_000
PROFILE = "test:made-up:3:unit"
DIRECTIONS = {
    "money": (1.0, 0.0, 0.0),
    "cash": (0.96, 0.28, 0.0),
    "coins": (0.8, 0.6, 0.0),
    "weather": (0.0, 0.0, 1.0),
    "rain": (0.0, 0.28, 0.96),
}


class Compass:
    """An embedder of three dimensions: a text points where the words it knows point."""

    profile = PROFILE
    dims = 3

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.failing = False
        self.unreadable: set[str] = set()

    def embed(self, texts):
        self.asked += texts
        if self.failing:
            raise ModelUnavailable("it is down")
        made = np.zeros((len(texts), 3), dtype=np.float32)
        for place, text in enumerate(texts):
            for word in text.lower().split():
                made[place] += np.array(DIRECTIONS.get(word.strip("?.,"), (0, 0.001, 0)), "f4")
            made[place] /= np.linalg.norm(made[place])
        return made

    def attempt(self, texts):
        places = [place for place, text in enumerate(texts) if text not in self.unreadable]
        odd = {place: ModelAnsweredBadly("odd") for place in range(len(texts))}
        try:
            made = self.embed([texts[place] for place in places])
            failed = {place: odd[place] for place in odd.keys() - set(places)}
            return Embedded(dict(zip(places, made, strict=True)), failed)
        except ModelUnavailable as error:
            return Embedded({}, {}, error)


@pytest.fixture
def compass(monkeypatch):
    """The embedder in force, whatever the settings say."""
    inner = Compass()
    monkeypatch.setattr(providers, "embedder", lambda *_, **__: inner)
    shards.kept.clear()
    return inner


@pytest.fixture
def compass_store(tmp_path):
    """Settings under which a search in the mode `auto` is hybrid."""
    return Settings(index_dir=tmp_path / "index", search_auto="hybrid")


def write(db, *texts, at=NOW):
    with db.write() as conn:
        drafts = [Draft("add", "fact", text) for text in texts]
        return commit_drafts(conn, SCOPE, drafts, origin="explicit", now_us=at).changed


def embed_all(db, compass, *texts):
    made = Compass().embed(list(texts))
    with db.write() as conn:
        vectors.put(conn, PROFILE, {digest(text): made[n] for n, text in enumerate(texts)})


def rebuild(db, store):
    return index_build.build(db, store, shards.shard_of(SCOPE, 16), force=True)


def built(store):
    return shards.open_current(store.index_path, shards.shard_of(SCOPE, 16), 16)


def search(db, store, query, mode="auto", **more):
    return find.search(db, store, SCOPE, query, mode=mode, **more)


def texts_of(result):
    return [hit.text for hit in result.hits]
