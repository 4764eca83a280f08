"""What a piece is predicted to take; that it is enough is tested on the models themselves (test_engine)."""

from __future__ import annotations

from dataclasses import replace

from mlxbatch.engines.mlx_audio.memory import need, sizes
from mlxbatch.vad.layout import ROW_BYTES

CONFIG = {
    "encoder": {"d_model": 1024, "n_layers": 24, "n_heads": 8, "subsampling_conv_channels": 256},
    "decoder": {"hidden_size": 640, "num_layers": 2, "vocab_size": 8192, "num_key_value_heads": 2, "head_dim": 64},
    "name": "x",
    "flags": {"n_heads": True},
}


def test_the_largest_sizes_count_wherever_they_stand() -> None:
    found = sizes(CONFIG, 12.5)
    assert (found.width, found.layers, found.heads, found.vocabulary) == (1024, 24, 8, 8192)
    assert (found.kv_width, found.channels, found.filters, found.rate) == (128, 256, 0, 12.5)


def test_what_a_config_does_not_name_is_not_nothing() -> None:
    assert min(sizes({}, 12.5).width, sizes({}, 12.5).layers, sizes({}, 12.5).vocabulary) > 0


def test_scores_count_where_attention_holds_them() -> None:
    found = sizes(CONFIG, 12.5)
    held, tiled = (need(found, 120.0, 120.0, 16_000, 2, tiled=tiled, listens=False) for tiled in (False, True))
    assert held - tiled == 8 * 8 * (1500 + 64) ** 2


def test_encoders_of_raw_samples_work_in_parts_from_some_size_on() -> None:
    found = replace(sizes(CONFIG, 7.5), filters=32)
    minute, hour = (need(found, seconds, seconds, 24_000, 2, tiled=True, listens=False) for seconds in (60.0, 3540.0))
    assert hour < 30 * minute


def test_a_row_of_the_detector_counts_and_what_it_hears_at_another_rate() -> None:
    found = sizes(CONFIG, 12.5)

    def more(rate: int) -> int:
        without, with_it = (need(found, 60.0, 30.0, rate, 2, tiled=True, listens=listens) for listens in (False, True))
        return with_it - without

    assert more(16_000) == ROW_BYTES
    assert more(24_000) == ROW_BYTES + 60 * 64_000
