"""Top-k as a service, by FastAPI: see docs/server.md.

LEDGER is the file of the budgets, EVENTS a file of events. USER_COLUMN and ITEM_COLUMN name
its columns, which are user and item by default:

    pip install 'dptopk[server]'
    dptopk ledger create budgets.sqlite --budget ann --k-star 200 --calls 50 \
        --epsilon 2 --delta 1e-6
    LEDGER=budgets.sqlite EVENTS=examples/debian12_sections.parquet USER_COLUMN=package \
        ITEM_COLUMN=dependency uvicorn examples.server:app
    curl -H 'x-analyst: ann' -H 'idempotency-key: 1' 'localhost:8000/top?k=5'
"""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import lru_cache
from typing import Any

import prometheus_client as prometheus
from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.responses import JSONResponse

import dptopk as dp

EVENTS = os.environ["EVENTS"]
COLUMNS = {
    "user": os.environ.get("USER_COLUMN", "user"),
    "item": os.environ.get("ITEM_COLUMN", "item"),
}
RELOAD = float(os.environ.get("RELOAD_SECONDS", "5"))
# How long a request waits in line, and then for other programs' writes, in seconds.
TIMEOUT = float(os.environ.get("LEDGER_TIMEOUT", "30"))
LEDGER = dp.Ledger(os.environ["LEDGER"], timeout=TIMEOUT)
LINE = asyncio.Lock()

# What is counted here was either released or seen by whoever asked.
METRICS = prometheus.CollectorRegistry()
REQUESTS = prometheus.Counter("topk_requests", "Answers.", ["path", "status"], registry=METRICS)
SECONDS = prometheus.Histogram(
    "topk_seconds", "Time to answer.", buckets=(0.01, 0.1, 1, 10), registry=METRICS
)
OUTCOMES = prometheus.Counter("topk_outcomes", "Outcomes in answers.", registry=METRICS)
RELOADS = prometheus.Counter("topk_reloads", "Reloads of events.", ["result"], registry=METRICS)
LOADED = prometheus.Gauge("topk_loaded_time_seconds", "Unix time of the load.", registry=METRICS)


class Data:
    """The histogram, prepared once a file; every request costs time in k, not in events."""

    def __init__(self, path: str):
        self.path = path
        self.histogram, self._seen = self._load()

    def _load(self) -> tuple[dp.Histogram, tuple[int, ...]]:
        # Looked at before it is read: a file that changes meanwhile is read again.
        seen = self._look()
        histogram = dp.Histogram.from_files(self.path, **COLUMNS, k_bar=1000)
        LOADED.set_to_current_time()
        return histogram, seen

    def _look(self) -> tuple[int, ...]:
        found = os.stat(self.path)
        return found.st_mtime_ns, found.st_size, found.st_ino

    def refresh(self) -> None:
        """Load the file again if it has changed; if that fails, go on with what there is."""
        try:
            if self._look() == self._seen:
                return
            # One assignment: a request has taken the old histogram or takes the new one.
            self.histogram, self._seen = self._load()
            RELOADS.labels("ok").inc()
        except Exception as error:
            RELOADS.labels("failed").inc()
            print("reload:", error)


