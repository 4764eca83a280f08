"""Profiles and settings files: precedence, and each error with its file, line and key."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mlxbatch import profile as profiles
from mlxbatch.budget import parse_amount
from mlxbatch.errors import UsageError
from mlxbatch.hardware import Hardware
from mlxbatch.profile import Loaded, available, load, package_profiles, parse_bytes
from mlxbatch.toml_lines import line_of

GIB = 2**30
LINUX = Hardware("linux", "x86_64", "none", 16 * GIB)
PROFILES = sorted(package_profiles().glob("*.toml"))
PRESETS = sorted((package_profiles() / "presets").glob("*.toml"))
NAMES = "apple-m1, apple-m2, apple-m3, apple-m4, apple-m5, apple-silicon, linux-cpu, linux-cuda"


def a_mac(chip: str, cores: int | None = None, gib: int = 16) -> Hardware:
    return Hardware("darwin", "arm64", "metal", gib * GIB, chip, cores)


class Place:
    """A project folder and a user folder of their own."""

    def __init__(self, root: Path) -> None:
        self.project, self.user = root / "project" / "mlxbatch.toml", root / "user"
        self.project.parent.mkdir()
        (self.user / "profiles").mkdir(parents=True)

    def load(self, name: str | None = None, **overrides: object) -> Loaded:
        dotted = {key.replace("__", "."): value for key, value in overrides.items()}
        return load(name, overrides=dotted, project=self.project, user_dir=self.user)

    def fails(self, name: str | None = None, **overrides: object) -> str:
        with pytest.raises(UsageError) as caught:
            self.load(name, **overrides)
        message = str(caught.value)
        assert "\n" not in message
        return message


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    stand_on(monkeypatch, LINUX)
    return Place(tmp_path)


def stand_on(monkeypatch: pytest.MonkeyPatch, here: Hardware) -> None:
    monkeypatch.setattr(profiles, "this_hardware", lambda: here)


def settings_of(path: Path) -> list[tuple[int, str]]:
    """(line number from 0, line) of each assignment below the head of a profile or preset."""
    lines = path.read_text().split("\n")
    head = next(n for n, line in enumerate(lines) if line.startswith("["))
    return [(n, line) for n, line in enumerate(lines) if n > head and "=" in line and not line.startswith("#")]


@pytest.mark.parametrize("path", PROFILES, ids=lambda path: path.stem)
def test_each_profile_of_the_package_is_valid(path: Path, place: Place) -> None:
    loaded = place.load(path.stem)
    assert loaded.profile.name == path.stem
    assert loaded.sources[-1] == path
    assert parse_amount(loaded.profile.device.memory_limit, 16 * 10**9) > parse_bytes("1GB")
    assert 8 <= loaded.profile.transcribe.batch_size <= 16


@pytest.mark.parametrize("path", [*PROFILES, *PRESETS], ids=lambda path: path.stem)
def test_every_setting_that_comes_with_the_package_has_a_comment(path: Path) -> None:
    lines = path.read_text().split("\n")
    conditions = ("memory_from", "memory_below", "gpu_cores_from", "gpu_cores_below")
    bare = [
        line
        for n, line in settings_of(path)
        # Those of a rule may stand below the comment of the rule itself.
        if not line.startswith(conditions) and not lines[n - 1].startswith(("#", *conditions))
    ]
    assert bare == []
    if "base" not in path.read_text() and path not in PRESETS:
        assert len(settings_of(path)) > 10


@pytest.mark.parametrize("path", [path for path in PROFILES if path.stem != "linux-cpu"], ids=lambda path: path.stem)
def test_a_profile_of_a_gpu_says_that_it_was_not_measured(path: Path) -> None:
    text = path.read_text()
    assert "NOTHING IN THIS FILE WAS MEASURED ON A" in text
    assert "measured)" not in text.replace("not measured on a Mac)", "").replace("not measured)", "")


def test_precedence_flags_project_user_profile_defaults(place: Place) -> None:
    (place.user / "config.toml").write_text("[transcribe]\nbatch_size = 2\nencode_rows = 2\n[pipeline]\nworkers = 5\n")
    place.project.write_text("transcribe.batch_size = 3\ntranscribe.encode_rows = 3\n")
    found = place.load(transcribe__batch_size=4, transcribe__dtype=None)
    assert found.profile.transcribe.batch_size == 4
    assert found.profile.transcribe.encode_rows == 3
    assert found.profile.pipeline.workers == 5
    assert found.profile.transcribe.encode_streams == 2
    assert found.profile.transcribe.dtype == "float32"
    assert found.profile.device.wired_limit == "none"
    assert found.sources == (package_profiles() / "linux-cpu.toml", place.user / "config.toml", place.project)


def test_a_value_that_a_higher_layer_replaces_is_not_judged(place: Place) -> None:
    place.project.write_text("[transcribe]\nbatch_size = 900\n")
    assert place.load(transcribe__batch_size=4).profile.transcribe.batch_size == 4


@pytest.mark.parametrize(
    ("here", "name"),
    [
        (LINUX, "linux-cpu"),
        (Hardware("linux", "arm64", "none", 4 * GIB), "linux-cpu"),
        (Hardware("linux", "x86_64", "cuda", 64 * GIB), "linux-cuda"),
        (a_mac("Apple M1", 7, 8), "apple-m1"),
        (a_mac("Apple M2 Ultra", 76, 192), "apple-m2"),
        (a_mac("Apple M3 Pro"), "apple-m3"),
        (a_mac("Apple M4 Max", 40, 128), "apple-m4"),
        (a_mac("Apple M5", 10), "apple-m5"),
        (a_mac("Apple M17", 10), "apple-silicon"),
        (a_mac(""), "apple-silicon"),
    ],
    ids=lambda value: value.words if isinstance(value, Hardware) else value,
)
def test_without_a_name_the_nearest_profile_is_taken(
    place: Place, monkeypatch: pytest.MonkeyPatch, here: Hardware, name: str
) -> None:
    stand_on(monkeypatch, here)
    loaded = place.load()
    assert loaded.profile.name == name
    assert loaded.notes == ()
    assert loaded.why == here.words


@pytest.mark.parametrize("platform", ["darwin", "freebsd14"])
def test_where_no_profile_fits_the_one_that_works_anywhere_is_taken(
    place: Place, monkeypatch: pytest.MonkeyPatch, platform: str
) -> None:
    stand_on(monkeypatch, here := Hardware(platform, "x86_64", "none", 16 * GIB))
    loaded = place.load()
    assert loaded.profile.name == "linux-cpu"
    assert loaded.notes[0] == f"no profile for {here.words}: linux-cpu is used"


@pytest.mark.parametrize(
    ("here", "batch", "rows", "limit", "cache"),
    [
        (a_mac("Apple M1", 8, 8), 8, 4, "75%", "256MB"),
        (a_mac("Apple M1 Pro", 16, 16), 12, 8, "80%", "1GB"),
        (a_mac("Apple M3 Pro", 18, 18), 12, 8, "80%", "1GB"),
        (a_mac("Apple M4", 10, 24), 16, 4, "90%", "2GB"),
        (a_mac("Apple M3 Max", 30, 36), 16, 16, "90%", "2GB"),
        (a_mac("Apple M2 Ultra", 60, 192), 16, 16, "90%", "4GB"),
        (a_mac("Apple M5", 10, 16), 12, 8, "80%", "1GB"),
        (a_mac("Apple M5 Pro", 20, 64), 16, 16, "90%", "4GB"),
        (a_mac("Apple M4 Pro", None, 48), 16, 8, "90%", "2GB"),
    ],
    ids=lambda value: value.words if isinstance(value, Hardware) else "",
)
def test_memory_and_cores_decide_within_a_family(
    place: Place, monkeypatch: pytest.MonkeyPatch, here: Hardware, batch: int, rows: int, limit: str, cache: str
) -> None:
    stand_on(monkeypatch, here)
    found = place.load().profile
    assert (found.transcribe.batch_size, found.transcribe.encode_rows) == (batch, rows)
    assert (found.device.memory_limit, found.device.cache_limit) == (limit, cache)
    assert (found.device.kind, found.transcribe.dtype) == ("gpu", "float16")


def test_a_profile_for_another_machine_is_used_with_a_note_and_the_cpu(place: Place) -> None:
    loaded = place.load("apple-m4")
    assert loaded.notes == (
        "profile apple-m4 is meant for darwin on arm64, Apple M4; this is linux on x86_64, no GPU that MLX can use, "
        "16 GiB: it is used with the CPU, in float32",
    )
    assert (loaded.profile.device.kind, loaded.profile.device.blas) == ("cpu", "openblas")
    assert (loaded.profile.transcribe.dtype, loaded.profile.transcribe.encode_rows) == ("float32", 8)
    place.project.write_text('[device]\nkind = "gpu"\n[transcribe]\ndtype = "float16"\n')
    found = place.load("linux-cuda")  # whoever insists gets it
    assert (found.profile.device.kind, found.profile.transcribe.dtype) == ("gpu", "float16")
    assert found.notes[0].startswith("profile linux-cuda is meant for linux on any, CUDA; this is")


def test_on_a_machine_with_a_gpu_of_its_own_it_keeps_that(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_on(monkeypatch, a_mac("Apple M2", 10, 24))
    loaded = place.load("apple-m4")
    assert loaded.notes == (
        "profile apple-m4 is meant for darwin on arm64, Apple M4; this is darwin on arm64, Apple M2, 10 GPU cores, "
        "24 GiB",
    )
    assert loaded.profile.device.kind == "gpu"
    assert place.load("linux-cpu").profile.device.kind == "cpu"


def test_settings_files_choose_the_profile_and_the_flag_wins(place: Place) -> None:
    (place.user / "config.toml").write_text('profile = "apple-silicon"\n')
    assert place.load().profile.name == "apple-silicon"
    place.project.write_text('profile = "./mine.toml"\n')
    (place.project.parent / "mine.toml").write_text('schema = 1\nname = "mine"\n')
    assert place.load().profile.name == "mine"
    assert place.load("linux-cpu").profile.name == "linux-cpu"


def test_a_user_profile_stands_before_the_package_s(place: Place) -> None:
    (place.user / "profiles" / "linux-cpu.toml").write_text('schema = 1\nname = "linux-cpu"\ndescription = "mine"\n')
    (place.user / "profiles" / "studio.toml").write_text('schema = 1\nname = "studio"\n')
    assert place.load("linux-cpu").profile.description == "mine"
    assert available(place.user) == [*NAMES.split(", "), "studio"]
    assert place.load().profile.description != "mine"


def test_an_unknown_key_names_file_line_and_the_right_key(place: Place) -> None:
    place.project.write_text("# mine\n[pipeline]\nworkers = 1\n\n[transcribe]\nbatch_sise = 4\n")
    assert place.fails() == (
        f"{place.project}:6: unknown key 'transcribe.batch_sise'; did you mean 'transcribe.batch_size'?"
    )


@pytest.mark.parametrize(
    ("text", "line", "key", "right"),
    [
        ("batch_size = 4\n", 1, "batch_size", "transcribe.batch_size"),
        ("[transcribe]\nworkers = 4\n", 2, "transcribe.workers", "pipeline.workers"),
        ("[transcibe]\nbatch_size = 4\n", 1, "transcibe", "transcribe"),
        ("transcribe = {batch = 3}\n", 1, "transcribe.batch", "transcribe.batch_size"),
        ("device . 'memory-limit' = '1GB'\n", 1, "device.memory-limit", "device.memory_limit"),
        ('profil = "linux-cpu"\n', 1, "profil", "profile"),
    ],
)
def test_the_nearest_right_key_is_found_in_any_table(place: Place, text: str, line: int, key: str, right: str) -> None:
    place.project.write_text(text)
    assert place.fails() == f"{place.project}:{line}: unknown key {key!r}; did you mean {right!r}?"


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        (
            '[decode.raw]\nvox8 = "mulow 8000 1"\n',
            2,
            "decode.raw.vox8 = \"mulow 8000 1\": unknown encoding 'mulow'; did you mean 'mulaw'?",
        ),
        (
            'decode.raw.".vox8" = "mulaw 8"\n',
            1,
            'decode.raw..vox8 = "mulaw 8": the sample rate must be from 1000 to 1000000 Hz, not 8',
        ),
        (
            "[decode.raw]\n\nvox8 = 8000\n",
            3,
            "decode.raw.vox8 = 8000: must be an encoding, with",
        ),
        ('[decode.raw]\n"a.b" = "mulaw"\n', 1, "decode.raw = {'a.b': 'mulaw'}: 'a.b' is no file name suffix"),
        ('[decode]\nrow = "mulaw"\n', 2, "unknown key 'decode.row'; did you mean 'decode.raw'?"),
    ],
)
def test_a_wrong_rule_for_headerless_recordings(place: Place, text: str, line: int, words: str) -> None:
    place.project.write_text(text)
    assert place.fails().startswith(f"{place.project}:{line}: {words}")


def test_rules_for_headerless_recordings_lie_over_one_another(place: Place) -> None:
    (place.user / "config.toml").write_text('[decode.raw]\nvox8 = "alaw"\nx = "gsm"\n')
    place.project.write_text('decode.raw.".VOX8" = "mulaw 16000"\n')
    assert place.load().profile.decode.raw == {"vox8": "mulaw 16000", "x": "gsm"}


@pytest.mark.parametrize(
    ("text", "line", "key", "shown", "allowed"),
    [
        ("[transcribe]\nbatch_size = 65\n", 2, "transcribe.batch_size", "65", "from 1 to 64"),
        ("[transcribe]\nbatch_size = '8'\n", 2, "transcribe.batch_size", '"8"', "a whole number"),
        ("[transcribe]\nbatch_size = true\n", 2, "transcribe.batch_size", "true", "a whole number"),
        ("[transcribe]\nbatch_size = 8.0\n", 2, "transcribe.batch_size", "8.0", "a whole number"),
        ("[transcribe]\ndtype = 'int8'\n", 2, "transcribe.dtype", '"int8"', '"float32", "float16" or "bfloat16"'),
        ("[transcribe]\nchannels = true\n", 2, "transcribe.channels", "true", '"mix", "split", or a channel'),
        ("[transcribe]\nchannels = '1'\n", 2, "transcribe.channels", '"1"', '"mix", "split", or a channel'),
        ("[device]\nmemory_limit = 'lots'\n", 2, "device.memory_limit", '"lots"', 'such as "12GB"'),
        ("[device]\nmemory_limit = '120%'\n", 2, "device.memory_limit", '"120%"', 'such as "75%"'),
        ("[device]\nwired_limit = 'all'\n", 2, "device.wired_limit", '"all"', '"none", "auto"'),
        ("[transcribe]\nbits = 7\n", 2, "transcribe.bits", "7", '8 (weights are quantized on loading), or "none"'),
        ("[transcribe]\nchannels = 'both'\n", 2, "transcribe.channels", '"both"', '"mix", "split", or a channel'),
        ("[transcribe]\nchannels = -1\n", 2, "transcribe.channels", "-1", "counted from 0"),
        ("[transcribe]\nsegment_seconds = 0.0\n", 2, "transcribe.segment_seconds", "0.0", "from 1 to 3600"),
        ("[transcribe]\nsegment_seconds = nan\n", 2, "transcribe.segment_seconds", "nan", "from 1 to 3600"),
        ("[transcribe]\nbatch_size.rows = 8\n", 2, "transcribe.batch_size", "{'rows': 8}", "a whole number"),
        ("[transcribe.batch_size]\nrows = 8\n", 1, "transcribe.batch_size", "{'rows': 8}", "a whole number"),
        ("transcribe = [1]\n", 1, "transcribe", "[1]", "a table, [transcribe]"),
        ("[pipeline]\nprefetch_bytes = '50%'\n", 2, "pipeline.prefetch_bytes", '"50%"', '"512MB"'),
        ("schema = 2\n", 1, "schema", "2", "1, the version that this program reads"),
        ("device = 3\n", 1, "device", "3", "a table, [device]"),
    ],
)
def test_a_wrong_value_names_file_line_key_and_what_is_allowed(
    place: Place, text: str, line: int, key: str, shown: str, allowed: str
) -> None:
    place.project.write_text(text)
    message = place.fails()
    assert message.startswith(f"{place.project}:{line}: {key} = {shown}: must be ")
    assert allowed in message


def test_the_file_that_holds_the_wrong_value_is_named(place: Place) -> None:
    (place.user / "config.toml").write_text("[transcribe]\nbatch_size = 0\n")
    place.project.write_text("[transcribe]\nencode_rows = 2\n")
    assert place.fails().startswith(f"{place.user / 'config.toml'}:2: transcribe.batch_size = 0")
    assert place.fails(transcribe__batch_size=99).startswith(
        "--batch-size or MLXBATCH_BATCH_SIZE: transcribe.batch_size = 99"
    )


def test_a_value_of_several_types_is_one_problem(place: Place) -> None:
    place.project.write_text("[transcribe]\nchannels = 'both'\n")
    assert place.fails().endswith("counted from 0")


def test_further_problems_are_counted(place: Place) -> None:
    place.project.write_text("[transcribe]\nbatch_size = 0\nfoo = 1\n[device]\nkind = 'tpu'\n")
    assert place.fails().endswith("(and 2 more)")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a = 1\nb = = 2\n", 2),
        ("a = 1\n\n[device\n", 3),
        ('a = """x\ny', 2),
        ("name = 'a'\nname = 'b'\n", 2),
        ("[device]\nkind = 'cpu'\n[pipeline]\n[device]\n", 4),
        ("[pipeline]\nworkers = 1\nworkers = 2\n", 3),
    ],
)
def test_a_syntax_error_names_file_and_line(place: Place, text: str, line: int) -> None:
    place.project.write_text(text)
    assert place.fails().startswith(f"{place.project}:{line}: not valid TOML: ")


