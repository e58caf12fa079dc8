"""A PostgreSQL server of the tests' own: on a Unix socket, in a temporary folder.

Its collation is that of English, under which B comes after a. All processes of one run
share it: the first that asks starts it, the last one done stops it.
"""

import contextlib
import json
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

LOCALE = ("--locale=C.UTF-8", "--locale-provider=icu", "--icu-locale=en-US")


def find_binaries():
    """Return the folder with initdb and pg_ctl, which Debian keeps off the path; or None."""
    found = shutil.which("initdb")
    folders = [Path(found).resolve().parent] if found else []
    folders += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((folder for folder in folders if _is_recent(folder)), None)


def _is_recent(folder):
    """Whether it is of version 15 or newer, which has collations of ICU for whole servers."""
    if not (folder / "pg_ctl").exists() or not (folder / "initdb").exists():
        return False
    said = subprocess.run([folder / "initdb", "--version"], capture_output=True, text=True).stdout
    version = re.search(r"[0-9]+", said)
    return version is not None and int(version[0]) >= 15


def _unprivileged():
    """Return what runs a command as somebody else if this is root, whom PostgreSQL refuses."""
    import pwd  # not on Windows, where this module is imported and starts no server

    if os.geteuid():
        return {}
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            user = pwd.getpwnam(name)
            return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
    raise AssertionError("nobody to run PostgreSQL as")


def _run(*command):
    done = subprocess.run(
        command, **_unprivileged(), cwd="/", timeout=120,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout


def _start(binaries, options="-F -c shared_buffers=16MB"):
    folder = Path(tempfile.mkdtemp(prefix="dptopk-postgres-"))
    who = _unprivileged()
    if who:
        os.chown(folder, who["user"], who["group"])
    data = str(folder / "data")
    common = ("-D", data, "-A", "trust", "-U", "dptopk", "-E", "UTF8", "--no-sync")
    try:
        _run(str(binaries / "initdb"), *common, *LOCALE)
        options = f"-k {folder} -c listen_addresses= -c autovacuum=off {options}"
        log = str(folder / "log")
        _run(str(binaries / "pg_ctl"), "-w", "-D", data, "-l", log, "-o", options, "start")
    except BaseException:
        shutil.rmtree(folder)
        raise
    return str(folder)


def _stop(binaries, folder):
    _run(str(binaries / "pg_ctl"), "-w", "-D", f"{folder}/data", "-m", "immediate", "stop")
    shutil.rmtree(folder)


@contextlib.contextmanager
def _shared(folder):
    """Give what the processes of this run know of the server, one at a time."""
    import fcntl

    path = folder / "postgres.json"
    with open(path.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        known = json.loads(path.read_text()) if path.exists() else {"users": 0, "folder": None}
        yield known
        path.write_text(json.dumps(known))


@contextlib.contextmanager
def server(binaries, shared_folder):
    """Run the server for the length of the body, and give the folder of its socket."""
    with _shared(shared_folder) as known:
        if not known["users"]:
            known["folder"] = _start(binaries)
        known["users"] += 1
    try:
        yield known["folder"]
    finally:
        with _shared(shared_folder) as known:
            known["users"] -= 1
            if not known["users"]:
                _stop(binaries, known["folder"])


@contextlib.contextmanager
def durable_server(binaries):
    """Run a server that waits for its disk; give its folder, and what crashes and restarts it."""
    folder = _start(binaries, "-c shared_buffers=16MB")
    control = str(binaries / "pg_ctl")

    def restart():
        _run(
            control,
            "-w",
            "-D",
            f"{folder}/data",
            "-m",
            "immediate",
            "-l",
            f"{folder}/log",
            "restart",
        )

    try:
        yield folder, restart
    finally:
        _stop(binaries, folder)


def own_database(server, name):
    """Make a database for one of the processes that share the server, and tell how to reach it."""
    import psycopg

    with psycopg.connect(f"{server} dbname=postgres", autocommit=True) as connection:
        if not connection.execute(
            "SELECT 1 FROM pg_database WHERE datname = %s", [name]
        ).fetchone():
            connection.execute(f"CREATE DATABASE {name}")
    return f"{server} dbname={name}"


def in_database(dsn, name):
    """Tell how to reach another database of the same server."""
    return re.sub("dbname=.*", f"dbname={name}", dsn)
