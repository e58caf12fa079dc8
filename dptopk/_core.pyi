"""Types of the extension module."""

from collections.abc import Sequence
from typing import Any, Literal, final

import numpy as np
import numpy.typing as npt

# ---- simd.c
def simd_best() -> int: ...
def simd_get() -> int: ...
def simd_set(level: int) -> int: ...

# ---- rng.c
def chacha20_block(
    key: npt.NDArray[np.uint32], counter: int, nonce: npt.NDArray[np.uint32]
) -> npt.NDArray[np.uint32]: ...

class Source:
    private: bool
    def claim(self) -> None: ...
    def unclaim(self) -> bool: ...
    def begin(self) -> None: ...
    def rewind(self) -> None: ...
    def extend(self) -> None: ...
    def end(self) -> None: ...
    def consumed(self) -> npt.NDArray[np.uint64]: ...
    def spawn(self) -> Source: ...
    def fresh(self, count: int) -> npt.NDArray[np.uint64]: ...
    def read(self, count: int) -> npt.NDArray[np.uint64]: ...

@final
class TapeSource(Source):
    def __new__(cls, words: npt.ArrayLike) -> TapeSource: ...

class BufferedSource(Source):
    @property
    def capacity(self) -> int: ...
    @property
    def address(self) -> int: ...

@final
class SecureSource(BufferedSource): ...

@final
class GeneratorSource(BufferedSource):
    def __new__(cls, generator: np.random.Generator) -> GeneratorSource: ...

# ---- keys.c
def keys(counts: npt.NDArray[Any]) -> npt.NDArray[np.int64]: ...

# ---- cut.c
def cut(
    counts: npt.NDArray[Any], m: int, in_order: bool = ..., watch: bool = ...
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], bool]: ...
def part(
    scores: npt.NDArray[Any], key: int, most: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]] | Literal[False] | None: ...
def cut_rows(
    values: npt.NDArray[Any],
    m: npt.NDArray[np.int64],
    offset: npt.NDArray[np.int64] | None = None,
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]: ...

LEAST: int
UNSORTED: int
NAN_LAST: int
NAN_REFUSED: str

def topk(
    a: npt.NDArray[Any], k: int, order: int, values: npt.NDArray[Any] | None = None
) -> npt.NDArray[np.int64]: ...
def topk_at_once(
    a: object,
    k: object,
    axis: object,
    largest: object,
    sorted: object,
    nan: object,
    offsets: object,
    workers: object,
    valued: bool,
) -> tuple[Any, npt.NDArray[np.int64]] | None: ...
def topk_rows(
    rows: npt.NDArray[Any],
    k: int,
    order: int,
    index: npt.NDArray[np.int64],
    values: npt.NDArray[Any] | None,
    start: int,
    stop: int,
) -> None: ...
def topk_ragged(
    a: npt.NDArray[Any],
    k: int,
    order: int,
    offsets: npt.NDArray[np.int64],
    places: npt.NDArray[np.int64],
    index: npt.NDArray[np.int64],
    values: npt.NDArray[Any] | None,
    start: int,
    stop: int,
) -> None: ...
def count_keys(
    counts: npt.NDArray[Any], span: int, copy: npt.NDArray[np.int16] | None = None
) -> npt.NDArray[np.int64]: ...

# ---- race.c
STOP: int
FIXED: int
CHANGED: str
NOISES: dict[str, int]
error_factor: float

def noise_value(noise: int, s: float, s_error: float) -> tuple[float, float]: ...
def race(
    source: Source,
    key: npt.NDArray[np.int64],
    index: npt.NDArray[np.int64],
    k: int,
    scale: float,
    noise: int,
    real: bool = False,
    tail: npt.NDArray[Any] | None = None,
    offset: npt.NDArray[np.float64] | None = None,
    stop: int = 0,
    stop_key: int = 0,
    stop_offset: float = 0.0,
    fresh: bool = False,
    valued: bool = False,
    sweep: float | None = None,
) -> Any: ...

FEW: int

def race_few(source: Source, scores: npt.NDArray[Any], k: int, scale: float, noise: int) -> Any: ...
def sweep_floor(
    key: npt.NDArray[np.int64],
    index: npt.NDArray[np.int64],
    k: int,
    scale: float,
    noise: int,
    real: bool,
    tail: npt.NDArray[Any] | None,
) -> float | None: ...

@final
class Columns:
    def __new__(
        cls,
        tails: Sequence[npt.NDArray[Any] | None]
        | tuple[npt.NDArray[Any], npt.NDArray[np.int64] | None],
        start: npt.NDArray[np.int64],
    ) -> Columns: ...

