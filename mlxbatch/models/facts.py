"""What is known of the catalogue's speech-to-text models of the hub, each figure published where `source` says.

Memory is computed: parameters times bytes at the recommended bits, so it is the weights alone. Bits, batch and segment
length are where to begin from; nobody has measured them on every Mac.
"""

from __future__ import annotations

from dataclasses import dataclass

WHISPER_SOURCE = "https://github.com/openai/whisper#available-models-and-languages"
DISTIL_SOURCE = "https://github.com/huggingface/distil-whisper"
WINDOW = 30.0  # seconds; what a Whisper's encoder sees at once


@dataclass(frozen=True, slots=True)
class Facts:
    """`parameters` and `languages` as published (a language that is only "more than n" counts as n).

    `bits`, `batch` and `segment_seconds` are recommendations: of weights, of rows at once, of a piece of a long
    recording.
    """

    parameters: int
    languages: int
    bits: int
    batch: int
    segment_seconds: float
    source: str

    @property
    def memory_bytes(self) -> int:
        """The weights at the recommended bits. Quantized, each group of 64 has a scale and a bias of 16 bits more."""
        bits = self.bits + (32 / 64 if self.bits < 16 else 0)
        return int(self.parameters * bits / 8)


@dataclass(frozen=True, slots=True)
class HubModel:
    """A model of the hub under a short name; `gated` where its terms have to be accepted there first."""

    name: str
    repo: str
    engine: str
    title: str
    licence: str
    facts: Facts
    gated: bool = False


def _whisper(size: str, parameters: int, languages: int, batch: int, repo: str = "") -> HubModel:
    facts = Facts(parameters, languages, 16, batch, WINDOW, WHISPER_SOURCE)
    about = "English only" if languages == 1 else "multilingual"
    repo = repo or f"openai/whisper-{size}"
    return HubModel(f"whisper-{size}", repo, "whisper", f"OpenAI Whisper {size}, {about}", "MIT", facts)


def _mlx_audio(name: str, repo: str, title: str, licence: str, facts: Facts, *, gated: bool = False) -> HubModel:
    return HubModel(name, repo, "mlx-audio", title, licence, facts, gated)


def _card(repo: str) -> str:
    return f"https://huggingface.co/{repo}"


WHISPERS = (
    _whisper("tiny", 39_000_000, 99, 16),
    _whisper("tiny.en", 39_000_000, 1, 16),
    _whisper("base.en", 74_000_000, 1, 16),
    _whisper("small", 244_000_000, 99, 16),
    _whisper("small.en", 244_000_000, 1, 16),
    _whisper("medium", 769_000_000, 99, 8),
    _whisper("medium.en", 769_000_000, 1, 8),
    _whisper("large-v2", 1_550_000_000, 99, 8),
    _whisper("large-v3", 1_550_000_000, 100, 8),
    _whisper("large-v3-turbo", 809_000_000, 100, 8, "mlx-community/whisper-large-v3-turbo"),
    HubModel(
        name="distil-large-v3",
        repo="distil-whisper/distil-large-v3",
        engine="whisper",
        title="Distil-Whisper large v3, English only",
        licence="MIT",
        facts=Facts(756_000_000, 1, 16, 8, WINDOW, DISTIL_SOURCE),
    ),
)

OTHERS = (
    _mlx_audio(
        "parakeet-tdt-0.6b-v2",
        "mlx-community/parakeet-tdt-0.6b-v2",
        "NVIDIA Parakeet TDT v2, English only",
        "CC-BY-4.0",
        Facts(600_000_000, 1, 16, 8, 120.0, _card("nvidia/parakeet-tdt-0.6b-v2")),
    ),
    _mlx_audio(
        "parakeet-tdt-0.6b-v3",
        "mlx-community/parakeet-tdt-0.6b-v3",
        "NVIDIA Parakeet TDT v3, European languages",
        "CC-BY-4.0",
        Facts(600_000_000, 25, 16, 8, 120.0, _card("nvidia/parakeet-tdt-0.6b-v3")),
    ),
    _mlx_audio(
        "qwen3-asr-0.6b",
        "mlx-community/Qwen3-ASR-0.6B-8bit",
        "Qwen3-ASR 0.6B at 8 bits, and 22 Chinese dialects",
        "Apache-2.0",
        Facts(600_000_000, 30, 8, 8, 120.0, _card("Qwen/Qwen3-ASR-0.6B")),
    ),
    _mlx_audio(
        "qwen3-asr-1.7b",
        "mlx-community/Qwen3-ASR-1.7B-8bit",
        "Qwen3-ASR 1.7B at 8 bits, and 22 Chinese dialects",
        "Apache-2.0",
        Facts(1_700_000_000, 30, 8, 8, 120.0, _card("Qwen/Qwen3-ASR-1.7B")),
    ),
    _mlx_audio(
        "cohere-transcribe",
        "CohereLabs/cohere-transcribe-03-2026",
        "Cohere Transcribe 03-2026",
        "Apache-2.0",
        Facts(2_000_000_000, 14, 16, 8, 30.0, _card("CohereLabs/cohere-transcribe-03-2026")),
        gated=True,
    ),
    _mlx_audio(
        "vibevoice-asr",
        "mlx-community/VibeVoice-ASR-bf16",
        "Microsoft VibeVoice-ASR, with speakers and times",
        "MIT",
        Facts(9_000_000_000, 50, 6, 2, 300.0, _card("microsoft/VibeVoice-ASR")),
    ),
)

HUB_MODELS: tuple[HubModel, ...] = (*WHISPERS, *OTHERS)