def test_a_byte_order_mark_is_passed_over_and_other_encodings_are_refused(place: Place) -> None:
    place.project.write_bytes("\ufeff[pipeline]\nworkers = 1\n".encode())
    assert place.load().profile.pipeline.workers == 1
    place.project.write_bytes(b"name = '\xff'\n")
    assert place.fails() == f"{place.project}: not UTF-8 text"


def test_a_settings_file_that_cannot_be_read_is_not_passed_over(place: Place) -> None:
    place.project.mkdir()
    assert place.fails() == f"cannot read {place.project}: Is a directory"


def test_an_unknown_profile_names_the_nearest_and_lists_all(place: Place) -> None:
    assert place.fails("linux_cpu") == (
        f"--profile: unknown profile 'linux_cpu'; did you mean 'linux-cpu'? (there are: {NAMES})"
    )
    assert place.fails("zzz") == f"--profile: unknown profile 'zzz' (there are: {NAMES})"
    place.project.write_text('# a\nprofile = "aple"\n')
    assert place.fails().startswith(f"{place.project}:2: unknown profile 'aple'")
    place.project.write_text("profile = 3\n")
    assert place.fails().startswith(f"{place.project}:1: profile = 3: must be a profile's name or file")


def test_a_profile_file_that_is_not_there_and_one_without_schema(place: Place, tmp_path: Path) -> None:
    assert place.fails(str(tmp_path / "no.toml")) == f"--profile: no such profile file: {tmp_path / 'no.toml'}"
    mine = tmp_path / "mine.toml"
    mine.write_text('name = "mine"\n')
    assert place.fails(str(mine)) == f"{mine}: schema is missing: must be 1, the version that this program reads"