def race_rows(
    source: Source,
    key: npt.NDArray[np.int64],
    index: npt.NDArray[np.int64],
    start: npt.NDArray[np.int64],
    place: npt.NDArray[np.int64],
    scale: float,
    noise: int,
    real: bool,
    stop: int,
    stop_key: npt.NDArray[np.int64] | None,
    stop_offset: npt.NDArray[np.float64] | None,
    tails: Sequence[npt.NDArray[Any] | None]
    | tuple[npt.NDArray[Any], npt.NDArray[np.int64] | None]
    | None,
    item: npt.NDArray[np.int64],
    done: int,
    end: int,
) -> tuple[int, bool]: ...

# ---- survey.c
COST_PASS: float
COST_PART: float
COST_FIRST: float
COST_LOOK: float
COST_BLOCK: int

def survey(
    scores: npt.NDArray[Any],
    k: int,
    scale: float,
    size: int,
    origin: int = 0,
    floor: float = ...,
) -> dict[str, Any]: ...
def fall_of(
    key: npt.NDArray[np.int64], k: int, in_order: bool, real: bool, scale: float
) -> tuple[float, int]: ...

# ---- draw.c
def finite(scores: npt.NDArray[Any]) -> bool: ...
def draw(source: Source, scores: npt.NDArray[Any], k: int, scale: float) -> Any: ...
def draw_part(
    source: Source,
    scores: npt.NDArray[Any],
    key: npt.NDArray[np.int64],
    index: npt.NDArray[np.int64],
    real: bool,
    most: int,
    floor: float,
    looks: int,
    k: int,
    scale: float,
) -> Any: ...
def draw_sieved(
    source: Source,
    scores: npt.NDArray[Any],
    key: int,
    bits: int,
    through: int,
    k: int,
    scale: float,
) -> Any: ...
def close_value(
    word: int, key: int, origin: int, real: bool, scale: float
) -> tuple[float, float, float]: ...
def descending(
    value: npt.NDArray[np.float64],
    error: npt.NDArray[np.float64],
    floor: float,
    noise_error: float,
    factor: float,
    k: int,
) -> npt.NDArray[np.int64] | None: ...
def draw_rows(
    source: Source,
    values: npt.NDArray[Any],
    offset: npt.NDArray[np.int64],
    place: npt.NDArray[np.int64],
    scale: float,
    most: int,
    item: npt.NDArray[np.int64],
    done: int,
    end: int,
) -> int: ...

# ---- discrete.c
DISCRETE: dict[str, int]

def discrete(source: Source, n: int, scale: float, noise: int) -> npt.NDArray[np.int64] | None: ...

# ---- paths.c
PRECISIONS: tuple[str, ...]

class Staircase:
    def __new__(
        cls, bound: npt.NDArray[np.int64], precision: str = "plain", rows: bool = False
    ) -> Staircase: ...
    def log(self) -> tuple[float, float] | None: ...
    def count(self) -> tuple[float, float, int, float] | None: ...
    def stairs(self) -> list[tuple[int, int, float, int, int]]: ...
    def parts(self, s: int, taken: int) -> tuple[int, list[float], list[float], float] | None: ...

# ---- paths_mod.c
def paths_mod(bound: npt.NDArray[np.int64], prime: int) -> int: ...

# ---- joint.c
class Joint:
    def __new__(
        cls,
        key: npt.NDArray[np.int64],
        end: npt.NDArray[np.int64],
        k: int,
        scale: float,
        sequence: bool,
        real: bool,
        envelope: tuple[list[tuple[float, float, int, bool]], float] | None = None,
    ) -> Joint: ...
    def envelope(self) -> tuple[list[tuple[float, float, int, bool]], float] | None: ...
    def draw(self, source: Source) -> npt.NDArray[np.int64] | None: ...

# ---- canonical.c
class Canonical:
    def __new__(
        cls,
        key: npt.NDArray[np.int64],
        end: npt.NDArray[np.int64],
        k: int,
        scale: float,
        real: bool,
    ) -> Canonical: ...
    def envelope(self) -> tuple[list[tuple[int, int, int, int]], float]: ...
    def sizes(self) -> list[tuple[float, float]]: ...
    def draw(self, source: Source) -> npt.NDArray[np.int64] | None: ...

# ---- items.c
def items(
    source: Source,
    rank: npt.NDArray[np.int64],
    key: npt.NDArray[np.int64],
    end: npt.NDArray[np.int64],
    head: npt.NDArray[np.int64],
    column: npt.NDArray[Any] | None,
) -> npt.NDArray[np.int64]: ...

# ---- sparse_vector.c
def sparse_vector(
    source: Source,
    queries: npt.NDArray[Any],
    base: int,
    offset: float,
    threshold_scale: float,
    query_scale: float,
    threshold_word: int,
    above: bool,
    hits: int,
    hit: npt.NDArray[np.uint8],
    tested: int = 0,
) -> tuple[int, bool]: ...

# ---- adaptive.c
def adaptive(
    steps: int,
    m: int,
    capacity: int,
    range_: float,
    floor_: float,
    start: npt.NDArray[np.float64] | None = None,
) -> npt.NDArray[np.float64]: ...
