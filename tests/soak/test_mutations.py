"""A thousand damaged copies of the edge cases, and of every container: none crashes, hangs or prints anything."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.mutations import judge, mutations

CORPUS = Path(__file__).resolve().parents[3] / "shared" / "data"

pytestmark = [
    pytest.mark.soak,
    pytest.mark.corpus,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(not (CORPUS / "edge").is_dir(), reason="the shared recordings are missing"),
]


@pytest.mark.parametrize("folder", ["edge", "containers", "tel_codec"])
def test_a_thousand_mutations(folder: str, tmp_path: Path) -> None:
    originals = [path for path in sorted((CORPUS / folder).iterdir()) if path.stat().st_size]
    verdicts = judge(mutations(originals, 1000, seed=3, folder=tmp_path), tmp_path / "chatter")
    print(
        f"{folder}: 1000 mutations of {len(originals)} files: {verdicts.decoded} decoded ({verdicts.truncated} as "
        f"truncated), {verdicts.failed} refused, the slowest in {verdicts.slowest:.1f} s"
    )
    assert verdicts.faults == []
    assert verdicts.decoded + verdicts.failed == 1000