def test_lines_are_found_in_every_spelling() -> None:
    text = 'a = 1\n[ "device" ] # c\nkind = "x"\n\n[x.y]\nz.w = 1\n[[list]]\n'
    assert line_of("a", text) == 1
    assert line_of("device", text) == 2
    assert line_of("device.kind", text) == 3
    assert line_of("device.other", text) == 2
    assert line_of("x.y.z.w", text) == 6
    assert line_of("nothing", text) is None


def test_the_user_folder_is_platformdirs_and_pydantic_waits_for_load(tmp_path: Path) -> None:
    code = (
        "import sys, mlxbatch.profile as p\n"
        "assert not {'pydantic', 'psutil', 'mlx'} & set(sys.modules)\n"
        "print(p.load().profile.transcribe.model)"
    )
    config = tmp_path / ("Library/Application Support" if sys.platform == "darwin" else ".config") / "mlxbatch"
    config.mkdir(parents=True)
    (config / "config.toml").write_text('transcribe.model = "found"\n')
    environment = {k: v for k, v in os.environ.items() if not k.startswith("XDG_")} | {"HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout == "found\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user: root only")
def test_a_user_without_a_home_has_no_settings_and_the_platform_s_profile() -> None:
    code = "import os, platformdirs; from mlxbatch import profile; os.setuid(54321); print(profile.user_folder())"
    environment = {"PYTHONPATH": str(Path(__file__).resolve().parents[1])}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, cwd="/")
    assert done.stdout == "/dev/null/mlxbatch\n", done.stderr
    nowhere = Path(done.stdout.strip())
    assert load("linux-cpu", project=Path("none"), user_dir=nowhere).sources == (package_profiles() / "linux-cpu.toml",)
    assert available(nowhere) == NAMES.split(", ")


