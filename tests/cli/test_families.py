"""The whole command line over tiny models of mlx-audio's families."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from mlxbatch.audio import decode
from mlxbatch.cli import request as asked
from mlxbatch.cli.request import Flags, Request, Where
from mlxbatch.engines import families
from mlxbatch.engines.registry import VERSIONS
from mlxbatch.models.identity import model_sha
from mlxbatch.profile import load
from mlxbatch.stored import inference_key
from mlxbatch.types import Item, Job, TranscribeOptions
from tests.engines.mlx_audio import tiny
from tests.engines.mlx_audio.parts import engine_over, outputs
from tests.models.tiny import write_tiny_whisper

from .conftest import ROOT, Cli, finish, noise, program, write
from .running import outputs as written
from .running import run_log

Model = Callable[[str], Path]
SENTENCE = ROOT / "examples/books/sense_and_sensibility_01_austen_64kb-0880.wav"


@pytest.fixture(autouse=True)
def everything(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Noise is no speech: all is heard, unless a test says otherwise."""
    monkeypatch.setenv("MLXBATCH_VAD", "0")


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    root = tmp_path_factory.mktemp("families")
    return lambda name: root / name if (root / name).exists() else tiny.NAMED[name](root / name)


def transcript(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Path(f"out/{name}.json").read_text("utf-8"))
    return found


@pytest.mark.parametrize("name", tiny.NAMED)
def test_a_directory_of_recordings(cli: Cli, recordings: Path, model: Model, name: str) -> None:
    language = () if name == "vibevoice_asr" else ("--language", "en")
    ran = cli("transcribe", "in", "-o", "out", "--model", model(name), "--format", "json", "--workers", "0", *language)
    assert ran.code == 0, ran.err
    for stem, seconds in (("a", 1.0), ("b", 2.0), ("sub/c", 3.0)):
        found = transcript(stem)
        assert found["duration"] == pytest.approx(seconds)
        assert found["model"] == str(model(name))
        assert all(0 <= one["start"] <= one["end"] <= seconds for one in found["segments"])
    assert any(transcript(stem)["text"] for stem in ("a", "b", "sub/c"))
    assert "Traceback" not in ran.err


@pytest.mark.parametrize("name", ["vibevoice_asr", "cohere_asr"])
def test_a_stream_in_the_preset_for_it(cli: Cli, place: Path, model: Model, name: str) -> None:
    """At the model's own rate, with a stream of its own and without; what is printed is what whole runs write."""
    write(place / "a.wav", noise(3.0, 4))
    run = ("transcribe", "a.wav", "--preset", "live", "--model", model(name), "--language", "en", "--workers", "0")
    ran = cli(*run, "--stream", "--json")
    assert ran.code == 0, ran.err
    assert cli(*run, "-o", "out", "--format", "json").code == 0
    lines = [json.loads(line) for line in ran.out.splitlines()]
    assert [(line["start"], line["end"], line["text"]) for line in lines] == [
        (one["start"], one["end"], one["text"]) for one in transcript("a")["segments"]
    ]
    assert lines


@pytest.mark.real
@pytest.mark.parametrize("name", ["parakeet", "vibevoice_asr"])
def test_only_speech_is_heard_unless_told_otherwise(
    cli: Cli, place: Path, model: Model, name: str, silero_vad: Path
) -> None:
    sentence, rate = soundfile.read(SENTENCE, dtype="float32")
    write(place / "in" / "noise.wav", noise(4.0))
    write(place / "in" / "late.wav", np.concatenate([noise(8.0), np.zeros(rate, np.float32), sentence]))
    run = ("transcribe", "in", "-o", "out", "--model", model(name), "--format", "json", "--workers", "0", "--json")
    ran = cli(*run, "--vad")
    assert (ran.code, ran.summary["done"]) == (0, 2), ran.err
    assert transcript("noise")["segments"] == []
    assert transcript("noise")["duration"] == pytest.approx(4.0)
    late = transcript("late")["segments"]
    assert late
    assert min(one["start"] for one in late) >= 8.5
    assert cli(*run, "--no-vad").summary["done"] == 2
    assert transcript("noise")["segments"]


def test_recordings_are_decoded_at_the_model_s_own_rate(cli: Cli, place: Path, model: Model) -> None:
    """24 kHz for VibeVoice-ASR; what it says of 16 kHz would be something else."""
    source = write(place / "in" / "a.wav", noise(1.5, 4))
    assert cli("transcribe", "in", "-o", "out", "--model", model("vibevoice_asr"), "--format", "json").code == 0
    engine = engine_over(model("vibevoice_asr"), segment_seconds=300.0)
    heard = []
    for rate in (24_000, 16_000):
        recording = decode(Item("a", source, Path("a")), rate)
        one = Job(0, "a", recording.samples[0], recording.samples.shape[1] / 24_000, options=TranscribeOptions())
        heard.append(outputs(engine, [one])[0][0].segments[0].text)
    engine.close()
    assert transcript("a")["segments"][0]["text"] == heard[0] != heard[1]


def test_a_program_of_its_own_says_only_what_is_ours(recordings: Path, model: Model) -> None:
    ran = finish(program("transcribe", "in", "-o", "out", "--model", model("qwen3_asr")))
    assert ran.code == 0, ran.err
    assert ran.out == ""
    lines = [line for line in ran.err.splitlines() if line.strip()]
    assert all(line.startswith(("mlxbatch: ", "  ", "warnings:")) for line in lines), ran.err


