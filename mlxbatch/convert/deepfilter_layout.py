"""DeepFilterNet3's weights by name and shape, from its config.json, as mlx-audio's loader reads them. No MLX.

The names and layouts are PyTorch's, those of the published checkpoint: the loader maps them to its own, and would take
its own names for others. The model: Schröter et al. 2023, "DeepFilterNet: Perceptually Motivated Real-Time Speech
Enhancement", arXiv 2305.08227.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from mlxbatch.models.weights import Shape

Config = Mapping[str, Any]
Sized = tuple[str, Shape]

DF_GRU_GROUPS = 8  # the published checkpoints' own, whatever linear_groups says


def expected_shapes(config: Config) -> dict[str, Shape]:
    """Every weight. KeyError or TypeError where the config lacks a size."""
    return dict([*_encoder(config), *_erb_decoder(config), *_df_decoder(config), *_filterbanks(config)])


def _encoder(config: Config) -> Iterator[Sized]:
    channels, width, hidden = config["conv_ch"], _embedding_width(config), config["emb_hidden_dim"]
    first, kernel = tuple(config["conv_kernel_inp"]), tuple(config["conv_kernel"])
    yield from _block("enc.erb_conv0", 1, (channels, 1, *first))
    for number in (1, 2, 3):
        yield from _block(f"enc.erb_conv{number}", 0, (channels, 1, *kernel), (channels, channels, 1, 1))
    yield from _block("enc.df_conv0", 1, (channels, 1, *first), (channels, channels, 1, 1))
    yield from _block("enc.df_conv1", 0, (channels, 1, *kernel), (channels, channels, 1, 1))
    spectrum = channels * config["nb_df"] // 2
    yield _grouped("enc.df_fc_emb.0", config["enc_linear_groups"], spectrum, width)
    yield from _gru("enc.emb_gru", config["linear_groups"], width, hidden, layers=1)
    yield _grouped("enc.emb_gru.linear_out.0", config["linear_groups"], hidden, width)
    yield from (("enc.lsnr_fc.0.weight", (1, width)), ("enc.lsnr_fc.0.bias", (1,)))


def _erb_decoder(config: Config) -> Iterator[Sized]:
    channels, width, hidden = config["conv_ch"], _embedding_width(config), config["emb_hidden_dim"]
    kernel = tuple(config["convt_kernel"])
    yield from _gru("erb_dec.emb_gru", config["linear_groups"], width, hidden, layers=config["emb_num_layers"] - 1)
    yield _grouped("erb_dec.emb_gru.linear_out.0", config["linear_groups"], hidden, width)
    for number in range(4):
        yield from _block(f"erb_dec.conv{number}p", 0, (channels, 1, 1, 1))
    for number in (1, 2, 3):
        yield from _block(f"erb_dec.convt{number}", 0, (channels, 1, *kernel), (channels, channels, 1, 1))
    yield from _block("erb_dec.conv0_out", 0, (1, channels, *kernel))


def _df_decoder(config: Config) -> Iterator[Sized]:
    channels, width, hidden = config["conv_ch"], _embedding_width(config), config["df_hidden_dim"]
    taps = 2 * config["df_order"]  # real and imaginary parts
    mixing = (taps, channels // 2, config["df_pathway_kernel_size_t"], 1)
    yield from _block("df_dec.df_convp", 1, mixing, (taps, taps, 1, 1))
    yield from _gru("df_dec.df_gru", DF_GRU_GROUPS, width, hidden, layers=config["df_num_layers"])
    yield _grouped("df_dec.df_skip", config["linear_groups"], width, hidden)
    yield _grouped("df_dec.df_out.0", config["linear_groups"], hidden, config["nb_df"] * taps)
    yield from (("df_dec.df_fc_a.0.weight", (1, hidden)), ("df_dec.df_fc_a.0.bias", (1,)))


def _filterbanks(config: Config) -> Iterator[Sized]:
    bins, bands = config["fft_size"] // 2 + 1, config["nb_erb"]
    yield from (("erb_fb", (bins, bands)), ("mask.erb_inv_fb", (bands, bins)))


def _embedding_width(config: Config) -> int:
    return int(config["conv_ch"] * config["nb_erb"] // 4)


def _block(path: str, first: int, *convolutions: Shape) -> Iterator[Sized]:
    """Convolutions [out, in of a group, time, frequency] one after another, and batch normalization."""
    for number, shape in enumerate(convolutions, first):
        yield f"{path}.{number}.weight", shape
    norm = f"{path}.{first + len(convolutions)}"
    yield from ((f"{norm}.{name}", (convolutions[-1][0],)) for name in NORM)


NORM = ("weight", "bias", "running_mean", "running_var")


def _gru(path: str, groups: int, into: int, hidden: int, layers: int) -> Iterator[Sized]:
    """A grouped projection to the hidden size, and GRUs of that size."""
    yield _grouped(f"{path}.linear_in.0", groups, into, hidden)
    for layer in range(layers):
        yield from ((f"{path}.gru.weight_{side}_l{layer}", (3 * hidden, hidden)) for side in ("ih", "hh"))
        yield from ((f"{path}.gru.bias_{side}_l{layer}", (3 * hidden,)) for side in ("ih", "hh"))


def _grouped(path: str, groups: int, into: int, out: int) -> Sized:
    return f"{path}.weight", (groups, into // groups, out // groups)
