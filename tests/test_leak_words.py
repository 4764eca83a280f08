"""Memory that grew, as sentences."""

from __future__ import annotations

from typing import Any

import pytest

from mlxbatch.leak_words import leak_line

GROWTH = {"growth": 41_200_000, "per_group": 612_400, "groups": 67, "bound": 30_000_000}
MORE = "keeps growing: 41 MB more in 67 groups, 612 kB a group; 30 MB are allowed"
BASELINE = {"what": "baseline", "key": "m:float16:8x30", "size": 5_400_000_000, "baseline": 4_000_000_000, "bound": 1}


@pytest.mark.parametrize(
    ("facts", "sentence"),
    [
        ({"what": "active", **GROWTH}, f"memory on the device {MORE}"),
        ({"what": "rss", **GROWTH}, f"memory of the engine's process {MORE}"),
        ({"what": "parent_rss", **GROWTH}, f"memory of the run {MORE}"),
        ({"what": "rss", "groups": 1.0}, "memory of the engine's process keeps growing in 1 group"),
        ({"what": "another"}, "memory keeps growing"),
        ({"of": "peak", **BASELINE}, "memory on the device came to 5.4 GB where earlier runs took 4.0 GB"),
        ({"of": "active", **BASELINE}, "the device held 5.4 GB after a group where earlier runs held 4.0 GB"),
        ({"of": "rss", **BASELINE}, "the engine's process held 5.4 GB after a group where earlier runs held 4.0 GB"),
        ({"of": "rss", "what": "baseline"}, "the engine's process held more after a group than earlier runs held"),
        ({"what": "baseline", "of": "peak"}, "memory on the device came to more than earlier runs took"),
        (
            {"what": "peak", "key": "k", "peak": 5_400_000_000, "baseline": 4_000_000_000, "bound": 1},
            "memory on the device came to 5.4 GB where earlier runs took 4.0 GB",
        ),
    ],
)
def test_sentences(facts: dict[str, Any], sentence: str) -> None:
    assert leak_line(facts) == sentence
