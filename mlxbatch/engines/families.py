"""Which engine runs a model, by its config.json, and what its family can do. Data only: no engine is imported."""

from __future__ import annotations

from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path

from mlxbatch.engines.batching import Padding
from mlxbatch.errors import SetupError, UsageError, show
from mlxbatch.models.architecture import architecture, read_json
from mlxbatch.types import TranscribeOptions
from mlxbatch.words import nearest

MLX_AUDIO = "mlx-audio"
MISSING = "pip install 'mlxbatch[mlx-audio]'"


@dataclass(frozen=True, slots=True)
class Family:
    """Models of one architecture.

    `padding` says which pieces may share a batch, None that they go one by one. `segment_seconds` is how long a piece
    of a long recording is where the profile does not say, `longest` what the model can take at all;
    `frames_per_second` are what its widest attention sees of sound; with `relative` positions a score for each pair of
    them is held on any device. `files` must lie beside config.json and the weights; of those joined by "|" one is
    enough. `takes` names the options it heeds, of "language", "prompt", "hotwords", "max_tokens" and "translate"; one
    that does not `detect` has to be given the language. `languages` are the codes it knows, () where its config.json
    or nobody says. `times` is what it tells of time inside a piece: "words", "segments" or "" (a piece is one
    segment); "words" come always, but from a Whisper only where they are asked for. `apart`: where only speech is
    heard, a pause of more seconds than that divides two pieces; it is larger for those that tell speakers, which they
    know within a piece only. `context`: a piece's text is told to the next. `module` is its name in
    mlx_audio.stt.models, or with dots in mlx_audio, `computed` are weights that mlx-audio makes itself where a
    checkpoint has none.
    """

    name: str
    engine: str
    padding: Padding | None = None
    segment_seconds: float = 30.0
    longest: float = 30.0
    sample_rate: int = 16_000
    frames_per_second: float = 12.5
    relative: bool = False
    files: tuple[str, ...] = ()
    takes: frozenset[str] = frozenset()
    detects: bool = True
    languages: tuple[str, ...] = ()
    times: str = ""
    apart: float = 1.0
    context: bool = False
    module: str = ""
    computed: tuple[str, ...] = ()


def _takes(*options: str) -> frozenset[str]:
    return frozenset(options)


WHISPER = Family(
    "Whisper",
    "whisper",
    Padding.MASKED,
    takes=_takes("language", "prompt", "hotwords", "max_tokens", "translate"),
    times="words",
)

PARAKEET = Family(
    "Parakeet",
    MLX_AUDIO,
    # mlx-audio has no mask for padding; the engine has its own.
    Padding.MASKED,
    segment_seconds=120.0,
    longest=1440.0,
    relative=True,
    times="words",
    module="parakeet",
)

COHERE = Family(
    "Cohere ASR",
    MLX_AUDIO,
    Padding.MASKED,
    segment_seconds=30.0,
    longest=35.0,
    relative=True,
    files=("tokenizer.model",),
    takes=_takes("language", "max_tokens"),
    detects=False,
    languages=("en", "fr", "de", "es", "it", "pt", "nl", "pl", "el", "ar", "ja", "zh", "vi", "ko"),
    module="cohere_asr",
    computed=("transf_decoder.embedding.position_embedding.pos_enc",),
)

QWEN3 = Family(
    "Qwen3-ASR",
    MLX_AUDIO,
    Padding.MASKED,
    segment_seconds=120.0,
    longest=1200.0,
    frames_per_second=13.0,
    files=("tokenizer.json|vocab.json", "tokenizer_config.json", "preprocessor_config.json"),
    takes=_takes("language", "prompt", "hotwords", "max_tokens"),
    context=True,
    module="qwen3_asr",
)

VIBEVOICE = Family(
    "VibeVoice-ASR",
    MLX_AUDIO,
    Padding.MASKED,
    segment_seconds=300.0,
    longest=3540.0,
    sample_rate=24_000,
    frames_per_second=7.5,
    files=("tokenizer.json|vocab.json", "tokenizer_config.json"),
    takes=_takes("prompt", "hotwords", "max_tokens"),
    times="segments",
    apart=10.0,
    context=True,
    module="vibevoice_asr",
)