DATA = Data(EVENTS)


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Look at the file from time to time; close the ledger with the server."""

    async def watch() -> None:
        while RELOAD > 0:
            await asyncio.sleep(RELOAD)
            await asyncio.to_thread(DATA.refresh)

    task = asyncio.create_task(watch())
    yield
    task.cancel()
    LEDGER.close()


app = FastAPI(
    lifespan=lifespan, docs_url=None, redoc_url=None, openapi_url=None, redirect_slashes=False
)


@lru_cache(maxsize=1024)
def session_of(analyst: str) -> dp.Session:
    """One session an analyst; all of one budget share what is left."""
    return dp.Session.bound(LEDGER, analyst)


def header(request: Request, name: str) -> str | None:
    """Return a header that may come once, of printable ASCII without spaces."""
    values = request.headers.getlist(name)
    if len(values) > 1 or not all(re.fullmatch("[!-~]{1,200}", value) for value in values):
        raise HTTPException(400, f"{name} must come once, of 1 to 200 printable characters")
    return values[0] if values else None


def asked_k(request: Request) -> int | str:
    """Return k; the whole query must be it, as nothing else that it may mean is understood."""
    query = request.scope["query_string"].decode("latin-1")
    found = re.fullmatch("k=(rest|[1-9][0-9]{0,3})", query)
    if not found or (found[1] != "rest" and int(found[1]) > 1000):
        raise HTTPException(400, "the query must be k=, an integer from 1 to 1000 or rest")
    return "rest" if found[1] == "rest" else int(found[1])


@app.get("/top")
async def top(request: Request) -> dict[str, Any]:
    """Check the request, wait in line, and answer in a thread: a charge waits for the disk.

    The proxy sets x-analyst after it has checked who asks.
    """
    if request.headers.get("content-length", "0") != "0" or "transfer-encoding" in request.headers:
        raise HTTPException(413, "the request must have no body")
    analyst, key = header(request, "x-analyst"), header(request, "idempotency-key")
    if analyst is None:
        raise HTTPException(401, "who asks?")
    k = asked_k(request)
    # A ledger has one writer at a time. Who waits here holds no thread, is served in the order of
    # arrival, and gives up before anything was charged.
    try:
        await asyncio.wait_for(LINE.acquire(), TIMEOUT)
    except asyncio.TimeoutError:
        raise HTTPException(503, "too many requests at once; nothing was charged") from None
    try:
        return await asyncio.to_thread(answer, analyst, k, key)
    finally:
        LINE.release()


def answer(analyst: str, k: int | str, key: str | None) -> dict[str, Any]:
    """Charge, draw and record."""
    session, histogram = session_of(analyst), DATA.histogram
    release = session.limited_domain(histogram, k=k, request_id=key)
    left = session.remaining
    OUTCOMES.inc(release.outcomes)
    return {
        "items": release.items,
        "complete": release.complete,
        "charged": release.outcomes,
        "left": left._asdict(),
    }


@app.get("/health")
def health() -> dict[str, str]:
    """Answer 200 if a request could be answered: there are events, and the ledger can be read."""
    LEDGER.names()
    return {"status": "ok"}


@app.get("/metrics")
def metrics() -> Response:
    """Answer in Prometheus' text format; for whoever runs the server, not for analysts."""
    return Response(prometheus.generate_latest(METRICS), media_type="text/plain; version=0.0.4")


@app.middleware("http")
async def count(request: Request, call_next: Any) -> Response:
    """Count answers and their time."""
    start, status = time.perf_counter(), 500
    path = request.url.path if request.url.path in ("/top", "/health", "/metrics") else "other"
    try:
        response: Response = await call_next(request)
        status = response.status_code
        return response
    finally:
        REQUESTS.labels(path, str(status)).inc()
        if path == "/top":
            SECONDS.observe(time.perf_counter() - start)


# The errors of the library by what to do about them. Those with a text of our own may name the
# file, which is for the log; others hold what the analyst sent, and what is left.
ANSWERS: dict[type[Exception], tuple[int, str | None]] = {
    dp.BudgetError: (429, None),
    dp.UnknownBudgetError: (404, "there is no budget for this analyst"),
    dp.LedgerConflictError: (409, None),
    dp.LedgerUnavailableError: (503, "the ledger failed; ask again with the same idempotency-key"),
    dp.LedgerError: (500, "the ledger is damaged: nothing can be answered"),
}


async def failed(request: Request, error: Exception) -> JSONResponse:
    """Say what to do."""
    status, text = next(ANSWERS[kind] for kind in type(error).__mro__ if kind in ANSWERS)
    if text is None:
        text = str(error)
        if status == 409:
            text += "; a new idempotency-key makes a new request"
    elif status >= 500:
        print("ledger:", error)
    return JSONResponse({"error": text}, status)


for kind in ANSWERS:
    app.add_exception_handler(kind, failed)


@app.exception_handler(404)
@app.exception_handler(405)
@app.exception_handler(HTTPException)
async def refused(request: Request, error: HTTPException) -> JSONResponse:
    """Say what was not understood; nothing was charged."""
    return JSONResponse({"error": error.detail}, error.status_code, error.headers)