# ---- rules


RULED = """\
schema = 1
name = "ruled"
transcribe.batch_size = 3

[[when]]
memory_from = "8GiB"
memory_below = "32GiB"
transcribe.batch_size = 4
[when.pipeline]
workers = 7

[[when]]
chip = "Apple M4"
gpu_cores_from = 16
gpu_cores_below = 21
transcribe.batch_size = 5
"""


@pytest.mark.parametrize(
    ("here", "batch", "workers"),
    [
        (LINUX, 4, 7),
        (Hardware("linux", "x86_64", "none", 8 * GIB), 4, 7),
        (Hardware("linux", "x86_64", "none", 32 * GIB), 3, 2),
        (a_mac("Apple M4 Pro", 16, 48), 5, 2),
        (a_mac("Apple M4 Pro", 20, 24), 5, 7),
        (a_mac("Apple M4 Max", 40, 48), 3, 2),
        (a_mac("Apple M4 Pro", None, 48), 3, 2),
        (a_mac("Apple M3 Pro", 18, 48), 3, 2),
    ],
)
def test_rules_that_fit_lie_over_their_file(
    place: Place, monkeypatch: pytest.MonkeyPatch, here: Hardware, batch: int, workers: int
) -> None:
    stand_on(monkeypatch, here)
    mine = place.project.parent / "ruled.toml"
    mine.write_text(RULED)
    found = place.load(str(mine))
    assert (found.profile.transcribe.batch_size, found.profile.pipeline.workers) == (batch, workers)
    line = RULED.split("\n").index(f"transcribe.batch_size = {batch}") + 1
    assert found.origins["transcribe.batch_size"] == f"{mine}:{line}"
    place.project.write_text("[transcribe]\nbatch_size = 6\n")
    assert place.load(str(mine)).profile.transcribe.batch_size == 6


