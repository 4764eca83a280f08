"""The catalogue's models of packages, as plain mlx-audio loads and runs them: the right weights and the right sound."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
import soxr
from mlx.utils import tree_flatten
from numpy.typing import NDArray
from safetensors import safe_open
from safetensors.numpy import load_file

from mlxbatch.audio import decode
from mlxbatch.convert.onnx import Graph, read_graph
from mlxbatch.convert.onnx_kokoro import kokoro_weights
from mlxbatch.convert.precision import Packing, Precision
from mlxbatch.convert.sources import open_source
from mlxbatch.convert.write import write
from mlxbatch.engines.base import EngineSpec
from mlxbatch.engines.whisper.engine import WhisperEngine
from mlxbatch.errors import SetupError
from mlxbatch.models.catalogue import KOKORO_VOICES
from mlxbatch.models.exact import check_kokoro
from mlxbatch.quality import wer
from mlxbatch.types import Item, Job, TranscribeOptions
from tests.convert import products
from tests.engines.whisper.parts import outputs_by_job
from tests.jobs import Given

pytestmark = pytest.mark.real
EXAMPLES = Path(__file__).parents[2] / "examples"
Samples = NDArray[np.float32]

# "Welcome to our house." as misaki 0.9.4 writes it.
SENTENCE, PHONEMES = "Welcome to our house.", "wˈɛlkəm tu ˌWəɹ hˈWs."
ONNX_SAMPLES = 45_600  # of its own runtime, onnxruntime 1.32, with this voice


def samples_of(name: str) -> Samples:
    return decode(Item(name, EXAMPLES / name, Path(name))).samples[0]


@pytest.fixture(scope="module")
def kokoro(kokoro_82m: Path) -> Any:
    """Loaded strictly: nothing is missing and nothing left over."""
    from mlx_audio.tts.utils import load_model

    return load_model(kokoro_82m, strict=True)


@pytest.fixture(scope="module")
def speech(kokoro: Any, kokoro_82m: Path) -> Samples:
    """The sentence at 24 kHz. The model's random phases are the same in each run."""
    voice = mx.load(str(kokoro_82m / "voices" / "af_heart.safetensors"))["voice"]
    with pytest.MonkeyPatch.context() as patch:
        products.use(patch)
        mx.random.seed(0)
        return np.asarray(kokoro(PHONEMES, voice[len(PHONEMES) - 1])[0])


def test_kokoros_weights_are_those_of_the_published_file(kokoro_82m: Path, kokoro_files: Path) -> None:
    """One in each of the forms that the file has; its integers less their zero point, times their scale."""
    stored = read_graph(kokoro_files / "kokoro.onnx").tensors
    zero = int(stored["/encoder/F0.0/Mul_1_output_0_zero_point"])
    published = {
        "bert_encoder.weight": (stored["onnx::MatMul_6704_quantized"] * stored["onnx::MatMul_6704_scale"]).T,
        "predictor.F0.0.conv2.weight_v": (stored["/encoder/F0.0/Mul_1_output_0_quantized"].astype(np.float32) - zero)
        * stored["/encoder/F0.0/Mul_1_output_0_scale"],
        "text_encoder.embedding.weight": stored["encoder.text_encoder.embedding.weight_quantized"]
        * stored["encoder.text_encoder.embedding.weight_scale"],
        "decoder.generator.conv_post.weight_v": stored["/decoder/decoder/generator/Mul_2_output_0"],
        "decoder.generator.noise_res.1.alpha2.2": stored["decoder.decoder.generator.noise_res.1.alpha2.2"],
        "decoder.decode.3.pool.bias": stored["decoder.decoder.decode.3.pool.bias"],
    }
    i, o, f, c = np.split(stored["onnx::LSTM_6982_quantized"][1].T * stored["onnx::LSTM_6982_scale"][1], 4)
    published["predictor.shared.Wh_backward"] = np.concatenate([i, f, c, o])
    with safe_open(kokoro_82m / "model.safetensors", "numpy") as made:
        for name, values in published.items():
            np.testing.assert_array_equal(made.get_tensor(name), values, err_msg=name)


class Asked(dict[str, Any]):
    """Remembers what was asked for."""

    def __init__(self, tensors: dict[str, Any]) -> None:
        super().__init__(tensors)
        self.names: set[str] = set()

    def __getitem__(self, name: str) -> Any:
        self.names.add(name)
        return super().__getitem__(name)


def test_all_that_kokoros_file_has_in_integers_is_taken(kokoro_files: Path) -> None:
    graph = read_graph(kokoro_files / "kokoro.onnx")
    tensors = Asked(graph.tensors)
    taken = [name for name, _, _ in kokoro_weights(Graph(tensors, graph.nodes))]
    assert len(taken) == len(set(taken))
    packed = {name for name in tensors if name.endswith("_quantized")}
    assert len(packed) > 180
    assert packed <= tensors.names


