"""Every environment variable and its default, in one frozen value.

`PC_HOME` is where everything of an installation lives unless another variable moves it:
the SQLite ledger, the search index, landing files, rejects.
"""

import os
from functools import lru_cache
from pathlib import Path
from typing import Literal, Self

from pydantic import Field, SecretStr, ValidationError, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from pc_store import limits
from pc_store.domain.capacity import Budget
from pc_store.domain.dream_run import DreamBudget
from pc_store.errors import InvalidInput


class Settings(BaseSettings):
    """The configuration of one store. Read it with `Settings.load()`."""

    model_config = SettingsConfigDict(env_prefix="PC_", frozen=True, extra="ignore")

    home: Path = Path(".pc")
    """Where the ledger, index, landing files and rejects live, unless a setting moves them."""
    store_name: str = Field(default="main", pattern=r"^[a-z][a-z0-9_]{0,31}$")
    """Names this store's partition sets, so that several stores can share one Dagster instance."""

    database_url: SecretStr | None = None
    """`sqlite:///path` or `postgresql://…`; unset: a SQLite file under the home."""
    database_wait_s: float = Field(default=30.0, gt=0, le=600)
    """How long a write waits for the database before it is given up as busy."""
    landing_dir: Path | None = None
    """The folder with one subfolder of landing files per scope; unset: `landing` in the home."""
    index_dir: Path | None = None
    """The folder of search index files; unset: `index` in the home."""

    source_window_limit: int = Field(
        default=limits.WINDOW_LIMIT_DEFAULT, ge=1, le=limits.WINDOW_LIMIT_MAX
    )
    """Most positions one window covers."""
    window_max_wait_s: float = Field(default=0.0, ge=0)
    """A window that is not full is run once its oldest source is this old."""
    window_max_attempts: int = Field(default=3, ge=1, le=100)
    """Failures that may lie in the input before a window is halved, or its source set aside."""
    window_partitions_kept: int = Field(default=10_000, ge=100, le=100_000)
    """Window partitions the nightly upkeep leaves in Dagster; the ledger keeps every window."""
    retry_base_s: float = Field(default=30.0, ge=0)
    """Pause before the second attempt at a window; it doubles with every further one."""
    retry_cap_s: float = Field(default=1_800.0, ge=0)
    """The longest such pause."""
    lease_s: float = Field(default=60.0, gt=1)
    """A run whose heartbeat is older than this is taken for dead."""
    drain_budget_s: float = Field(default=300.0, gt=0)
    """How long one drain run works before it leaves the rest to the next."""
    lag_target: int = Field(default=1_000, ge=0)
    """The check `lag_within_target` fails when more than this wait in a scope: positions for the
    memory, task outcomes for experience and recurrence."""
    inbox_age_target_s: float = Field(default=604_800.0, ge=0, le=3_153_600_000)
    """The check `inbox_age_within_target` fails when a candidate waits longer for its review."""

    recurrence_threshold: int = Field(default=limits.RECURRENCE_THRESHOLD, ge=1, le=1_000)
    """Recurrences in a row, not seen by a review, that send an experience back to review."""

    recurrence_draft: bool = True
    """Whether the model, where one is configured, drafts a change for each review of a failure that
    keeps coming back; the builtin provider drafts none. People decide on it as on any other."""

    memory_schedule_seconds: int | None = Field(default=None, ge=1)
    """How often the memory sensor looks for due windows; unset: it is off until switched on."""
    experience_schedule_seconds: int | None = Field(default=None, ge=1)
    """As `PC_MEMORY_SCHEDULE_SECONDS`, for experience windows."""

    llm_provider: Literal["auto", "openai", "builtin"] = "auto"
    """`auto` is `openai` when `PC_LLM_MODEL` or `PC_LLM_BASE_URL` is set, else `builtin`."""
    llm_base_url: str | None = None
    """An OpenAI-compatible endpoint, ending in `/v1`; unset: OpenAI's own."""
    llm_model: str | None = None
    """The model's name, as the endpoint knows it."""
    llm_api_key: SecretStr | None = None
    """The endpoint's key, if it wants one."""
    llm_mode: Literal["json_schema", "tools", "json", "md_json"] = "json_schema"
    """How the model is asked for structure; endpoints differ in what they support."""
    llm_timeout_s: float = Field(default=120.0, gt=0)
    """How long one request may take."""
    llm_max_tokens: int = Field(default=4_096, ge=256)
    """Most tokens an answer may have; an answer cut there is refused."""
    llm_transport_retries: int = Field(default=2, ge=0, le=10)
    """Repetitions of a request after a transport error, 429 or 5xx, before the attempt fails."""
    embed_provider: Literal["auto", "builtin", "openai", "none"] = "auto"
    """`auto` is `openai` when `PC_EMBED_MODEL` or `PC_EMBED_BASE_URL` is set, else `builtin`;
    `none`: search by words alone."""
    embed_base_url: str | None = None
    """An OpenAI-compatible endpoint for embeddings, ending in `/v1`; unset: OpenAI's own."""
    embed_model: str | None = Field(default=None, max_length=256)
    """The embedding model's name; another name, like other dimensions, starts a new set of
    vectors, so a model that changes must change its name."""
    embed_api_key: SecretStr | None = None
    """The embedding endpoint's key, if it wants one."""
    embed_dims: int | None = Field(default=None, ge=1, le=16_384)
    """Dimensions to ask the model for, and to require of its vectors; unset: those it gives."""
    embed_batch: int = Field(default=64, ge=1, le=2_048)
    """Most texts in one request for embeddings."""
    embed_timeout_s: float = Field(default=10.0, gt=0, le=600)
    """How long one request for embeddings may take; with its retries, twice that."""
    embed_transport_retries: int = Field(default=2, ge=0, le=10)
    """Repetitions of a request for embeddings after a transport error, 429 or 5xx."""
    prompt_token_budget: int = Field(default=24_000, ge=4_000)
    """Most tokens, estimated, that one model call may send."""
    shown_entries: int = Field(default=64, ge=0, le=1_000)
    """Most existing entries shown to the model beside a window."""

    index_shards: int = Field(default=16, ge=1, le=256)
    """Files that the search index is divided into; the ledger's first build fixes the number."""
    index_max_age_s: float = Field(default=300.0, ge=0)
    """How long a change may wait for its index file while the sensor `search_index_due` is on;
    it is found all the same, from the ledger."""
    hnsw_min_rows: int = Field(default=20_000, ge=1)
    """A scope with more vectors than this gets an HNSW index; others are compared one by one."""
    search_cache_bytes: int = Field(default=256 * 1024 * 1024, ge=1024 * 1024)
    """Most memory a process keeps parts of index files in."""
    search_auto: Literal["fts", "hybrid"] | None = None
    """What the search mode `auto` uses where vectors exist; unset: what suits the embedder."""
    search_fts_weight: float = Field(default=1.0, gt=0, le=100)
    """How much a rank by words counts in hybrid search."""
    search_vector_weight: float | None = Field(default=None, gt=0, le=100)
    """How much a rank by meaning counts in hybrid search; unset: what suits the embedder, 0.05
    for the packaged one and 1 for any other."""

    dream_enabled: bool = True
    """Whether dreams are accepted and worked on; off, those that wait go on waiting."""
    dream_max_pending: int = Field(default=32, ge=1, le=1_000)
    """Most dreams of one scope that may wait or run; one more is told to try again."""
    dream_max_items: int = Field(default=32, ge=1, le=32)
    """Most references that one dream may select."""
    dream_max_bytes: int = Field(default=65_536, ge=1, le=65_536)
    """Most bytes of JSON that a dream's evidence may take."""
    dream_max_nodes: int = Field(default=128, ge=1, le=128)
    """Most nodes of a dream's evidence graph."""
    dream_max_edges: int = Field(default=256, ge=1, le=256)
    """Most edges of that graph."""
    dream_max_depth: int = Field(default=8, ge=1, le=8)
    """Most steps from what was selected to what it was made from."""
    dream_max_output_tokens: int = Field(default=4_096, ge=1, le=4_096)
    """Most tokens of a dream's answer; never more than `PC_LLM_MAX_TOKENS`."""
    dream_max_model_calls: int = Field(default=2, ge=1, le=2)
    """Most attempts at a dream, one request to the model each."""
    dream_timeout_s: float = Field(default=120.0, gt=0, le=120)
    """How long a dream may take from the start of its first attempt."""
    dream_concurrency: int = Field(default=4, ge=1, le=32)
    """Dreams that one worker works on at a time; they wait for the model most of the time."""
    dream_worker: bool = False
    """Whether `pc serve` works on dreams itself, as Dagster does and `pc dream run-pending`."""

    secret_detection: bool = True
    """Refuse explicit writes that contain a credential, and drop such proposals."""
    memory_max_active_entries: int = Field(default=limits.MEMORY_ACTIVE_ENTRIES_MAX, ge=1)
    """Most active entries a memory may grow to."""
    memory_max_manifest_entries: int = Field(default=limits.MEMORY_MANIFEST_ENTRIES_MAX, ge=1)
    """Most entries, retired ones included, a memory may grow to."""
    memory_max_manifest_bytes: int = Field(default=limits.MEMORY_MANIFEST_BYTES_MAX, ge=1_024)
    """Most bytes of canonical JSON a memory revision's content may grow to."""

    recall_days: int = Field(default=30, ge=0, le=3_650)
    """How long the log of what was recalled is kept; 0: none is written. It holds references,
    sizes and a digest of the query, never a text."""

    cursor_secret: SecretStr | None = None
    """Signs page cursors, at least 32 bytes; unset: a secret that the ledger keeps."""

    http_host: str = "127.0.0.1"
    """The address the HTTP server listens on; beyond loopback it needs `PC_API_TOKENS`."""
    http_port: int = Field(default=8_000, ge=0, le=65_535)
    """The port the HTTP server listens on; 0: any free one."""
    http_max_body_bytes: int = Field(default=8_388_608, ge=1_024)
    """The longest request body that is read."""
    http_client_timeout_s: float = Field(default=30.0, gt=0)
    """How long a client may take to send a request, and to take each part of the answer."""
    http_max_requests: int = Field(default=256, ge=1)
    """Most requests answered at a time; one more is told to try again."""
    api_tokens: SecretStr | None = None
    """Who may use the HTTP server: a JSON list of tokens, or the file of one; see http.md."""

    @field_validator(
        *("llm_base_url", "llm_model", "embed_base_url", "embed_model", "embed_dims"),
        *("database_url", "api_tokens"),
        mode="before",
    )
    @classmethod
    def _blank_is_unset(cls, value: object) -> object:
        return None if isinstance(value, str) and not value.strip() else value

    @classmethod
    def load(cls) -> Self:
        """Read the environment; cheap while that stays as it was.

        Raises:
            InvalidInput: a variable is not what it must be; the message names the variable.
        """
        try:
            return cls._of(_environment())
        except ValidationError as error:
            first = error.errors()[0]
            name = "PC_" + "_".join(str(part) for part in first["loc"]).upper()
            raise InvalidInput(name, first["msg"].lower()) from None

    @classmethod
    @lru_cache(maxsize=1)
    def _of(cls, environment: tuple[tuple[str, str], ...]) -> Self:
        del environment  # what the constructor reads by itself
        return cls()

    @property
    def provider(self) -> Literal["openai", "builtin"]:
        """The provider in force."""
        if self.llm_provider != "auto":
            return self.llm_provider
        return "openai" if self.llm_model or self.llm_base_url else "builtin"

    @property
    def drafts_reviews(self) -> bool:
        """Whether reviews of failures that keep coming back get a draft."""
        return self.recurrence_draft and self.provider != "builtin"

    @property
    def embedding_provider(self) -> Literal["builtin", "openai", "none"]:
        """The embedder in force."""
        if self.embed_provider != "auto":
            return self.embed_provider
        return "openai" if self.embed_model or self.embed_base_url else "builtin"

    @property
    def memory_budget(self) -> Budget:
        """The most a memory may hold."""
        return Budget(
            self.memory_max_active_entries,
            self.memory_max_manifest_entries,
            self.memory_max_manifest_bytes,
        )

    @property
    def dream_budget(self) -> DreamBudget:
        """What a dream may use that is accepted now."""
        return DreamBudget(
            self.dream_max_items,
            self.dream_max_bytes,
            self.dream_max_nodes,
            self.dream_max_edges,
            self.dream_max_depth,
            self.dream_max_output_tokens,
            self.dream_max_model_calls,
            self.dream_timeout_s,
        )

    @property
    def ledger_url(self) -> str:
        """The ledger's SQLAlchemy URL, password included: never log it."""
        if self.database_url is not None:
            return self.database_url.get_secret_value()
        return f"sqlite:///{(self.home / 'ledger.db').absolute()}"

    @property
    def landing_path(self) -> Path:
        """The folder with one subfolder of landing files per scope."""
        return (self.landing_dir or self.home / "landing").absolute()

    @property
    def index_path(self) -> Path:
        """The folder of search index files; deleting it only costs time."""
        return (self.index_dir or self.home / "index").absolute()

    @property
    def rejects_path(self) -> Path:
        """The folder of reject files: input that could not be read, kept as it came."""
        return (self.home / "rejects").absolute()


def _environment() -> tuple[tuple[str, str], ...]:
    """All that `Settings` is made of."""
    return tuple(one for one in os.environ.items() if one[0].upper().startswith("PC_"))