def test_a_settings_file_may_have_rules(place: Place) -> None:
    place.project.write_text('[pipeline]\nworkers = 3\n[[when]]\nmemory_below = "1TB"\npipeline.workers = 4\n')
    found = place.load()
    assert (found.profile.pipeline.workers, found.origins["pipeline.workers"]) == (4, f"{place.project}:5")


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ('[[when]]\nmemory_form = "1GB"\n', 2, "unknown key 'memory_form'; did you mean 'memory_from'?"),
        ("\n[[when]]\nmemory_from = 8\n", 3, "memory_from = 8: must be a size such as"),
        ("[[when]]\ngpu_cores_from = 0\n", 2, "gpu_cores_from = 0: must be a whole number over 0"),
        ("[[when]]\nbatch_size = 8\n", 2, "unknown key 'batch_size'; did you mean 'transcribe.batch_size'?"),
        # in a rule that is for another machine, and after one that is right
        (
            '[[when]]\nmemory_from = "1GB"\n[[when]]\nmemory_from = "9TB"\ntranscribe.batch_size = 99\n',
            5,
            "transcribe.batch_size = 99: must be a whole number from 1 to 64",
        ),
        (
            '[[when]]\nmemory_from = "9TB"\n[when.device]\nknd = "cpu"\n',
            4,
            "unknown key 'device.knd'; did you mean 'device.kind'?",
        ),
        ("when = 3\n", 1, "when is to be a list of tables, each begun by [[when]]"),
        ("[when]\nmemory_from = '1GB'\n", 1, "when is to be a list of tables, each begun by [[when]]"),
    ],
)
def test_a_mistake_in_a_rule_has_its_line(place: Place, text: str, line: int, message: str) -> None:
    place.project.write_text(text)
    assert place.fails().startswith(f"{place.project}:{line}: {message}")


