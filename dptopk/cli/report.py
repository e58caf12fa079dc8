"""``dptopk select --html FILE``: the page, whole or not at all, and its place held beforehand."""

from __future__ import annotations

import contextlib
import os
from types import TracebackType

from dptopk.cli.printing import Refused
from dptopk.plotting.page import MARK
from dptopk.rng import token

__all__ = ["Report"]

ROOM = 1 << 16  # bytes that a page of a few hundred items needs


class Report:
    """A file beside the one that is to be, until the page is whole.

    It is made before the data is read and the budget charged: a folder that is not there or
    can't be written, or a full disk, is found while a refusal costs nothing. Only a page of
    dptopk is replaced: a slip of the hand must not cost a file of events or a ledger.

    Parameters
    ----------
    path : str or None
        None for no page at all.
    """

    def __init__(self, path: str | None):
        self._path, self._part, self._fd = path, "", -1
        if path is None:
            return
        _check(path)
        folder, name = os.path.split(os.path.abspath(path))
        self._part = os.path.join(folder, f".{name}.{token(8)}")
        try:
            self._fd = os.open(self._part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
            os.posix_fallocate(self._fd, 0, ROOM)
        except OSError as error:
            self.__exit__(None, None, None)
            raise Refused(
                f"--html {path}: it can't be written ({error.strerror}); name a file in a folder "
                "that you may write to, with room on its disk"
            ) from None

    def write(self, page: str) -> str:
        """Put the page in its place; return what went wrong, or nothing."""
        try:
            os.ftruncate(self._fd, 0)
            with open(self._fd, "wb", closefd=False) as file:
                file.write(page.encode())
            os.fsync(self._fd)
            os.replace(self._part, self._path or "")
        except OSError as error:
            return error.strerror or type(error).__name__
        return ""

    def __enter__(self) -> Report:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
        with contextlib.suppress(OSError):  # it is gone when it is in its place
            if self._part:
                os.unlink(self._part)


def _check(path: str) -> None:
    """Refuse what is no name of a file, and what stands there already unless it is such a page."""
    if not os.path.basename(path) or path == "-":
        raise Refused("--html needs the name of a file, such as report.html")
    if not os.path.lexists(path):
        return
    found = b""
    if os.path.isfile(path) and not os.path.islink(path):
        with contextlib.suppress(OSError), open(path, "rb") as file:
            found = file.read(len(MARK))
    if found != MARK.encode():
        raise Refused(
            f"--html {path}: something else than a report of dptopk is there; name a new file"
        )
