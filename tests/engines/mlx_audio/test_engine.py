"""The engine over real forwards of tiny random models: one row or many, short and long, whole and broken."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest

from mlxbatch.engines import families
from mlxbatch.engines.mlx_audio.decoding import token_limit
from mlxbatch.engines.mlx_audio.engine import MlxAudioEngine, hearing
from mlxbatch.engines.mlx_audio.loading import load
from mlxbatch.errors import OutOfMemory
from mlxbatch.models import residency
from mlxbatch.types import Job, JobFailed, Output, TranscribeOptions
from tests.engines.mlx_audio.parts import ENGLISH, PIECE, engine_over, hear, job, outputs, said
from tests.engines.mlx_audio.tiny import MAKERS, NAMED, parakeet
from tests.jobs import Given

Engines = Callable[[str], MlxAudioEngine]
Models = Callable[[str], Path]
LENGTHS = (1.57, 1.0, 1.25, 0.3, 1.25, 1.95)


@pytest.mark.parametrize("name", MAKERS)
def test_a_row_says_in_a_batch_what_it_says_alone(engines: Engines, name: str) -> None:
    engine = engines(name)
    lengths = LENGTHS if engine._family.padding else LENGTHS[:2]  # one by one: no row has company
    jobs = [job(number, seconds, engine.sample_rate) for number, seconds in enumerate(lengths)]
    together = outputs(engine, jobs)
    for one in jobs:
        (alone,) = outputs(engine, [one])[one.id]
        assert said(together[one.id]) == said([alone])
        for here, there in zip(together[one.id][0].segments, alone.segments, strict=True):
            assert here.avg_logprob == pytest.approx(there.avg_logprob, abs=1e-4)


@pytest.mark.parametrize("name", NAMED)
def test_alone_it_says_what_mlx_audio_says(engines: Engines, name: str) -> None:
    engine = engines(name)
    one = job(0, 1.7, engine.sample_rate)
    samples, model = mx.array(one.samples), engine._model._model
    asked = {"language": "English" if name == "qwen3_asr" else "en"} if name in ("qwen3_asr", "cohere_asr") else {}
    asked |= {"max_tokens": ENGLISH.max_tokens}
    theirs = model.generate(samples, **(asked if name != "parakeet" else {"dtype": mx.float32}))
    (ours,) = outputs(engine, [one])[0]
    assert " ".join(segment.text for segment in ours.segments) == theirs.text.strip()


@pytest.mark.parametrize("kind", ["tdt", "rnnt", "ctc"])
def test_parakeets_of_every_kind_say_in_a_batch_what_mlx_audio_says(tmp_path: Path, kind: str) -> None:
    engine = engine_over(parakeet(tmp_path / kind, kind=kind))
    try:
        jobs = [job(number, seconds, engine.sample_rate) for number, seconds in enumerate((1.57, 1.0, 1.25))]
        found = outputs(engine, jobs)
        encoder = engine._model._encoder
        for one in jobs:
            engine._model._model.encoder = encoder
            theirs = engine._model._model.generate(mx.array(one.samples), dtype=mx.float32)
            (ours,) = found[one.id]
            assert [s.text for s in ours.segments] == [s.text.strip() for s in theirs.sentences if s.text.strip()]
            assert ours.stats.tokens == sum(len(s.tokens) for s in theirs.sentences)
            for here, there in zip(ours.segments, theirs.sentences, strict=False):
                assert (here.start, here.end) == pytest.approx((there.start, min(there.end, one.seconds)), abs=1e-3)
                assert all(0 < word.probability <= 1 or kind != "tdt" for word in here.words)
                assert "".join(word.text for word in here.words).strip() == here.text
    finally:
        engine.close()


@pytest.mark.parametrize("name", MAKERS)
def test_what_is_said_depends_on_what_is_heard(engines: Engines, name: str) -> None:
    """Else the test above would show nothing."""
    engine = engines(name)
    found = outputs(engine, [job(number, 1.2 + number / 5, engine.sample_rate) for number in range(4)])
    assert len({str([(s.text, s.avg_logprob, s.words) for s in one.segments]) for (one,) in found.values()}) > 1


@pytest.mark.parametrize("name", NAMED)
def test_a_long_recording_is_heard_in_pieces_whose_times_fit_together(engines: Engines, name: str) -> None:
    engine = engines(name)
    long, short = job(0, 5.0, engine.sample_rate), job(1, 1.5, engine.sample_rate)
    found = outputs(engine, [long, short])
    pieces = found[0]
    assert [one.window for one in pieces] == list(range(len(pieces)))
    assert [one.last for one in pieces] == [False] * (len(pieces) - 1) + [True]
    assert len(pieces) in (3, 4)
    ends = [one.stats.start + one.stats.seconds for one in pieces]
    assert pieces[0].stats.start == 0.0
    assert [one.stats.start for one in pieces[1:]] == pytest.approx(ends[:-1])
    assert ends[-1] == pytest.approx(5.0)
    for one, end in zip(pieces, ends, strict=True):
        assert one.stats.seconds <= PIECE
        for segment in one.segments:
            assert one.stats.start - 1e-3 <= segment.start <= segment.end <= end + 1e-3


def test_pieces_without_context_are_those_of_recordings_of_their_own(engines: Engines) -> None:
    engine = engines("cohere_asr")
    whole = job(0, 2.9, engine.sample_rate)
    first, second = outputs(engine, [whole])[0]
    cut = round(second.stats.start * engine.sample_rate)
    parts = [replace(whole, id=n, samples=s, seconds=len(s) / engine.sample_rate) for n, s in _halves(whole, cut)]
    apart = outputs(engine, parts)
    assert [s.text for s in first.segments] == [s.text for s in apart[0][0].segments]
    assert [s.text for s in second.segments] == [s.text for s in apart[1][0].segments]


def _halves(whole: Job, cut: int) -> list[tuple[int, np.ndarray]]:
    return [(0, whole.samples[:cut]), (1, whole.samples[cut:])]


@pytest.mark.parametrize("name", ["qwen3_asr", "vibevoice_asr"])
def test_a_piece_is_told_the_text_before_it(engines: Engines, name: str) -> None:
    """Its first piece says what it says alone; the second is heard as if the first one's text were its prompt."""
    engine = engines(name)
    whole = job(0, 2.9, engine.sample_rate)
    first, second = outputs(engine, [whole])[0]
    cut = round(second.stats.start * engine.sample_rate)
    told = replace(ENGLISH, prompt=" ".join(segment.text for segment in first.segments))
    rest = replace(whole, samples=whole.samples[cut:], seconds=2.9 - second.stats.start, options=told)
    (alone,) = outputs(engine, [rest])[0]
    assert [s.text for s in second.segments] == [s.text for s in alone.segments]
    assert second.segments[0].avg_logprob == pytest.approx(alone.segments[0].avg_logprob, abs=1e-4)
    (untold,) = outputs(engine, [replace(rest, options=ENGLISH)])[0]
    assert untold.segments[0].avg_logprob != pytest.approx(alone.segments[0].avg_logprob, abs=1e-4)


