"""What goes to workers beside tasks: large buffers, to each worker once while they are in use."""

from __future__ import annotations

from typing import Any

from .sending import Buffer, Message, digest_of

INLINE = 4 << 20  # bytes of a buffer times workers that may travel in tasks
_CALLS = 4  # calls after which a buffer that none has used is dropped


class Transfers:
    """Buffers that lie on all workers of a client, by content."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self.calls = 0
        self._sent: dict[bytes, tuple[Any, int]] = {}  # a Future, and the last call that used it

    def begin(self) -> None:
        """Begin a call, and drop what the last ones have not used."""
        self.calls += 1
        old = [d for d, (_, used) in self._sent.items() if used < self.calls - _CALLS]
        for digest in old:
            del self._sent[digest]

    def prepared(self, message: Message, workers: int) -> list[object]:
        """The buffers of a message for tasks: small ones as bytes, others as Futures of bytes."""
        few = [len(b) * workers <= INLINE for b in message.buffers]
        pairs = zip(message.buffers, few, strict=True)
        return [bytes(b) if small else self._sent_once(b) for b, small in pairs]

    def _sent_once(self, buffer: Buffer) -> Any:
        digest = digest_of(buffer)
        future = self._sent[digest][0] if digest in self._sent else None
        if future is None:
            (future,) = self.client.scatter([bytes(buffer)], broadcast=True, hash=False, timeout=10)
        self._sent[digest] = future, self.calls
        return future

    def restore(self) -> bool:
        """Forget what was lost, so that the next call sends it; whether there was any."""
        lost = [d for d, (future, _) in self._sent.items() if future.status != "finished"]
        for digest in lost:
            del self._sent[digest]
        return bool(lost)

    def forget(self) -> None:
        """Drop all of them."""
        self._sent.clear()
