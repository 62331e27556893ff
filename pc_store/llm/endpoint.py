"""What the address and the key of an OpenAI-compatible endpoint must be."""

from typing import Literal
from urllib.parse import urlsplit

from pc_store.errors import ModelMisconfigured

DEFAULT_BASE_URL = "https://api.openai.com/v1"

Settings = Literal["PC_LLM", "PC_EMBED"]
"""What the names of the settings that describe an endpoint begin with."""


def check(base_url: str, api_key: str | None, settings: Settings) -> None:
    """Refuse at once what could only fail later, and less clearly.

    Raises:
        ModelMisconfigured: naming the setting.
    """
    try:
        parts = urlsplit(base_url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        usable = False
    if not usable:
        raise ModelMisconfigured(f"{settings}_BASE_URL is no http or https address")
    if base_url == DEFAULT_BASE_URL and not api_key:
        raise ModelMisconfigured(f"{settings}_API_KEY is not set, and api.openai.com needs it")
    # It becomes a header, and a header holds printable ASCII.
    if api_key and not (api_key.isascii() and api_key.isprintable()):
        raise ModelMisconfigured(f"{settings}_API_KEY holds a character that no key can hold")
