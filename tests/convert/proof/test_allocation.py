"""Bits go where they count."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from mlxbatch.convert.precision import Packing
from mlxbatch.convert.proof.allocation import Allocation, Group, Sensitivity, Width, fitting, precision, smallest
from mlxbatch.errors import UsageError


def group(*nats: float, numbers: int = 1000) -> Group:
    """Of 2, 4 and 8 bits with these divergences."""
    widths = (Width(bits, numbers * bits // 8, one) for bits, one in zip((2, 4, 8), nats, strict=True))
    return Group((f"layer{nats[0]}",), numbers * 2, tuple(widths))


def sensitivity(*groups: Group) -> Sensitivity:
    return Sensitivity("m", "c", 64, "float16", 100, 300, {f"g{n}": one for n, one in enumerate(groups)})


def up_to(found: Sensitivity, nats: float) -> Allocation:
    return smallest(found, lambda chosen: chosen.nats <= nats)


def test_the_group_that_suffers_gets_the_bits() -> None:
    found = sensitivity(group(4.0, 1.0, 0.1), group(0.04, 0.01, 0.001))
    chosen = fitting(found, 100 + 1000 + 250)
    assert chosen.bits == {"g0": 8, "g1": 2}
    assert (chosen.bytes, chosen.nats) == (1350, pytest.approx(0.14))


def test_with_room_for_all_nothing_is_quantized() -> None:
    chosen = fitting(sensitivity(group(4.0, 1.0, 0.1)), 10_000)
    assert (chosen.bits, chosen.nats) == ({"g0": None}, 0.0)


def test_a_target_below_the_narrowest_says_what_is_possible() -> None:
    with pytest.raises(UsageError, match=r"target of 200 MB: .* smaller than 250 MB"):
        fitting(sensitivity(group(4.0, 1.0, 0.1, numbers=10**9)), 200 * 10**6)


def test_it_is_the_best_there_is_for_its_size() -> None:
    """For each size on the way up, no combination of widths of that size or less diverges less."""
    rng = np.random.default_rng(5)
    nats = [sorted(rng.exponential(1.0, 3) * rng.exponential(1.0), reverse=True) for _ in range(5)]
    groups = [group(*some, numbers=int(rng.integers(1, 9)) * 800) for some in nats]
    found = sensitivity(*groups)
    options = [[*((w.bytes, w.nats) for w in one.widths), (one.plain_bytes, 0.0)] for one in groups]
    every = [(sum(b for b, _ in some), sum(n for _, n in some)) for some in itertools.product(*options)]
    sizes = {up_to(found, nats).bytes for nats in np.linspace(0, 5, 200)}
    assert len(sizes) > 5
    for size in sizes:
        best = min(nats for taken, nats in every if taken + found.fixed_bytes <= size)
        assert fitting(found, size).nats == pytest.approx(best)


def test_what_does_not_fit_leaves_room_for_what_does() -> None:
    found = sensitivity(group(9.0, 8.0, 7.0, numbers=10_000), group(0.04, 0.01, 0.001))
    assert fitting(found, 100 + 2500 + 1000).bits == {"g0": 2, "g1": 8}


def test_a_width_that_is_worse_than_a_narrower_one_is_never_taken() -> None:
    found = sensitivity(group(0.5, 0.6, 0.1))
    assert fitting(found, 100 + 500).bits == {"g0": 2}
    assert fitting(found, 100 + 1000).bits == {"g0": 8}


def test_the_smallest_that_is_acceptable_is_found_by_halving() -> None:
    found = sensitivity(group(4.0, 1.0, 0.01), group(1.0, 0.25, 0.0001))
    asked: list[float] = []

    def acceptable(chosen: Allocation) -> bool:
        asked.append(chosen.nats)
        return chosen.nats <= 1.3

    chosen = smallest(found, acceptable)
    assert chosen.bits == {"g0": 4, "g1": 4}
    assert len(asked) <= 3
    assert smallest(found, lambda chosen: True).bits == {"g0": 2, "g1": 2}
    assert smallest(found, lambda chosen: False).bits == {"g0": None, "g1": None}


def test_it_becomes_the_converters_precision() -> None:
    found = sensitivity(group(4.0, 1.0, 0.1), group(5.0, 4.5, 4.0))
    made = precision(found, fitting(found, 100 + 500 + 2000))
    assert made.packed == {"layer4.0": Packing(4, 64)}
    assert made.kept == {"layer5.0": "plain by its sensitivity"}
    assert made.dtype == "float16"
