"""The files of `deploy/` agree with the code, with the pinned versions and with one another."""

import hashlib
import json
import re
import tomllib
from importlib.metadata import PackageNotFoundError, version

import deploy_files
import pytest
import yaml
from deploy_files import DEPLOY, ROOT, compose, copied, each, helm_values, manifests, stages

from pc_store import __version__
from pc_store.api.access import Access, Principal
from pc_store.settings import Settings

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PINNED = dict(line.split("==") for line in (ROOT / "constraints.txt").read_text().split())
DAGSTER_YAML = yaml.safe_load((ROOT / "dagster.yaml").read_text())
FILES = [path for path in sorted(DEPLOY.rglob("*")) if path.is_file()]
GUIDE = (ROOT / "docs" / "deploy.md").read_text()
VARIABLES = set(re.findall(r"^\| `(\w+)`", (ROOT / "docs" / "settings.md").read_text(), re.M))
"""Generated from the code, as `make check` makes sure."""
OURS = ("code-server", "daemon", "webserver", "api")


@pytest.fixture
def services():
    return compose({"POSTGRES_PASSWORD": "secret1"})["services"]


def snake(name):
    return re.sub(r"(?<=[a-z])([A-Z])", lambda found: f"_{found[1].lower()}", name)


def option(command, name):
    return command[command.index(name) + 1]


def normal(name):
    return re.sub(r"[-_.]+", "-", name).lower()


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_variable_that_is_named_exists(path):
    assert set(re.findall(r"\bPC_\w+", path.read_text())) <= VARIABLES


@pytest.mark.parametrize("name", ["code-server", "api"])
def test_services_that_open_the_ledger_are_configured_as_settings_want_it(
    services, name, monkeypatch
):
    for variable, value in services[name]["environment"].items():
        monkeypatch.setenv(variable, value)
    settings = Settings.load()
    assert settings.ledger_url == "postgresql://pc:secret1@postgres:5432/ledger"
    assert services[name]["env_file"] == [".env"]


def test_only_they_know_the_ledger_and_the_models_key(services):
    for name in ("daemon", "webserver"):
        assert set(services[name]["environment"]) == {"PC_DAGSTER_POSTGRES_URL"}
        assert "env_file" not in services[name]


def test_they_and_no_others_are_given_the_tokens(services):
    given = {name for name in OURS if services[name].get("secrets") == ["tokens"]}
    assert given == {"code-server", "api"}
    for name in given:
        assert services[name]["environment"]["PC_API_TOKENS"] == "/run/secrets/tokens"


def test_nothing_starts_without_a_password_and_none_is_shipped():
    with pytest.raises(ValueError, match=r"^POSTGRES_PASSWORD is not set in \.env$"):
        compose({})
    assert deploy_files.env_file(DEPLOY / "env.example") == {"POSTGRES_PASSWORD": ""}
    ignored = (ROOT / ".gitignore").read_text().split()
    assert {"/deploy/.env", "/deploy/tokens.json"} <= set(ignored)


def test_the_example_of_tokens_is_one_that_the_server_takes():
    text = (DEPLOY / "tokens.example.json").read_text()
    (token,) = json.loads(text)
    assert token["token_sha256"] == "0" * 64  # nobody knows a text with this digest
    taken = Access(text.replace("0" * 64, hashlib.sha256(b"some-long-token").hexdigest()))
    assert taken.principal([b"Bearer some-long-token"]) == Principal(
        "ops", frozenset({"*"}), frozenset({"admin"})
    )


def test_ports_are_the_same_wherever_they_stand(services):
    ports = {
        "code-server": option(services["code-server"]["command"], "--port"),
        "webserver": option(services["webserver"]["command"], "--port"),
        "api": services["api"]["environment"]["PC_HTTP_PORT"],
    }
    assert sorted(ports.values()) == deploy_files.last("EXPOSE").split()
    for name in OURS:
        published = (
            [f"127.0.0.1:{ports[name]}:{ports[name]}"] if name in ("webserver", "api") else []
        )
        assert services[name].get("ports", []) == published
        check = " ".join(services[name]["healthcheck"]["test"])
        assert name == "daemon" or re.findall(r"\b\d{4}\b", check) == [ports[name]]
    assert "ports" not in services["postgres"]
    assert list(each(manifests(), "containerPort")) == [int(ports["api"])]
    (deployment,) = helm_values()["dagster-user-deployments"]["deployments"]
    assert deployment["port"] == int(ports["code-server"])


def test_the_code_location_is_the_same_everywhere(services):
    (local,) = yaml.safe_load((ROOT / "workspace.yaml").read_text())["load_from"]
    (remote,) = yaml.safe_load((DEPLOY / "workspace.yaml").read_text())["load_from"]
    name = PROJECT["tool"]["dg"]["project"]["code_location_name"]
    module = local["python_module"]["module_name"]
    values = helm_values()
    (deployment,) = values["dagster-user-deployments"]["deployments"]
    (server,) = values["dagsterWebserver"]["workspace"]["servers"]
    assert local["python_module"]["location_name"] == name
    assert remote["grpc_server"] == {"host": "code-server", "port": 4000, "location_name": name}
    assert server == {"host": deployment["name"], "port": deployment["port"], "name": name}
    assert option(services["code-server"]["command"], "--module-name") == module
    assert deployment["dagsterApiGrpcArgs"] == ["--module-name", module]


