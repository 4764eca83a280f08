"""Limits: kept, exceeded, or not to be told."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from mlxbatch.convert.proof.gates import Gates
from mlxbatch.convert.proof.quality import Calibration, Divergence, Quality, Recognition, Weights
from mlxbatch.convert.proof.ratio import Estimate
from mlxbatch.errors import QualityLost, UsageError

WEIGHTS = Weights(1, 1, 8.0, "0")


def measured(*, loss: Estimate | None = None, kl: Estimate | None = None, words: int = 1000) -> Quality:
    divergence = Divergence(100, kl, 0.0, {}, 0.0, Estimate(1.0, 0.0)) if kl else None
    figures = Recognition(10, 0, 0, "greedy", wer_loss=loss, divergence=divergence)
    calibration = Calibration("clips", "0", 10, 60.0, words)
    return Quality("transcribe", "whisper", "full", WEIGHTS, WEIGHTS, calibration=calibration, recognition=figures)


def test_what_is_within_the_limits_passes() -> None:
    found = measured(loss=Estimate(0.001, 0.001), kl=Estimate(0.01, 0.002))
    Gates(max_wer_loss=0.3, max_kl=0.02).judge(found)
    Gates().judge(replace(found, recognition=None))


def test_a_model_that_gets_better_passes() -> None:
    Gates(max_wer_loss=0.3).judge(measured(loss=Estimate(-0.002, 0.001)))


def test_what_loses_more_is_refused_with_its_figures() -> None:
    with pytest.raises(QualityLost, match=r"loses 1 ± 0.2 points") as caught:
        Gates(max_wer_loss=0.3).judge(measured(loss=Estimate(0.01, 0.002)))
    assert caught.value.exit_code == 1
    with pytest.raises(QualityLost, match=r"--max-kl 0.02: .* 0.05 ± 0.01 nats a token"):
        Gates(max_kl=0.02).judge(measured(kl=Estimate(0.05, 0.01)))


@pytest.mark.parametrize("broken", [math.inf, math.nan])
def test_a_broken_model_is_refused(broken: float) -> None:
    with pytest.raises(QualityLost):
        Gates(max_kl=0.02).judge(measured(kl=Estimate(broken, None)))


@pytest.mark.parametrize("loss", [0.002, 0.004])
def test_within_a_standard_error_of_the_limit_nothing_is_told(loss: float) -> None:
    with pytest.raises(UsageError, match=r"0\.[24] ± 0.15 points .* too near to the limit"):
        Gates(max_wer_loss=0.3).judge(measured(loss=Estimate(loss, 0.0015)))


def test_texts_of_too_few_words_are_refused_before_the_work() -> None:
    with pytest.raises(UsageError, match="have 333 words, of which one is more than that limit; it takes 334"):
        Gates(max_wer_loss=0.3).foresee(333)
    Gates(max_wer_loss=0.3).foresee(334)
    Gates(max_kl=0.01).foresee(0)
    with pytest.raises(UsageError, match="have 333 words"):
        Gates(max_wer_loss=0.3).judge(measured(loss=Estimate(0.0, 0.0), words=333))


def test_one_clip_does_not_tell_how_sure_it_is() -> None:
    with pytest.raises(UsageError, match="one clip alone"):
        Gates(max_kl=0.02).judge(measured(kl=Estimate(0.001, None)))


def test_what_was_not_measured_keeps_no_limit() -> None:
    for gates in (Gates(max_kl=0.01), Gates(max_wer_loss=0.3)):
        with pytest.raises(UsageError, match="not measured"):
            gates.judge(measured())


@pytest.mark.parametrize("limit", [0.0, -1.0, math.inf, math.nan])
def test_a_limit_is_over_nothing(limit: float) -> None:
    with pytest.raises(UsageError, match="--max-kl is a number over 0"):
        Gates(max_kl=limit)