SENSEVOICE = Family(
    "SenseVoice",
    MLX_AUDIO,
    Padding.EXACT,
    segment_seconds=30.0,
    longest=60.0,
    frames_per_second=17.0,
    files=("tokens.json|chn_jpn_yue_eng_ko_spectok.bpe.model",),
    takes=_takes("language"),
    languages=("zh", "en", "yue", "ja", "ko"),
    module="sensevoice",
)

WAV2VEC2 = Family(
    "wav2vec 2.0",
    MLX_AUDIO,
    Padding.EXACT,
    segment_seconds=30.0,
    longest=120.0,
    frames_per_second=50.0,
    files=("vocab.json",),
    module="mms",
)

MOONSHINE = Family(
    "Moonshine",
    MLX_AUDIO,
    segment_seconds=30.0,
    longest=64.0,
    frames_per_second=42.0,
    files=("tokenizer.json",),
    takes=_takes("max_tokens"),
    module="moonshine",
)

CANARY = Family(
    "Canary",
    MLX_AUDIO,
    segment_seconds=30.0,
    longest=40.0,
    relative=True,
    files=("tokenizer.model",),
    takes=_takes("language", "max_tokens", "translate"),
    detects=False,
    languages=(
        *("bg", "hr", "cs", "da", "nl", "en", "et", "fi", "fr", "de", "el", "hu", "it"),
        *("lv", "lt", "mt", "pl", "pt", "ro", "sk", "sl", "es", "sv", "ru", "uk"),
    ),
    module="canary",
)

GLM = Family(
    "GLM-ASR",
    MLX_AUDIO,
    segment_seconds=30.0,
    longest=30.0,
    frames_per_second=50.0,
    files=("tokenizer.json", "tokenizer_config.json"),
    takes=_takes("max_tokens"),
    module="glmasr",
)

GRANITE = Family(
    "Granite Speech",
    MLX_AUDIO,
    segment_seconds=60.0,
    longest=300.0,
    frames_per_second=50.0,
    files=("tokenizer.json|vocab.json", "tokenizer_config.json"),
    takes=_takes("language", "hotwords", "max_tokens", "translate"),
    languages=("en", "fr", "de", "es", "pt", "ja", "it", "zh"),
    module="granite_speech",
)

NEMOTRON = Family(
    "Nemotron ASR",
    MLX_AUDIO,
    segment_seconds=120.0,
    longest=3600.0,
    relative=True,
    takes=_takes("language"),
    times="words",
    module="nemotron_asr",
)

FIRE_RED = Family(
    "FireRedASR2",
    MLX_AUDIO,
    segment_seconds=30.0,
    longest=60.0,
    frames_per_second=25.0,
    relative=True,
    files=("dict.txt", "cmvn.json"),
    takes=_takes("max_tokens"),
    module="fireredasr2",
)

GRANITE_CTC = Family(
    "Granite Speech CTC",
    MLX_AUDIO,
    segment_seconds=60.0,
    longest=600.0,
    frames_per_second=50.0,
    relative=True,
    files=("tokenizer.json",),
    module="granite_speech5_ctc",
)

QWEN2_AUDIO = Family(
    "Qwen2-Audio",
    MLX_AUDIO,
    segment_seconds=30.0,
    longest=30.0,
    frames_per_second=50.0,
    files=("tokenizer.json|vocab.json", "tokenizer_config.json", "preprocessor_config.json"),
    takes=_takes("max_tokens"),
    module="qwen2_audio",
)

MOSS = Family(
    "MOSS-Transcribe-Diarize",
    MLX_AUDIO,
    segment_seconds=300.0,
    longest=3600.0,
    frames_per_second=50.0,
    files=("tokenizer.json|vocab.json", "tokenizer_config.json", "preprocessor_config.json"),
    takes=_takes("hotwords", "max_tokens"),
    times="segments",
    apart=10.0,
    module="moss_transcribe_diarize",
)

