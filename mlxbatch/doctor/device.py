"""The device, asked in a process of its own: MLX can end the process it is in, which is a finding like others."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from mlxbatch import blas
from mlxbatch.doctor.finding import Case, Finding, settings_if_right
from mlxbatch.errors import show
from mlxbatch.words import size

# Seconds until the self-test, which takes about two, is said to hang. A cold disk may have to load MLX first.
PATIENCE = 90.0


class NoAnswer(Exception):
    """The self-test gave none; the message says how it ended."""


def check(case: Case) -> Iterator[Finding]:
    given = _settings(case)
    try:
        answer = ask([sys.executable, "-P", "-m", "mlxbatch.selftest", json.dumps(given)])
    except NoAnswer as error:
        yield Finding("problem", "device", f"MLX does not work here: {error}", _remedy(str(error)))
        return
    yield from _device(answer)
    yield _speed(answer, given)
    yield _memory(answer, given)


def ask(command: Sequence[str], patience: float = PATIENCE) -> dict[str, Any]:
    """What the self-test answers. NoAnswer where it crashes, fails, says what cannot be read, or hangs."""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=patience,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise NoAnswer(f"the self-test gave no answer in {patience:g} s") from error
    except OSError as error:
        raise NoAnswer(f"the self-test cannot be started: {error.strerror or error}") from error
    if done.returncode < 0:
        raise NoAnswer(f"the self-test was ended by {_signal(-done.returncode)}")
    if done.returncode:
        lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        raise NoAnswer(show(lines[-1]) if lines else f"the self-test ended with {done.returncode}")
    try:
        answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    except (ValueError, IndexError) as error:
        raise NoAnswer("the self-test said what cannot be read") from error
    return answer


def _settings(case: Case) -> dict[str, str]:
    """What the profile sets on the device; where it is wrong the CPU, so that MLX is looked at all the same."""
    loaded = settings_if_right(case)
    if loaded is None:
        return {"kind": "cpu", "blas": "openblas"}
    wanted = ("kind", "memory_limit", "cache_limit", "wired_limit", "blas")
    return {name: getattr(loaded.profile.device, name) for name in wanted}


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _remedy(cause: str) -> str:
    if "choose a profile" in cause:
        return "--profile linux-cpu, or install MLX for your GPU: pip install 'mlxbatch[cuda]'"
    return f"install it again: {show(sys.executable)} -m pip install --force-reinstall mlx"


def _device(answer: dict[str, Any]) -> Iterator[Finding]:
    kind, name = answer["kind"].upper(), show(answer["name"])
    yield Finding("ok", "device", f"MLX works on the {kind}: {name} ({show(answer['architecture'])})")
    has = [word for word, there in (("Metal", answer["metal"]), ("CUDA", answer["cuda"])) if there]
    if kind == "CPU" and has:
        remedy = 'set kind = "gpu" under [device], or choose another profile: `mlxbatch profiles list`'
        yield Finding("warning", "device", f"MLX has {has[0]} here, the profile works on the CPU", remedy)
    elif not has:
        yield Finding("note", "device", "no Metal and no CUDA: all work is on the CPU")


def _speed(answer: dict[str, Any], given: dict[str, str]) -> Finding:
    what = f"float32 matrix products: {answer['gflops']:g} GFLOPS on {show(answer['multiplies'])}"
    if "reference" not in answer["multiplies"]:
        return Finding("ok", "device", what)
    if given.get("blas") != "openblas":
        return Finding("warning", "device", what, 'set blas = "openblas" under [device]')
    return Finding("warning", "device", what, f"install OpenBLAS: {blas.INSTALL}")


def _memory(answer: dict[str, Any], given: dict[str, str]) -> Finding:
    total = answer["recommended_memory"]
    whole = f"the {size(total)} " + ("that the GPU advises" if answer["kind"] == "gpu" else "this process may have")
    limits = [f"memory limit {size(answer['memory_limit'])}, of {whole}{_asked(given, 'memory_limit')}"]
    limits += [f"cache limit {size(answer['cache_limit'])}{_asked(given, 'cache_limit')}", _wired(answer, given)]
    return Finding("ok", "device", "; ".join(limits))


def _wired(answer: dict[str, Any], given: dict[str, str]) -> str:
    wired, asked = answer["wired_limit"], _asked(given, "wired_limit")
    if wired is None:
        return "wired limit not set" + ("" if answer["metal"] else ": only Metal has one") + asked
    weights = " and the model's weights" if given.get("wired_limit") == "auto" else ""
    return f"wired limit {size(wired)}{weights}{asked}"


def _asked(given: dict[str, str], name: str) -> str:
    return f" ({name} = {given[name]!r})" if name in given else ""
