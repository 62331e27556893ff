"""The evidence graph of a dream: its order, its limits, its digests, and what may be cited."""

import hashlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pc_store.domain.candidate import EvidenceRefs
from pc_store.domain.dream_graph import Graph, Material, entry_node
from pc_store.domain.dream_walk import Limits, Walk
from pc_store.domain.evidence_graph import EntryNode, evidence_id
from pc_store.domain.refs import ArtifactRef, Citation, SourceRef
from pc_store.errors import EvidenceLimitExceeded, InvalidProposal

MOST = Limits(nodes=128, edges=256, depth=8)


def source(name):
    return SourceRef("content", name)


def experience(name, revision=1):
    return ArtifactRef("experience", name, revision)


def cite(name, revision=1):
    return Citation(ArtifactRef("memory", "memory", revision), f"e-{name}", f"v-{name}")


def refs(*every):
    return EvidenceRefs(
        tuple(one for one in every if isinstance(one, SourceRef)),
        tuple(one for one in every if isinstance(one, ArtifactRef)),
        tuple(one for one in every if isinstance(one, Citation)),
    )


def material(ref, below=(), **changes):
    node = entry_node(ref) if isinstance(ref, Citation) else ref
    if isinstance(node, SourceRef):
        kind, role = "source", "root"
    elif isinstance(node, EntryNode):
        kind, role = "memory", "derived"
    else:
        kind, role = "experience", "derived"
    values = {"kind": kind, "role": role, "text": f"{node}", "below": refs(*below)} | changes
    return node, Material(**values)


def walked(selected, *materials, most=MOST) -> Graph:
    held = dict(materials)
    walk = Walk(refs(*selected), most)
    while walk.level:
        level = walk.level
        wanted = [*level.sources, *level.artifacts, *map(entry_node, level.citations)]
        walk.go_down({node: held[node] for node in wanted})
    return walk.graph()


S1, S2, E1, E2, M1, M2 = (
    source("1"),
    source("2"),
    experience("1"),
    experience("2"),
    cite("1"),
    cite("2"),
)


def ids(graph):
    return [one.node for one in graph.nodes]


def test_nodes_come_depth_first_with_sources_before_artifacts_before_entries():
    graph = walked(
        [M1, E1, S2],
        material(S1),
        material(S2),
        material(E1, [S1, M2]),
        material(M1, [S2]),
        material(M2, [E2]),
        material(E2, [S1]),
    )
    n1, n2 = entry_node(M1), entry_node(M2)
    assert ids(graph) == [S2, E1, S1, n2, E2, n1]
    assert graph.edges == tuple(
        (evidence_id(one), evidence_id(other))
        for one, other in ((E1, S1), (E1, n2), (n2, E2), (E2, S1), (n1, S2))
    )


def test_cycles_end():
    graph = walked([E1], material(E1, [E2]), material(E2, [E1, S1]), material(S1))
    assert ids(graph) == [E1, E2, S1]
    assert graph.below(E2) == {E1, E2, S1}


def chain(length):
    """An experience whose lineage goes down so many steps, to a source."""
    names = [experience(f"{number}") for number in range(length)]
    below = [*names[1:], S1]
    return [material(one, [other]) for one, other in zip(names, below, strict=True)]


def test_eight_steps_are_the_most():
    graph = walked([experience("0")], *chain(8), material(S1))
    assert len(graph.nodes) == 9
    with pytest.raises(EvidenceLimitExceeded) as caught:
        walked([experience("0")], *chain(9), material(S1))
    assert caught.value.details["limit"] == 8


def test_depth_is_that_of_the_shortest_way():
    every = [*chain(9), material(S1)]
    assert walked([experience("0"), experience("4")], *every)


def test_128_nodes_and_256_edges_are_the_most():
    def wide(count):
        below = [source(f"{n}") for n in range(count)]
        return walked([E1], material(E1, below), *map(material, below))

    assert len(wide(127).nodes) == 128
    with pytest.raises(EvidenceLimitExceeded) as caught:
        wide(128)
    assert (caught.value.details["limit"], caught.value.details["observed"]) == (128, 129)

    def dense(count):
        below = [source(f"{n}") for n in range(64)]
        tops = [experience(f"{n}") for n in range(5)]
        made = [material(top, below) for top in tops[:4]]
        made.append(material(tops[4], below[: count - 256]))
        return walked(tops, *made, *map(material, below))

    assert len(dense(256).edges) == 256
    with pytest.raises(EvidenceLimitExceeded) as caught:
        dense(257)
    assert (caught.value.details["limit"], caught.value.details["observed"]) == (256, 257)


def test_an_entry_version_is_one_node_however_it_is_cited():
    again = cite("1", revision=7)
    graph = walked([M1, E1], material(M1, [S1]), material(E1, [again]), material(S1))
    (entry,) = [one for one in graph.nodes if isinstance(one.node, EntryNode)]
    assert set(entry.citations) == {M1, again}


def test_roots_with_equal_texts_are_one_observation():
    graph = walked(
        [M1, E1],
        material(M1, [S1]),
        material(E1, [S2, source("3")]),
        material(S1, text="the log"),
        material(S2, text="the log"),
        material(source("3"), text="another"),
    )
    first, second = graph.root_groups
    assert {first.sources, second.sources} == {(S2, S1), (source("3"),)}
    groups = {one.evidence_id: one.root_group_ids for one in graph.projection.items}
    assert groups[evidence_id(S1)] == groups[evidence_id(entry_node(M1))] == (first.group_id,)
    assert groups[evidence_id(E1)] == (first.group_id, second.group_id)
    assert all(group.group_id.startswith("root_") for group in graph.root_groups)
    assert {len(group.group_id) for group in graph.root_groups} == {len("root_") + 24}