# By config.json's model_type; names that differ only in their case or in "-" and "_" are the same.
FAMILIES: dict[str, Family] = {
    "whisper": WHISPER,
    "parakeet": PARAKEET,
    "parakeet_tdt": PARAKEET,
    "cohere_asr": COHERE,
    "qwen3_asr": QWEN3,
    "vibevoice": VIBEVOICE,
    "vibevoice_asr": VIBEVOICE,
    "sensevoice": SENSEVOICE,
    "wav2vec2": WAV2VEC2,
    "mms": WAV2VEC2,
    "moonshine": MOONSHINE,
    "canary": CANARY,
    "glmasr": GLM,
    "granite_speech": GRANITE,
    "nemotron_asr": NEMOTRON,
    "fireredasr2": FIRE_RED,
    "granite_speech5_ctc": GRANITE_CTC,
    "qwen2_audio": QWEN2_AUDIO,
    "moss_transcribe_diarize": MOSS,
}


def family_of(directory: Path) -> Family:
    """The family of the model in a directory; SetupError where no engine here runs it."""
    kind = architecture(read_json(directory / "config.json"))
    if kind not in FAMILIES:
        known = ", ".join(sorted(FAMILIES))
        hint = nearest(kind, FAMILIES) or "."
        raise SetupError(f"{show(directory)}: no engine for a model of type {kind!r}{hint} Known types: {known}")
    return FAMILIES[kind]


def require(family: Family) -> None:
    """SetupError where the packages that run the family are not installed. Nothing is imported."""
    if family.engine == MLX_AUDIO and find_spec("mlx_audio") is None:
        raise SetupError(f"{family.name} runs on mlx-audio, which is not installed: {MISSING}")


def refuse(family: Family, options: TranscribeOptions, *, detects: bool) -> None:
    """UsageError for an option without which the text would be another than was asked for.

    `detects`: a recording without a language has one nevertheless, because the model detects it or for other reasons.
    """
    if options.task == "translate" and "translate" not in family.takes:
        raise UsageError(
            f"{family.name} does not translate: leave out --task translate, or name a Whisper with --model"
        )
    asked = options.language is not None or not detects
    if asked and (problem := language_problem(family, options.language)) is not None:
        raise UsageError(problem)


def language_problem(family: Family, language: str | None) -> str | None:
    """Why the family cannot transcribe in that language (None: one that it is to detect), or None where it can."""
    known = f" (it knows {', '.join(sorted(family.languages))})" if family.languages else ""
    if language is None:
        return None if family.detects else f"{family.name} does not detect the language: give --language{known}"
    if family.languages and language not in family.languages:
        return f"{family.name} does not know the language {language!r}{known}"
    return None


def ignored(family: Family, options: TranscribeOptions) -> list[str]:
    """What was asked for and the family cannot heed, though its text is right without: a line each, to be told once."""
    neutral = TranscribeOptions()
    asked = {
        "language": ("--language", options.language is not None),
        "prompt": ("--prompt", bool(options.prompt)),
        "hotwords": ("--hotwords", bool(options.hotwords)),
        "max_tokens": ("--max-tokens", options.max_tokens is not None),
    }
    lines = [
        f"{family.name} takes no {flag}: it goes by the sound alone"
        for option, (flag, given) in asked.items()
        if given and option not in family.takes
    ]
    if options.words and family.times != "words":
        lines.append(
            f"{family.name} does not tell when a word is spoken: no word has times or is highlighted, and cues are "
            "divided by the length of their text"
        )
    if family is not WHISPER and options.encoder_context != neutral.encoder_context:
        lines.append(f"{family.name} takes no --encoder-context: it is Whisper's and changes nothing")
    if family is not WHISPER and _thresholds(options) != _thresholds(neutral):
        lines.append(f"{family.name} decodes greedily: temperatures and thresholds are Whisper's and change nothing")
    return lines


def heeded(family: Family, options: TranscribeOptions) -> TranscribeOptions:
    """The options without those that change nothing in what the family's models say, as `ignored` tells."""
    if family is WHISPER:
        return options
    neutral = TranscribeOptions()
    unheeded = {"language", "prompt", "hotwords", "max_tokens"} - family.takes
    return replace(options, **{name: getattr(neutral, name) for name in (*_WHISPER_S, *sorted(unheeded))})


_THRESHOLDS = ("temperatures", "compression_ratio_threshold", "logprob_threshold", "no_speech_threshold")
# What others do not heed; their words come, or do not, whether they are asked for or not.
_WHISPER_S = (*_THRESHOLDS, "words", "encoder_context")


def _thresholds(options: TranscribeOptions) -> tuple[object, ...]:
    return tuple(getattr(options, name) for name in _THRESHOLDS)
