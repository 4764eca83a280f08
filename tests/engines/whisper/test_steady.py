"""Windows of all lengths, asked for in all ways, leave nothing on the device; 3,000 of them are a soak test."""

from __future__ import annotations

from pathlib import Path

from tests.engines.whisper.steady import active_memory, growth, smallest_whisper


def test_active_memory_stays_where_it_is(tmp_path: Path) -> None:
    active, windows = active_memory(smallest_whisper(tmp_path / "model"), 3)
    assert windows > 100
    assert growth(active) < 0.02, active
