"""Gated recurrent units over time, on the host: NumPy, no MLX.

Cho et al. 2014, arXiv 1406.1078, in cuDNN's form (PyTorch's). A step is a product of 0.4 MFLOP and a dozen operations
on a few hundred numbers, each of which would cost MLX more to hand over than to do: 7 times as long on a CPU, 100 steps
of one row. Each row is multiplied by itself, so that it gets the same, to the bit, in any batch.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Recurrence:
    """The states' side of a layer: [hidden, 3 * hidden], gates reset, update, new, and the last one's bias.

    What the two gates that go through a sigmoid are made of is halved, here and in what comes in: `halved`.
    """

    weight: Array
    bias: Array

    @property
    def hidden(self) -> int:
        return len(self.bias)

    def __call__(self, inputs: Array, state: Array) -> tuple[Array, Array]:
        """Inputs' side [rows, n, 3 * hidden], a state [rows, hidden] -> states [rows, n, hidden], and the last."""
        states = np.empty((*inputs.shape[:2], self.hidden), np.float32)
        for step in range(inputs.shape[1]):
            state = self._step(inputs[:, step], state)
            states[:, step] = state
        return states, state

    def _step(self, inputs: Array, state: Array) -> Array:
        hidden = self.hidden
        gates = np.matmul(state[:, None], self.weight)[:, 0]
        both, new = gates[:, : 2 * hidden], gates[:, 2 * hidden :]
        both += inputs[:, : 2 * hidden]
        np.tanh(both, out=both)  # sigmoid(x) = (1 + tanh(x / 2)) / 2: NumPy's tanh is faster than its exp
        both *= 0.5
        both += 0.5
        new += self.bias
        new *= both[:, :hidden]
        new += inputs[:, 2 * hidden :]
        np.tanh(new, out=new)
        kept = state - new
        kept *= both[:, hidden:]
        kept += new
        return np.asarray(kept)


def halved(gates: Array) -> Array:
    """Weights or biases of three gates, those of the two with a sigmoid halved."""
    hidden = len(gates) // 3
    return np.concatenate([gates[: 2 * hidden] * np.float32(0.5), gates[2 * hidden :]])