@pytest.mark.parametrize("name", ["qwen3_asr", "vibevoice_asr"])
def test_a_prompt_and_hotwords_reach_the_model(engines: Engines, name: str) -> None:
    engine = engines(name)
    asked = [ENGLISH, replace(ENGLISH, prompt="A call."), replace(ENGLISH, hotwords=("Zebra", "Quagga"))]
    found = outputs(engine, [job(n, 2.0, engine.sample_rate, options, seed=7) for n, options in enumerate(asked)])
    assert len({one[0].segments[0].avg_logprob for one in found.values()}) == 3


@pytest.mark.parametrize("name", ["qwen3_asr", "cohere_asr"])
def test_rows_of_one_batch_may_have_different_languages(engines: Engines, name: str) -> None:
    engine = engines(name)
    german = replace(ENGLISH, language="de")
    jobs = [job(0, 2.0, engine.sample_rate, ENGLISH, seed=3), job(1, 2.0, engine.sample_rate, german, seed=3)]
    found = outputs(engine, jobs)
    assert [found[n][0].language for n in (0, 1)] == ["en", "de"]
    for one in jobs:
        assert said(outputs(engine, [one])[one.id]) == said(found[one.id])


@pytest.mark.parametrize("name", ["qwen3_asr", "cohere_asr"])
def test_a_language_that_the_model_lacks_fails_that_recording_alone(engines: Engines, name: str) -> None:
    engine = engines(name)
    jobs = [job(0, 1.0, engine.sample_rate), job(1, 1.0, engine.sample_rate, replace(ENGLISH, language="pl"))]
    events = {event.job_id: event for event in hear(engine, jobs)}
    assert isinstance(events[0], Output)
    failed = events[1]
    assert isinstance(failed, JobFailed)
    assert "does not know the language 'pl'" in failed.cause


