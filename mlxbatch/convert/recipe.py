"""From what was asked for to the precision of each layer: bits, groups, modes, recipes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from mlxbatch.convert.layer_rules import ALL, GROUPS, NAMED, Rule, refuse_idle, rule_for
from mlxbatch.convert.precision import Dtype, Mode, Packing, Precision
from mlxbatch.errors import UsageError, show
from mlxbatch.models.architecture import BITS
from mlxbatch.models.weights import GROUP, Shape
from mlxbatch.words import count, nearest

# Recognition chooses among words, which small errors seldom change; where the output is sound they are heard.
DEFAULT_BITS, DEFAULT_BITS_OF = 8, {"transcribe": 6}
# Fewer bits, or larger groups, than voices have been heard to bear.
FEWEST_FOR_VOICES = 5

# The modes but affine have their bits and groups fixed (mlx.nn.layers.quantized).
FIXED: dict[str, tuple[int, int]] = {"mxfp4": (4, 32), "mxfp8": (8, 32), "nvfp4": (4, 16)}
# Architectures whose layers in those modes come back from mlx-audio 0.6.2's loader as they were written: tried with
# small weights of each.
_RELOADS = frozenset(
    {
        *("canary", "cohere_asr", "glmasr", "granite_speech", "granite_speech5_ctc", "moss_transcribe_diarize"),
        *("nemotron_asr", "parakeet", "parakeet_tdt", "qwen2_audio", "qwen3_asr", "vibevoice", "vibevoice_asr"),
    }
)
_NO_RELOAD = {"whisper": "mlx-audio turns the scales of other modes into floating-point numbers, and fails"}
_UNTRIED = "nobody has seen such a model come back whole from its loader"


@dataclass(frozen=True, slots=True)
class Asked:
    """What the user asked for, checked as far as it can be without the model.

    `bits` and `group_size` are for layers that none of the `rules` names; None is for what suits the task.
    """

    bits: int | None = None
    group_size: int | None = None
    mode: Mode = "affine"
    dtype: Dtype | None = None
    rules: tuple[Rule, ...] = ()

    @property
    def nothing(self) -> bool:
        """Whether nothing was asked for but a dtype, or not even that."""
        return self.bits is None and self.group_size is None and self.mode == "affine" and not self.rules

    @property
    def quantizes(self) -> bool:
        """A dtype by itself is a conversion without quantization; without a word the task's default is taken."""
        return not self.nothing or self.dtype is None


def asked_for(
    bits: int | None = None,
    group_size: int | None = None,
    mode: Mode = "affine",
    dtype: Dtype | None = None,
    recipe: str = "uniform",
) -> Asked:
    """Options as they were given; `recipe` is a name or a TOML file. UsageError for what MLX or nobody has."""
    _allowed("--bits", bits, BITS, " (MLX has none with 7)" if bits == 7 else "")
    _allowed("--group-size", group_size, GROUPS)
    rules, own_bits, own_group = _recipe(recipe)
    if rules and recipe in NAMED and bits is not None:
        raise UsageError(f"--recipe {recipe} says the bits of every layer: leave --bits out")
    _fits_mode(mode, bits, group_size, rules)
    return Asked(bits or own_bits, group_size or own_group, mode, dtype, rules)


def precision(asked: Asked, layers: Mapping[str, Shape], *, architecture: str, task: str) -> Precision:
    """The precision of a model whose `layers` can be quantized: by path, the shape of each layer's matrix.

    UsageError where a pattern, a group or the mode suits nothing in it.
    """
    if not asked.quantizes or (asked.nothing and not layers):
        return Precision(dtype=asked.dtype)
    if not layers:
        raise UsageError(f"MLX can quantize no layer of a {architecture} model: give --dtype alone")
    _refuse_mode(asked.mode, architecture)
    refuse_idle(asked.rules, layers)
    packed: dict[str, Packing] = {}
    kept: dict[str, str] = {}
    for layer, shape in layers.items():
        form = _form(layer, shape[-1], asked, DEFAULT_BITS_OF.get(task, DEFAULT_BITS))
        if isinstance(form, Packing):
            packed[layer] = form
        else:
            kept[layer] = form
    _refuse_group(asked, layers, packed)
    return Precision(packed, asked.dtype, kept)


