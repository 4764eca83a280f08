from __future__ import annotations

import pytest

from mlxbatch.words import nearest

NAMES = ["large-v2", "large-v3", "large-v3-turbo", "tiny", "base"]


@pytest.mark.parametrize(
    ("given", "hint"),
    [
        ("tyny", "; did you mean 'tiny'?"),
        ("large-v3-turb", "; did you mean 'large-v3-turbo'?"),
        ("large-v2", "; did you mean 'large-v2'?"),
        ("large-v4", "; did you mean 'large-v3' or 'large-v2'?"),
        ("large", "; did you mean 'large-v3' or 'large-v2'?"),
        ("xyz", ""),
    ],
)
def test_of_names_that_are_about_as_near_both_are_said(given: str, hint: str) -> None:
    assert nearest(given, NAMES) == hint


def test_what_is_not_near_enough_is_not_said() -> None:
    assert nearest("tiy", NAMES, 0.95) == ""
