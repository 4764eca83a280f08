"""Where tensors lie: heads, places, shards, and what config.json says of them."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from mlxbatch.convert.layout import File, layout, quantization
from mlxbatch.convert.precision import Packing, Precision
from mlxbatch.models.weights import KIND_BYTES

GB = 10**9
STORED = {"a.weight": ((8, 128), "F16"), "a.bias": ((7,), "F16"), "b.weight": ((3, 64), "F16"), "n": ((1,), "I32")}


def entries(file: File) -> dict[str, dict[str, list[int]]]:
    assert int.from_bytes(file.head[:8], "little") == len(file.head) - 8
    header = json.loads(file.head[8:])
    assert header.pop("__metadata__") == {"format": "mlx"}
    return header  # type: ignore[no-any-return]


def test_a_packed_layer_is_three_tensors() -> None:
    (file,) = layout(STORED, Precision({"a": Packing(3, 32)}, "bfloat16"), GB).files
    found = {name: (entry["dtype"], entry["shape"]) for name, entry in entries(file).items()}
    assert found == {
        "a.weight": ("U32", [8, 12]),
        "n": ("I32", [1]),
        "a.scales": ("BF16", [8, 4]),
        "a.biases": ("BF16", [8, 4]),
        "a.bias": ("BF16", [7]),
        "b.weight": ("BF16", [3, 64]),
    }


def test_other_modes_have_scales_of_eight_bits_and_no_offsets() -> None:
    made = layout(STORED, Precision({"a": Packing(4, 32, "mxfp4")}), GB).made_of["a.weight"]
    assert [(tensor.name, tensor.kind, tensor.shape) for tensor in made] == [
        ("a.weight", "U32", (8, 16)),
        ("a.scales", "U8", (8, 4)),
    ]


def test_double_precision_becomes_single() -> None:
    made = layout({"a": ((2,), "F64")}, Precision(), GB)
    assert made.made_of["a"][0].kind == "F32"


def test_the_size_is_that_of_the_files() -> None:
    made = layout(STORED, Precision({"a": Packing(4)}), GB)
    assert made.tensor_bytes == 8 * 64 + 2 * 8 * 2 * 2 + 14 + 3 * 64 * 2 + 4
    assert made.bytes == made.tensor_bytes + len(made.files[0].head)
    assert made.index is None


KINDS = st.sampled_from(["F32", "F16", "BF16", "U8", "I32"])
SHAPES = st.lists(st.integers(0, 5), max_size=3).map(tuple)


@given(st.dictionaries(st.text("abé.", min_size=1, max_size=6), st.tuples(SHAPES, KINDS), min_size=1, max_size=12))
def test_tensors_lie_without_gaps_each_on_a_multiple_of_its_size(stored) -> None:  # type: ignore[no-untyped-def]
    (file,) = layout(stored, Precision(), GB).files
    assert len(file.head) % 8 == 0
    end = 0
    for name, entry in entries(file).items():
        begin, end_of_this = entry["data_offsets"]
        assert begin == end
        end = end_of_this
        assert begin % KIND_BYTES.get(str(entry["dtype"]), 1) == 0
        assert file.places[name] == len(file.head) + begin
    assert file.bytes == len(file.head) + end


def test_large_models_are_divided_and_a_layer_is_not() -> None:
    stored = {f"{n}.weight": ((4, 64), "F16") for n in range(5)}
    made = layout(stored, Precision({f"{n}": Packing(4) for n in range(5)}), shard=320)
    each = sum(tensor.bytes for tensor in made.made_of["0.weight"])
    assert each == 144
    assert [file.name for file in made.files] == [f"model-0000{n}-of-00003.safetensors" for n in (1, 2, 3)]
    assert [len(entries(file)) for file in made.files] == [6, 6, 3]
    assert made.index is not None
    assert made.index["metadata"] == {"total_size": 5 * each}
    assert made.index["weight_map"]["4.biases"] == "model-00003-of-00003.safetensors"
    assert len(made.index["weight_map"]) == 15


def test_a_layer_larger_than_a_file_has_one_of_its_own() -> None:
    made = layout({"a": ((99,), "F32"), "b": ((1,), "F32"), "c": ((1,), "F32")}, Precision(), shard=8)
    assert [list(file.places) for file in made.files] == [["a"], ["b", "c"]]


def test_the_section_says_what_most_have_and_the_rest_by_name() -> None:
    packed = {"a": Packing(4), "b": Packing(4), "c": Packing(8)}
    assert quantization(Precision(packed, kept={"d": "narrow"})) == {
        "group_size": 64,
        "bits": 4,
        "mode": "affine",
        "c": {"group_size": 64, "bits": 8, "mode": "affine"},
        "d": False,
    }
    assert quantization(Precision()) is None


def test_the_general_group_is_the_smallest_so_that_mlx_audio_passes_over_no_layer() -> None:
    found = quantization(Precision({"a": Packing(4), "b": Packing(4), "c": Packing(4, 32)}))
    assert found is not None
    assert found["group_size"] == 32
    assert found["a"] == found["b"] == {"group_size": 64, "bits": 4, "mode": "affine"}
    assert "c" not in found
