"""A fast loopback server of many targets, in a process of its own: page A and page B of each target in turn.

    python -m tests.benchmarks.fleet_server PORT PAGE_A PAGE_B

Every address of 127.0.0.0/8 answers, so each target is a host of its own.
``GET /stats`` tells how many pages were served.
"""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path


class Fleet:
    """Serves two bodies; knows which target was asked before.

    Every target has creation times of its own: pages that share them are one server under two addresses.
    """

    def __init__(self, first: bytes, later: bytes) -> None:
        self.first, self.later = _around_created(first), _around_created(later)
        self.asked: dict[str, int] = {}
        self.numbers: dict[str, int] = {}
        self.served = 0

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                path = head.split(b" ", 2)[1]
                host = writer.get_extra_info("sockname")[0]
                if path == b"/stats":
                    writer.write(_response(str(self.served).encode()))
                    continue
                key = f"{host}{path.decode('ascii', 'replace')}"
                before = self.asked.get(key, 0)
                self.asked[key] = before + 1
                self.served += 1
                born = b"1790%06d.25" % self.numbers.setdefault(host, len(self.numbers))
                writer.write(_response(born.join(self.later if before % 2 else self.first)))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


def _around_created(body: bytes) -> list[bytes]:
    """The page without its creation times: what stands between them."""
    return re.sub(rb"(?m)^([a-zA-Z0-9_:]*_created(?:\{[^\n]*\})? )[^\n]+$", rb"\1\0", body).split(b"\0")


def _response(body: bytes) -> bytes:
    head = f"HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


async def _serve(port: int, first: bytes, later: bytes) -> None:
    fleet = Fleet(first, later)
    server = await asyncio.start_server(fleet.talk, "0.0.0.0", port, backlog=1024)
    print("ready", flush=True)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_serve(int(sys.argv[1]), Path(sys.argv[2]).read_bytes(), Path(sys.argv[3]).read_bytes()))
