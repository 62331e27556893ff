"""Named limits, enforced at the edge and again in the domain. Sizes in bytes are UTF-8."""

SCOPE_ID_MAX_CHARS = 256
SCOPE_TITLE_MAX_CHARS = 256
SCOPE_SUMMARY_MAX_CHARS = 2_000

SCOPE_REFERENCES_MAX = 100
"""Most context references, and most external references, of one scope."""
EXTERNAL_REFERENCE_KIND_MAX_CHARS = 128
EXTERNAL_REFERENCE_VALUE_MAX_CHARS = 2_000
SCOPE_CREATION_KEY_MAX_CHARS = 256
SCOPE_QUERY_MAX_CHARS = 256
BINDING_INTEGRATION_MAX_CHARS = 128
BINDING_KIND_MAX_CHARS = 64
BINDING_EXTERNAL_ID_MAX_CHARS = 256

SOURCE_TYPE_MAX_CHARS = 128
SOURCE_ID_MAX_CHARS = 256
SOURCE_CONTENT_MAX_CHARS = 200_000
SOURCE_METADATA_MAX_BYTES = 65_536

JSON_MAX_DEPTH = 64
JSON_INT_MIN = -(2**63)
JSON_INT_MAX = 2**63 - 1

ENTRY_TEXT_MAX_BYTES = 8_192
ENTRY_KIND_MAX_CHARS = 128
REASON_MAX_CHARS = 512
EVIDENCE_MAX = 32
"""Most sources one proposal may cite, and most references one candidate may."""
CANDIDATE_REASON_MAX_CHARS = 2_000

RECURRENCE_THRESHOLD = 3
DRAFT_ATTEMPTS_MAX = 3
"""How often a model is asked for a draft on the same evidence of a review."""
DRAFT_REASON_MAX_CHARS = 1_000
RECEIPT_NOTE_MAX_CHARS = 2_000

INCUBATION_EVIDENCE_MAX = 100
"""Most pieces of evidence in one model call that proposes experiences."""
GENERATION_EVIDENCE_MAX_CHARS = 64_000
"""Most characters that a generation shows of one source or artifact."""

PROMPT_TEXT_MAX_CHARS = 50_000

WINDOW_LIMIT_DEFAULT = 100
WINDOW_LIMIT_MAX = 1_000
GENERATION_NAME_MAX_CHARS = 64
GENERATION_WINDOWS_MAX = 1_000
"""Most windows of one generation: what it would change is read, and promoted, in one go."""
POSITION_MAX = 99_999_999
"""Window keys print positions with eight digits, so that they sort."""

SEARCH_LIMIT_DEFAULT = 10
SEARCH_LIMIT_MAX = 50
QUERY_MAX_CHARS = 8_192

CONTEXT_BYTES_MIN = 512
CONTEXT_BYTES_MAX = 32_768
CONTEXT_BYTES_DEFAULT = 8_000
CONTEXT_ITEMS_MAX = 8
CONTEXT_EXPERIENCES_MAX = 2
"""Of the items of a prepared context, most that are experiences."""
CONTEXT_ITEM_MAX_BYTES = 2_000
CONTEXT_ITEM_MIN_BYTES = 64
"""What is left of an item that is cut has at least this many bytes."""
CONTEXT_MEMORY_CANDIDATES = 16
CONTEXT_EXPERIENCE_CANDIDATES = 8
"""Most of each that are looked at, over all scopes together."""

REMEMBER_BATCH_MAX = 100
MEMORY_ACTIVE_ENTRIES_MAX = 1_000_000
MEMORY_MANIFEST_ENTRIES_MAX = 2_000_000
MEMORY_MANIFEST_BYTES_MAX = 1024 * 1024 * 1024
"""Default budget of a memory; the bytes are those of a revision's canonical JSON."""

IDEMPOTENCY_KEY_MAX_CHARS = 256
CURSOR_SECRET_MIN_BYTES = 32

SOURCE_PAGE_MAX_BYTES = 4 * 1024 * 1024
"""A page of sources ends before it would pass this size, but never empty."""
PAGE_MAX = 100
PAGE_DEFAULT = 50
