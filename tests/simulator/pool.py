"""The KV pool: blocks, shared prefixes, and the free queue out of which the longest-free block is taken.

Freed blocks keep their content until they are taken, so a freed prefix can still be hit. The queue is kept
as runs of blocks of one owner, which makes it exact and small.
"""

from __future__ import annotations

from collections import deque


class Owner:
    """Something whose blocks can be hit again: a shared prefix, or one preempted request.

    ``cached`` leading blocks are in the pool (held or free); ``held`` of them are held by somebody.
    """

    __slots__ = ("cached", "held", "holders", "tokens")

    def __init__(self, tokens: int) -> None:
        self.tokens = tokens
        self.cached = 0
        self.held = 0
        self.holders: dict[int, int] = {}
        """Request -> number of leading blocks it holds."""


class Pool:
    """``blocks`` blocks of which each is held, or free (in the queue)."""

    def __init__(self, blocks: int) -> None:
        self.blocks = blocks
        self.free = blocks
        self._queue: deque[list[object]] = deque([[None, blocks]])

    @property
    def used(self) -> int:
        return self.blocks - self.free

    def take(self, count: int) -> None:
        """Take ``count`` free blocks, longest free first; what they held is forgotten."""
        if count > self.free:
            raise RuntimeError(f"{count} blocks wanted, {self.free} free")
        self.free -= count
        queue = self._queue
        while count:
            head = queue[0]
            owner, size = head
            assert isinstance(size, int)
            part = size if size <= count else count
            count -= part
            if isinstance(owner, Owner):
                owner.cached -= part
            if part == size:
                queue.popleft()
            else:
                head[1] = size - part

    def put(self, count: int, owner: Owner | None = None) -> None:
        """Free ``count`` blocks; with an owner they can be hit until they are taken."""
        if count:
            self.free += count
            self._queue.append([owner, count])

    def idle_blocks(self, owner: Owner, hits: int) -> int:
        """How many of the first ``hits`` blocks of the owner are free (a hit takes them out of the queue)."""
        return max(0, hits - owner.held)

    def hold(self, owner: Owner, request: int, hits: int) -> None:
        """The request holds the owner's first ``hits`` blocks, which are all in the pool."""
        if hits <= 0:
            return
        wanted = self.idle_blocks(owner, hits)
        if wanted:
            self.free -= wanted
            # The owner's runs lie in the queue with the later (lower) blocks behind, so search from the end.
            for run in reversed(self._queue):
                if run[0] is owner and wanted:
                    size = run[1]
                    assert isinstance(size, int)
                    part = min(size, wanted)
                    run[1] = size - part
                    wanted -= part
            if wanted:
                raise RuntimeError("a hit on blocks that are not in the pool")
        owner.holders[request] = hits
        owner.held = max(owner.held, hits)

    def grow(self, owner: Owner, request: int, blocks: int) -> None:
        """The request, at the frontier, has computed the owner's blocks up to ``blocks`` (already taken)."""
        owner.cached = blocks
        owner.holders[request] = blocks
        owner.held = max(owner.held, blocks)

    def leave(self, owner: Owner, request: int) -> None:
        """The request lets go; blocks nobody else holds become free and stay hittable."""
        if owner.holders.pop(request, 0) == owner.held:
            held = max(owner.holders.values(), default=0)
            self.put(owner.held - held, owner)
            owner.held = held
