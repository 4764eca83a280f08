"""How attention over many queries is worked on where it goes tile by tile (mlxbatch.kernels). Arithmetic, no MLX."""

from __future__ import annotations

# Scores worked on at once on the CPU, 6 MB. Smaller tiles stay in a nearer cache, but each operation costs MLX 20 to 90
# us to hand over, more where two threads do so: with 180,000 scores two streams side by side take 1.4 times as long.
TILE = 1_500_000


def tile(heads: int, queries: int, keys: int) -> tuple[int, int]:
    """Of how many heads, and of how many queries, scores are worked on at once."""
    some = max(1, min(heads, TILE // (queries * keys)))
    return some, max(1, min(queries, TILE // (some * keys)))
