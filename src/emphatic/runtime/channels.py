"""What threads hand each other: closable queues, and parameters by version.

Both end in one way: whoever closes says why, and everyone who waits is told (`Closed`).
"""

import collections
import concurrent.futures
import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

Item = TypeVar("Item")


class Closed(Exception):
    """The other side has closed; the message says why."""


class Channel(Generic[Item]):
    """A first-in, first-out queue of bounded length between two threads.

    `close` wakes both sides: nothing can be put any more, and what was put can still be had.
    """

    def __init__(self, name: str, capacity: int):
        self.name = name
        self._capacity = capacity
        self._items: collections.deque[Item] = collections.deque()
        self._changed = threading.Condition()
        self._closed: str | None = None

    def put(self, item: Item) -> None:
        """Hand over `item`; waits while the channel is full."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._closed is not None or len(self._items) < self._capacity
            )
            if self._closed is not None:
                raise Closed(f"{self.name}: {self._closed}")
            self._items.append(item)
            self._changed.notify_all()

    def get(self, timeout: float) -> Item:
        """The oldest item; `TimeoutError` after `timeout` seconds without one."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed is not None or self._items, timeout)
            if self._items:
                item = self._items.popleft()
                self._changed.notify_all()
                return item
            if self._closed is not None:
                raise Closed(f"{self.name}: {self._closed}")
            raise TimeoutError(f"{self.name}: nothing came within {timeout:g} s")

    def close(self, reason: str) -> None:
        """No more items; the first reason given stays."""
        with self._changed:
            self._closed = self._closed or reason
            self._changed.notify_all()

    def __len__(self) -> int:
        with self._changed:
            return len(self._items)


class Parameters(Generic[Item]):
    """Parameters by version, from one learner to many actors.

    An actor asks for one exact version and waits until it is there; so what a trajectory
    was made with never depends on timing. Versions are published in order, and those
    older than the `kept` newest are forgotten.
    """

    def __init__(self, kept: int):
        self._kept = kept
        self._versions: dict[int, Item] = {}
        self._changed = threading.Condition()
        self._closed: str | None = None

    def publish(self, version: int, params: Item) -> None:
        """Make `params` known as `version`; publishing a version again changes nothing."""
        with self._changed:
            self._versions.setdefault(version, params)
            for old in sorted(self._versions)[: -self._kept]:
                del self._versions[old]
            self._changed.notify_all()

    def get(self, version: int) -> Item:
        """The parameters of that version, as soon as they are published."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed is not None or version in self._versions)
            if self._closed is not None:
                raise Closed(f"parameters: {self._closed}")
            return self._versions[version]

    def close(self, reason: str) -> None:
        """Nobody shall wait any longer."""
        with self._changed:
            self._closed = self._closed or reason
            self._changed.notify_all()


class Watch:
    """What a thread is waiting for, and how long it has; read by another thread.

    with watch("a step"): batch.step(action)

    `times` is how many time limits it may take. Inside another one the inner counts, and the
    outer one begins anew behind it.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic):
        self._clock = clock
        self._waiting: tuple[str, int, float] | None = None

    @contextlib.contextmanager
    def __call__(self, what: str, times: int = 1) -> Iterator[None]:
        outer = self._waiting
        self._waiting = (what, times, self._clock())
        try:
            yield
        finally:
            self._waiting = None if outer is None else (*outer[:2], self._clock())

    def overdue(self, limit: float) -> str | None:
        """What has been taking longer than it may, with a limit of so many seconds, if anything."""
        waiting = self._waiting
        if waiting is None:
            return None
        what, times, since = waiting
        if self._clock() - since <= times * limit:
            return None
        return f"{what} took over {times * limit:g} s"


def within(seconds: float, work: Callable[[], Item]) -> Item:
    """What `work` returns; `TimeoutError` if it takes longer, and its thread is left behind."""
    future: concurrent.futures.Future[Item] = concurrent.futures.Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    if not concurrent.futures.wait([future], seconds).done:
        raise TimeoutError(f"took over {seconds:g} s")
    return future.result()
