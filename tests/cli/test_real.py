"""The program on real weights, end to end: thirteen recordings, all formats, the runs after the first, one by one."""

from __future__ import annotations

import csv
import json
import random
from collections.abc import Iterable
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from mlxbatch.quality import wer
from mlxbatch.writers import WRITERS
from mlxbatch.writers.schema import schema_text
from tests.near_ties import close

from .conftest import ROOT, Ran, finish, program

pytestmark = pytest.mark.real
EXAMPLES = ROOT / "examples"


def transcribe(formats: str, *arguments: str) -> Ran:
    process = program("transcribe", EXAMPLES, "-o", "out", "--offline", "--format", formats, "--json", *arguments)
    return finish(process, timeout=500)


def references() -> dict[str, str]:
    with (EXAMPLES / "texts.tsv").open(encoding="utf-8", newline="") as file:
        rows = csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
        return {row["file"].removesuffix(".wav"): row["text"] for row in rows}


def test_thirteen_recordings_from_end_to_end(whisper_base: Path) -> None:
    ran = transcribe("txt,srt,json", "--language", "en")
    assert ran.code == 0, ran.err
    assert (ran.summary["done"], ran.summary["failed"]) == (13, 0)
    wanted = references()
    texts = {name: Path(f"out/{name}.txt").read_text("utf-8") for name in wanted}
    assert wer(list(wanted.values()), list(texts.values())) < 0.15
    record = json.loads(Path("out/calls/demo-thanks.json").read_text("utf-8"))
    assert record["language"] == "en"
    assert record["segments"][0]["start"] < record["segments"][0]["end"] <= record["duration"]

    again = transcribe("txt,srt,json", "--language", "en")
    assert (again.code, again.summary["skipped"]) == (0, 13)

    rendered = transcribe(",".join(WRITERS), "--language", "en")
    assert (rendered.summary["rendered"], rendered.summary["windows"]) == (13, 0)
    for name in wanted:
        assert Path(f"out/{name}.txt").read_text("utf-8") == texts[name]
        assert Path(f"out/{name}.vtt").read_text("utf-8").startswith("WEBVTT\n\n00:00")
        json_is_as_its_schemas_say(name)
    the_same_one_by_one(wanted)


def the_same_one_by_one(names: Iterable[str]) -> None:
    """The shortest of them in a batch of one, named in any order: the bytes are those of the run over all."""
    paths = sorted((EXAMPLES / f"{name}.wav" for name in names), key=lambda path: path.stat().st_size)[:6]
    random.Random(1).shuffle(paths)
    asked = ("--batch-size", "1", "--workers", "0", "--language", "en", "--format", "txt,srt,json")
    ran = finish(program("transcribe", *paths, "-o", "alone", "--offline", *asked), timeout=500)
    assert ran.code == 0, ran.err
    for path in paths:
        beside, alone = (Path("out", *path.relative_to(EXAMPLES).parts), Path("alone", path.name))
        for form in (".txt", ".srt"):
            assert alone.with_suffix(form).read_bytes() == beside.with_suffix(form).read_bytes()
        records = [json.loads(one.with_suffix(".json").read_text("utf-8")) for one in (alone, beside)]
        assert close(*records), path.name


def json_is_as_its_schemas_say(name: str) -> None:
    record = json.loads(Path(f"out/{name}.json").read_text("utf-8"))
    lines = [json.loads(line) for line in Path(f"out/{name}.jsonl").read_text("utf-8").splitlines()]
    assert [line["text"] for line in lines] == [segment["text"] for segment in record["segments"]]
    for schema, written in (("transcript", [record]), ("line", lines)):
        validator = Draft202012Validator(json.loads(schema_text(schema)))
        for one in written:
            validator.validate(one)
