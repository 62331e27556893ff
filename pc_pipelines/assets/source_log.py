"""`source_log`: each scope's append-only log. Materialising it takes in the landing files."""

from urllib.parse import unquote

import dagster as dg

from pc_pipelines import partitions
from pc_pipelines.failures import failure
from pc_pipelines.resources import StoreResource
from pc_store.domain.scope import Scope, partition_key
from pc_store.errors import NotFound, StoreError
from pc_store.services.administer import ensure_scope, get_scope_by_key, scope_status
from pc_store.services.clock import now_us
from pc_store.services.ingest import ingest_landing

REJECTS_LOGGED = 20

CREATE_SCOPE = dg.Field(
    bool,
    default_value=False,
    description="Create the scope that the partition names, if there is none.",
)


@dg.asset(
    partitions_def=partitions.scopes,
    group_name="sources",
    kinds={"log"},
    config_schema={"create_scope": CREATE_SCOPE},
    description=(
        "Each scope's append-only log of sources. Materialising a partition takes in the files of "
        "the scope's landing folder, each source once. Logs written through the API and the CLI "
        "are observed here."
    ),
)
def source_log(
    context: dg.AssetExecutionContext, store: StoreResource
) -> dg.MaterializeResult[None]:
    """Take in the landing files of one scope."""
    key = context.partition_key
    create = bool(context.op_execution_context.op_config["create_scope"])
    try:
        scope = _scope(store, key, create=create)
        report = ingest_landing(
            store.db, scope, store.settings.landing_path, rejects_dir=store.settings.rejects_path
        )
        status = scope_status(store.db, scope.scope_id)
    except StoreError as error:
        raise failure(error) from None
    for reject in report.rejected[:REJECTS_LOGGED]:
        context.log.warning(f"rejected {reject.file} line {reject.line}: {reject.reason}")
    if report.rejected_count > REJECTS_LOGGED:
        context.log.warning(f"{report.rejected_count} rejected in all, see {report.reject_file}")
    return dg.MaterializeResult(
        metadata={
            "scope": scope.scope_id,
            "files": report.files,
            "new": report.new,
            "already known": report.known,
            "noise dropped": sum(report.dropped.values()),
            "rejected": report.rejected_count,
            "reject file": str(report.reject_file or "none"),
            "high watermark": status.high_watermark,
            "memory lag": status.memory_lag,
        },
        data_version=dg.DataVersion(str(status.high_watermark)),
    )


def _scope(store: StoreResource, key: str, *, create: bool) -> Scope:
    """The partition's scope; anybody can add a partition in the UI."""
    try:
        return get_scope_by_key(store.db, key)
    except NotFound as error:
        scope_id = unquote(key)
        if not create or partition_key(scope_id) != key:
            raise NotFound(
                f"{error.message}: create it with `pc scope create`, or set create_scope"
            ) from None
        return ensure_scope(store.db, scope_id, now_us=now_us())
