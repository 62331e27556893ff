"""What tests of dreams share: a rig with the stub as the model, submissions, and workers."""

import itertools
import json
import threading
from dataclasses import asdict

from desk import Desk, experience, source
from extraction_rig import SCOPE
from model_stub import MODEL, says

from pc_store.domain.candidate import EvidenceRefs
from pc_store.domain.dream_graph import entry_node
from pc_store.domain.dream_run import dream_request
from pc_store.domain.evidence_graph import evidence_id
from pc_store.domain.refs import ArtifactRef, Citation
from pc_store.ledger import sources
from pc_store.services import dream, run_dreams
from pc_store.services.clock import now_us
from pc_store.services.dream_worker import run_pending
from pc_store.services.read_candidates import list_candidates

_KEYS = (f"key-{number}" for number in itertools.count(1))
_CLAIMS = (f"claim-{number}" for number in itertools.count(1))
FIELDS = experience().to_json()
REFINE = "refine_experience"


def id_of(ref):
    """The evidence id of a source, an experience or a citation."""
    return evidence_id(entry_node(ref) if isinstance(ref, Citation) else ref)


class Sleeper:
    """Submits dreams to a rig's ledger and works on them with its stub."""

    def __init__(self, rig, **settings):
        self.rig, self.db, self.stub = rig, rig.db, rig.stub
        self.desk = Desk(rig.db, SCOPE)
        self.settings = rig.settings.model_copy(
            update={
                "llm_provider": "openai",
                "llm_base_url": rig.stub.base_url,
                "llm_model": MODEL,
                "llm_timeout_s": 10.0,
                "dream_concurrency": 2,
            }
            | settings
        )

    def having(self, **settings):
        """The same with other settings."""
        made = Sleeper(self.rig)
        made.settings = self.settings.model_copy(update=settings)
        return made

    def meanwhile(self, act):
        """Work on the next dream; act while the model is at work."""
        worker = threading.Thread(target=self.work)
        worker.start()
        self.stub.wait_until_held()
        act()
        self.stub.release()
        worker.join(60)

    def remembered(self, text="Amounts are decimals.", *, scope=SCOPE):
        """The citation of an entry that an extraction made of a source of its own."""
        with self.db.read() as conn:
            at = sources.high_watermark(conn, scope)
        self.rig.put(text, first=at + 1, scope=scope)
        while self.rig.flush(scope).status != "idle":
            pass
        return self.rig.cited(text, scope=scope).citation

    def by_hand(self, text="Decimals are exact."):
        """The citation of an entry that rests on nothing."""
        return self.rig.remember(text).citation

    def request(self, *refs, target=None, operation=REFINE):
        evidence = EvidenceRefs(
            tuple(ref for ref in refs if not isinstance(ref, ArtifactRef | Citation)),
            tuple(ref for ref in refs if isinstance(ref, ArtifactRef)),
            tuple(ref for ref in refs if isinstance(ref, Citation)),
        )
        return dream_request(operation, evidence, target=target)

    def submit(self, *refs, target=None, key=None, scope=SCOPE, operation=REFINE, **more):
        """Submit a dream; a new key unless one is given."""
        wanted = self.request(*refs, target=target, operation=operation)
        return dream.submit(
            self.db,
            self.settings,
            scope,
            wanted,
            key=key or next(_KEYS),
            now_us=now_us(),
            **more,
        )

    def queued(self, *refs, **more):
        return self.submit(*refs, **more).run

    def claim(self, *, lease_s=15.0):
        return run_dreams.claim(
            self.db, self.settings, next(_CLAIMS), lease_s=lease_s, dagster_run_id=None
        )

    def work(self, **more):
        """Claim the next dream and make one attempt at it."""
        run = self.claim(**more)
        assert run is not None
        return run_dreams.work_on(self.db, self.settings, run)

    def pending(self, **more):
        return run_pending(self.db, self.settings, budget_s=60, **more)

    def get(self, run, scope=SCOPE):
        return dream.get_dream(self.db, scope, run.run_id)

    def dreamt(self, *refs, target=None, **more):
        """Submit, work, and return the dream as it is then."""
        run = self.queued(*refs, target=target, **more)
        self.work()
        return self.get(run)

    def candidates(self, scope=SCOPE):
        """Every candidate that dreams made."""
        page = list_candidates(self.db, scope, status=None, origin="dream", limit=100)
        return list(page.items)

    def says(self, *refs, intent="create", **changes):
        """Script a proposal that rests on these."""
        self.stub.answer(says(plan(*refs, intent=intent, **changes)))

    def asked(self):
        """What the model was shown of dreams, one user message each."""
        told = [one["body"]["messages"][-1]["content"] for one in self.stub.requests()]
        return [shown for shown in map(json.loads, told) if "operation" in shown]


def plan(*refs, intent="create", outcome="proposed", reason="It is told twice.", **changes):
    """What a model may answer."""
    ids = [ref if isinstance(ref, str) else id_of(ref) for ref in refs]
    return {
        "outcome": outcome,
        "reason": reason,
        "intent": intent,
        "proposal": FIELDS,
        "evidence_ids": ids,
    } | changes


def nothing(outcome="no_change", reason="Nothing here is worth it."):
    """A plan without a proposal."""
    return {
        "outcome": outcome,
        "reason": reason,
        "intent": None,
        "proposal": None,
        "evidence_ids": [],
    }


def spent(run):
    """A dream's usage as a dict."""
    return asdict(run.usage)


__all__ = ["FIELDS", "SCOPE", "Sleeper", "id_of", "nothing", "plan", "source", "spent"]