def test_without_a_language_cohere_says_what_to_give(engines: Engines) -> None:
    engine = engines("cohere_asr")
    (failed,) = hear(engine, [job(0, 1.0, engine.sample_rate, TranscribeOptions())])
    assert isinstance(failed, JobFailed)
    assert failed.cause.startswith("Cohere ASR does not detect the language: give --language")


# fireredasr2's tiny model says nothing, of a stream only its chunks have a limit.
LIMITED = [one for one in MAKERS if one not in ("fireredasr2", "vibevoice_streaming")]


@pytest.mark.parametrize("name", LIMITED)
def test_a_text_that_comes_to_the_limit_is_told_as_cut(engines: Engines, name: str) -> None:
    engine = engines(name)
    found = outputs(engine, [job(0, 1.8, engine.sample_rate, replace(ENGLISH, max_tokens=2))])
    limited = "max_tokens" in engine._family.takes
    assert found[0][0].stats.cut == limited
    assert not limited or found[0][0].stats.tokens == 2


ONE_BY_ONE = ("moonshine", "canary", "glmasr", "granite_speech", "qwen2_audio", "moss_transcribe_diarize")


@pytest.mark.parametrize("name", ONE_BY_ONE)
def test_a_long_text_is_seen_to_come_on_token_by_token(engines: Engines, name: str) -> None:
    """Else the watchdog would take a recording with thousands of tokens for a stall."""
    engine = engines(name)
    steps = []
    for most in (2, 12):
        before = engine.pulse().progress
        (found,) = outputs(engine, [job(0, 1.8, engine.sample_rate, replace(ENGLISH, max_tokens=most))])[0]
        assert found.stats.tokens == most
        steps.append(engine.pulse().progress - before)
    assert steps[1] - steps[0] >= 10


def test_a_part_is_watched_once_and_its_weights_still_count(models: Models) -> None:
    """A model that another engine has used is the same model."""
    model = load(models("moss_transcribe_diarize"), families.MOSS, mx.float32, dequantized=True)
    before = residency.weight_bytes(model)
    first = hearing(model, families.MOSS)
    assert residency.weight_bytes(model) == before
    hearing(model, families.MOSS)
    assert residency.weight_bytes(model) == before
    assert not isinstance(first._watched.module, type(first._watched))


@pytest.mark.parametrize("kind", ["tdt", "rnnt"])
def test_a_parakeet_stays_at_no_frame_for_ever(tmp_path: Path, kind: str) -> None:
    """Its config need not bound the tokens of a frame; this one says the same word on and on."""
    directory = parakeet(tmp_path / kind, kind=kind)
    config = json.loads((directory / "config.json").read_text("utf-8"))
    config["decoding"]["greedy"] = {}
    (directory / "config.json").write_text(json.dumps(config))
    with closing(engine_over(directory)) as engine:
        last, model = engine._model._model.joint.joint_net[-1], engine._model._model
        scores = np.zeros(last.bias.shape, np.float32)
        scores[3] = 9.0
        if kind == "tdt":
            scores[model.blank_id + 1 + model.durations.index(0)] = 9.0
        last.weight, last.bias = mx.zeros_like(last.weight), mx.array(scores)
        (found,) = outputs(engine, [job(0, 1.0, engine.sample_rate)])[0]
    assert found.stats.tokens % 10 == 0
    assert found.stats.tokens >= 10 * 12


