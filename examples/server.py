"""Top-k behind an ASGI server: see docs/server.md.

LEDGER is the file of the budgets, EVENTS a file of events. USER_COLUMN and ITEM_COLUMN name
its columns, which are user and item by default:

    dptopk ledger create budgets.sqlite --budget ann --k-star 200 --calls 50 \
        --epsilon 2 --delta 1e-6
    LEDGER=budgets.sqlite EVENTS=examples/debian12_sections.parquet USER_COLUMN=package \
        ITEM_COLUMN=dependency uvicorn examples.server:app
    curl -H 'x-analyst: ann' -H 'idempotency-key: 1' 'localhost:8000/top?k=5'
"""

from __future__ import annotations

import asyncio
import json
import os
from functools import lru_cache
from typing import Any
from urllib.parse import parse_qs

import dptopk as dp

# Prepared once; every request then costs time in k, not in events or items.
HISTOGRAM = dp.Histogram.from_files(
    os.environ["EVENTS"],
    user=os.environ.get("USER_COLUMN", "user"),
    item=os.environ.get("ITEM_COLUMN", "item"),
    k_bar=1000,
)
# How long a request waits for other writers to the ledger, in seconds.
LEDGER = dp.Ledger(os.environ["LEDGER"], timeout=float(os.environ.get("LEDGER_TIMEOUT", "30")))


@lru_cache(maxsize=1024)
def session_of(analyst: str) -> dp.Session:
    """One session an analyst; all of one budget share what is left."""
    return dp.Session.bound(LEDGER, analyst)


def top(analyst: str, k: str, request_id: str | None) -> tuple[int, dict[str, Any]]:
    """Answer in a thread: a charge waits for the disk.

    Answers that may be shown hold only what the analyst sent, and what is left. Others may
    name the file: they are for the log.
    """
    try:
        session = session_of(analyst)
        number = "rest" if k == "rest" else int(k)
        release = session.limited_domain(HISTOGRAM, k=number, request_id=request_id)
        left = session.remaining
    except dp.BudgetError as error:
        return 429, {"error": str(error)}
    except dp.UnknownBudgetError:
        return 404, {"error": "there is no budget for this analyst"}
    except dp.LedgerConflictError as error:
        return 409, {"error": f"{error}; a new idempotency-key makes a new request"}
    except dp.LedgerUnavailableError as error:
        print("ledger:", error)
        return 503, {"error": "the ledger failed; ask again with the same idempotency-key"}
    except dp.LedgerError as error:
        print("ledger:", error)
        return 500, {"error": "the ledger is damaged: nothing can be answered"}
    except (TypeError, ValueError):
        return 400, {"error": "k must be an integer from 1 to 1000, or rest"}
    return 200, {
        "items": release.items,
        "complete": release.complete,
        "charged": release.outcomes,
        "left": left._asdict(),
    }


async def app(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """GET /top?k=10, the analyst in a header that the proxy sets after it has checked who asks."""
    if scope["type"] == "lifespan":
        await lifespan(receive, send)
        return
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
    if scope["type"] != "http" or scope["path"] != "/top" or scope["method"] != "GET":
        status, answer = 404, {"error": "GET /top?k=10"}
    elif "x-analyst" not in headers:
        status, answer = 401, {"error": "who asks?"}
    else:
        k = parse_qs(scope["query_string"].decode("latin-1")).get("k", ["10"])[0]
        status, answer = await asyncio.to_thread(
            top, headers["x-analyst"], k, headers.get("idempotency-key")
        )
    kind = [(b"content-type", b"application/json")]
    await send({"type": "http.response.start", "status": status, "headers": kind})
    await send({"type": "http.response.body", "body": json.dumps(answer, default=str).encode()})


async def lifespan(receive: Any, send: Any) -> None:
    """Close the ledger with the server."""
    while True:
        message = await receive()
        if message["type"] == "lifespan.shutdown":
            LEDGER.close()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return