# ---- profiles built on others


def test_a_profile_built_on_another_says_only_what_differs(place: Place) -> None:
    (place.user / "profiles" / "studio.toml").write_text('base = "linux-cpu"\nname = "studio"\npipeline.workers = 9\n')
    (place.user / "profiles" / "louder.toml").write_text('base = "./studio.toml"\nname = "louder"\n')
    found = place.load("louder")
    assert (found.profile.name, found.profile.pipeline.workers, found.profile.device.blas) == ("louder", 9, "openblas")
    assert [path.stem for path in found.sources] == ["linux-cpu", "studio", "louder"]
    assert found.notes == ()


@pytest.mark.parametrize(
    ("base", "message"),
    [
        ('"linux-cpi"', "unknown profile 'linux-cpi'; did you mean 'linux-cpu'?"),
        ('"./no.toml"', "no such profile file: "),
        ("7", "base = 7: must be a profile's name or file"),
        ('"mine"', "base = 'mine': this profile is built on itself"),
        ('"round"', "base = 'mine': this profile is built on itself"),
    ],
)
def test_a_base_that_cannot_be(place: Place, base: str, message: str) -> None:
    mine = place.user / "profiles" / "mine.toml"
    mine.write_text(f'schema = 1\nname = "mine"\nbase = {base}\n')
    (place.user / "profiles" / "round.toml").write_text('\n\nbase = "mine"\n')
    found = place.fails("mine")
    assert message in found
    assert ":3: " in found


