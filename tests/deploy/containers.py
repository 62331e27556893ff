"""The services of the Compose file as processes: their commands, users, ports and paths as written.

What a container engine would give them, the kernel gives them here: a network and a mount
namespace of their own, in which the service names are names of the loopback interface, and
/opt, /srv and /run are empty but for what the Dockerfile puts there. The instructions of the
image's own stage are carried out one by one. All services share one such place: no two of them
claim the same port or path for different things. Needs root. Knows nothing of pytest.
"""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable, Mapping
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import deploy_files
import postgres_server

_HOLDER = """
import fcntl, os, pathlib, socket, struct, subprocess, sys
hosts, *needed = sys.argv[1:]
def mount(*arguments):
    subprocess.run(["mount", *arguments], check=True)
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
    up = struct.pack("16sh", b"lo", 0x1 | 0x40)  # IFF_UP | IFF_RUNNING
    fcntl.ioctl(any_socket, 0x8914, up)  # SIOCSIFFLAGS
mount("--make-rprivate", "/")
for folder in ("/opt", "/srv", "/run"):
    mount("-t", "tmpfs", "-o", "mode=755", "none", folder)
# /etc is a copy, for the Dockerfile makes a user
subprocess.run(["cp", "--archive", "/etc", "/run/etc"], check=True)
mount("--bind", "/run/etc", "/etc")
mount("--bind", hosts, "/etc/hosts")
# Python may be installed where only root may look; the image's user needs it.
aside = pathlib.Path("/run/aside")
for number, path in enumerate(needed):
    (aside / str(number)).mkdir(parents=True)
    mount("--bind", path, str(aside / str(number)))
for number, path in enumerate(map(pathlib.Path, needed)):
    for folder in reversed(path.parents):
        if folder.exists() and not folder.stat().st_mode & 0o001:
            mount("-t", "tmpfs", "-o", "mode=755", "none", str(folder))
    if not path.exists():
        path.mkdir(parents=True)
        mount("--bind", str(aside / str(number)), str(path))
print("ready", flush=True)
sys.stdin.read()
"""
_POSTGRES = """
import sys
import postgres_server, psycopg2
with postgres_server.running_server(port=5432) as url:
    admin = psycopg2.connect(url.replace("+psycopg2", ""))
    admin.autocommit = True
    for statement in sys.argv[1:]:
        admin.cursor().execute(statement)
    admin.close()
    print("ready", flush=True)
    sys.stdin.read()
"""
_REQUEST = """
import json, sys, urllib.error, urllib.request
asked = json.load(sys.stdin)
body = json.dumps(asked["json"]).encode() if asked["json"] is not None else None
request = urllib.request.Request(asked["url"], body, asked["headers"], method=asked["method"])
try:
    answer = urllib.request.urlopen(request, timeout=60)
except urllib.error.HTTPError as error:
    answer = error
text = answer.read().decode()
print(json.dumps({"status": answer.status, "json": json.loads(text)}))
"""
_PROGRAMS = ("dagster", "dagster-daemon", "dagster-webserver")