def test_a_manifest_holds_digests_and_no_text():
    unseen = ArtifactRef("skill", "s", 1)
    graph = walked(
        [E1, M1],
        material(E1, [unseen], text="a secret lesson", historical=True),
        material(M1, [S1], text="a secret entry", current_entry_version_id="v-9"),
        material(S1, text="a secret log"),
        material(unseen, kind="unresolved", role="unresolved", text=None),
    )
    told = graph.manifest()
    assert "secret" not in json.dumps(told)
    shown = graph.projection.text.encode()
    assert told["projection_digest"] == f"sha256:{hashlib.sha256(shown).hexdigest()}"
    assert told["projection_bytes"] == len(shown)
    assert (told["incomplete"], told["transform_version"]) == (True, "pc.dream.evidence.v1")
    digests = {node["evidence_id"]: node["digest"] for node in told["nodes"]}
    wanted = hashlib.sha256(b"a secret log").hexdigest()
    assert digests[evidence_id(S1)] == f"sha256:{wanted}"
    (entry,) = [node for node in told["nodes"] if node["kind"] == "memory"]
    assert entry["current_entry_version_id"] == "v-9"
    assert [one.evidence_id for one in graph.projection.items] == [
        evidence_id(one) for one in (E1, entry_node(M1), S1)
    ]
    assert json.loads(graph.projection.text) == graph.projection.to_json()


def test_marks_of_an_earlier_manifest_are_restored():
    every = material(M1, [S1]), material(S1)
    first = walked([M1], *every)
    node, now = material(M1, [S1], historical=True, current_entry_version_id="v-2")
    later = walked([M1], (node, now), every[1])
    assert later.manifest() != first.manifest()
    assert later.marked_as(first.manifest()).manifest() == first.manifest()
    changed = walked([M1], every[0], material(S1, text="Another."))
    assert changed.marked_as(first.manifest()).manifest() != first.manifest()


# what may be cited


def cited(graph, *used, target=None):
    names = [evidence_id(entry_node(one) if isinstance(one, Citation) else one) for one in used]
    return graph.cited(names, target)


GRAPH = walked(
    [E1, M1, M2, source("3")],
    material(E1, [S1]),
    material(M1, [S2]),
    material(M2),
    material(S1),
    material(S2),
    material(source("3")),
)


def test_what_is_used_is_cited_with_its_roots_and_what_leads_to_it():
    assert cited(GRAPH, M1) == refs(S2, M1)
    assert cited(GRAPH, S1) == refs(S1, E1)
    assert cited(GRAPH, M1, E1) == refs(S1, S2, E1, M1)


def test_a_target_is_always_cited():
    assert cited(GRAPH, M1, target=E1) == refs(S2, E1, M1)


def test_memory_needs_a_root_that_supports_what_is_used():
    assert cited(GRAPH, M2) is None
    assert cited(GRAPH, M2, source("3")) == refs(source("3"), M2)
    assert cited(GRAPH, M2, M1) == refs(S2, M1, M2)


def test_experience_needs_none():
    alone = walked([E1], material(E1))
    assert cited(alone, E1) == refs(E1)
    below = walked([E1], material(E1, [M1]), material(M1))
    assert cited(below, E1) is None


def test_only_ids_that_were_shown_can_be_used():
    hidden = ArtifactRef("prompt", "p", 1)
    graph = walked(
        [E1],
        material(E1, [hidden, S1]),
        material(hidden, kind="unresolved", role="lineage_only", text=None),
        material(S1, role="lineage_only", text=None),
    )
    for wrong in (evidence_id(hidden), evidence_id(S1), "e_none", ""):
        with pytest.raises(InvalidProposal):
            graph.cited([wrong], None)
    assert cited(graph, E1) == refs(E1)


def test_more_than_32_references_are_too_many():
    every = [cite(f"{n}") for n in range(17)]
    below = [source(f"{n}") for n in range(17)]
    made = [material(one, [root]) for one, root in zip(every, below, strict=True)]
    graph = walked(every, *made, *map(material, below))
    assert len(cited(graph, *every[:16])) == 32
    with pytest.raises(EvidenceLimitExceeded):
        cited(graph, *every)


@given(st.data())
def test_what_is_cited_is_reachable_and_holds_what_is_used(data):
    tops = [experience(f"t{n}") for n in range(4)]
    entries = [cite(f"m{n}") for n in range(4)]
    roots = [source(f"r{n}") for n in range(4)]
    some = st.lists(st.sampled_from([*entries, *roots]), max_size=4, unique=True)
    made = [material(top, data.draw(some)) for top in tops]
    made += [
        material(one, data.draw(st.lists(st.sampled_from(roots), max_size=2, unique=True)))
        for one in entries
    ]
    graph = walked([*tops, *entries], *made, *map(material, roots))
    shown = [one.evidence_id for one in graph.nodes]
    used = data.draw(st.lists(st.sampled_from(shown), min_size=1, max_size=6, unique=True))
    found = graph.cited(used, None)
    nodes = [graph.by_id[name].node for name in used]
    if found is None:
        reached = frozenset().union(*(graph.below(node) for node in nodes))
        assert not any(isinstance(node, SourceRef) for node in reached)
        return
    named = {*found.sources, *found.artifacts, *map(entry_node, found.citations)}
    assert named.issuperset(nodes)
    assert named <= {one.node for one in graph.nodes}
    for node in named - set(nodes):
        leads_to = graph.below(node) & set(nodes)
        follows = any(node in graph.below(other) for other in named - {node})
        assert leads_to or (isinstance(node, SourceRef) and follows)
