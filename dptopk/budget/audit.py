"""The record of a ledger as lines of JSON, that anybody can check: chained, and signed if wanted.

Each line but the last holds a line of a log: its text as it was hashed, and what was
released. The last one has the head of each log, and the HMAC-SHA256 of all lines before
it and of its own heads.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from dptopk.budget.lines import Replay, text_of
from dptopk.budget.lines import key as key_of
from dptopk.budget.store import Line
from dptopk.errors import LedgerError

__all__ = ["Audit", "exported", "verify_export"]

FORMAT = "dptopk ledger export 1"


class Audit(NamedTuple):
    """What a sound export holds.

    Attributes
    ----------
    heads : dict
        Of each budget by name: how many lines it has, and the hash of the last one.
    signed : bool
        Whether its signature was checked.
    lost : dict
        Of each budget by name: how many calls were charged and have no release.
    """

    heads: dict[str, tuple[int, str]]
    signed: bool
    lost: dict[str, int]


def exported(
    logs: Iterable[Sequence[Line]], *, key: bytes | None = None, bodies: bool = True
) -> Iterator[str]:
    """Return the lines of an export; see `Ledger.export`."""
    signature = None if key is None else hmac.new(key, digestmod=hashlib.sha256)
    heads: dict[str, list[Any]] = {}
    for log in logs:
        replay = Replay()
        for line in log:
            replay.follow(line)
            shown = {"text": line.text, "request_id": line.request_id}
            if bodies and line.body is not None:
                shown["body"] = line.body
            text = json.dumps(shown, sort_keys=True)
            if signature is not None:
                signature.update(text.encode("ascii") + b"\n")
            yield text
        assert replay.state is not None
        heads[log[0].name] = [len(log), replay.state.hash]
    last: dict[str, Any] = {"format": FORMAT, "heads": heads}
    if signature is not None:
        signature.update(json.dumps(last, sort_keys=True).encode("ascii"))
        last["hmac"] = signature.hexdigest()
    yield json.dumps(last, sort_keys=True)


def verify_export(
    lines: Iterable[str],
    *,
    key: bytes | None = None,
    earlier: Mapping[str, tuple[int, str]] | None = None,
) -> Audit:
    """Check an export: every hash, every balance, its end, and its signature.

    Parameters
    ----------
    lines : iterable of str
        Its lines.
    key : bytes, optional
        What it was signed with. Without it the chain alone is checked, which whoever
        made the whole of it anew can make sound.
    earlier : mapping, optional
        The `heads` of an earlier export: each of its budgets must be here and go on from
        there. That tells a ledger that was restored from an old copy.

    Returns
    -------
    Audit

    Raises
    ------
    TypeError
        If an argument is of the wrong kind.
    LedgerError
        If anything is wrong; the message quotes no release.

    Examples
    --------
    >>> import dptopk as dp, tempfile
    >>> from dptopk.budget.audit import verify_export
    >>> folder = tempfile.TemporaryDirectory()
    >>> with dp.Ledger(f"{folder.name}/budgets.sqlite") as ledger:
    ...     ledger.create("ann", k_star=20, calls=5, epsilon=1.0, delta=1e-6)
    ...     export = list(ledger.export(key=b"secret"))
    >>> verify_export(export, key=b"secret").heads["ann"][0]
    1
    >>> folder.cleanup()
    """
    signature = None if key is None else hmac.new(key, digestmod=hashlib.sha256)
    replays: dict[str, Replay] = {}
    hashes: dict[str, list[str]] = {}
    end: dict[str, Any] | None = None
    for number, text in enumerate(lines, 1):
        if not isinstance(text, str):
            raise TypeError(f"lines of an export are strings, got {type(text).__name__}")
        text = text.rstrip("\r\n")
        if end is not None:
            raise LedgerError(f"line {number} of the export comes after its end")
        try:
            shown = json.loads(text)
            if "format" in dict(shown):
                end = shown
                continue
            fields = dict(json.loads(shown["text"]))
            line = Line(
                str(fields["name"]), int(fields["seq"]), shown["request_id"], shown["text"],
                shown.get("body"),
            )  # fmt: skip
        except (TypeError, ValueError, KeyError, RecursionError):
            raise LedgerError(f"line {number} is no line of an export") from None
        if signature is not None:
            signature.update(text.encode("utf-8", "surrogatepass") + b"\n")
        replay = replays.setdefault(line.name, Replay())
        replay.follow(line)
        assert replay.state is not None
        hashes.setdefault(line.name, []).append(replay.state.hash)
    if end is None or end["format"] != FORMAT:
        raise LedgerError("the export has no end: it is cut off, or of another version")
    heads: dict[str, list[Any]] = {name: [len(found), found[-1]] for name, found in hashes.items()}
    if end.get("heads") != heads:
        raise LedgerError("the export has lost lines, or more than its end says")
    if signature is not None:
        signature.update(json.dumps({"format": FORMAT, "heads": heads}, sort_keys=True).encode())
        if not hmac.compare_digest(signature.hexdigest(), str(end.get("hmac"))):
            raise LedgerError("the export is not signed by this key")
    for name, (length, head) in (earlier or {}).items():
        found = hashes.get(key_of(name), [])
        if len(found) < length or found[length - 1] != head:
            raise LedgerError(f"the record of {name!r} does not go on from the earlier export")
    return Audit(
        {text_of(name): (length, head) for name, (length, head) in heads.items()},
        signature is not None,
        {text_of(name): replay.open_charges() for name, replay in replays.items()},
    )
