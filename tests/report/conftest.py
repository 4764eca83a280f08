"""A tree of runs to report on."""

from __future__ import annotations

from pathlib import Path

import pytest

from .nights import LIMIT, Night, night_id, write

HOSTILE = "calls/<script>alert('x')</script> \"&amp;\" $x$.wav"
BROKEN = [(f"calls/broken-{number}.wav", "decode", f"{100 + number} of 2000 bytes") for number in range(3)]


def busy_night(day: int = 9) -> Night:
    """A night in which everything happened."""
    return Night(
        night_id(day),
        done=24,
        step=20.0,
        peak=5.4e9,
        gpu=0.5,
        failed=[*BROKEN, (HOSTILE, "probe", f"no audio in {HOSTILE}"), ("calls/new\nline.wav", "write", "full")],
        quarantined=["calls/crash-\udcff.wav"],
        passed_over=["calls/crash-before.wav"],
        skipped=[("calls/old-1.wav", "done on 2026-11-01"), ("calls/old-2.wav", "done on 2026-11-02")],
        left=2,
        governor=[(60, "hold", "memory at 82 %"), (100, "shrink", "at 91 %"), (200, "open", ""), (220, "hold", "")],
        children=[{"what": "died", "cause": "signal 11"}, {"what": "renewed", "cause": "leak"}],
        leaks=[
            {"what": "rss", "growth": 4e8, "per_group": 1e8, "groups": 4, "bound": 2e8},
            {"what": "baseline", "of": "active", "key": "k", "size": 5 * 10**9, "baseline": 4 * 10**9, "bound": 10**8},
        ],
        loads=[True, False],
        facts={"profile": "night", "model": "<b>tiny</b>", "version": "0.2.0"},
    )


@pytest.fixture(scope="session")
def nights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eight nights, the fourth of them killed, the profile changed before the sixth; then the busy one."""
    out = tmp_path_factory.mktemp("nights") / "out"
    out.mkdir()
    runs = [
        Night(
            night_id(day),
            step=10.0 + day,
            failed=BROKEN[: day % 3],
            end=day != 4,
            facts={"profile": "night" if day >= 6 else "linux-cpu"},
        )
        for day in range(1, 9)
    ]
    return write(out, *runs, busy_night())


__all__ = ["BROKEN", "HOSTILE", "LIMIT", "busy_night"]