@pytest.mark.parametrize(
    ("text", "line", "key", "allowed"),
    [("gpu = 'tpu'\nname = 'x'\n", 2, 'gpu = "tpu"', '"metal", "cuda"'), ("\nname = ''\n", 3, 'name = ""', "a name")],
)
def test_what_a_profile_says_of_itself_may_be_wrong(place: Place, text: str, line: int, key: str, allowed: str) -> None:
    mine = place.user / "profiles" / "mine.toml"
    mine.write_text(f"schema = 1\n{text}")
    message = place.fails("mine")
    assert message.startswith(f"{mine}:{line}: {key}: must be ")
    assert allowed in message


ABOUT = ("name", "description", "base", "platform", "machine", "gpu", "chip")


@pytest.mark.parametrize("key", ABOUT)
@pytest.mark.parametrize("file", ["the user's", "the project's"])
def test_a_settings_file_cannot_say_what_only_a_profile_says(place: Place, file: str, key: str) -> None:
    path = place.project if file == "the project's" else place.user / "config.toml"
    path.write_text(f'schema = 1\n{key} = "linux-cpu"\n')
    assert place.fails() == (
        f'{path}:2: {key} belongs to a profile; here write profile = "NAME", or "FILE", for one that has it'
    )


@pytest.mark.parametrize("key", ABOUT[2:])
def test_a_preset_is_built_on_nothing_and_is_for_no_machine(place: Place, key: str) -> None:
    mine = place.project.parent / "mine.toml"
    mine.write_text(f'name = "mine"\n{key} = "linux-cpu"\n')
    place.project.write_text('preset = "./mine.toml"\n')
    assert place.fails() == f"{mine}:2: {key} belongs to a profile; a preset lies over whichever is used"