def test_a_second_run_does_nothing_and_other_pieces_are_another_text(cli: Cli, place: Path, model: Model) -> None:
    write(place / "in" / "a.wav", noise(5.0))
    run = ("transcribe", "in", "-o", "out", "--model", model("parakeet"), "--workers", "0", "--json")
    assert cli(*run).summary["done"] == 1
    again = cli(*run).summary
    assert (again["done"], again["skipped"]) == (0, 1)
    Path("mlxbatch.toml").write_text("[transcribe]\nsegment_seconds = 2.0\n")
    assert cli(*run).summary["done"] == 1
    (item,) = [event for event in run_log() if event["event"] == "item"]
    assert item["windows"] > 2


def test_a_language_that_has_to_be_given(cli: Cli, recordings: Path, model: Model) -> None:
    ran = cli("transcribe", "in", "-o", "out", "--model", model("cohere_asr"))
    assert ran.code == 2
    assert "Cohere ASR does not detect the language: give --language (it knows ar, de," in ran.error
    assert written() == {}


def test_an_option_that_changes_nothing_is_said_once(cli: Cli, recordings: Path, model: Model) -> None:
    ran = cli("transcribe", "in", "-o", "out", "--model", model("parakeet"), "--language", "en", "--workers", "0")
    assert ran.code == 0
    assert ran.err.count("Parakeet takes no --language: it goes by the sound alone") == 1


def test_what_a_manifest_asks_in_vain_is_said_once_too(cli: Cli, recordings: Path, model: Model) -> None:
    Path("calls.csv").write_text("path,language,prompt\nin/a.wav,en,A call.\nin/b.wav,de,\n")
    for more in ((), ("--dry-run",)):
        ran = cli(
            "transcribe", "--manifest", "calls.csv", "-o", "out", "--model", model("parakeet"), "--workers", "0", *more
        )
        assert ran.code == 0, ran.err
        assert ran.err.count("Parakeet takes no --language: it goes by the sound alone") == 1
        assert ran.err.count("Parakeet takes no --prompt: it goes by the sound alone") == 1


def key(model: Path, segment_seconds: float | None = None, **options: object) -> str:
    overrides = {"transcribe.model": str(model), "transcribe.vad": False}
    overrides |= {"transcribe.segment_seconds": segment_seconds} if segment_seconds else {}
    request = Request(Where((), None, None, Path("out")), Flags(), load(None, overrides=overrides), None, ("txt",))
    (chosen,) = asked.choose_all(request, offline=True, say=print)
    return asked.model_key(request, chosen).inference_key(replace(request.options, **options))  # type: ignore[arg-type]


def test_what_changes_no_text_makes_no_transcript_anew(model: Model, tmp_path: Path) -> None:
    parakeet, whisper = model("parakeet"), write_tiny_whisper(tmp_path / "whisper")
    idle = ({"language": "en"}, {"prompt": "x"}, {"temperatures": (0.0,)}, {"max_tokens": 3}, {"vad": True})
    assert {key(parakeet, **options) for options in idle} == {key(parakeet)}
    assert key(parakeet, 30.0) != key(parakeet)
    assert key(model("cohere_asr"), language="en") != key(model("cohere_asr"), language="de")
    assert len({key(whisper, **options) for options in idle[:-1]}) == 4
    assert key(whisper, 30.0) == key(whisper)


def test_the_key_of_a_whisper_is_what_it_was(tmp_path: Path) -> None:
    """Transcripts that are there stay."""
    whisper = write_tiny_whisper(tmp_path / "whisper")
    plain = inference_key(
        model_sha=model_sha(whisper),
        engine="whisper",
        engine_version=VERSIONS["whisper"],
        options=TranscribeOptions(),
        dtype=load().profile.transcribe.dtype,
    )
    assert key(whisper) == plain


def test_without_the_extra_it_is_said_before_any_audio_is_read(
    cli: Cli, place: Path, model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(families, "find_spec", lambda name: None)
    write(place / "in" / "a.wav", noise(1.0)).write_bytes(b"no sound at all")
    ran = cli("transcribe", "in", "-o", "out", "--model", model("qwen3_asr"))
    assert ran.code == 3
    assert "pip install 'mlxbatch[mlx-audio]'" in ran.error
    assert written() == {}


def test_a_model_of_an_unknown_kind(cli: Cli, recordings: Path, model: Model, place: Path) -> None:
    (place / "odd").mkdir()
    (place / "odd" / "config.json").write_text('{"model_type": "parakeat"}')
    ran = cli("transcribe", "in", "-o", "out", "--model", "./odd")
    assert ran.code == 3
    assert "no engine for a model of type 'parakeat'; did you mean 'parakeet'?" in ran.error


def test_a_weight_that_is_missing_is_found_when_loading(cli: Cli, recordings: Path, place: Path) -> None:
    directory = tiny.parakeet(place / "broken")
    config = json.loads((directory / "config.json").read_text("utf-8"))
    config["encoder"]["n_layers"] = 3
    (directory / "config.json").write_text(json.dumps(config))
    ran = cli("transcribe", "in", "-o", "out", "--model", "./broken")
    assert ran.code == 3
    assert "model.safetensors: lacks the weight encoder.layers.2." in ran.error
    assert written() == {}
