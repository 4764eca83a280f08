"""EngineHost: a thread or a spawned child that owns device and engine; jobs go in, outputs and readings come out.

A child is the default. MLX can end its process (on Linux a request beyond memory is a segmentation fault), and a child
is replaced where a thread would take the run with it. The parent needs no MLX.
"""

from __future__ import annotations

from typing import Literal

from mlxbatch.engines.base import EngineSpec
from mlxbatch.host.base import STALL_TIMEOUT as STALL_TIMEOUT
from mlxbatch.host.base import Changed as Changed
from mlxbatch.host.base import EngineHost as EngineHost
from mlxbatch.host.base import Happening as Happening
from mlxbatch.host.child import ChildHost as ChildHost
from mlxbatch.host.thread import ThreadHost as ThreadHost

Kind = Literal["child", "thread"]


def make_host(spec: EngineSpec, kind: Kind, stall_timeout: float = STALL_TIMEOUT) -> EngineHost:
    return ChildHost(spec, stall_timeout) if kind == "child" else ThreadHost(spec)
