"""Bounded prefetch: work done ahead in threads, results in order. Knows neither audio nor MLX."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor, wait
from typing import Generic, TypeVar

T = TypeVar("T")
R = TypeVar("R")

# Seconds that `close` waits for work under way.
GRACE = 1.0


class Gate:
    """A bound on how many things, of how many bytes in all, are under way; one is always let in."""

    def __init__(self, count: int, size: int) -> None:
        self._most, self._room = count, size
        self._count = self._size = 0
        self._changed = threading.Condition()
        self._closed = False

    def enter(self, size: int, *, wait: bool) -> bool:
        """Take a place for `size` bytes; False where there is none and `wait` is False, or the gate was closed."""
        with self._changed:
            while wait and not self._closed and not self._fits(size):
                self._changed.wait()
            if self._closed or not self._fits(size):
                return False
            self._count, self._size = self._count + 1, self._size + size
            return True

    def leave(self, size: int) -> None:
        """Give a place back, of as many bytes as were asked for it."""
        with self._changed:
            self._count, self._size = self._count - 1, self._size - size
            self._changed.notify_all()

    def close(self) -> None:
        """Let everyone who waits go, empty-handed."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _fits(self, size: int) -> bool:
        return not self._count or (self._count < self._most and self._size + size <= self._room)


class Prefetch(Generic[T, R]):
    """`map(work, items)` done ahead by `workers` threads as far as the gate lets it, yielded in order.

    Each result holds a place of `cost(item)` bytes from before its work begins until `release(cost)` is called, by
    whoever is done with it: so the bound covers what is being worked on, what waits, and what is being used. What
    `work` raises comes in its place in the order, and holds none. Once closed, there is nothing more to come.
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
        self._futures: deque[tuple[int, Future[R]]] = deque()
        self._pool = ThreadPoolExecutor(workers, thread_name_prefix="prefetch") if workers else None
        self._next: T | None = None
        self._more = True
        self._closed = False
        self._closing = threading.Lock()

    def __iter__(self) -> Iterator[R]:
        return self

    def __next__(self) -> R:
        if self._closed:
            raise StopIteration
        if self._pool is None:
            return self._work(next(self._items))
        self._submit(wait=not self._futures)
        if not self._futures:
            raise StopIteration
        cost, future = self._futures[0]
        try:
            failed = future.exception() is not None
        except CancelledError:
            raise StopIteration from None
        # Taken out only now: `close`, or Ctrl-C while this waits, has to see what is still being worked on.
        self._futures.popleft()
        if failed:
            self._gate.leave(cost)
        return future.result()

    def ready(self) -> bool:
        """Whether `next()` would return, or end, at once; serially it never waits for anyone but itself."""
        if self._pool is None or self._closed:
            return True
        self._submit(wait=False)
        return self._futures[0][1].done() if self._futures else not self._more

    def release(self, cost: int) -> None:
        """The user of a result is done with it."""
        if self._pool is not None:
            self._gate.leave(cost)

    def close(self) -> None:
        """Drop what has not begun and free whoever waits; work under way ends by itself.

        No thread is left behind, unless its work takes longer than GRACE: nobody who pressed Ctrl-C waits for hours of
        audio to be decoded.
        """
        with self._closing:
            self._closed = True
        self._more = False
        self._gate.close()
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
            running = [future for _, future in tuple(self._futures) if not future.cancelled()]
            if not wait(running, timeout=GRACE).not_done:
                self._pool.shutdown(wait=True)

    def _submit(self, *, wait: bool) -> None:
        """Start work on further items while the gate lets them in; `wait` for the first of them."""
        assert self._pool is not None
        while self._more:
            if self._next is None:
                self._next = next(self._items, None)
            if self._next is None:
                self._more = False
                return
            cost = self._cost(self._next)
            if not self._gate.enter(cost, wait=wait):
                return
            with self._closing:  # the pool takes nothing once it is closed, and what it has taken `close` must see
                if self._closed:
                    return
                self._futures.append((cost, self._pool.submit(self._work, self._next)))
            self._next, wait = None, False