def test_a_text_that_ends_by_itself_is_not(engines: Engines) -> None:
    engine = engines("glmasr")
    (found,) = outputs(engine, [job(0, 1.8, engine.sample_rate, replace(ENGLISH, max_tokens=None))])[0]
    assert 0 < found.stats.tokens < token_limit(1.8, None, 1000)
    assert not found.stats.cut


@pytest.mark.parametrize("name", NAMED)
def test_silence_and_nothing_at_all_have_no_text(engines: Engines, name: str) -> None:
    engine = engines(name)
    silent = replace(job(0, 2.0, engine.sample_rate), samples=np.zeros(2 * engine.sample_rate, np.float32))
    nothing = replace(job(1, 0.0, engine.sample_rate), samples=np.zeros(0, np.float32), seconds=0.0)
    found = outputs(engine, [silent, nothing])
    assert [(one.segments, one.last, one.stats.tokens) for (one,) in found.values()] == [((), True, 0)] * 2


@pytest.mark.parametrize("name", MAKERS)
def test_a_row_of_nan_fails_by_itself(engines: Engines, name: str) -> None:
    engine = engines(name)
    good, bad = job(0, 2.0, engine.sample_rate), job(1, 2.0, engine.sample_rate)
    bad.samples[100:200] = np.nan
    events = {event.job_id: event for event in hear(engine, [good, bad])}
    assert events[1] == JobFailed(1, "the model gave NaN")
    fine = events[0]
    assert isinstance(fine, Output)
    assert said([fine]) == said(outputs(engine, [good])[0])


def test_a_failed_piece_fails_its_recording_once_and_says_from_where(engines: Engines) -> None:
    engine = engines("cohere_asr")
    long, other = job(0, 6.0, engine.sample_rate), job(1, 2.0, engine.sample_rate)
    long.samples[3 * engine.sample_rate :] = np.nan
    events = hear(engine, [long, other])
    failed = [event for event in events if isinstance(event, JobFailed)]
    assert [one.job_id for one in failed] == [0]
    assert failed[0].cause.startswith("from ")
    assert failed[0].cause.endswith("s on: the model gave NaN")
    assert [event.last for event in events if event.job_id == 1 and isinstance(event, Output)] == [True]


@pytest.mark.parametrize("name", NAMED)
def test_the_need_of_a_piece_is_what_it_takes_or_more(engines: Engines, name: str) -> None:
    engine = engines(name)
    for seconds in (1.0, 1.9):
        one = job(0, seconds, engine.sample_rate)
        outputs(engine, [one])  # what is made once, such as positions, is not of this piece
        engine.reclaim()
        engine.readings()
        before = mx.get_active_memory()
        outputs(engine, [one])
        taken = engine.readings().peak - before + one.samples.nbytes
        assert taken <= engine.need(seconds) <= 20 * taken


def test_need_grows_with_a_piece_and_then_only_with_the_samples(engines: Engines) -> None:
    engine = engines("parakeet")
    assert engine.need(1.0) < engine.need(PIECE)
    assert engine.need(3602.0) - engine.need(PIECE) == pytest.approx(4 * 16_000 * 3600, rel=1e-3)


