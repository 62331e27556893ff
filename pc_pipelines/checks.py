"""Checks, one for each rule of `pc_store.services.audit` and `index_check`."""

from collections.abc import Iterator
from typing import get_args

import dagster as dg

from pc_pipelines.resources import StoreResource
from pc_store.services.audit import RULES, Finding, Part, audit
from pc_store.services.clock import now_us
from pc_store.services.index_rules import RULES as INDEX_RULES


def _checks_on(part: Part) -> dg.AssetChecksDefinition:
    """All rules that show on one asset, evaluated over every scope in one read."""
    rules = [rule for rule in RULES if rule.part == part]

    @dg.multi_asset_check(
        name=f"{part}_state",
        specs=[
            dg.AssetCheckSpec(rule.name, asset=part, description=rule.asserts) for rule in rules
        ],
        can_subset=True,
    )
    def state(
        context: dg.AssetCheckExecutionContext, store: StoreResource
    ) -> Iterator[dg.AssetCheckResult]:
        wanted = {key.name for key in context.selected_asset_check_keys}
        serious = {rule.name for rule in rules if rule.blocking}
        for finding in audit(store.db, store.settings, names=sorted(wanted)):
            yield _result(part, finding, serious=finding.check in serious)

    return state


@dg.multi_asset_check(
    name="search_index_state",
    specs=[
        dg.AssetCheckSpec(rule.name, asset="search_index", description=rule.asserts)
        for rule in INDEX_RULES
    ],
    can_subset=True,
)
def search_index_state(
    context: dg.AssetCheckExecutionContext, store: StoreResource
) -> Iterator[dg.AssetCheckResult]:
    """The rules of `pc_store.services.index_check`, evaluated over every shard."""
    from pc_store.services.index_check import verify

    wanted = {key.name for key in context.selected_asset_check_keys}
    serious = {rule.name for rule in INDEX_RULES if rule.serious}
    for finding in verify(store.db, store.settings, names=wanted, now_us=now_us()):
        yield _result("search_index", finding, serious=finding.check in serious)


def _result(asset: str, finding: Finding, *, serious: bool) -> dg.AssetCheckResult:
    metadata: dict[str, dg.MetadataValue] = {"offending rows": dg.MetadataValue.int(finding.count)}
    if finding.rows:
        metadata["offenders"] = dg.MetadataValue.table(
            [
                dg.TableRecord({name: _cell(value) for name, value in row.items()})
                for row in finding.rows
            ]
        )
    return dg.AssetCheckResult(
        asset_key=asset,
        check_name=finding.check,
        passed=finding.passed,
        severity=dg.AssetCheckSeverity.ERROR if serious else dg.AssetCheckSeverity.WARN,
        description=finding.asserts,
        metadata=metadata,
    )


def _cell(value: object) -> str | int:
    return value if isinstance(value, int) else str(value)


ALL = [
    *(_checks_on(part) for part in get_args(Part)),
    search_index_state,
]