@pytest.mark.parametrize("key", ["speakers", "language", "log-level"])
def test_a_key_that_is_an_option_alone(place: Place, key: str) -> None:
    place.project.write_text(f'[transcribe]\n{key} = "x"\n')
    variable = key.upper().replace("-", "_")
    message = place.fails()
    assert message == f"{place.project}:2: unknown key 'transcribe.{key}'; it is set by --{key} or MLXBATCH_{variable}"


# ---- presets


@pytest.mark.parametrize(
    ("here", "batch"), [(LINUX, 8), (a_mac("Apple M4", 10, 16), 8), (a_mac("Apple M4 Max", 40, 64), 16)]
)
def test_the_preset_for_calls(place: Place, monkeypatch: pytest.MonkeyPatch, here: Hardware, batch: int) -> None:
    stand_on(monkeypatch, here)
    plain, found = place.load(), load(preset="qa", project=place.project, user_dir=place.user)
    settings = found.profile.transcribe
    assert (settings.model, settings.bits, settings.channels) == ("whisper-large-v3-turbo", "none", "split")
    assert settings.batch_size == batch
    assert (found.profile.device, settings.dtype) == (plain.profile.device, plain.profile.transcribe.dtype)
    assert (found.profile.name, found.preset) == (plain.profile.name, "qa")
    assert found.name == f"{plain.profile.name} + qa"


@pytest.mark.parametrize(("here", "batch"), [(a_mac("Apple M1", 8, 16), 2), (a_mac("Apple M5 Pro", 20, 64), 4)])
def test_the_preset_for_long_conversations(
    place: Place, monkeypatch: pytest.MonkeyPatch, here: Hardware, batch: int
) -> None:
    stand_on(monkeypatch, here)
    settings = load(preset="live", project=place.project, user_dir=place.user).profile.transcribe
    assert (settings.model, settings.bits, settings.segment_seconds) == ("vibevoice-asr", 6, 300.0)
    assert settings.batch_size == batch


def test_a_preset_lies_between_the_settings_and_the_profile(place: Place) -> None:
    (place.user / "profiles" / "presets").mkdir()
    (place.user / "profiles" / "presets" / "mine.toml").write_text(
        'name = "not the profile\'s"\n[transcribe]\nbatch_size = 2\nencode_rows = 2\ncpu_streams = 2\n'
    )
    (place.user / "config.toml").write_text('preset = "mine"\ntranscribe.encode_rows = 3\ntranscribe.cpu_streams = 3\n')
    place.project.write_text("transcribe.cpu_streams = 4\n")
    found = place.load(transcribe__encode_streams=5)
    settings = found.profile.transcribe
    assert (settings.batch_size, settings.encode_rows, settings.cpu_streams, settings.encode_streams) == (2, 3, 4, 5)
    assert (settings.dtype, found.profile.name, found.preset) == ("float32", "linux-cpu", "mine")
    place.project.write_text('preset = "qa"\n')
    assert place.load().preset == "qa"
    assert load(preset="live", project=place.project, user_dir=place.user).preset == "live"
    assert list(profiles.presets(place.user)) == ["live", "mine", "qa"]


def test_a_preset_that_is_wrong_or_not_there(place: Place) -> None:
    place.project.write_text('\npreset = "qs"\n')
    assert place.fails() == f"{place.project}:2: unknown preset 'qs'; did you mean 'qa'? (there are: live, qa)"
    place.project.write_text("preset = []\n")
    assert place.fails() == f"{place.project}:1: preset = []: must be a preset's name or file"
    mine = place.project.parent / "mine.toml"
    mine.write_text("[transcribe]\nchanels = 'split'\n")
    place.project.write_text('preset = "./mine.toml"\n')
    assert place.fails() == f"{mine}:2: unknown key 'transcribe.chanels'; did you mean 'transcribe.channels'?"
