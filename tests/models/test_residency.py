"""Models in one process: what is loaded, what leaves for what, and that its memory is really given back."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mlxbatch import blas

blas.preload()

import mlx.core as mx  # noqa: E402
import mlx.nn as nn  # noqa: E402

from mlxbatch import device  # noqa: E402
from mlxbatch.device import DeviceSettings  # noqa: E402
from mlxbatch.engines.base import EngineSpec  # noqa: E402
from mlxbatch.engines.families import PARAKEET  # noqa: E402
from mlxbatch.engines.mlx_audio.engine import MlxAudioEngine  # noqa: E402
from mlxbatch.engines.whisper.engine import WhisperEngine  # noqa: E402
from mlxbatch.errors import OutOfMemory, SetupError  # noqa: E402
from mlxbatch.models.residency import Residency, device_residency, weight_bytes  # noqa: E402
from mlxbatch.models.weights import loaded_bytes, weight_files  # noqa: E402
from mlxbatch.types import Output  # noqa: E402
from tests.engines.mlx_audio.tiny import parakeet  # noqa: E402
from tests.engines.whisper.parts import GREEDY, job, noise, outputs_by_job, short_whisper  # noqa: E402
from tests.jobs import RATE, Given  # noqa: E402

MB = 10**6
ROWS = 1000  # of 1000 float32: a square of 4 MB


class Square(nn.Module):
    """4 MB of weights, and with `knot` a reference to itself, which only the collector sees through."""

    def __init__(self, knot: bool = False) -> None:
        super().__init__()
        self.weight = mx.arange(ROWS * ROWS, dtype=mx.float32).reshape(ROWS, ROWS)
        if knot:
            self._knot = lambda: self


SIZE = 4 * ROWS * ROWS


@pytest.fixture
def residency() -> Iterator[Residency]:
    """Room for two squares and a half."""
    with device_residency(DeviceSettings(memory_limit="10MB")) as found:
        yield found


def held_memory() -> int:
    """Bytes on the device, without what earlier tests may have left to the collector."""
    gc.collect()
    device.reclaim()
    return mx.get_active_memory()


def touch(residency: Residency, key: str, load: Callable[[], Any] = Square) -> None:
    with residency.use(key, load, SIZE):
        pass


def test_a_model_that_is_there_is_not_loaded_again(residency: Residency) -> None:
    with residency.use("a", Square, SIZE) as first:
        assert mx.get_active_memory() >= SIZE
    with residency.use("a", Square, SIZE) as again:
        assert again is first
    assert (residency.resident.models, residency.resident.bytes, residency.resident.loads) == (("a",), SIZE, 1)


def test_the_least_recently_used_leaves_and_its_memory_is_given_back(residency: Residency) -> None:
    before = held_memory()
    for key in ("a", "b", "a", "c"):
        touch(residency, key)
    assert residency.resident.models == ("a", "c")
    assert (residency.resident.loads, residency.resident.evictions) == (3, 1)
    assert held_memory() - before == 2 * SIZE
    touch(residency, "b")
    assert residency.resident.models == ("c", "b")
    assert held_memory() - before == 2 * SIZE


def test_nothing_is_kept_for_reuse_after_a_switch(residency: Residency) -> None:
    touch(residency, "a")
    mx.eval(mx.arange(10_000) + 1)  # of another size than any model's weights
    assert mx.get_cache_memory() > 0
    touch(residency, "b")
    assert mx.get_cache_memory() > 0  # there was room
    cached: list[int] = []

    def load() -> Square:
        cached.append(mx.get_cache_memory())
        return Square()

    touch(residency, "c", load)
    assert cached == [0]


def test_one_in_use_never_leaves(residency: Residency) -> None:
    with residency.use("a", Square, SIZE), residency.use("b", Square, SIZE):
        with pytest.raises(SetupError, match=r"c: its weights take 4 MB, .*10 MB has room for beside a, b, in use"):
            touch(residency, "c")
        assert set(residency.resident.models) == {"a", "b"}
    touch(residency, "c")
    assert residency.resident.models == ("a", "c") or residency.resident.models == ("b", "c")


def test_within_another_use_of_it_a_model_stays(residency: Residency) -> None:
    with residency.use("a", Square, SIZE):
        touch(residency, "a")
        touch(residency, "b")
        touch(residency, "c")
        assert residency.resident.models == ("a", "c")


def test_too_large_alone(residency: Residency) -> None:
    touch(residency, "a")
    with pytest.raises(SetupError) as caught, residency.use("big", Square, 11 * MB):
        pass
    assert str(caught.value) == (
        "big: its weights take 11 MB, more than the memory limit of 10 MB has room for: raise memory_limit under "
        "[device] (--memory-limit), or take a smaller model"
    )
    assert residency.resident.models == ("a",)  # which did not leave in vain


class Broken(Exception):
    pass


def half_loaded() -> nn.Module:
    weights = mx.arange(ROWS * ROWS, dtype=mx.float32)
    mx.eval(weights)
    raise Broken(f"{weights.shape}")


def test_a_load_that_fails_leaves_nothing_behind(residency: Residency) -> None:
    touch(residency, "a")
    before = held_memory()
    with pytest.raises(Broken) as caught:
        touch(residency, "b", half_loaded)
    assert caught.traceback  # which is still there, and held what was read
    assert held_memory() == before
    assert (residency.resident.models, residency.resident.loads) == (("a",), 1)
    touch(residency, "b")
    assert residency.resident.models == ("a", "b")


def test_no_memory_on_the_device_has_its_name(residency: Residency) -> None:
    before = held_memory()

    def load() -> nn.Module:
        weights = mx.arange(ROWS * ROWS, dtype=mx.float32)
        mx.eval(weights)
        raise RuntimeError("[malloc] Unable to allocate 4096 bytes.")

    with pytest.raises(OutOfMemory):
        touch(residency, "a", load)
    assert held_memory() == before


def test_a_model_that_is_larger_than_was_said(residency: Residency) -> None:
    touch(residency, "a")
    touch(residency, "b")
    with residency.use("c", lambda: nn.Sequential(Square(), Square()), SIZE) as both:
        assert weight_bytes(both) == 2 * SIZE
    assert residency.resident.models == ("c",)
    assert residency.resident.bytes == 2 * SIZE
    before = held_memory()
    with pytest.raises(SetupError, match="its weights take 12 MB"):
        touch(residency, "d", lambda: nn.Sequential(Square(), Square(), Square()))
    del both
    assert held_memory() == before - 2 * SIZE  # "c" had left when as much was asked as was said
    assert residency.resident.models == ()


def test_a_model_that_refers_to_itself_goes_as_well(residency: Residency) -> None:
    before = held_memory()
    touch(residency, "a", lambda: Square(knot=True))
    residency.clear()
    assert held_memory() == before
    assert residency.resident.models == ()


def test_what_counts_as_a_model_s_weights(residency: Residency) -> None:
    class Told:
        nbytes = 7

    assert weight_bytes(nn.Sequential(Square(), Square())) == 2 * SIZE
    assert weight_bytes({16_000: Square(), 8_000: [Square(), mx.zeros(5)], "told": Told()}) == 2 * SIZE + 20 + 7
    with residency.use("two", lambda: {8_000: Square(), 16_000: Square()}, 2 * SIZE) as both:
        assert both[8_000].weight.shape == (ROWS, ROWS)
    assert residency.resident.bytes == 2 * SIZE


def test_the_way_out_gives_everything_back() -> None:
    before, limit = held_memory(), mx.set_memory_limit(3 * 10**9)
    with pytest.raises(Broken), device_residency(DeviceSettings(memory_limit="1GB")) as residency:
        touch(residency, "a", half_loaded)
    assert held_memory() == before
    assert mx.set_memory_limit(limit) == 3 * 10**9


def test_the_wired_limit_follows_the_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    wired: list[int] = []
    with device_residency(DeviceSettings(memory_limit="10MB")) as residency:
        monkeypatch.setattr(device, "wire", lambda settings, weights: wired.append(weights))
        for key in ("a", "b", "c"):
            touch(residency, key)
        residency.clear()
    assert wired[:5] == [SIZE, 2 * SIZE, SIZE, 2 * SIZE, 0]


def test_what_is_resident_may_be_read_from_another_thread(residency: Residency) -> None:
    touch(residency, "a")
    seen: list[tuple[str, ...]] = []
    thread = threading.Thread(target=lambda: seen.append(residency.resident.models))
    thread.start()
    thread.join()
    assert seen == [("a",)]


# ---- engines that share one


def spec(model: Path, **more: object) -> EngineSpec:
    return EngineSpec("whisper", model, batch_size=2, device={"kind": "cpu"}, **more)  # type: ignore[arg-type]


def heard(engine: WhisperEngine, seconds: float = 0.3) -> list[str]:
    events = list(engine.run(Given([job(0, noise(round(seconds * RATE)), GREEDY)]), lambda live: 2))
    found = outputs_by_job(events)[0]
    assert all(isinstance(event, Output) for event in events)
    return [segment.text for output in found for segment in output.segments]


def test_two_engines_take_turns_where_only_one_fits(tmp_path: Path) -> None:
    one, other = (short_whisper(tmp_path / name) for name in ("one", "other"))
    size = loaded_bytes(weight_files(one), "float32")
    with device_residency(DeviceSettings()) as residency:
        residency.budget = size * 3 // 2  # MLX's own limit, were it so small, would make it slow
        first, second = (WhisperEngine(spec(path), residency) for path in (one, other))
        before = heard(first)
        assert residency.resident.models == (f"{one} (float32)",)
        assert heard(second) == before  # the same weights, twice
        assert heard(first) == before
        assert residency.resident.bytes <= residency.budget
        assert (residency.resident.loads, residency.resident.evictions) == (5, 4)
        assert first.readings().resident == residency.resident
        for engine in (first, second):
            engine.close()
        assert residency.resident.models  # who was given a residency does not close it


def test_engines_of_two_kinds_live_side_by_side(tmp_path: Path) -> None:
    whisper, words = short_whisper(tmp_path / "whisper"), parakeet(tmp_path / "parakeet")
    sizes = [loaded_bytes(weight_files(path), "float32") for path in (whisper, words)]
    with device_residency(DeviceSettings()) as residency:
        residency.budget = sum(sizes)
        first = WhisperEngine(spec(whisper), residency)
        second = MlxAudioEngine(spec(words), PARAKEET, residency)
        text = heard(first)
        (output,) = second.run(Given([job(0, noise(RATE), GREEDY)]), lambda live: 2)
        assert isinstance(output, Output)
        assert heard(first) == text
        assert (residency.resident.loads, residency.resident.evictions) == (2, 0)
        assert first.weights() == second.weights() == residency.resident.bytes == sum(sizes)
        for engine in (first, second):
            engine.close()


def test_the_model_of_a_closed_engine_makes_room_for_another_kind(tmp_path: Path) -> None:
    whisper, words = short_whisper(tmp_path / "whisper"), parakeet(tmp_path / "parakeet")
    sizes = [loaded_bytes(weight_files(path), "float32") for path in (whisper, words)]
    with device_residency(DeviceSettings()) as residency:
        residency.budget = sum(sizes) - 1
        before = held_memory()
        second = MlxAudioEngine(spec(words), PARAKEET, residency)
        with pytest.raises(SetupError, match=rf"beside {words} \(float32\), in use"):
            WhisperEngine(spec(whisper), residency)
        second.close()
        first = WhisperEngine(spec(whisper), residency)
        assert heard(first)
        assert residency.resident.models == (f"{whisper} (float32)",)
        first.close()
        residency.clear()
        assert held_memory() - before < sizes[1]  # though the closed engine is still at hand
        assert second.weights() == 0


def test_one_engine_alone_keeps_its_model_from_run_to_run(tmp_path: Path) -> None:
    engine = WhisperEngine(spec(short_whisper(tmp_path / "model")))
    assert heard(engine) == heard(engine)
    assert engine.readings().resident.loads == 1
    assert engine.weights() == engine.readings().resident.bytes
    engine.close()


def test_a_model_over_the_memory_limit_is_refused_in_plain_words(tmp_path: Path) -> None:
    model = short_whisper(tmp_path / "model")
    settings = EngineSpec("whisper", model, device={"kind": "cpu", "memory_limit": "1MB"})
    before, limit = held_memory(), mx.set_memory_limit(3 * 10**9)
    with pytest.raises(SetupError, match=r"model \(float32\): its weights take 1 MB, .*limit of 1 MB .*--memory-limit"):
        WhisperEngine(settings)
    assert held_memory() == before
    assert mx.set_memory_limit(limit) == 3 * 10**9
