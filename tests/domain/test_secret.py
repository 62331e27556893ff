"""Credentials are found by the form their issuers document; ordinary text is not taken for one.

All secrets here are toys, put together so that no scanner of repositories takes them for real.
"""

import base64
import hashlib
import random
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pc_store.domain.secret import find_secret

ALNUM = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"


def toy(count, alphabet=ALNUM):
    return "".join(random.Random(count).choices(alphabet, k=count))


JWT = ".".join(("ey" + "J" + toy(20), "ey" + "J" + toy(40), toy(43)))
SECRETS = {
    "-----BEGIN " + "PRIVATE KEY-----": "private key",
    "-----BEGIN RSA " + "PRIVATE KEY-----\nMIIE": "private key",
    "-----BEGIN PGP " + "PRIVATE KEY BLOCK-----": "private key",
    "-----BEGIN OPENSSH " + "PRIVATE KEY-----": "private key",
    "AKIA" + toy(16, ALNUM[:26]): "AWS access key",
    "ASIA" + toy(16, ALNUM[:26]): "AWS access key",
    "aws_secret_access_key = " + toy(40): "AWS secret key",
    'AWS_SECRET_ACCESS_KEY: "' + toy(40) + '"': "AWS secret key",
    "AIza" + toy(35): "Google API key",
    "ya29." + toy(40): "Google OAuth token",
    "ghp_" + toy(36): "GitHub token",
    "ghs_" + toy(36): "GitHub token",
    "github_pat_" + toy(82): "GitHub token",
    "glpat-" + toy(20): "GitLab token",
    "xoxb-" + toy(24): "Slack token",
    "sk_live_" + toy(24): "Stripe key",
    "rk_test_" + toy(24): "Stripe key",
    "sk-" + toy(48): "OpenAI or Anthropic key",
    "sk-proj-" + toy(60): "OpenAI or Anthropic key",
    "sk-ant-api03-" + toy(90): "OpenAI or Anthropic key",
    "hf_" + toy(34): "Hugging Face token",
    "npm_" + toy(36): "npm token",
    "pypi-AgEIcHlwaS5vcmc" + toy(60): "PyPI token",
    "AccountKey=" + toy(86) + "==": "Azure storage key",
    JWT: "JSON Web Token",
    "Authorization: Bearer " + toy(32): "bearer token",
    "authorization: basic " + base64.b64encode(b"user:pass-of-a-toy").decode(): "bearer token",
    "postgres://app:toy-pass@db.internal:5432/orders": "password in a connection string",
    "postgresql+psycopg2://app:p%40ss@host/db": "password in a connection string",
    "redis://:toypass@cache:6379/0": "password in a connection string",
    "mongodb+srv://u:p4ssw@cluster0.example.net": "password in a connection string",
    "https://user:toy-pass@git.example.com/r.git": "password in a connection string",
    "Server=db;Database=x;User Id=sa;Password=Toy1234;": "password in a connection string",
    "host=db;uid=sa;pwd=Toy1234": "password in a connection string",
}


@pytest.mark.parametrize(("secret", "kind"), SECRETS.items())
@pytest.mark.parametrize(
    "sentence", ["{}", "the key is {} for now", "密钥是 {} 。", 'line one\n"{}"\nline two']
)
def test_a_credential_is_found_wherever_it_stands_in_the_text(secret, kind, sentence):
    assert find_secret(sentence.format(secret)) == kind


@pytest.mark.parametrize(
    "text",
    [
        "amount: 订单金额以整数分存储；100 表示 1 元。",
        "Never commit secrets; rotate the AWS secret key every 90 days.",
        "the private key lives in the vault, BEGIN PRIVATE KEY marks its first line",
        "commit 3f786850e387550fdab836ed7e6dc881de23001b fixed it",
        "sha256:" + hashlib.sha256(b"toy").hexdigest(),
        "md5 " + hashlib.md5(b"toy").hexdigest(),
        "order " + str(uuid.UUID(int=2**127 + 12345)),
        "data:image/png;base64," + base64.b64encode(random.Random(1).randbytes(3_000)).decode(),
        "integrity sha512-" + base64.b64encode(hashlib.sha512(b"toy").digest()).decode(),
        "postgres://user:***@host",
        "postgresql://user:*****@host:5432/db",
        "postgres://user:$PASSWORD@host and postgres://user:${DB_PASS}@host",
        "postgres://user:<password>@host or mysql://u:{password}@h",
        "postgres://user:%s@host",
        "postgres://user@host:5432/db",
        "https://host:8080/path@x",
        "https://medium.com/@user/post:1",
        "git@github.com:org/repo.git and ssh://git@github.com:22/org/repo.git",
        "see http://localhost:8000, then mail me@example.com",
        "Authorization: Bearer $TOKEN",
        "Authorization: Bearer <token>",
        "password = ask the team; server=db",
        "host=db;password=***",
        "AKIA is the prefix of access keys, ghp_ that of tokens, sk- of model keys",
        "the task-management-service-for-orders-and-payments is slow",
        "sk-learn-style-estimators-everywhere, says the guide",
        "eyJhbGciOiJIUzI1NiJ9 is a header alone",
        "hf_hub_download and npm_config_registry are names",
        "xoxo, your colleague",
        "pypi-server and glpat are words",
    ],
)
def test_ordinary_text_is_not_taken_for_a_credential(text):
    assert find_secret(text) is None


@given(st.binary(min_size=20, max_size=20))
def test_no_commit_sha_is_taken_for_a_credential(digest):
    assert find_secret(f"fixed in {digest.hex()} (see {digest.hex()[:7]})") is None


@given(st.uuids(), st.binary(min_size=32, max_size=32))
def test_no_uuid_or_hash_is_taken_for_a_credential(name, digest):
    assert find_secret(f"trace {name} of sha256:{digest.hex()}") is None


@given(st.text(st.characters(codec="utf-8"), max_size=300))
def test_a_finding_is_one_of_the_named_kinds(text):
    assert find_secret(text) in {None, *SECRETS.values()}


@pytest.mark.parametrize(
    "text",
    [
        "-----BEGIN " + "A " * 4_000,
        "aws" * 2_700,
        "a://" + "a" * 8_000,
        "://:" * 2_000,
        "server=" + ";" * 8_000,
        "server=x;" * 900,
        "server=;" * 1_000,
        "server=x;pwd=a;" * 540,
        "host=" + "a;" * 4_000,
        "sk-" * 2_700,
        "sk-" + "a" * 8_000,
        "eyJ" * 2_700,
        "eyJaaaaaaa." * 740,
        "authorization " * 580,
        "a+" * 4_000,
    ],
)
@pytest.mark.timeout(5)
def test_the_longest_entry_is_searched_at_once_however_it_is_built(text):
    assert find_secret(text[:8_192]) is None
