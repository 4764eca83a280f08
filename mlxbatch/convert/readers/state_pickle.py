"""The pickle in a PyTorch checkpoint, read as data: weights need few of its instructions, and no others are taken.

A pickle is a program for a small stack machine (the docstrings of Python's pickletools describe it), and one of its
instructions calls any function of any module. Python's unpickler is not used here: `pickletools.genops` takes the
program apart and runs nothing, and what is known below builds dicts, lists and tensors that are yet to be read. Every
other instruction, and every other name, is refused before anything comes of it.
"""

from __future__ import annotations

import pickletools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mlxbatch.convert.readers.stored import Stored
from mlxbatch.errors import show
from mlxbatch.models.weights import Shape


@dataclass(frozen=True, slots=True)
class Storage:
    """`count` numbers of type `kind` in the archive's record `key`."""

    kind: str
    key: str
    count: int


@dataclass(frozen=True, slots=True)
class Tensor:
    """A view into a storage: offset and strides count numbers, not bytes."""

    storage: Storage
    offset: int
    shape: Shape
    strides: Shape


@dataclass(frozen=True, slots=True)
class _Name:
    """A name that the pickle may call or mention, by module and name."""

    module: str
    name: str


_ORDERED_DICT = _Name("collections", "OrderedDict")
_TENSOR = _Name("torch._utils", "_rebuild_tensor_v2")
_PARAMETER = _Name("torch._utils", "_rebuild_parameter")
_STORAGES = {
    _Name("torch", "DoubleStorage"): "F64",
    _Name("torch", "FloatStorage"): "F32",
    _Name("torch", "HalfStorage"): "F16",
    _Name("torch", "BFloat16Storage"): "BF16",
    _Name("torch", "LongStorage"): "I64",
    _Name("torch", "IntStorage"): "I32",
    _Name("torch", "ShortStorage"): "I16",
    _Name("torch", "CharStorage"): "I8",
    _Name("torch", "ByteStorage"): "U8",
    _Name("torch", "BoolStorage"): "BOOL",
}
_KNOWN = frozenset({_ORDERED_DICT, _TENSOR, _PARAMETER, *_STORAGES})


def read_state(pickle: bytes, found: Callable[[Tensor], Stored]) -> Any:
    """What the pickle describes: dicts, lists, tuples, numbers, texts, and what `found` makes of each tensor.

    ValueError where it is damaged, or asks for anything that weights do not need; nothing of it is run.
    """
    machine = _Machine(found)
    try:
        for instruction, argument, _ in pickletools.genops(pickle):
            machine.take(instruction.name, argument)
    except Refused:
        raise
    except (ValueError, IndexError, KeyError, TypeError, AttributeError) as error:
        raise Refused(f"no whole pickle ({type(error).__name__}: {error})") from error
    return machine.result()


class Refused(ValueError):
    """What is wrong with a checkpoint, in words of ours."""


