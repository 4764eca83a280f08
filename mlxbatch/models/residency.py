"""The models that one process holds on its device: loaded on demand, together within the memory limit.

Where another one does not fit beside them, the least recently used leave first (`lru` decides), never one in use.
"""

from __future__ import annotations

import gc
import traceback
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import mlx.core as mx
import mlx.nn as nn
from mlx.utils import tree_flatten, tree_map

from mlxbatch import device
from mlxbatch.device import DeviceSettings
from mlxbatch.errors import SetupError
from mlxbatch.models.lru import Held, leaving
from mlxbatch.types import Resident
from mlxbatch.words import size as in_words

M = TypeVar("M")


@contextmanager
def device_residency(settings: DeviceSettings) -> Iterator[Residency]:
    """The device with these settings, and nothing on it yet; on the way out all models go, and the settings."""
    with device.device_settings(settings):
        residency = Residency(settings)
        try:
            yield residency
        finally:
            residency.clear()


@dataclass(slots=True)
class _Entry:
    model: Any
    size: int
    leases: int = 0


class Residency:
    """Belongs to the thread that made it, on which models load and work; `resident` may be read from any.

    What counts is the bytes of weights. What work takes beside them is the governor's business.
    """

    def __init__(self, settings: DeviceSettings) -> None:
        self._settings, self.budget = settings, settings.memory_bytes()
        self._held: OrderedDict[str, _Entry] = OrderedDict()  # the least recently used first
        self.resident = Resident()
        self._loads = self._evictions = 0

    @contextmanager
    def use(self, key: str, load: Callable[[], M], size: int) -> Iterator[M]:
        """The model of this key, loaded where it is not there; it stays as long as somebody is in here.

        `key` is one model in one form, and its name in messages; a model is a module, or a dictionary of some. `size`
        is what its weights will take, in bytes: room is made before `load` is called. Afterwards the caller is to let
        go of the model, and of what has hold of it: only then its memory can be given back.

        Raises SetupError where it does not fit beside those in use, or alone; OutOfMemory; what `load` raises.
        """
        if key not in self._held:
            self._load(key, load, size)
        entry = self._held[key]
        entry.leases += 1
        self._held.move_to_end(key)
        try:
            yield entry.model
        finally:
            entry.leases -= 1
            self._held.move_to_end(key)

    def clear(self) -> None:
        """Let go of all models."""
        self._evict(list(self._held))
        self._changed()

    def _load(self, key: str, load: Callable[[], M], size: int) -> None:
        self._make_room(key, size)
        try:
            entry = self._loaded(key, load, size)
        except BaseException as error:
            _forget(error)
            self._give_back()
            raise
        self._held[key] = entry
        self._loads += 1
        self._changed()

    def _loaded(self, key: str, load: Callable[[], M], size: int) -> _Entry:
        with device.device_errors():
            model = load()
            mx.eval([leaf for leaf in _leaves(model) if isinstance(leaf, mx.array)])
        entry = _Entry(model, weight_bytes(model))
        if entry.size > size:  # more than was said
            self._make_room(key, entry.size)
        return entry

    def _make_room(self, key: str, size: int) -> None:
        held = [Held(name, entry.size, entry.leases > 0) for name, entry in self._held.items()]
        gone = leaving(held, size, self.budget)
        if gone is None:
            raise SetupError(self._too_large(key, size))
        self._evictions += len(gone)
        self._evict(gone)

    def _evict(self, keys: list[str]) -> None:
        for key in keys:
            del self._held[key]
        if keys:
            self._give_back()
            self._changed()

    def _give_back(self) -> None:
        """Modules may refer to themselves, in a hook say: those are freed by the collector alone."""
        gc.collect()
        device.reclaim()

    def _changed(self) -> None:
        total = sum(entry.size for entry in self._held.values())
        device.wire(self._settings, total)
        self.resident = Resident(tuple(self._held), total, self._loads, self._evictions)

    def _too_large(self, key: str, size: int) -> str:
        others = [name for name, entry in self._held.items() if entry.leases]
        beside = f" beside {', '.join(others)}, in use" if others else ""
        return (
            f"{key}: its weights take {in_words(size)}, more than the memory limit of {in_words(self.budget)} has room "
            f"for{beside}: raise memory_limit under [device] (--memory-limit), or take a smaller model"
        )


def _forget(error: BaseException | None) -> None:
    """Empty the variables of the functions that failed: a traceback keeps them, and they hold what was read so far."""
    while error is not None:
        traceback.clear_frames(error.__traceback__)
        error = error.__cause__ or error.__context__


def weight_bytes(model: Any) -> int:
    """Bytes of a model's weights."""
    return sum(int(leaf.nbytes) for leaf in _leaves(model))


def _leaves(model: Any) -> list[Any]:
    """A module's weights; of a dictionary or list of them, or of what tells its `nbytes` itself, each."""
    tree = tree_map(_parameters, model, is_leaf=lambda node: isinstance(node, nn.Module))
    return [leaf for _, leaf in tree_flatten(tree)]


def _parameters(node: Any) -> Any:
    return node.parameters() if isinstance(node, nn.Module) else node
