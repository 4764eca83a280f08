"""3,000 windows of a tiny network through one engine: what is active on the device stays within 2 %."""

from __future__ import annotations

from pathlib import Path

import mlx.core as mx
import pytest

from mlxbatch.engines.whisper.slots import Slots, Trial
from tests.engines.whisper.steady import active_memory, growth, smallest_whisper

WINDOWS = 3_000


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_three_thousand_windows_leave_nothing_behind(tmp_path: Path) -> None:
    active, windows = active_memory(smallest_whisper(tmp_path / "model"), 70)
    print(
        f"\n{windows} windows: {active[0]:,} bytes active after the first cycle, {active[-1]:,} after the last, "
        f"{growth(active):+.2%} between the least and the most"
    )
    assert windows >= WINDOWS
    assert growth(active) < 0.02


@pytest.mark.soak
def test_a_hundred_bytes_a_window_would_be_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[mx.array] = []
    leave = Slots.leave

    def leak(self: Slots, trial: Trial) -> None:
        kept.append(mx.zeros((25,)) + len(kept))
        mx.eval(kept[-1])
        leave(self, trial)

    monkeypatch.setattr(Slots, "leave", leak)
    active, _ = active_memory(smallest_whisper(tmp_path / "model"), 7)
    assert growth(active) > 0.02, active
