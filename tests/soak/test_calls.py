"""All calls of the corpus with a side on each channel: whose words they are, and when turns begin."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.call_quality import label_share, turn_starts
from tests.cli.test_calls import CORPUS, reference, transcribe

CALLS = ("fw-stereo", "call_s1_ulaw", "call_s1_ulaw_mp3", "call_s3_alaw")


@pytest.mark.soak
@pytest.mark.corpus
@pytest.mark.real
@pytest.mark.skipif(not (CORPUS / "manifest.jsonl").exists(), reason="the shared recordings are missing")
def test_every_call_is_told_side_by_side_and_turn_by_turn(whisper_base: Path, tmp_path: Path) -> None:
    told = transcribe(CALLS, tmp_path)
    for name in CALLS:
        share, late = label_share(reference(name), told(name)), turn_starts(reference(name), told(name))
        print(
            f"{name}: {share:.1%} of words under the right label, turns begin {late:.2f} s (median) from where they do"
        )
        assert share >= 0.95
        if name != "fw-stereo":  # of which no times are known
            assert late <= 0.5
