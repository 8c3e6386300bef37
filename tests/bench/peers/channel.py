"""The lines between the bench and a program that it runs in a terminal, beside the terminal."""

import asyncio
import os


class Channel:
    """Two file descriptors, as ``Terminal`` passes them; the end of the bench is the end of the lines."""

    def __init__(self, heard: str, tell: str) -> None:
        self._heard, self._tell = int(heard), int(tell)
        self._lines: asyncio.Queue[str | None] = asyncio.Queue()
        self._rest = b""

    def listen(self) -> None:
        """Start to listen, in the running loop."""
        asyncio.get_running_loop().add_reader(self._heard, self._read)

    async def next(self) -> str | None:
        """Return the next line, or None at the end."""
        return await self._lines.get()

    def tell(self, line: str) -> None:
        """Send the bench a line."""
        os.write(self._tell, line.encode() + b"\n")

    def _read(self) -> None:
        data = os.read(self._heard, 1 << 16)
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._lines.put_nowait(line.decode())
        if not data:
            asyncio.get_running_loop().remove_reader(self._heard)
            self._lines.put_nowait(None)