def test_no_memory_for_a_batch_is_half_the_batch(engines: Engines, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = engines("parakeet")
    jobs = [job(number, 1.0, engine.sample_rate) for number in range(4)]
    wanted, hearing, sizes = outputs(engine, jobs), engine._model, []

    class Short:
        problem = staticmethod(hearing.problem)

        def hear(self, cuts, tick):  # type: ignore[no-untyped-def]
            sizes.append(len(cuts))
            if len(cuts) > 2:
                raise RuntimeError("[metal::malloc] Attempting to allocate 99 bytes")
            return hearing.hear(cuts, tick)

    monkeypatch.setattr(engine, "_model", Short())
    assert {n: said(one) for n, one in outputs(engine, jobs).items()} == {n: said(one) for n, one in wanted.items()}
    assert sizes == [4, 2, 2]
    assert engine.readings().shortages == 1


def test_a_batch_without_memory_may_hold_pieces_of_a_recording_that_failed(
    engines: Engines, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It comes again with them in it; nobody asks what they were."""
    engine = engines("parakeet")
    bad, good = job(0, 12.0, engine.sample_rate), job(1, 1.0, engine.sample_rate)
    bad.samples[:] = np.nan
    wanted, hear_it, calls = outputs(engine, [good])[1], engine._model.hear, []

    def short_once(cuts, tick):  # type: ignore[no-untyped-def]
        calls.append([cut.job.id for cut in cuts])
        if calls.count([1]) == 1:
            raise OutOfMemory("no room")
        return hear_it(cuts, tick)

    monkeypatch.setattr(engine._model, "hear", short_once)
    failed, heard = hear(engine, [bad, good])
    assert calls[-2:] == [[1], [1]]
    assert isinstance(failed, JobFailed)
    assert isinstance(heard, Output)
    assert said([heard]) == said(wanted)


def test_what_mlx_audio_raises_over_a_piece_is_that_recording_s(
    engines: Engines, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = engines("qwen3_asr")
    jobs = [job(number, 1.0 + 0.1 * number, engine.sample_rate) for number in range(3)]
    wanted, prompt = outputs(engine, jobs), engine._model._prompt

    def fussy(cut, language):  # type: ignore[no-untyped-def]
        if cut.job.item_id == "item1":
            raise ValueError("this sound is not to my taste\nat all")
        return prompt(cut, language)

    monkeypatch.setattr(engine._model, "_prompt", fussy)
    events = {event.job_id: event for event in hear(engine, jobs)}
    assert events[1] == JobFailed(1, "Qwen3-ASR: ValueError: this sound is not to my taste")
    for number in (0, 2):
        event = events[number]
        assert isinstance(event, Output)
        assert said([event]) == said(wanted[number])


def test_a_piece_that_does_not_fit_alone_fails_its_recording(engines: Engines, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = engines("parakeet")

    def hear_nothing(cuts, tick):  # type: ignore[no-untyped-def]
        raise OutOfMemory("no room")

    monkeypatch.setattr(engine._model, "hear", hear_nothing)
    (failed,) = hear(engine, [job(5, 1.0, engine.sample_rate)])
    assert failed == JobFailed(5, "needs more memory than there is, even alone: no room")


@pytest.mark.parametrize("name", NAMED)
def test_nothing_is_printed_and_progress_is_seen(models: Models, name: str, capfd: pytest.CaptureFixture[str]) -> None:
    engine = engine_over(models(name))
    before = engine.pulse().progress
    outputs(engine, [job(0, 2.0, engine.sample_rate)])
    assert engine.pulse().progress > before + 2
    assert {span.stage for span in engine.readings().spans} == {"infer"}
    engine.close()
    assert capfd.readouterr() == ("", "")


def test_a_quantized_checkpoint_says_what_its_dequantized_weights_say(models: Models, tmp_path: Path) -> None:
    """On the CPU it is the same network; what is compared is that each layer got its own numbers back."""
    from tests.engines.mlx_audio.tiny import quantized

    directory = tmp_path / "packed"
    shutil.copytree(models("qwen3_asr"), directory)
    plain = quantized(directory, tmp_path / "plain")
    heard = []
    for path in (directory, plain):
        engine = engine_over(path)
        heard.append(said(outputs(engine, [job(0, 2.0, engine.sample_rate)])[0]))
        engine.close()
    assert heard[0] == heard[1]


def test_pieces_wait_for_no_job_that_is_not_ready(engines: Engines) -> None:
    """A recording's later pieces go on while the next recording is still being decoded."""
    engine = engines("qwen3_asr")
    jobs = [job(0, 2.9, engine.sample_rate), job(1, 1.0, engine.sample_rate)]
    order = [event.job_id for event in engine.run(Given(jobs, ready=lambda: False), lambda live: 100)]
    assert order == [0, 0, 1]
