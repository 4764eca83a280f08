"""Recipes in files: what they say, and what is wrong with them, on which line."""

from __future__ import annotations

from pathlib import Path

import pytest

from mlxbatch.convert.precision import Packing
from mlxbatch.convert.recipe import asked_for, precision
from mlxbatch.errors import UsageError
from tests.convert.test_recipe import WHISPER, of, refused


@pytest.fixture
def recipe(tmp_path: Path):  # type: ignore[no-untyped-def]
    def write(text: str) -> str:
        (tmp_path / "mine.toml").write_text(text, "utf-8")
        return str(tmp_path / "mine.toml")

    return write


RECIPE = r"""
bits = 4
[layers]
"encoder.*" = 8
"decoder.token_embedding" = { bits = 6, group_size = 32 }
'/decoder\.blocks\.[1-9]\..+/' = false
"*" = 3
"""


def test_the_first_pattern_that_matches_decides(recipe) -> None:  # type: ignore[no-untyped-def]
    found = of(asked_for(recipe=recipe(RECIPE)))
    assert found.packed == {
        "encoder.blocks.0.attn.query": Packing(8),
        "encoder.blocks.1.attn.query": Packing(8),
        "decoder.token_embedding": Packing(6, 32),
        "decoder.blocks.0.attn.query": Packing(3),
    }
    assert found.kept == {"decoder.blocks.1.attn.query": "the recipe keeps it full"}


@pytest.mark.parametrize(("bits", "rest"), [(None, 5), (2, 2)])
def test_what_no_pattern_names_has_the_file_s_bits_or_those_of_the_option(  # type: ignore[no-untyped-def]
    recipe, bits: int | None, rest: int
) -> None:
    found = of(asked_for(bits, recipe=recipe('bits = 5\ngroup_size = 32\n[layers]\n"encoder.*" = 8\n')))
    assert found.packed["decoder.token_embedding"] == Packing(rest, 32)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('bitz = 4\n[layers]\n"*" = 4\n', "mine.toml:1: unknown key 'bitz'; did you mean 'bits'?"),
        ('bits = 7\n[layers]\n"*" = 4\n', "mine.toml:1: bits = 7: must be 2, 3, 4, 5, 6 or 8"),
        ('[layers]\n"*" = 4\n"a.*" = 7\n', 'mine.toml:3: layers."a.*" = 7: must be 2, 3, 4, 5, 6 or 8, false'),
        ('[layers]\n"*" = true\n', 'mine.toml:2: layers."*" = true: must be'),
        ('[layers]\n"*" = { bits = 4, group = 32 }\n', 'layers."*" = { bits = 4, group = 32 }: must be'),
        ('[layers]\n"*" = { bits = 4, group_size = 48 }\n', "mine.toml:2: "),
        ("bits = 4\n", "mine.toml: layers is missing: must be a table of patterns"),
        ("[layers]\n", "mine.toml:1: layers = {}: must be a table of patterns"),
        ("[layers]\n'/(/' = 4\n", "mine.toml:2: /(/ is no regular expression"),
        ("[layers\n", "mine.toml:1: not valid TOML"),
    ],
)
def test_mistakes_are_told_with_their_line(recipe, text: str, said: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(UsageError) as caught:
        asked_for(recipe=recipe(text))
    assert said in str(caught.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"cannot read .*none\.toml: No such file"):
        asked_for(recipe=str(tmp_path / "none.toml"))


def test_a_pattern_that_no_layer_has_names_the_nearest(recipe) -> None:  # type: ignore[no-untyped-def]
    asked = asked_for(recipe=recipe('[layers]\n"decoder.token_embeding" = 8\n'))
    said = refused(asked)
    assert "mine.toml:2: no layer of this model is called 'decoder.token_embeding'" in said
    assert "; did you mean 'decoder.token_embedding'?" in said


def test_a_recipe_that_keeps_everything_full(recipe) -> None:  # type: ignore[no-untyped-def]
    assert refused(asked_for(recipe=recipe('[layers]\n"*" = false\n'))) == (
        "the recipe keeps every layer full: give --dtype alone"
    )


def test_the_documents_recipe_is_one(recipe) -> None:  # type: ignore[no-untyped-def]
    """The example of docs/convert.md, over layers that all its patterns name."""
    text = (Path(__file__).parents[2] / "docs" / "convert.md").read_text("utf-8")
    example = text.partition("```toml\n")[2].partition("```")[0]
    layers = WHISPER | {"decoder.blocks.0.cross_attn.query": (64, 64)}
    found = precision(asked_for(recipe=recipe(example)), layers, architecture="whisper", task="transcribe")
    assert {form.bits for form in found.packed.values()} == {4, 6, 8}
    assert list(found.kept) == ["decoder.blocks.0.cross_attn.query"]