def test_the_image_is_one_and_of_this_version(services):
    image = f"pc-pipelines:{__version__}"
    assert PROJECT["project"]["version"] == __version__
    assert {services[name]["image"] for name in OURS} == {image}
    found = each([helm_values(), manifests()], "image")
    assert {
        one if isinstance(one, str) else f"{one['repository']}:{one['tag']}" for one in found
    } == {image}


def test_bases_are_named_shortly_and_fit(services):
    bases = {rest.split()[0] for keyword, rest in deploy_files.instructions() if keyword == "FROM"}
    assert bases == {"python:3.11-slim-bookworm"}
    assert PROJECT["project"]["requires-python"] == ">=3.11"
    assert "/" not in services["postgres"]["image"]


def test_every_dependency_of_the_image_is_pinned():
    extras = PROJECT["project"]["optional-dependencies"]
    (installed,) = [rest for keyword, rest in stages()[0] if keyword == "RUN"]
    chosen = re.search(r"\.\[([\w,]+)\]", installed)[1].split(",")
    wanted = [
        *PROJECT["project"]["dependencies"],
        *(one for name in chosen for one in extras[name]),
    ]
    assert {normal(re.match(r"[\w-]+", one)[0]) for one in wanted} <= PINNED.keys()
    assert "--constraint constraints.txt" in installed


def test_what_is_tested_here_is_what_is_pinned():
    different = {}
    for name, pinned in PINNED.items():
        try:
            found = version(name)
        except PackageNotFoundError:
            continue
        if found != pinned:
            different[name] = (found, pinned)
    assert different == {}


def test_the_chart_is_of_the_pinned_dagster():
    first_line = (DEPLOY / "kubernetes" / "values.yaml").read_text().partition("\n")[0]
    assert f"version {PINNED['dagster']};" in first_line
    assert f"--version {PINNED['dagster']} " in GUIDE


def test_the_context_is_what_the_dockerfile_copies_and_it_is_there():
    sources = {source for stage in stages() for some, _ in copied(stage) for source in some}
    lines = (DEPLOY / "Dockerfile.dockerignore").read_text().split("\n")
    assert {line[1:] for line in lines if line.startswith("!")} == sources
    assert all((ROOT / source).exists() for source in sources)


def test_volumes_are_where_the_images_user_may_write(services):
    (prepared,) = [rest for keyword, rest in stages()[-1] if keyword == "RUN"]
    writable = set(re.search(r"install -d -o pc -g pc (.*)$", prepared)[1].split())
    mounted = {
        volume.split(":")[1] for name in OURS for volume in services[name].get("volumes", [])
    }
    assert mounted == writable == {"/srv/pc", "/opt/pc/dagster/storage"}
    environment = deploy_files.image_environment()
    assert environment["PC_HOME"] == "/srv/pc"
    assert f"{environment['DAGSTER_HOME']}/storage" in writable
    user = int(deploy_files.last("USER").split(":")[0])
    assert set(each([helm_values(), manifests()], "runAsUser")) == {user}


def test_the_chart_says_what_dagster_yaml_says():
    values = helm_values()
    daemon = values["dagsterDaemon"]
    ours = DAGSTER_YAML
    queue = daemon["runCoordinator"]["config"]["queuedRunCoordinator"]
    monitoring = {snake(name): value for name, value in daemon["runMonitoring"].items()}
    monitoring.pop("max_resume_run_attempts")
    limit_s = ours["run_monitoring"].pop("max_runtime_seconds")
    run = values["runLauncher"]["config"]["k8sRunLauncher"]["runK8sConfig"]
    assert {snake(name): value for name, value in queue.items()} == ours["run_queue"]
    assert monitoring == ours["run_monitoring"]
    assert run["jobSpecConfig"]["activeDeadlineSeconds"] == limit_s
    for part in ("sensors", "schedules"):
        assert {snake(name): value for name, value in daemon[part].items()} == ours[part]
        one = part.removesuffix("s")
        assert values["retention"][one] == {
            "purgeAfterDays": ours["retention"][one]["purge_after_days"]
        }
    pools = {snake(name): value for name, value in values["concurrency"]["pools"].items()}
    assert pools == ours["concurrency"]["pools"]
    tags = [
        [{**one, "limit": min(one["limit"], 2)} for one in limits]
        for limits in (
            values["concurrency"]["runs"]["tagConcurrencyLimits"],
            ours["concurrency"]["runs"]["tag_concurrency_limits"],
        )
    ]
    assert tags[0] == tags[1]  # the same keys; only the numbers grow with the cluster
    assert daemon["runRetries"] == ours["run_retries"]
    assert values["telemetry"] == ours["telemetry"]
    assert values["additionalInstanceConfig"]["nux"] == ours["nux"]


def test_the_guide_makes_every_secret_and_claim_that_is_used():
    made = set(re.findall(r"create secret generic ([\w-]+)", GUIDE))
    used = {
        one
        for key in ("secretName", "postgresqlSecretName")
        for one in each([helm_values(), manifests()], key)
    }
    used |= {one["name"] for one in each(manifests(), "secretRef")}
    used |= {one["name"] for some in each(helm_values(), "envSecrets") for one in some}
    assert made == used
    claims = [one["metadata"]["name"] for one in manifests() if one["kind"].endswith("Claim")]
    assert set(each([helm_values(), manifests()], "claimName")) == set(claims)
