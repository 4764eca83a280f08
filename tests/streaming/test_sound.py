"""A recording read bit by bit is what it is read at once, and says the same of itself."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import soundfile
from numpy.typing import NDArray

from mlxbatch.audio import decode
from mlxbatch.headerless import DEFAULTS
from mlxbatch.streaming.sound import open_sound
from mlxbatch.types import Channels, Item

ROOT = Path(__file__).resolve().parents[2]


def noise(frames: int, channels: int = 1, seed: int = 0) -> NDArray[np.float32]:
    return np.asarray(0.1 * np.random.default_rng(seed).standard_normal((frames, channels)), np.float32)


def item(path: Path, samples: NDArray[np.float32], rate: int = 44_100, subtype: str = "FLOAT") -> Item:
    soundfile.write(path, samples, rate, subtype=subtype)
    return Item("id", path, Path(path.stem))


def read(item: Item, channels: Channels = "mix") -> tuple[NDArray[np.float32], tuple[int | None, ...], list[str]]:
    """The whole recording as one piece."""
    with open_sound(item, 16_000, channels, DEFAULTS) as sound:
        samples, numbers = sound.heard(np.concatenate(list(sound.blocks())))
        return samples, numbers, sound.warnings()


@pytest.mark.parametrize("channels", ["mix", "split", 1])
@pytest.mark.parametrize("rate", [8000, 16_000, 44_100])
def test_it_is_what_decoding_the_whole_gives(tmp_path: Path, channels: Channels, rate: int) -> None:
    one = item(tmp_path / "a.wav", noise(60_000, 3), rate)
    whole = decode(one, 16_000, channels)
    samples, numbers, warnings = read(one, channels)
    np.testing.assert_array_equal(samples, whole.samples)
    assert (numbers, tuple(warnings)) == (whole.channels, whole.warnings)


def odd(name: str) -> NDArray[np.float32]:
    samples = noise(20_000, 2)
    match name:
        case "opposite":
            samples[:, 1] = -samples[:, 0]
        case "copies":
            samples[:, 1] = samples[:, 0]
        case "not finite":
            samples[100:200] = np.nan
        case "too loud":
            samples *= 30
    return samples


@pytest.mark.parametrize("name", ["opposite", "copies", "not finite", "too loud"])
@pytest.mark.parametrize("channels", ["mix", "split"])
def test_what_is_wrong_is_said_and_mended_as_in_the_whole(tmp_path: Path, name: str, channels: Channels) -> None:
    one = item(tmp_path / "a.wav", odd(name), 16_000)
    whole = decode(one, 16_000, channels)
    samples, numbers, warnings = read(one, channels)
    np.testing.assert_array_equal(samples, whole.samples)
    assert (numbers, tuple(warnings)) == (whole.channels, whole.warnings)
    assert warnings or (name, channels) in (("opposite", "split"), ("copies", "mix"))


def test_a_channel_without_a_voice_in_one_piece_is_no_news(tmp_path: Path) -> None:
    samples = noise(40_000, 2)
    samples[:20_000, 1] *= 1e-4
    with open_sound(item(tmp_path / "a.wav", samples, 16_000), 16_000, "split", DEFAULTS) as sound:
        whole = np.concatenate(list(sound.blocks()))
        first, second = (sound.heard(part) for part in np.split(whole, 2))
        assert sound.warnings() == []
    assert first[1] == second[1] == (0, 1)
    assert not first[0][1].any()
    np.testing.assert_array_equal(second[0], samples[20_000:].T)


def test_a_file_that_ends_early_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    one = item(tmp_path / "a.wav", noise(32_000), 16_000, "PCM_16")
    os.truncate(one.source, 44 + 32_000)
    samples, _, warnings = read(one)
    assert samples.shape == (1, 16_000)
    assert warnings == ["truncated: 1.00 s decoded of the 2.00 s in its header"]


# ---- standard input

READ = """
import numpy as np
from pathlib import Path
from mlxbatch.errors import ItemError
from tests.streaming.test_sound import read
from mlxbatch.source import STANDARD_INPUT
from mlxbatch.types import Item
try:
    samples, numbers, warnings = read(Item("-", STANDARD_INPUT, STANDARD_INPUT))
    print(samples.shape[1], f"{np.square(samples).sum():.3f}", numbers, warnings)
except ItemError as error:
    print(error)
"""


def from_standard_input(path: Path, *, piped: bool) -> str:
    """What is read of a file, through a pipe or by a redirection."""
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    run = [sys.executable, "-c", READ]
    if piped:
        return subprocess.run(
            run, input=path.read_bytes(), env=environment, capture_output=True, check=True
        ).stdout.decode()
    with path.open("rb") as file:
        return subprocess.run(run, stdin=file, env=environment, capture_output=True, check=True).stdout.decode()


@pytest.mark.parametrize("suffix", ["wav", "ogg", "mp3", "flac"])
def test_standard_input_is_what_the_file_is(tmp_path: Path, suffix: str) -> None:
    subtype = {"ogg": "VORBIS", "mp3": "MPEG_LAYER_III"}.get(suffix, "PCM_16")
    one = item(tmp_path / f"a.{suffix}", noise(80_000), 16_000, subtype)
    whole = decode(one)
    count, power, *rest = from_standard_input(one.source, piped=True).split(maxsplit=2)
    assert int(count) == pytest.approx(whole.samples.shape[1], abs=1200), "padding of a codec may count"
    assert float(power) == pytest.approx(float(np.square(whole.samples).sum()), rel=1e-2)
    assert rest == ["(None,) []\n"]


def test_a_redirected_file_is_read_as_any_file(tmp_path: Path) -> None:
    one = item(tmp_path / "a.wav", noise(32_000), 16_000, "PCM_16")
    os.truncate(one.source, 44 + 32_000)
    assert from_standard_input(one.source, piped=False).endswith(
        "['truncated: 1.00 s decoded of the 2.00 s in its header']\n"
    )


def test_what_is_no_sound_is_said(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("words, words, words " * 100)
    assert from_standard_input(tmp_path / "text", piped=True).startswith(
        "-: decode: not an audio file that can be read: "
    )
    (tmp_path / "empty").write_bytes(b"")
    assert from_standard_input(tmp_path / "empty", piped=True).startswith("-: decode: ")
