"""Standard input, pipes and FIFOs: read once, from their first byte to their last.

Python reads the stream, unpacks it and looks at the header; all of it goes to
DuckDB through a pipe, which it reads once too.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import os
import stat
import threading
import zlib
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, NamedTuple

from dptopk.errors import SourceError
from dptopk.sources.interrupt import stopping

__all__ = ["Stream", "fed", "is_stream", "open_stream"]

STDIN = "-"
_CHUNK = 1 << 20


def is_stream(path: str) -> bool:
    """Whether a path is standard input, or anything else that can be read once only."""
    if path == STDIN:
        return True
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


class Stream(NamedTuple):
    """A stream that was opened: its bytes, unpacked if they are gzip's, and how to close it."""

    file: Any
    close: Callable[[], None]


def open_stream(path: str) -> Stream:
    """Open a stream for reading."""
    stack = contextlib.ExitStack()
    try:
        source = os.dup(0) if path == STDIN else path
        raw = stack.enter_context(open(source, "rb"))  # noqa: SIM115
    except OSError:
        raise SourceError(f"{path}: cannot be opened for reading") from None
    start = raw.read(2)  # not peek: a pipe may give a single byte at first
    file: Any = stack.enter_context(io.BufferedReader(_Joined(start, raw)))
    if start == b"\x1f\x8b":
        file = stack.enter_context(gzip.GzipFile(fileobj=file))
    return Stream(file, stack.close)


class _Joined(io.RawIOBase):
    """Bytes already read from a file, and then the rest of it."""

    def __init__(self, start: bytes, rest: io.BufferedReader):
        self._start, self._rest = start, rest

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._start or self._rest.read1(len(buffer))
        self._start = data[len(buffer) :] if self._start else b""
        data = data[: len(buffer)]
        buffer[: len(data)] = data
        return len(data)


@contextlib.contextmanager
def fed(stream: Stream, first: bytes, source: str) -> Iterator[str]:
    """Give the path of a pipe from which `first` and the rest of a stream can be read, once.

    Raises
    ------
    SourceError
        The stream is packed and malformed or cut short, or can't be read. Out
        of the body, whatever was read until then looks whole.
    """
    if not os.path.exists("/dev/fd"):
        raise SourceError(f"{source}: this system has no /dev/fd to read a stream from; use a file")
    reading, writing = os.pipe()
    pipe, closing = open(writing, "wb"), threading.Lock()  # noqa: SIM115
    failed: list[str] = []
    # The feeder closes the stream: it may still wait for bytes when the body has failed.
    work = (stream, first, pipe, closing, failed)
    feeder = threading.Thread(target=_feed, args=work, daemon=True)
    feeder.start()

    def end() -> None:  # at once, for whoever still reads
        with closing:
            if not pipe.closed:
                _sink(pipe.fileno())

    try:
        with stopping(end):
            yield f"/dev/fd/{reading}"
        feeder.join()
    finally:
        os.close(reading)  # ends the feeder, if nobody reads any more
    if failed:
        raise SourceError(f"{source}: {failed[0]}")


def _sink(descriptor: int) -> None:
    """Let what is written to a descriptor go nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)


def _feed(
    stream: Stream, first: bytes, pipe: BinaryIO, closing: threading.Lock, failed: list[str]
) -> None:
    try:
        pipe.write(first)
        while chunk := stream.file.read1(_CHUNK):
            pipe.write(chunk)
        pipe.flush()
    except BrokenPipeError:  # DuckDB has stopped reading, and says why
        pass
    except (OSError, EOFError, zlib.error):
        failed.append("not readable: malformed or cut short")
    finally:
        with closing, contextlib.suppress(OSError):
            pipe.close()
        stream.close()
