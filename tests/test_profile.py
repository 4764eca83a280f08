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
from mlxbatch.profile import Loaded, available, load, package_profiles, parse_bytes
from mlxbatch.toml_lines import line_of


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
    monkeypatch.setattr(profiles, "this_machine", lambda: ("linux", "x86_64"))
    return Place(tmp_path)


@pytest.mark.parametrize("path", sorted(package_profiles().glob("*.toml")), ids=lambda path: path.stem)
def test_each_profile_of_the_package_is_valid_and_every_key_has_a_comment(path: Path, place: Place) -> None:
    loaded = place.load(path.stem)
    assert loaded.profile.name == path.stem
    assert loaded.sources == (path,)
    assert parse_amount(loaded.profile.device.memory_limit, 16 * 10**9) > parse_bytes("1GB")
    lines = path.read_text().partition("[device]\n")[2].split("\n")
    settings = [n for n, line in enumerate(lines) if "=" in line and not line.startswith("#")]
    assert len(settings) > 10
    assert [lines[n] for n in settings if n == 0 or not lines[n - 1].startswith("#")] == []


def test_the_apple_profile_says_that_it_was_not_measured() -> None:
    text = (package_profiles() / "apple-silicon.toml").read_text()
    assert "NOTHING IN THIS FILE WAS MEASURED ON A MAC" in text
    assert "measured)" not in text.replace("not measured on a Mac)", "")


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
    ("here", "name", "noted"),
    [
        (("linux", "x86_64"), "linux-cpu", False),
        (("linux", "arm64"), "linux-cpu", False),
        (("darwin", "arm64"), "apple-silicon", False),
        (("darwin", "x86_64"), "linux-cpu", True),
        (("freebsd14", "x86_64"), "linux-cpu", True),
    ],
)
def test_without_a_name_the_profile_of_the_machine_is_taken(
    place: Place, monkeypatch: pytest.MonkeyPatch, here: tuple[str, str], name: str, noted: bool
) -> None:
    monkeypatch.setattr(profiles, "this_machine", lambda: here)
    loaded = place.load()
    assert loaded.profile.name == name
    assert bool(loaded.notes) == noted
    if noted:
        assert f"no profile for {here[0]} on {here[1]}" in loaded.notes[0]


def test_a_profile_of_another_platform_is_used_with_a_note(place: Place) -> None:
    loaded = place.load("apple-silicon")
    assert loaded.profile.device.kind == "gpu"
    assert loaded.notes == ("profile apple-silicon is meant for darwin on arm64; this is linux on x86_64",)


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
    assert available(place.user) == ["apple-silicon", "linux-cpu", "studio"]
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
        ("[pipeline]\nprefetch_bytes = '50%'\n", 2, "pipeline.prefetch_bytes", '"50%"', '"512MB"'),
        ("schema = 2\n", 1, "schema", "2", "1, the version that this program reads"),
        ("device = 3\n", 1, "device", "3", "a table, [device]"),
        ("name = ''\n", 1, "name", '""', "a name"),
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
    assert place.fails(transcribe__batch_size=99).startswith("command line or environment: transcribe.batch_size = 99")


def test_further_problems_are_counted(place: Place) -> None:
    place.project.write_text("[transcribe]\nbatch_size = 0\nfoo = 1\n[device]\nkind = 'tpu'\n")
    assert place.fails().endswith("(and 2 more)")


@pytest.mark.parametrize(("text", "line"), [("a = 1\nb = = 2\n", 2), ("a = 1\n\n[device\n", 3), ('a = """x\ny', 2)])
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
        "--profile: unknown profile 'linux_cpu'; did you mean 'linux-cpu'? (there are: apple-silicon, linux-cpu)"
    )
    assert place.fails("zzz") == "--profile: unknown profile 'zzz' (there are: apple-silicon, linux-cpu)"
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
        "print(p.load().profile.description)"
    )
    config = tmp_path / ("Library/Application Support" if sys.platform == "darwin" else ".config") / "mlxbatch"
    config.mkdir(parents=True)
    (config / "config.toml").write_text('description = "found"\n')
    environment = {k: v for k, v in os.environ.items() if not k.startswith("XDG_")} | {"HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout == "found\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user: root only")
def test_a_user_without_a_home_has_no_settings_and_the_platform_s_profile() -> None:
    code = "import os, platformdirs; from mlxbatch import profile; os.setuid(54321); print(profile._user_dir())"
    environment = {"PYTHONPATH": str(Path(__file__).resolve().parents[1])}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, cwd="/")
    assert done.stdout == "/dev/null/mlxbatch\n", done.stderr
    nowhere = Path(done.stdout.strip())
    assert load("linux-cpu", project=Path("none"), user_dir=nowhere).sources == (package_profiles() / "linux-cpu.toml",)
    assert available(nowhere) == ["apple-silicon", "linux-cpu"]
