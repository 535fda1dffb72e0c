"""Which KV blocks a request of the vLLM model holds, hits and leaves behind."""

from __future__ import annotations

from .pool import Owner, Pool
from .streams import Seat


class Blocks:
    """The pool of one engine, its shared prefixes, and the rules by which requests hold blocks."""

    def __init__(self, *, blocks: int, block_size: int, caching: bool) -> None:
        self.pool = Pool(blocks)
        self.size = block_size
        self.caching = caching
        self._prefixes: dict[int, Owner] = {}

    def prefix(self, group: int | None, tokens: int) -> Owner | None:
        """The shared prefix of a group; None where nothing is shared or caching is off."""
        if group is None or not self.caching:
            return None
        return self._prefixes.setdefault(group, Owner(tokens))

    def wanted(self, seat: Seat, chunk: int) -> int:
        """Blocks a chunk of the prompt needs beyond those held."""
        return max(0, -(-(seat.computed + chunk) // self.size) - seat.shared - seat.private)

    def look_up(self, seat: Seat) -> tuple[int, int]:
        """Blocks in the pool that the request can use: of its prefix, and behind it of its own.

        The last token is always computed anew, so a whole prompt is never hit.
        """
        if not self.caching:
            return 0, 0
        most = (seat.total - 1) // self.size
        cached = min(seat.prefix.cached, most) if seat.prefix else 0
        if seat.own and cached >= seat.own_behind:
            own = min(seat.own.cached, most - seat.own_behind)
            if seat.own_behind + own > cached:
                return seat.own_behind, own
        return cached, 0

    def admit(self, seat: Seat, shared: int, own: int, chunk: int, *, whole: bool) -> bool:
        """Give a waiting request its hits and room for its first chunk; False where there is none.

        ``whole``: the rest of its tokens must fit too (they are not taken yet).
        """
        pool, size = self.pool, self.size
        known = shared + own
        need = -(-(known * size + chunk) // size) - known
        room = max(need, -(-seat.total // size) - known) if whole else need
        woken = own + (pool.idle_blocks(seat.prefix, shared) if seat.prefix else 0)
        if woken + room > pool.free:
            return False
        if seat.prefix:
            pool.hold(seat.prefix, seat.index, shared)
        if seat.own:
            pool.hold(seat.own, seat.index, own)
            seat.own = None
        pool.take(need)
        seat.shared, seat.private, seat.computed = shared, own, known * size
        return True

    def advance(self, seat: Seat, chunk: int) -> None:
        """A chunk is scheduled, its blocks are taken; full blocks of a prefix can be hit from now on."""
        seat.private += self.wanted(seat, chunk)
        seat.computed += chunk
        prefix = seat.prefix
        if prefix and seat.shared == prefix.cached:
            reached = min(seat.computed, prefix.tokens) // self.size
            if reached > seat.shared:
                seat.private -= reached - seat.shared
                seat.shared = reached
                self.pool.grow(prefix, seat.index, reached)

    def merge(self, seat: Seat) -> None:
        """Radix cache: give up blocks that another request has put into the cache first, for those."""
        prefix = seat.prefix
        if prefix is None:
            return
        common = min(prefix.cached, prefix.tokens // self.size, seat.computed // self.size)
        double = common - seat.shared
        if double > 0:
            self.pool.hold(prefix, seat.index, common)
            self.pool.put(double)
            seat.private -= double
            seat.shared = common

    def release(self, seat: Seat, *, comes_back: bool) -> None:
        """Free all blocks of a request. One that was preempted may find its own full blocks again."""
        full = 0
        if comes_back and self.caching:
            full = max(0, min(seat.computed // self.size - seat.shared, seat.private))
        self.pool.put(seat.private - full)
        if full:
            seat.own = Owner(0)
            seat.own.cached = full
            seat.own_behind = seat.shared
            self.pool.put(full, seat.own)
        if seat.prefix:
            self.pool.leave(seat.prefix, seat.index)
        seat.private = seat.shared = 0