def test_kokoro_has_its_voices_and_lacks_none(kokoro_82m: Path, tmp_path: Path) -> None:
    assert {path.stem for path in (kokoro_82m / "voices").iterdir()} == set(KOKORO_VOICES)
    for name in ("config.json", "model.safetensors"):
        (tmp_path / name).symlink_to(kokoro_82m / name)
    with pytest.raises(SetupError, match=r"voices: no voice in it"):
        check_kokoro(tmp_path)


def test_kokoro_speaks_as_long_as_its_own_runtime(speech: Samples) -> None:
    assert np.isfinite(speech).all()
    # Its runtime rounds what goes into each layer to 8 bits as well: a frame of 25 ms more or less.
    assert abs(speech.shape[-1] - ONNX_SAMPLES) <= 2 * 600
    assert 0.05 < np.abs(speech).max() < 1


def test_whisper_hears_what_kokoro_says(speech: Samples, whisper_base: Path) -> None:
    heard = soxr.resample(speech.ravel(), 24_000, 16_000).astype(np.float32)
    job = Job(0, "kokoro", heard, len(heard) / 16_000, options=TranscribeOptions(language="en"))
    spec = EngineSpec("whisper", whisper_base, batch_size=1, encode_rows=1, encode_streams=2, device={"kind": "cpu"})
    with closing(WhisperEngine(spec)) as engine:
        outputs = outputs_by_job(list(engine.run(Given([job]), lambda live: 1)))
    text = " ".join(segment.text for output in outputs[0] for segment in output.segments)
    assert wer([SENTENCE], [text]) == 0, text


def si_sdr(clean: Samples, heard: Samples) -> float:
    """Le Roux et al. 2019, "SDR - half-baked or well done?", in dB."""
    clean, heard = clean - clean.mean(), heard - heard.mean()
    target = (heard @ clean) / (clean @ clean) * clean
    return float(10 * np.log10((target @ target) / ((heard - target) @ (heard - target))))


def test_deepfilternet_takes_noise_away_as_its_own_runtime_does(deepfilternet3: Path) -> None:
    """libDF's own figure for this sound, with the same weights, is 15.37 dB."""
    from mlx_audio.sts.models.deepfilternet import DeepFilterNetModel

    clean = soxr.resample(samples_of("books/sense_and_sensibility_01_austen_64kb-0880.wav"), 16_000, 48_000)
    clean = clean.astype(np.float32)
    noise = np.random.default_rng(0).standard_normal(len(clean)).astype(np.float32)
    noisy = clean + noise * np.sqrt((clean @ clean) / (noise @ noise)) / 10 ** (5 / 20)
    model = DeepFilterNetModel.from_pretrained(str(deepfilternet3), subfolder=None)
    assert si_sdr(clean, noisy) == pytest.approx(4.89, abs=0.01)
    assert si_sdr(clean, model.enhance_array(noisy)) == pytest.approx(15.4, abs=0.2)


def test_every_weight_of_deepfilternet_is_loaded(deepfilternet3: Path) -> None:
    from mlx.utils import tree_flatten
    from mlx_audio.sts.models.deepfilternet import DeepFilterNetModel

    model = DeepFilterNetModel.from_pretrained(str(deepfilternet3), subfolder=None)
    weights = {name: mx.array(values) for name, values in load_file(deepfilternet3 / "model.safetensors").items()}
    model.load_weights(weights, strict=True)
    assert len(tree_flatten(model.model.parameters())) == len(weights)


def test_a_voice_is_closer_to_itself_than_to_another(ge2e: Path) -> None:
    from mlx_audio.tts.models.chatterbox.voice_encoder import VoiceEncoder

    encoder = VoiceEncoder()
    encoder.load_weights(str(ge2e / "model.safetensors"), strict=True)
    reader, prompts = (
        [np.asarray(encoder.embeds_from_wavs([mx.array(samples_of(name))], rate)[0]) for name in names]
        for rate, names in (
            (16_000, [f"books/sense_and_sensibility_01_austen_64kb-0{number}.wav" for number in (890, 930)]),
            (8_000, ["calls/demo-thanks.wav", "calls/dir-instr.wav"]),
        )
    )
    own = [a @ b for voice in (reader, prompts) for a in voice for b in voice if a is not b]
    other = [a @ b for a in reader for b in prompts]
    assert min(own) > max(other) + 0.1


@pytest.mark.parametrize("precision", [Precision(dtype="float16"), Precision({"bert_encoder": Packing(8)})])
def test_a_converted_kokoro_is_loaded_by_plain_mlx_audio(
    kokoro_82m: Path, tmp_path: Path, precision: Precision
) -> None:
    """Its convolutions lie the other way round as soon as one layer is packed."""
    target = tmp_path / "kokoro"
    with open_source(str(kokoro_82m), revision=None, task=None, offline=True, say=print) as checkpoint:
        write(checkpoint, {target: precision}, lambda step: None)
        shapes = {name: weight.shape for name, weight in checkpoint.weights.items()}
    from mlx_audio.tts.utils import load_model

    loaded = dict(tree_flatten(load_model(target, strict=True).parameters()))
    del shapes["bert_encoder.weight"]
    assert {name: tuple(loaded[name].shape) for name in shapes} == shapes