class Containers:
    """The deployment. `close` ends everything of it, however far it came."""

    def __init__(self, folder: Path, wheel: Path, *, password: str, secrets: Mapping[str, str]):
        """Lay out image and volumes; nothing is started but the namespaces.

        Args:
            wheel: of the project, as the image has it.
            secrets: the texts of the Compose file's secrets, by name.
        """
        self.folder = folder
        self.env_file = {"POSTGRES_PASSWORD": password}
        self.compose = deploy_files.compose(self.env_file)
        self.services: dict[str, Any] = self.compose["services"]
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self._held: list[subprocess.Popen[str]] = []
        hosts = folder / "hosts"
        hosts.write_text("".join(f"127.0.0.1 {name}\n" for name in ("localhost", *self.services)))
        site_packages = sysconfig.get_path("purelib")
        holder = self._hold(
            [
                *("unshare", "--net", "--mount", sys.executable, "-I", "-c", _HOLDER),
                *(str(hosts), sys.base_prefix, site_packages),
            ]
        )
        self._enter = ["nsenter", "--target", str(holder.pid), "--net", "--mount"]
        self.user = deploy_files.last("USER").split(":")
        for keyword, rest in deploy_files.stages()[-1]:
            if keyword == "RUN":
                self.inside("sh", "-c", rest)
            elif keyword == "COPY" and rest.startswith("--from="):
                self._install(wheel, site_packages, rest.split()[-1])
            elif keyword == "COPY":
                *sources, destination = rest.split()
                self.inside("mkdir", "-p", destination)
                paths = [str(deploy_files.ROOT / source) for source in sources]
                self.inside("cp", *paths, destination)
        for name, text in secrets.items():
            (folder / name).write_text(text)
            self.inside("install", "-D", str(folder / name), f"/run/secrets/{name}")

    def inside(self, *command: str) -> str:
        """Run a command as root in the namespaces; its output."""
        done = subprocess.run([*self._enter, *command], check=True, capture_output=True, text=True)
        return done.stdout

    def start_postgres(self) -> None:
        """Start what stands for the `postgres` service: its database, then its init file."""
        service = self.services["postgres"]
        init = service["volumes"][1].split(":")[0]
        statements = [
            f"CREATE DATABASE {service['environment']['POSTGRES_DB']}",
            re.sub(r"^--.*$", "", (deploy_files.DEPLOY / init).read_text(), flags=re.MULTILINE),
        ]
        tests = str(Path(postgres_server.__file__).parent)
        site_packages = sysconfig.get_path("purelib")
        paths = f"import sys; sys.path[:0] = [{tests!r}, {site_packages!r}]\n"
        self._hold([*self._enter, sys.executable, "-I", "-c", paths + _POSTGRES, *statements])

    def start(self, name: str) -> None:
        """Start a service."""
        with (self.folder / f"{name}.log").open("ab") as log:
            self.running[name] = subprocess.Popen(
                self._as_user(self.services[name]["command"]),
                env=self._environment(name),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
            )

    def healthy(self, name: str) -> bool:
        """Whether the service's health check, run once, passes."""
        kind, *command = self.services[name]["healthcheck"]["test"]
        assert kind == "CMD"
        environment = self._environment(name)
        if name == "postgres":  # the client's program is not in every PATH
            command[0] = str(postgres_server.installations()[0] / command[0])
        done = subprocess.run(
            self._as_user(command), env=environment, capture_output=True, timeout=120
        )
        if name in self.running and self.running[name].poll() is not None:
            raise AssertionError(f"{name} ended: {self.log(name)}")
        return done.returncode == 0

    def request(
        self,
        method: str,
        url: str,
        *,
        json_body: Any = None,
        headers: Mapping[str, str] | None = None,
    ) -> tuple[int, Any]:
        """Ask over HTTP; status and body."""
        asked = {"method": method, "url": url, "json": json_body, "headers": dict(headers or {})}
        asked["headers"]["Content-Type"] = "application/json"
        done = subprocess.run(
            [*self._enter, sys.executable, "-I", "-S", "-c", _REQUEST],
            input=json.dumps(asked),
            check=True,
            capture_output=True,
            text=True,
        )
        answer = json.loads(done.stdout)
        return answer["status"], answer["json"]

    def stop(self, name: str) -> tuple[int, float]:
        """Stop a service as an engine does; exit code, and seconds of the grace that it has."""
        process = self.running.pop(name)
        grace_s = int(self.services[name].get("stop_grace_period", "10s").removesuffix("s"))
        began = time.monotonic()
        process.terminate()
        try:
            return process.wait(grace_s), time.monotonic() - began
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{name} did not stop in {grace_s} s: {self.log(name)}") from None
        finally:
            _kill(process)

    def log(self, name: str) -> str:
        """What the service has written."""
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def wait_for(self, happened: Callable[[], Any], what: str, *, within_s: float) -> Any:
        """Return what `happened` returns once that is true."""
        ends = time.monotonic() + within_s
        while not (found := happened()):
            if time.monotonic() > ends:
                logs = "\n".join(f"== {name}\n{self.log(name)[-3_000:]}" for name in self.running)
                raise TimeoutError(f"waited {within_s:g} s for {what}\n{logs}")
            time.sleep(0.5)
        return found

    def close(self) -> None:
        """End it all."""
        for process in self.running.values():
            _kill(process)
        for held in reversed(self._held):
            assert held.stdin is not None
            assert held.stdout is not None
            held.stdin.close()
            held.wait(60)
            held.stdout.close()

    def _hold(self, command: list[str]) -> "subprocess.Popen[str]":
        """Start a helper that says when it is ready, and lasts until its input ends."""
        held = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd="/"
        )
        self._held.append(held)
        assert held.stdout is not None
        if held.stdout.readline() != "ready\n":
            self.close()
            raise AssertionError(f"{command[0]} ended with {held.returncode}")
        return held

    def _install(self, wheel: Path, site_packages: str, venv: str) -> None:
        """Make the image's environment: the wheel, and what it needs from that of the tests."""
        self.inside(sys.executable, "-m", "venv", "--without-pip", venv)
        pip = [sys.executable, "-m", "pip", "--python", f"{venv}/bin/python", "--quiet"]
        self.inside(*pip, "install", "--no-deps", "--no-index", str(wheel))
        scripts = self.folder / "scripts"
        scripts.mkdir()
        for found in entry_points(group="console_scripts"):
            if found.name in _PROGRAMS:
                # run workers import the program they were started from
                program = f"if __name__ == '__main__':\n    {found.attr}()\n"
                imported = f"from {found.module} import {found.attr}\n"
                (scripts / found.name).write_text(f"#!{venv}/bin/python\n{imported}{program}")
                (scripts / found.name).chmod(0o755)
        self.inside("cp", *map(str, scripts.iterdir()), f"{venv}/bin")
        # a path in a .pth file is no site folder: an editable install there is not seen
        (scripts / "deps.pth").write_text(site_packages + "\n")
        version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
        self.inside("cp", str(scripts / "deps.pth"), f"{venv}/lib/{version}/site-packages")

    def _environment(self, name: str) -> dict[str, str]:
        service = self.services[name]
        given = self.env_file if service.get("env_file") else {}
        home = {"HOME": deploy_files.last("WORKDIR")}
        return {**deploy_files.image_environment(), **home, **given, **service["environment"]}

    def _as_user(self, command: list[str]) -> list[str]:
        user, group = self.user
        return [
            *[*self._enter, "setpriv", "--reuid", user, "--regid", group, "--clear-groups"],
            *["--no-new-privs", "--bounding-set=-all", "sh", "-c", 'cd "$0" && exec "$@"'],
            *[deploy_files.last("WORKDIR"), *command],
        ]


def build_wheel(folder: Path) -> Path:
    """Build the wheel from what the Dockerfile's first stage copies, and nothing else."""
    context = folder / "context"
    for sources, destination in deploy_files.copied(deploy_files.stages()[0]):
        for source in sources:
            path = deploy_files.ROOT / source
            if path.is_dir():
                ignored = shutil.ignore_patterns("__pycache__")
                shutil.copytree(path, context / destination, ignore=ignored)
            else:
                (context / destination).mkdir(parents=True, exist_ok=True)
                shutil.copy(path, context / destination)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "."]
    command += ["--disable-pip-version-check", "--wheel-dir", str(folder)]
    subprocess.run(command, check=True, cwd=context)
    (built,) = folder.glob("*.whl")
    return built


def _kill(process: "subprocess.Popen[bytes]") -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(30)
