"""The layers of docs/design.md, read from the imports themselves: they point down only, and never round in a circle."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "mlxbatch"

# The longest name that fits a module tells its layer; what is not named is the ground that all stands on (L1).
LAYERS = {
    "mlxbatch.types": 0,
    "mlxbatch.errors": 0,
    "mlxbatch": 0,  # the package itself: its version
    "mlxbatch.worker": 2,
    "mlxbatch.watchdog": 1,
    "mlxbatch.host": 2,
    "mlxbatch.pipeline": 3,
    "mlxbatch.runner": 3,
    "mlxbatch.overseer": 3,
    "mlxbatch.feed": 3,
    "mlxbatch.streaming": 3,
    "mlxbatch.reading": 3,
    "mlxbatch.run_settings": 3,
    "mlxbatch.watcher": 3,
    "mlxbatch.report": 4,
    "mlxbatch.doctor": 4,
    "mlxbatch.cli": 5,
    "mlxbatch.__main__": 5,
}
MAY_IMPORT_MLX = (
    "mlxbatch.convert",
    "mlxbatch.device",
    "mlxbatch.kernels",
    "mlxbatch.engines.deepfilter.activations",
    "mlxbatch.engines.deepfilter.network",
    "mlxbatch.engines.quantizing",
    "mlxbatch.engines.whisper",
    "mlxbatch.engines.mlx_audio",
    "mlxbatch.models.residency",
    "mlxbatch.selftest",
    "mlxbatch.vad.ahead",
    "mlxbatch.vad.detector",
    "mlxbatch.vad.network",
    "mlxbatch.vad.resident",
)
ADAPTER = "mlxbatch.engines.mlx_audio"
PURE = (
    "profile_schema",
    "budget",
    "plan",
    "metrics",
    "quality",
    "stored",
    "languages",
    "types",
    "errors",
    "chunks",
    "container_marks",
    "header_sizes",
    "headerless",
    "ogg",
    "plausible",
    "signatures",
    "truncation",
    "governor",
    "leaks",
    "flight",
    "watchdog",
    "durations",
    "models.lru",
    *(f"vad.{name}" for name in ("layout", "speech", "cuts", "band", "level")),
)
PURE += (
    "words",
    "join",
    "speakers",
    "tracks",
    "wishes",
    "mixing",
    "streaming.pieces",
    "streaming.order",
    "leak_words",
    *(f"report.{name}" for name in ("figures", "causes", "compare", "conditions", "names", "verdict")),
)
PURE += ("line_rules", *(f"writers.{name}" for name in ("line_breaks", "pieces", "layout", "subtitles")))
PURE += ("patterns", "engines.whisper.footprint", "engines.whisper.layout")
PURE += (
    "engines.families",
    *(f"engines.mlx_audio.{name}" for name in ("cuts", "pieces", "heard", "memory", "footprint")),
)
PURE += tuple(f"engines.deepfilter.{name}" for name in ("sizes", "frames", "features", "filtering", "recurrence"))
PURE += ("engines.deepfilter.folding",)
PURE += tuple(f"report.{name}" for name in ("content", "sections", "series", "data"))
PURE += ("convert.layer_rules", "convert.layout")
PURE += tuple(f"convert.proof.{name}" for name in ("ratio", "gates", "allocation", "card", "waveforms"))
PURE += ("convert.precision", "convert.origin")
PURE += ("convert.whisper_tokenizer", "models.facts", "models.hub.wanted")
PURE += tuple(f"convert.{name}" for name in ("whisper_files", "whisper_weights", "ctranslate2"))
PURE += ("convert.readers.stored", "convert.readers.safetensors", "convert.readers.state_pickle")
PURE += tuple(f"convert.{name}" for name in ("kokoro_layout", "deepfilter_layout", "ge2e_layout", "file_layout", "erb"))
PURE_IMPORTS_NO = ("mlx", "soundfile", "soxr", "av", "multiprocessing", "sqlite3", "threading")


def _name(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {_name(path): path for path in sorted(PACKAGE.rglob("*.py"))}


@cache
def _tree(module: str) -> ast.Module:
    return ast.parse(MODULES[module].read_text("utf-8"))


def _imports(node: ast.AST) -> Iterator[str]:
    """Full names of what a tree imports: modules, and names in modules, which may be modules themselves."""
    for child in ast.walk(node):
        if isinstance(child, ast.Import):
            yield from (alias.name for alias in child.names)
        elif isinstance(child, ast.ImportFrom):
            assert child.level == 0, "imports are absolute"
            yield from (f"{child.module}.{alias.name}" for alias in child.names)


def _module_of(name: str) -> str | None:
    """The module of ours that an imported name is, or is in."""
    while name:
        if name in MODULES:
            return name
        name = name.rpartition(".")[0]
    return None


def _ours(node: ast.AST) -> set[str]:
    return {module for name in _imports(node) if (module := _module_of(name))}


def _runs(module: str) -> list[ast.stmt]:
    """The statements that run when a module is imported: not those for type checkers."""
    return [node for node in _tree(module).body if not _for_type_checkers(node)]


def _for_type_checkers(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def _at_import(module: str) -> set[str]:
    """Modules of ours that are imported with this one, packages around them included."""
    found: set[str] = set()
    for node in _runs(module):
        if not isinstance(node, ast.FunctionDef):
            found |= _ours(node)
    return found - {module}


def _layer(module: str) -> int:
    name = module
    while name not in LAYERS and "." in name:
        name = name.rpartition(".")[0]
    return LAYERS[name] if name != "mlxbatch" or module == "mlxbatch" else 1


def test_imports_point_down_only() -> None:
    upward = [
        f"{module} (L{_layer(module)}) -> {other} (L{_layer(other)})"
        for module in MODULES
        for other in _ours(_tree(module))
        if _layer(other) > _layer(module)
    ]
    assert upward == []


def test_each_layer_has_modules() -> None:
    assert {_layer(module) for module in MODULES} == {0, 1, 2, 3, 4, 5}


def test_nothing_imports_in_a_circle() -> None:
    done: set[str] = set()

    def visit(module: str, trail: tuple[str, ...]) -> None:
        assert module not in trail, " -> ".join((*trail[trail.index(module) :], module))
        if module not in done:
            for other in _at_import(module):
                visit(other, (*trail, module))
            done.add(module)

    for module in MODULES:
        visit(module, ())


def test_only_the_device_side_imports_mlx() -> None:
    offenders = [
        module
        for module in MODULES
        if any(name.split(".")[0] == "mlx" for name in _imports(_tree(module)))
        and not module.startswith(MAY_IMPORT_MLX)
    ]
    assert offenders == []


def test_no_module_of_ours_imports_the_peers() -> None:
    """But the engine over mlx-audio does that one, and transformers only to keep it from running programs."""
    peers = {"mlx_audio", "mlx_whisper", "transformers", "librosa", "torch"}
    found = {m: peers & {name.split(".")[0] for name in _imports(_tree(m))} for m in MODULES}
    adapter = {m: names for m, names in found.items() if m.startswith(ADAPTER) and names}
    assert adapter.pop(f"{ADAPTER}.loading") == {"mlx_audio", "transformers"}
    assert set().union(*adapter.values()) == {"mlx_audio"}
    assert not [m for m, names in found.items() if names and not m.startswith(ADAPTER)]


@pytest.mark.parametrize("name", PURE)
def test_pure_modules_touch_no_device_disk_or_thread(name: str) -> None:
    imported = {found.split(".")[0] for found in _imports(_tree(f"mlxbatch.{name}"))}
    assert not imported & set(PURE_IMPORTS_NO)


def test_no_utils() -> None:
    names = {"utils", "util", "helpers", "common", "misc"}
    assert not [module for module in MODULES if names & set(module.split("."))]


def _functions() -> Iterator[tuple[str, ast.FunctionDef]]:
    for module in MODULES:
        for node in ast.walk(_tree(module)):
            if isinstance(node, ast.FunctionDef):
                yield module, node


def test_no_function_is_over_fifty_lines() -> None:
    """The body: a command's options stand one a line before it, and are a list rather than something to follow."""
    long = {f"{m}.{f.name}": n for m, f in _functions() if (n := (f.end_lineno or 0) - f.body[0].lineno + 1) > 50}
    assert long == {}


def test_every_module_says_what_it_is() -> None:
    assert [module for module in MODULES if not ast.get_docstring(_tree(module))] == []
