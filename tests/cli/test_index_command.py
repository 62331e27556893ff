"""`pc index`: with no index at all, after a build, and when something is wrong."""

import pytest
from model_stub import status
from running_pc import Command


@pytest.fixture
def command(tmp_path):
    """The command on a store with two scopes, of which one has something to find."""
    made = Command(PC_HOME=str(tmp_path / "home"), PC_INDEX_SHARDS="4")
    made.ok("scope", "create", "shop")
    made.ok("scope", "create", "empty")
    for text in ("Amounts are integer cents.", "金额以整数分存储。"):
        made.ok("memory", "remember", "shop", text)
    return made


def in_use(command):
    """The one shard that has something to find."""
    rows = command.rows("index", "status")
    assert [row["shard"] for row in rows] == ["s00", "s01", "s02", "s03"]
    [row] = [row for row in rows if row["ledger_scopes"] or row["generation"]]
    return row


def test_a_store_without_an_index(command):
    row = in_use(command)
    assert (row["generation"], row["documents"], row["tail"], row["due"]) == (None, 0, 2, None)
    printed = command.ok("index", "status")
    assert "none" in printed
    assert printed.count("s0") == 1
    assert all(found["passed"] for found in command.rows("index", "verify"))


def test_a_store_with_nothing_to_find(tmp_path):
    command = Command(PC_HOME=str(tmp_path))
    assert "nothing can be found yet" in command.ok("index", "status")
    assert command.ok("index", "build") == "nothing is due\n"
    assert "FAILED" not in command.ok("index", "verify")


def test_a_build_files_what_is_not_filed_and_only_that(command):
    name = in_use(command)["shard"]
    [built] = command.rows("index", "build")
    assert {key: built[key] for key in ("shard", "generation", "documents", "vectors")} == {
        "shard": name,
        "generation": 1,
        "documents": 2,
        "vectors": 2,
    }
    assert (built["embedded"], built["tail_before"]) == (2, 2)
    row = in_use(command)
    assert (row["generation"], row["documents"], row["vectors"], row["tail"]) == (1, 2, 2, 0)
    assert row["profile"] == "builtin:usem3:512:unit"
    assert command.ok("index", "build") == "nothing is due\n"
    assert "FAILED" not in command.ok("index", "verify", "--queries", "10")
    assert name in command.ok("index", "status")


def test_force_builds_every_shard_and_shard_some(command):
    assert len(command.rows("index", "build", "--force")) == 4
    again = command.rows("index", "build", "--force", "--shard", "1", "--shard", "3")
    assert [(row["shard"], row["generation"]) for row in again] == [("s01", 2), ("s03", 2)]
    assert "s01" in command.ok("index", "build", "--force", "--shard", "1")


def test_a_build_without_vectors(command):
    [built] = command.rows("index", "build", "--no-embed")
    assert (built["documents"], built["vectors"], built["embedded"]) == (2, 0, 0)


def test_an_embedder_that_is_away_costs_vectors_and_is_told(tmp_path, model_stub):
    command = Command(PC_HOME=str(tmp_path), **model_stub.embedding_env(), PC_EMBED_DIMS="64")
    command.ok("scope", "create", "shop")
    command.ok("memory", "remember", "shop", "Amounts are integer cents.")
    model_stub.whenever_embedding("", status(503))
    result = command("index", "build", "--json")
    assert result.exit_code == 1
    assert '"documents":1,"vectors":0' in result.stdout
    assert "not all texts were embedded: the model endpoint answered HTTP 503" in result.stderr
    model_stub.reset()
    [built] = command.rows("index", "build")
    assert (built["vectors"], built["why"]) == (1, "1 of its texts have no vector yet")


def test_vectors_are_pruned_only_when_that_is_asked_for(command):
    command.rows("index", "build")
    used = {"profile": "builtin:usem3:512:unit", "in_use": True, "vectors": 2, "bytes": 4096}
    assert command.rows("index", "prune-vectors") == [used | {"surplus": 0}]
    command.ok("memory", "remember", "shop", "Nothing is embedded for this one.")
    other = {
        "PC_EMBED_MODEL": "other",
        "PC_EMBED_BASE_URL": "http://127.0.0.1:9/v1",
        "PC_EMBED_DIMS": "8",
    }
    elsewhere = Command(**command.env | other | {"PC_INDEX_DIR": command.env["PC_HOME"] + "/2"})
    asked = ("index", "prune-vectors", "--other-profiles")
    assert elsewhere.rows(*asked) == [used | {"in_use": False, "surplus": 2}]
    assert Command(**command.env | other).rows(*asked) == [used | {"surplus": 0}]
    deleted = elsewhere(*asked, "--delete")
    assert (deleted.exit_code, deleted.stderr) == (0, "2 vectors deleted\n")
    assert command.ok("index", "prune-vectors") == "there are no vectors\n"
    nothing = Command(**command.env, PC_EMBED_PROVIDER="none").refused(2, *asked)
    assert "not known which embedder is in force" in nothing


def test_what_is_wrong_has_its_reason_and_exit_code_1(command, monkeypatch, tmp_path):
    [built] = command.rows("index", "build")
    [file] = (tmp_path / "home" / "index" / built["shard"]).glob("*.duckdb")
    file.write_bytes(b"not a database")
    from pc_store.search import shards

    shards.close_all()
    result = command("index", "verify")
    assert result.exit_code == 1
    assert f"index_files_can_be_read: shard={built['shard']}, file={file.name}" in result.stdout
    [row] = [row for row in command.rows("index", "status") if row["due"]]
    assert (row["shard"], row["due"]) == (built["shard"], "its file cannot be read")
    [repaired] = command.rows("index", "build")
    assert (repaired["generation"], repaired["why"]) == (2, "its file cannot be read")
    assert command("index", "verify").exit_code == 0


def test_a_shard_that_does_not_exist_is_refused(command):
    assert "expected 0 to 3" in command.refused(2, "index", "build", "--shard", "9")


def test_the_index_is_this_machines(command):
    told = Command("--server", "http://127.0.0.1:9").refused(2, "index", "status")
    assert "index works on the store of this machine only" in told
