"""Credentials in text: what must never be remembered.

Patterns are those that the issuers document (key prefixes, lengths, alphabets) or that the
text itself declares (`password = …` inside a connection string). A finding names the kind of
secret and never repeats it.
"""

import re

_PATTERNS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("private key", re.compile(r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----")),
    ("AWS access key", re.compile(r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b")),
    (
        "AWS secret key",
        re.compile(r"(?i)aws.{0,20}secret.{0,20}[=:]\s*['\"]?[A-Za-z0-9/+]{40}\b"),
    ),
    ("Google API key", re.compile(r"\bAIza[0-9A-Za-z_-]{35}")),
    ("Google OAuth token", re.compile(r"\bya29\.[0-9A-Za-z_-]{20,}")),
    ("GitHub token", re.compile(r"\b(?:gh[pousr]_[0-9A-Za-z]{36,}|github_pat_\w{60,})")),
    ("GitLab token", re.compile(r"\bglpat-[0-9A-Za-z_-]{20,}")),
    ("Slack token", re.compile(r"\bxox[abeoprs]-[0-9A-Za-z-]{10,}")),
    ("Stripe key", re.compile(r"\b[rs]k_(?:live|test)_[0-9A-Za-z]{16,}")),
    (
        "OpenAI or Anthropic key",
        # words joined by hyphens have neither capitals nor digits among their first letters
        re.compile(r"\bsk-(?=[a-z_-]*[0-9A-Z])(?:ant-|proj-|svcacct-)?[0-9A-Za-z_-]{20,}"),
    ),
    ("Hugging Face token", re.compile(r"\bhf_[0-9A-Za-z]{30,}")),
    ("npm token", re.compile(r"\bnpm_[0-9A-Za-z]{36}\b")),
    ("PyPI token", re.compile(r"\bpypi-[0-9A-Za-z_-]{50,}")),
    ("Azure storage key", re.compile(r"AccountKey=[0-9A-Za-z+/]{60,}={0,2}")),
    (
        "JSON Web Token",
        re.compile(r"\beyJ[0-9A-Za-z_-]{8,}\.eyJ[0-9A-Za-z_-]{8,}\.[0-9A-Za-z_-]{8,}"),
    ),
    (
        "bearer token",
        re.compile(r"(?i)\bauthorization\s*[:=]\s*['\"]?(?:bearer|basic)\s+[0-9A-Za-z+/._~-]{16,}"),
    ),
    (
        "password in a connection string",
        re.compile(
            r"\b[a-zA-Z][a-zA-Z0-9+.-]{1,30}://[^\s/:@]{0,80}:(?!\*+@|<|\$|\{|%s)[^\s/@]{3,}@"
        ),
    ),
    (
        "password in a connection string",
        re.compile(
            # the first value ends at the first semicolon, so that no text takes long to search
            r"(?i)(?:server|host|data source)=[^\s;]+;.*\b(?:pwd|password)=(?![*<${])[^;\s]{3,}"
        ),
    ),
)


def find_secret(text: str) -> str | None:
    """The kind of the first credential in `text`, or None; the credential is never returned."""
    return next((kind for kind, pattern in _PATTERNS if pattern.search(text)), None)
