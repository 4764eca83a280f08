"""Who reads what, on many threads at once, without a word on the terminal, and nothing left open."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import soundfile

from mlxbatch.audio import decode
from mlxbatch.errors import ItemError
from mlxbatch.source import open_source
from mlxbatch.types import Item

from .sounds import encoded, pictures_only, tone, voices


def item(path: Path) -> Item:
    return Item("id", path, Path(path.stem))


@pytest.fixture(scope="module")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("recordings")
    for name in ("a.wav", "b.flac", "c.ogg"):
        soundfile.write(folder / name, tone(3.0), 16000)
    encoded(folder / "d.mp3", "libmp3lame", tone(3.0, 44100), 44100)
    encoded(folder / "e.m4a", "aac", voices(3.0, 44100), 44100)
    encoded(folder / "f.mkv", "libopus", tone(3.0, 48000), 48000, video=True)
    encoded(folder / "g.g722", "g722", tone(3.0), container="g722")
    encoded(folder / "h.m4a", "aac", voices(3.0, 48000, 8), 48000)
    return sorted(folder.iterdir())


def test_many_threads_get_what_one_gets(recordings: list[Path]) -> None:
    alone = [decode(item(path)).samples for path in recordings]
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(lambda path: decode(item(path)).samples, recordings * 10))
    for number, samples in enumerate(together):
        np.testing.assert_array_equal(samples, alone[number % len(recordings)])


def test_files_are_closed_however_they_end(recordings: list[Path], tmp_path: Path) -> None:
    broken = tmp_path / "a.mp3"
    broken.write_bytes(b"\xff\xfb\x90\x00" + bytes(5000))
    before = len([*Path("/dev/fd").iterdir()])
    for path in [*recordings, broken, pictures_only(tmp_path / "b.mp4")] * 3:
        try:
            with open_source(path, "decode") as source:
                next(source.blocks())  # and no further
        except ItemError:
            continue
    assert len([*Path("/dev/fd").iterdir()]) == before


def test_an_error_of_whoever_reads_comes_through(recordings: list[Path]) -> None:
    for path in recordings:
        with pytest.raises(ZeroDivisionError), open_source(path, "decode"):
            _ = 1 / 0


def test_libraries_print_nothing_of_what_they_think(recordings: list[Path], tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for path in recordings:
        content = bytearray(path.read_bytes())
        for at in rng.integers(100, len(content), 200):
            content[at] = rng.integers(256)
        (tmp_path / path.name).write_bytes(content[: len(content) * 3 // 4])
    (tmp_path / "junk.mp3").write_bytes(b"\xff\xfb\x90\x00" + rng.bytes(100000))
    (tmp_path / "zeros.mp3").write_bytes(bytes(100000))
    (tmp_path / "tagged.mp3").write_bytes(b"ID3\x03\0\0\0\0\0\x05" + rng.bytes(100000))
    code = """
import sys
from pathlib import Path
from mlxbatch.audio import decode
from mlxbatch.errors import ItemError
from mlxbatch.types import Item
for path in sys.argv[1:]:
    try:
        decode(Item("id", Path(path), Path("x")))
    except ItemError:
        pass
"""
    paths = [str(path) for path in sorted(tmp_path.iterdir())]
    ran = subprocess.run([sys.executable, "-c", code, *paths], capture_output=True, timeout=120, check=True)
    assert (ran.stdout, ran.stderr) == (b"", b"")


def test_what_libsndfile_reads_needs_no_ffmpeg(recordings: list[Path]) -> None:
    code = "import sys; from pathlib import Path; from mlxbatch.source import open_source\n"
    code += f"with open_source(Path({str(recordings[0])!r}), 'probe') as source: pass\n"
    code += "assert 'av' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], timeout=60, check=True)


def test_memory_follows_the_blocks_not_the_file(tmp_path: Path) -> None:
    # Five minutes of stereo at 44.1 kHz: 106 MB as floats, 19 MB as the samples that are kept.
    source = encoded(tmp_path / "a.mov", "pcm_s16le", np.tile(voices(10.0, 44100), (30, 1)), 44100)
    code = f"""
import resource
from pathlib import Path
from mlxbatch.audio import decode
from mlxbatch.libav import LibavSource
from mlxbatch.types import Item
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
assert decode(Item("id", Path({str(source)!r}), Path("x"))).seconds > 299
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=300, check=True)
    grown = int(ran.stdout) * (1 if sys.platform == "darwin" else 1024)
    assert grown < 80e6


def tagged(content: bytes) -> bytes:
    return b"ID3\x04\0\0\0\0\x01\x0a" + bytes(138) + content


def test_a_flac_behind_a_tag_is_a_flac_and_its_length_is_known(tmp_path: Path) -> None:
    soundfile.write(tmp_path / "a.flac", np.random.default_rng(0).uniform(-0.5, 0.5, 160000), 16000)
    content = (tmp_path / "a.flac").read_bytes()
    (tmp_path / "a.flac").write_bytes(tagged(content))
    assert decode(item(tmp_path / "a.flac")).seconds == 10.0
    (tmp_path / "a.flac").write_bytes(tagged(content[: len(content) // 2]))
    recording = decode(item(tmp_path / "a.flac"))
    assert recording.truncated
    assert recording.seconds == pytest.approx(5.0, abs=0.5)


@pytest.mark.parametrize(
    ("content", "cause"),
    [
        ("dear diary".encode("utf-16") * 500, "no sound found in it"),
        (tagged(b"dear diary" * 500), "no sound found in it"),
        (b"RIFF\x24\x10\0\0WAVEfmt ", "error in WAV file. No 'data' chunk marker"),
        (b"OggS" + bytes(500), "file contains data in an unimplemented format"),
        (b"\x1aE\xdf\xa3" + bytes(500), "format not recognised"),
        (b"PK\x03\x04" + bytes(500), "its content is a ZIP archive or an office document"),
    ],
)
def test_what_nobody_reads_says_why(tmp_path: Path, content: bytes, cause: str) -> None:
    (tmp_path / "a.wav").write_bytes(content)
    with pytest.raises(ItemError) as caught:
        decode(item(tmp_path / "a.wav"))
    assert caught.value.cause == f"not an audio file that can be read: {cause}"
