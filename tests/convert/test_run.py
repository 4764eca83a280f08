"""A whole conversion over tiny weights: what comes of it, what is refused, what is left where it fails."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from mlxbatch.convert import run
from mlxbatch.convert.place import Need
from mlxbatch.convert.recipe import Asked, asked_for
from mlxbatch.convert.reload import Reloaded
from mlxbatch.convert.run import Goal, Listener, Order, Plan, Result, Wanted, convert, preview
from mlxbatch.errors import LockedError, QualityLost, SetupError, UsageError
from mlxbatch.models.resolve import resolve
from tests.convert.mlx_source import open_mlx
from tests.convert.program import start, until
from tests.faults.full_disk import build
from tests.models.tiny import write_tiny_whisper

UNPROVEN = Wanted("none")


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_whisper(tmp_path_factory.mktemp("tiny") / "model")


@pytest.fixture(autouse=True)
def parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sources in MLX's layout alone; nothing is listened to."""
    monkeypatch.setattr(run, "_opened", lambda order, say: open_mlx(order.source))
    monkeypatch.setattr(run, "_clips", lambda order: None)


@pytest.fixture
def loaded(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The fresh process is left out where something else is asked; it is asked of these directories."""
    asked: list[Path] = []

    def reload(directory: Path) -> Reloaded:
        asked.append(directory)
        return Reloaded(True)

    monkeypatch.setattr(run, "reload", reload)
    return asked


def done(order: Order) -> tuple[list[Result], list[str]]:
    """Results, and what was told."""
    told: list[str] = []
    results: list[Result] = []
    convert(order, Listener(told.append, told.append, lambda step: None), lambda plan, result: results.append(result))
    return results, told


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_a_model_is_made_loaded_and_run(tiny: Path, tmp_path: Path) -> None:
    """In six bits, as nothing was asked for; the fresh process is a real one."""
    results, told = done(Order(str(tiny), tmp_path / "out", proof=UNPROVEN))
    (result,) = results
    assert result.reloaded == Reloaded(True, form="float32 on cpu")
    assert result.peak_bytes > 10**7
    assert {form.bits for form in result.model.precision.packed.values()} == {6}
    assert names(tmp_path) == {"out"}
    found = resolve(str(tmp_path / "out"), offline=True, say=print)
    assert found.path == tmp_path / "out"
    assert told[0].startswith("the conversion needs ")


def test_several_bits_are_several_directories(tiny: Path, tmp_path: Path, loaded: list[Path]) -> None:
    order = Order(str(tiny), tmp_path / "out", [asked_for(bits) for bits in (8, 4)], proof=UNPROVEN)
    results, _ = done(order)
    assert names(tmp_path) == {"out-8bit", "out-4bit"}
    for result, bits in zip(results, (8, 4), strict=True):
        config = json.loads((tmp_path / f"out-{bits}bit" / "config.json").read_text())
        assert config["quantization"]["bits"] == bits
        assert result.model.place.target == tmp_path / f"out-{bits}bit"
    assert len(loaded) == 2


def test_a_dtype_alone(tiny: Path, tmp_path: Path, loaded: list[Path]) -> None:
    done(Order(str(tiny), tmp_path / "out", [asked_for(dtype="bfloat16")], proof=UNPROVEN))
    weights = mx.load(str(tmp_path / "out" / "model.safetensors"))
    assert {array.dtype for array in weights.values()} == {mx.bfloat16}
    assert "quantization" not in json.loads((tmp_path / "out" / "config.json").read_text())


def test_a_preview_writes_nothing(tiny: Path, tmp_path: Path) -> None:
    plan = preview(Order(str(tiny), tmp_path / "out", proof=UNPROVEN), Listener(print, print, print))
    assert names(tmp_path) == set()
    assert plan.need.disk > plan.models[0].layout.bytes
    assert plan.parameters == sum(array.size for array in load_file(tiny / "model.safetensors").values())


# ---- what is refused


@pytest.mark.parametrize(
    ("target", "said"),
    [(".", "is what is to be converted"), ("there", "is there already; --force replaces it")],
)
def test_places_are_looked_at_first(tiny: Path, target: str, said: str, tmp_path: Path) -> None:
    write_tiny_whisper(tmp_path / "there")
    order = Order(str(tiny), tiny if target == "." else tmp_path / target, proof=UNPROVEN)
    with pytest.raises(UsageError, match=said):
        done(order)
    with pytest.raises(UsageError, match=said):
        preview(order, Listener(print, print, print))


def test_what_is_quantized_already(tiny: Path, tmp_path: Path, loaded: list[Path]) -> None:
    done(Order(str(tiny), tmp_path / "four", [asked_for(4)], proof=UNPROVEN))
    with pytest.raises(UsageError, match=r"four: is quantized already; take the model that it was made from"):
        done(Order(str(tmp_path / "four"), tmp_path / "two", [asked_for(2)], proof=UNPROVEN))
    assert names(tmp_path) == {"four"}


def test_a_goal_cannot_be_previewed(tiny: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="the layers have to be measured"):
        preview(Order(str(tiny), tmp_path / "out", goal=Goal(size=1)), Listener(print, print, print))


def test_too_little_room_leaves_nothing(tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "need", lambda *given: Need(2, 1, 1, 1))
    with pytest.raises(SetupError, match="not enough room"):
        done(Order(str(tiny), tmp_path / "out", proof=UNPROVEN))
    assert names(tmp_path) == set()


def test_a_result_that_does_not_load_is_not_put_in_place(tmp_path: Path) -> None:
    """Its tokenizer lacks a token, as the fresh process finds."""
    source = write_tiny_whisper(tmp_path / "source")
    text = (source / "tokenizer.json").read_text("utf-8")
    (source / "tokenizer.json").write_text(text.replace("<|transcribe|>", "<|other|>"), "utf-8")
    with pytest.raises(SetupError, match=r"the converted model does not load: .*no <\|transcribe\|>"):
        done(Order(str(source), tmp_path / "out", proof=UNPROVEN))
    assert names(tmp_path) == {"source"}


# ---- the proof


def test_the_original_is_the_source_where_it_loads(
    tiny: Path, tmp_path: Path, loaded: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Path | None] = []
    monkeypatch.setattr(run, "_proven", lambda model, plan, *given: seen.append(plan.original))
    done(Order(str(tiny), tmp_path / "out"))
    assert seen == [tiny]


def test_else_it_is_written_for_as_long_as_it_is_compared(
    tmp_path: Path, loaded: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here the source lacks a tokenizer, so that it does not load."""
    source = write_tiny_whisper(tmp_path / "source")
    (source / "tokenizer.json").unlink()
    kept: list[Any] = []

    def prove(model: Any, plan: Plan, *given: Any) -> None:
        assert plan.original is not None
        kept.append(load_file(plan.original / "model.safetensors"))

    monkeypatch.setattr(run, "_proven", prove)
    done(Order(str(source), tmp_path / "out", [asked_for(bits) for bits in (8, 4)]))
    stored = load_file(source / "model.safetensors")
    for found in kept:
        assert all(np.array_equal(found[name], array) for name, array in stored.items())
    assert names(tmp_path) == {"source", "out-8bit", "out-4bit"}


def test_a_model_that_loses_too_much_is_not_made_and_the_others_are(
    tiny: Path, tmp_path: Path, loaded: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def prove(model: Any, plan: Plan, *given: Any) -> None:
        if model.place.target.name == "out-2bit":
            raise QualityLost("too much is lost")

    monkeypatch.setattr(run, "_proven", prove)
    results, _ = done(Order(str(tiny), tmp_path / "out", [asked_for(bits) for bits in (8, 2, 4)]))
    assert ["too much is lost" in result.refused for result in results] == [False, True, False]
    assert names(tmp_path) == {"out-8bit", "out-4bit"}


def test_an_old_model_outlives_a_new_one_that_loses_too_much(
    tiny: Path, tmp_path: Path, loaded: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    write_tiny_whisper(tmp_path / "out", seed=7)
    before = (tmp_path / "out" / "model.safetensors").read_bytes()

    def prove(*given: Any) -> None:
        raise QualityLost("too much is lost")

    monkeypatch.setattr(run, "_proven", prove)
    done(Order(str(tiny), tmp_path / "out", [Asked(2)], force=True))
    assert names(tmp_path) == {"out"}
    assert (tmp_path / "out" / "model.safetensors").read_bytes() == before


# ---- as processes


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_stop_leaves_nothing(tiny: Path, tmp_path: Path, number: signal.Signals, code: int) -> None:
    process = start(tiny, "-o", tmp_path / "out", SECONDS_PER_WEIGHT="0.2")
    until(lambda: (tmp_path / "out.partial" / "model" / "model.safetensors").exists(), process)
    process.send_signal(number)
    _, err = process.communicate(timeout=30)
    assert process.returncode == code, err
    assert names(tmp_path) == set()


def test_a_kill_leaves_the_old_model_and_the_next_run_clears_up(tiny: Path, tmp_path: Path, loaded: list[Path]) -> None:
    write_tiny_whisper(tmp_path / "out", seed=7)
    before = (tmp_path / "out" / "model.safetensors").read_bytes()
    process = start(tiny, "-o", tmp_path / "out", "--force", SECONDS_PER_WEIGHT="0.2")
    until(lambda: (tmp_path / "out.partial" / "model" / "model.safetensors").exists(), process)
    # Meanwhile it is nobody else's.
    with pytest.raises(LockedError, match=r"out\.partial is in use by"):
        done(Order(str(tiny), tmp_path / "out", force=True, proof=UNPROVEN))
    process.kill()
    process.communicate(timeout=30)
    assert (tmp_path / "out" / "model.safetensors").read_bytes() == before
    assert names(tmp_path) == {"out", "out.partial"}
    done(Order(str(tiny), tmp_path / "out", force=True, proof=UNPROVEN))
    assert names(tmp_path) == {"out"}
    assert (tmp_path / "out" / "model.safetensors").read_bytes() != before


@pytest.mark.skipif(sys.platform != "linux", reason="LD_PRELOAD")
def test_a_disk_that_is_full_in_the_middle(tiny: Path, tmp_path: Path) -> None:
    """The old model stays, and one line names the directory."""
    library = build(tmp_path)
    work = tmp_path / "work"
    write_tiny_whisper(work / "out", seed=7)
    before = (work / "out" / "model.safetensors").read_bytes()
    log = tmp_path / "calls"
    fault = {"LD_PRELOAD": str(library), "FAULT_ROOT": str(work), "FAULT_LOG": str(log), "FAULT_MODE": "torn"}
    process = start(tiny, "-o", work / "out", "--force", **fault, FAULT_AT="40")
    out, err = process.communicate(timeout=60)
    struck = [line for line in log.read_text().splitlines() if " fault " in line]
    assert struck[0].endswith("out.partial/model/model.safetensors")
    assert process.returncode == 3, err
    assert err.splitlines()[-1].startswith(f"mlxbatch: error: cannot write {work / 'out'}: the disk is full")
    assert (out, names(work)) == ("", {"out"})
    assert (work / "out" / "model.safetensors").read_bytes() == before


def test_weights_that_are_no_numbers_are_told_of(tmp_path: Path, loaded: list[Path]) -> None:
    source = write_tiny_whisper(tmp_path / "source")
    weights = load_file(source / "model.safetensors")
    weights["decoder.blocks.1.mlp1.weight"][3, 5] = np.nan
    save_file(weights, source / "model.safetensors")
    with pytest.raises(SetupError, match=r"source: decoder\.blocks\.1\.mlp1\.weight holds what is no finite number"):
        done(Order(str(source), tmp_path / "out", proof=UNPROVEN))
    assert names(tmp_path) == {"source"}
