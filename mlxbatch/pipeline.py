"""Bounded prefetch: work done ahead in threads, results in order. Knows neither audio nor MLX."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, TypeVar

T = TypeVar("T")
R = TypeVar("R")


class Gate:
    """A bound on how many things, of how many bytes in all, are under way; one is always let in."""

    def __init__(self, count: int, size: int) -> None:
        self._count, self._size = count, size
        self._held: deque[int] = deque()
        self._changed = threading.Condition()
        self._closed = False

    def enter(self, size: int, *, wait: bool) -> bool:
        """Take a place for `size` bytes; False where there is none and `wait` is False, or the gate was closed."""
        with self._changed:
            while wait and not self._closed and not self._fits(size):
                self._changed.wait()
            if self._closed or not self._fits(size):
                return False
            self._held.append(size)
            return True

    def leave(self, size: int) -> None:
        """Give a place back."""
        with self._changed:
            self._held.remove(size)
            self._changed.notify_all()

    def close(self) -> None:
        """Let everyone who waits go, empty-handed."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _fits(self, size: int) -> bool:
        return not self._held or (len(self._held) < self._count and sum(self._held) + size <= self._size)


class Prefetch(Generic[T, R]):
    """`map(work, items)` done ahead by `workers` threads as far as the gate lets it, yielded in order.

    Each result holds a place of `cost(item)` bytes from before its work begins until `release(cost)` is called, by
    whoever is done with it: so the bound covers what is being worked on, what waits, and what is being used.
    `workers=0` is plain `map`: no thread, no gate, each item worked on when it is asked for.
    """

    def __init__(
        self,
        work: Callable[[T], R],
        items: Iterable[T],
        *,
        workers: int,
        count: int,
        size: int,
        cost: Callable[[T], int],
    ) -> None:
        self._work, self._items, self._cost = work, iter(items), cost
        self._gate = Gate(count, size)
        self._futures: deque[Future[R]] = deque()
        self._pool = ThreadPoolExecutor(workers, thread_name_prefix="prefetch") if workers else None
        self._next: T | None = None
        self._more = True

    def __iter__(self) -> Iterator[R]:
        return self

    def __next__(self) -> R:
        if self._pool is None:
            return self._work(next(self._items))
        self._submit(wait=not self._futures)
        if not self._futures:
            raise StopIteration
        return self._futures.popleft().result()

    def ready(self) -> bool:
        """Whether `next()` would return at once; serially it never waits for anyone but itself."""
        if self._pool is None:
            return True
        self._submit(wait=False)
        return self._futures[0].done() if self._futures else not self._more

    def release(self, cost: int) -> None:
        """The user of a result is done with it."""
        if self._pool is not None:
            self._gate.leave(cost)

    def close(self) -> None:
        """Drop what has not begun and free whoever waits; work under way ends by itself. No thread is left behind."""
        self._gate.close()
        self._more = False
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)

    def _submit(self, *, wait: bool) -> None:
        """Start work on further items while the gate lets them in; `wait` for the first of them."""
        assert self._pool is not None
        while self._more:
            if self._next is None:
                self._next = next(self._items, None)
            if self._next is None:
                self._more = False
                return
            if not self._gate.enter(self._cost(self._next), wait=wait):
                return
            self._futures.append(self._pool.submit(self._work, self._next))
            self._next, wait = None, False