def notes(precision: Precision, asked: Asked, task: str) -> list[str]:
    """What the user should know before the model is made."""
    found = []
    if asked.quantizes and not precision.packed:
        found.append("no layer of this model can be quantized: its weights are kept as they are")
    if task == "synthesize":
        found += _for_voices(precision)
    if narrow := [layer for layer, why in precision.kept.items() if why.endswith(_NARROW)]:
        names = ", ".join(narrow[:3]) + (", ..." if len(narrow) > 3 else "")
        found.append(f"{count(len(narrow), 'layer')} kept full: the width {_NARROW} ({names})")
    return found


def _for_voices(precision: Precision) -> list[str]:
    forms = set(precision.packed.values())
    found = []
    if fewest := [form.bits for form in forms if form.bits < FEWEST_FOR_VOICES]:
        found.append(f"{min(fewest)} bits are few for a voice: compare by ear, or take 8")
    if widest := [form.group_size for form in forms if form.group_size > GROUP]:
        found.append(f"groups of {max(widest)} are large for a voice: compare by ear, or take {GROUP}")
    return found


# ---- options


def _allowed(option: str, value: object, known: tuple[object, ...], why: str = "") -> None:
    if value is not None and value not in known:
        *others, last = [str(one) for one in known]
        raise UsageError(f"{option} is {', '.join(others)} or {last}, not {show(str(value))!r}{why}")


def _recipe(text: str) -> tuple[tuple[Rule, ...], int | None, int | None]:
    if text in NAMED:
        return NAMED[text], None, None
    if text.endswith(".toml") or "/" in text:
        from mlxbatch.convert.recipe_file import read_recipe

        return read_recipe(Path(text))
    hint = nearest(text, NAMED) or ";"
    raise UsageError(f"unknown recipe {show(text)!r}{hint} there are {' and '.join(NAMED)}, or name a TOML file")


def _fits_mode(mode: Mode, bits: int | None, group_size: int | None, rules: tuple[Rule, ...]) -> None:
    if mode not in FIXED:
        return
    own_bits, own_group = FIXED[mode]
    if bits not in (None, own_bits) or group_size not in (None, own_group):
        raise UsageError(
            f"--mode {mode} has {own_bits} bits in groups of {own_group}: leave out --bits and --group-size"
        )
    if any(rule.bits not in (None, own_bits) or rule.group_size not in (None, own_group) for rule in rules):
        raise UsageError(f"--mode {mode} has {own_bits} bits everywhere: the recipe asks for others")


# ---- layers

# MLX packs the rows of nvfp4 by two groups of 16 (0.32 fails at an odd number of groups), so this holds for all modes.
NARROWEST = min(GROUPS)
_NARROW = f"is no multiple of {NARROWEST}"


def _form(layer: str, width: int, asked: Asked, default_bits: int) -> Packing | str:
    """How a layer is packed, or why it is not. A narrow one gets the largest group that divides its width."""
    rule = rule_for(layer, asked.rules) or Rule(ALL, asked.bits or default_bits)
    if rule.bits is None:
        return "the recipe keeps it full"
    if width % NARROWEST:
        return f"its width of {width} {_NARROW}"
    if asked.mode in FIXED:
        return Packing(*FIXED[asked.mode], asked.mode)
    most = rule.group_size or asked.group_size or GROUP
    return Packing(rule.bits, max(size for size in GROUPS if size <= most and width % size == 0))


def _refuse_mode(mode: Mode, architecture: str) -> None:
    if mode != "affine" and architecture not in _RELOADS:
        why = _NO_RELOAD.get(architecture, _UNTRIED)
        raise UsageError(f"--mode {mode} is not for a {architecture} model: {why}; leave --mode out")


def _refuse_group(asked: Asked, layers: Mapping[str, Shape], packed: Mapping[str, Packing]) -> None:
    """UsageError where no group suits any layer; where the one asked for suits some, the others get what fits."""
    sizes = Counter(form.group_size for form in packed.values())
    if packed and (asked.rules or asked.group_size in (None, *sizes)):
        return
    if not packed and all((rule := rule_for(layer, asked.rules)) and rule.bits is None for layer in layers):
        raise UsageError("the recipe keeps every layer full: give --dtype alone")
    widths = ", ".join(str(width) for width in sorted({shape[-1] for shape in layers.values()})[:4])
    if not packed:
        raise UsageError(f"no group that MLX has divides any layer's width ({widths}): give --dtype alone")
    largest = max(sizes)
    fits = f"{largest} divides that of {count(sizes[largest], 'layer')}"
    raise UsageError(f"--group-size {asked.group_size} divides no layer's width ({widths}): {fits}")
