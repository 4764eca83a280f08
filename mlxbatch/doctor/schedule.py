"""What a run finds when cron or launchd starts it: an environment with next to nothing in it."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from mlxbatch.doctor.finding import Case, Finding
from mlxbatch.errors import show
from mlxbatch.models.cache import cache_root

CRON_PATH = "/usr/bin:/bin"
# What a run reads and cron does not have. Only the names are shown: some hold passwords.
_READ = frozenset(
    {"XDG_CACHE_HOME", "XDG_CONFIG_HOME", "HF_HOME", "HF_TOKEN", "HF_ENDPOINT", "TMPDIR", "PYTHONPATH"}
    | {"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy", "SSL_CERT_FILE"}
    | {"PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_CONFIG_FILE", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"}
    | {"LD_LIBRARY_PATH"}
)


def check(case: Case) -> Iterator[Finding]:
    yield command()
    yield home()
    yield encoding()
    yield time_zone()
    yield standard_input()
    yield from variables()
    yield from (_macos() if sys.platform == "darwin" else _daemon())


def command() -> Finding:
    """The command to write into a crontab."""
    absolute = command_line()
    if shutil.which("mlxbatch", path=CRON_PATH):
        return Finding("ok", "cron", f"mlxbatch is on cron's PATH ({CRON_PATH})")
    return Finding("note", "cron", f"mlxbatch is not on cron's PATH ({CRON_PATH})", f"in the crontab: {absolute}")


def command_line() -> str:
    """This very mlxbatch by its absolute path, quoted for a shell."""
    script = Path(sys.executable).with_name("mlxbatch")
    if os.access(script, os.X_OK):
        return shlex.quote(show(script))
    found = shutil.which("mlxbatch")
    return shlex.quote(show(Path(found).absolute())) if found else f"{shlex.quote(show(sys.executable))} -m mlxbatch"


def home() -> Finding:
    if os.environ.get("HOME"):
        return Finding("ok", "cron", "HOME is set; cron sets it, a bare container or systemd unit may not")
    where = f"models are looked for in {show(cache_root())}"
    if os.path.isabs(os.path.expanduser("~")):  # noqa: PTH111, PTH117 - Path's own raises where there is no home
        return Finding("note", "cron", f"HOME is not set, the user database says it: {where}")
    what = f"HOME is not set, and this user has none: {where}, and no user's settings are read"
    return Finding("warning", "cron", what, "set HOME, or MLXBATCH_CACHE, in the crontab or unit")


def encoding() -> Finding:
    """File names come as bytes and are never lost; what is printed of them is in the locale's encoding."""
    named = next((f"{name}={os.environ[name]}" for name in ("LC_ALL", "LC_CTYPE", "LANG") if os.environ.get(name)), "")
    used = sys.getfilesystemencoding()
    what = f"text is {used} ({show(named) or 'no LANG'})"
    if used.replace("-", "").lower() == "utf8":
        return Finding("ok", "cron", what)
    return Finding("warning", "cron", what, "LANG=C.UTF-8 in the crontab (macOS: en_US.UTF-8)")


def time_zone(localtime: Path = Path("/etc/localtime")) -> Finding:
    """Crontab times are the daemon's; logs are in UTC whatever is set."""
    from datetime import datetime

    zone = datetime.now().astimezone().tzname()
    if os.environ.get("TZ"):
        what = f"TZ is set here ({show(os.environ['TZ'])}); cron starts jobs by the system's zone, not by this one"
        return Finding("note", "cron", what, "write crontab times in the system's zone")
    if not localtime.exists():
        what = f"{show(localtime)} is missing: times in a crontab are UTC"
        return Finding("note", "cron", what, "install tzdata and set the zone")
    return Finding("ok", "cron", f"times in a crontab are {zone}")


def standard_input() -> Finding:
    has = "a terminal" if sys.stdin is not None and sys.stdin.isatty() else "no terminal"
    what = f"standard input is {has}; under cron it is empty, so --files-from has to name a file there, not -"
    return Finding("ok", "cron", what)


def variables() -> Iterator[Finding]:
    """What is set here and would be missing in a job."""
    names = sorted(name for name in os.environ if name in _READ or name.startswith("MLXBATCH_"))
    if names:
        what = f"set here, not under cron: {', '.join(show(name) for name in names)}"
        remedy = "those that the run needs go into the crontab, as NAME=value lines above the job"
        yield Finding("note", "cron", what, remedy)
    else:
        yield Finding("ok", "cron", "no settings in this environment that cron would lack")


def _daemon() -> Iterator[Finding]:
    import psutil

    names = {process.info["name"] for process in psutil.process_iter(["name"])}
    if names & {"cron", "crond"}:
        yield Finding("ok", "cron", "a cron daemon runs")
    elif not any(shutil.which(name, path="/usr/sbin:/sbin:/usr/bin:/bin") for name in ("cron", "crond")):
        remedy = "Debian, Ubuntu: apt-get install cron; or use a systemd timer"
        yield Finding("note", "cron", "no cron on this machine", remedy)
    else:
        yield Finding("note", "cron", "cron is installed, and does not run", "systemctl enable --now cron (or crond)")


def _macos() -> Iterator[Finding]:
    # From Apple's documentation of launchd.plist, pmset and caffeinate; not run on a Mac.
    what = "cron drops what was due while the Mac slept; launchd starts it when it wakes"
    yield Finding("note", "cron", what, "prefer a launch agent: examples/launchd")
    what = "a Mac that sleeps runs nothing, and one that falls asleep stops in the middle"
    remedy = "wake it: sudo pmset repeat wakeorpoweron MTWRFSU 01:25:00; keep it awake: caffeinate -i mlxbatch ..."
    yield Finding("note", "cron", what, remedy)
    what = "files on external volumes, the Desktop, Documents and Downloads are kept from cron's jobs"
    yield Finding("note", "cron", what, "Full Disk Access for /usr/sbin/cron; `mlxbatch doctor` in the job shows it")