class _Machine:
    """The stack, the marks in it and the memo; `take` does one instruction."""

    def __init__(self, found: Callable[[Tensor], Stored]) -> None:
        self._found = found
        self._stack: list[Any] = []
        self._marked: list[list[Any]] = []  # the stacks below each mark
        self._memo: dict[int, Any] = {}

    def take(self, name: str, argument: Any) -> None:
        if name in _PASSED_OVER:
            return
        if name in _CONSTANTS:
            self._stack.append(_CONSTANTS[name])
        elif name in _VALUES:
            self._stack.append(argument)
        elif name in _ACTIONS:
            _ACTIONS[name](self, argument)
        else:
            raise Refused(f"its pickle has the instruction {name}, which no weights need: refused, and nothing was run")

    def result(self) -> Any:
        if len(self._stack) != 1 or self._marked:
            raise Refused("no whole pickle: it ends in the middle")
        return self._stack[0]

    # ---- the stack and the memo

    def mark(self, _: Any) -> None:
        self._marked.append(self._stack)
        self._stack = []

    def _since_mark(self) -> list[Any]:
        found, self._stack = self._stack, self._marked.pop()
        return found

    def put(self, place: int) -> None:
        self._memo[place] = self._stack[-1]

    def memoize(self, _: Any) -> None:
        self._memo[len(self._memo)] = self._stack[-1]

    def get(self, place: int) -> None:
        self._stack.append(self._memo[place])

    # ---- values

    def empty_dict(self, _: Any) -> None:
        self._stack.append({})

    def empty_list(self, _: Any) -> None:
        self._stack.append([])

    def tuple_since_mark(self, _: Any) -> None:
        parts = tuple(self._since_mark())
        self._stack.append(parts)

    def tuple_of(self, length: int) -> None:
        parts = [self._stack.pop() for _ in range(length)]
        self._stack.append(tuple(reversed(parts)))

    def append(self, _: Any) -> None:
        self._extend([self._stack.pop()])

    def appends(self, _: Any) -> None:
        self._extend(self._since_mark())

    def _extend(self, values: list[Any]) -> None:
        target = self._stack[-1]
        if type(target) is not list:
            raise Refused("no whole pickle: it appends to what is no list")
        target.extend(values)

    def set_item(self, _: Any) -> None:
        value, key = self._stack.pop(), self._stack.pop()
        self._update([key, value])

    def set_items(self, _: Any) -> None:
        self._update(self._since_mark())

    def _update(self, flat: list[Any]) -> None:
        target = self._stack[-1]
        if type(target) is not dict or len(flat) % 2:
            raise Refused("no whole pickle: it puts pairs into what is no dict")
        for key, value in zip(flat[::2], flat[1::2], strict=True):
            if type(key) not in (str, int):
                raise Refused("no whole pickle: a key that is no name")
            target[key] = value

    # ---- names, and the few things that may be done with them

    def name(self, argument: str) -> None:
        module, _, name = argument.partition(" ")
        self._stack.append(_known(module, name))

    def name_from_stack(self, _: Any) -> None:
        name, module = self._stack.pop(), self._stack.pop()
        self._stack.append(_known(str(module), str(name)))

    def call(self, _: Any) -> None:
        """What the names stand for, done by us: an empty dict, or a tensor."""
        arguments, called = self._stack.pop(), self._stack.pop()
        if called == _ORDERED_DICT and arguments == ():
            self._stack.append({})
        elif called == _TENSOR:
            self._stack.append(self._found(_tensor(*arguments[:4])))
        elif called == _PARAMETER and isinstance(arguments[0], Stored):
            self._stack.append(arguments[0])
        else:
            raise Refused("its pickle calls what is not to be called: refused, and nothing was run")

    def set_state(self, _: Any) -> None:
        """A module's state dict carries the versions of its layers as an attribute, which weights do not need."""
        self._stack.pop()
        if type(self._stack[-1]) is not dict:
            raise Refused("its pickle changes an object that is no dict: refused, and nothing was run")

    def storage(self, _: Any) -> None:
        word, kind, key, _place, count, *_view = self._stack.pop()  # before 1.6 a sixth told of views
        if word != "storage" or kind not in _STORAGES or type(key) is not str or type(count) is not int:
            raise Refused("no whole pickle: a storage of an unknown form")
        self._stack.append(Storage(_STORAGES[kind], key, count))


def _known(module: str, name: str) -> _Name:
    found = _Name(module, name)
    if found not in _KNOWN:
        raise Refused(
            f"its pickle names {show(f'{module}.{name}')}, which no weights need: refused, and nothing was run"
        )
    return found


def _tensor(storage: Any, offset: Any, shape: Any, strides: Any) -> Tensor:
    numbers = (offset, *shape, *strides)
    if not isinstance(storage, Storage) or len(shape) != len(strides):
        raise Refused("no whole pickle: a tensor without a storage")
    if any(type(number) is not int or number < 0 for number in numbers):
        raise Refused("no whole pickle: a tensor whose sizes are no numbers")
    last = offset + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))
    if 0 not in shape and last >= storage.count:
        raise Refused(f"damaged: a tensor of shape {list(shape)} reaches beyond its storage of {storage.count}")
    return Tensor(storage, offset, tuple(shape), tuple(strides))


_PASSED_OVER = frozenset({"PROTO", "FRAME", "STOP"})
_CONSTANTS: dict[str, Any] = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False, "EMPTY_TUPLE": ()}
_VALUES = frozenset(
    {"BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8"}
)
_ACTIONS: dict[str, Callable[[_Machine, Any], None]] = {
    "MARK": _Machine.mark,
    "BINPUT": _Machine.put,
    "LONG_BINPUT": _Machine.put,
    "MEMOIZE": _Machine.memoize,
    "BINGET": _Machine.get,
    "LONG_BINGET": _Machine.get,
    "EMPTY_DICT": _Machine.empty_dict,
    "EMPTY_LIST": _Machine.empty_list,
    "TUPLE": _Machine.tuple_since_mark,
    "TUPLE1": lambda machine, _: machine.tuple_of(1),
    "TUPLE2": lambda machine, _: machine.tuple_of(2),
    "TUPLE3": lambda machine, _: machine.tuple_of(3),
    "APPEND": _Machine.append,
    "APPENDS": _Machine.appends,
    "SETITEM": _Machine.set_item,
    "SETITEMS": _Machine.set_items,
    "GLOBAL": _Machine.name,
    "STACK_GLOBAL": _Machine.name_from_stack,
    "REDUCE": _Machine.call,
    "BUILD": _Machine.set_state,
    "BINPERSID": _Machine.storage,
}
