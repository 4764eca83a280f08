"""Sizes, shares and slots."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlxbatch.budget import (
    cgroup_limit,
    machine_memory,
    memory_limit,
    parse_amount,
    parse_bytes,
    planning_budget,
    slots,
    wired_limit,
)
from mlxbatch.errors import UsageError

GB = 10**9


@pytest.mark.parametrize(
    ("text", "size"),
    [("512MB", 512 * 10**6), ("1.5GiB", 3 * 2**29), ("100b", 100), (" 2 kib ", 2048), ("1TB", 10**12), ("8gb", 8 * GB)],
)
def test_sizes_are_read_in_powers_of_1000_and_1024(text: str, size: int) -> None:
    assert parse_bytes(text) == size


@pytest.mark.parametrize("text", ["", "512", "MB", "-1GB", "0GB", "1 ib", "1e3MB", "75%", "١GB", "1GB more"])
def test_what_is_no_size_is_a_usage_error_that_shows_it(text: str) -> None:
    with pytest.raises(UsageError, match="not a size") as caught:
        parse_bytes(text)
    assert repr(text) in str(caught.value)


def test_shares_are_of_the_total() -> None:
    assert parse_amount("75%", 16 * GB) == 12 * GB
    assert parse_amount("12GB", 16 * GB) == 12 * GB


@pytest.mark.parametrize("text", ["0%", "100.1%", "200%"])
def test_a_share_is_over_0_and_at_most_100(text: str) -> None:
    with pytest.raises(UsageError, match="at most 100%"):
        parse_amount(text, GB)


def test_the_memory_limit_is_never_over_what_there_is() -> None:
    assert memory_limit("64GB", 16 * GB) == 16 * GB
    assert memory_limit("50%", 16 * GB) == 8 * GB


@pytest.mark.parametrize(
    ("value", "weights", "wired"),
    [("none", GB, None), ("auto", GB, 5 * GB), ("auto", 9 * GB, 10 * GB), ("3GB", GB, 3 * GB), ("50%", GB, 5 * GB)],
)
def test_wired_memory_stays_within_the_recommended_working_set(value: str, weights: int, wired: int | None) -> None:
    assert wired_limit(value, weights, recommended=10 * GB) == wired


def test_planning_keeps_a_fifth_of_the_limit_free() -> None:
    assert planning_budget(10 * GB, GB) == 7 * GB
    assert planning_budget(GB, 2 * GB) == 0


@given(st.integers(0, 200 * GB), st.integers(0, 50 * GB), st.integers(-1, 20 * GB), st.integers(1, 64))
def test_slots_fit_the_budget_or_are_one(limit: int, weights: int, need: int, batch_size: int) -> None:
    rows = slots(limit, weights, need, batch_size)
    assert 1 <= rows <= batch_size
    assert rows == 1 or rows * need <= planning_budget(limit, weights)
    assert rows == batch_size or (rows + 1) * need > planning_budget(limit, weights)


def _group(tmp_path: Path, line: str, limits: dict[str, str]) -> tuple[Path, Path]:
    proc, cgroups = tmp_path / "proc", tmp_path / "cgroup"
    (proc / "self").mkdir(parents=True)
    (proc / "self" / "cgroup").write_text(line)
    for name, text in limits.items():
        (cgroups / name).parent.mkdir(parents=True, exist_ok=True)
        (cgroups / name).write_text(text)
    return proc, cgroups


@pytest.mark.parametrize(
    ("line", "limits", "expected"),
    [
        ("0::/\n", {"memory.max": "1000\n"}, 1000),
        ("0::/\n", {"memory.max": "max\n"}, None),
        ("0::/a.slice/b.service\n", {"a.slice/memory.max": "500\n", "a.slice/b.service/memory.max": "max\n"}, 500),
        ("0::/../a\n", {"a/memory.max": "7\n"}, 7),
        ("5:cpu,memory:/docker/x\n", {"memory/docker/x/memory.limit_in_bytes": "300\n"}, 300),
        ("5:memory:/gone\n", {"memory/memory.limit_in_bytes": "400\n"}, 400),
        ("", {}, None),
    ],
)
def test_the_limit_of_the_control_group_counts(
    tmp_path: Path, line: str, limits: dict[str, str], expected: int | None
) -> None:
    proc, cgroups = _group(tmp_path, line, limits)
    assert cgroup_limit(proc, cgroups) == expected


def test_machine_memory_is_the_smaller_of_machine_and_group(tmp_path: Path) -> None:
    proc, cgroups = _group(tmp_path, "0::/\n", {"memory.max": "12345\n"})
    assert machine_memory(proc, cgroups) == 12345
    assert machine_memory(tmp_path / "none", tmp_path / "none") > 2**28
