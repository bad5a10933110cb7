"""What a search gives back: hits, ranges, and what the search did."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any, Iterator, NamedTuple, Optional

import numpy as np

from . import _lib

if TYPE_CHECKING:
    from ._index import Index

PATHS = {0: "none", _lib.PATH_SCAN: "scan", _lib.PATH_SELECT: "select", _lib.PATH_CERTIFIED: "certified",
         _lib.PATH_GRAPH: "graph"}
CODES = {0: "none", _lib.CODES_ROWS: "rows", _lib.CODES_8: "8", _lib.CODES_4: "4", _lib.CODES_PQ: "pq"}
FALLBACKS = ("none", "planes", "k", "query", "survivors", "cost", "filter", "beam")


class Stats(NamedTuple):
    """What a search did, summed over its queries (include/vicinal.h, struct vic_search_stats).

    path: "scan", "select", "certified" or "graph". rows_scored, rows_rescored: (row, query) pairs with a canonical score in the
    first pass, after a cheaper one. rows_coded: pairs whose 8-bit, whose 4-bit codes were looked at. fallback: why another path
    was taken than the one that was wanted, "none" when it was not. Of walks through a graph: hops, rows whose neighbours were
    looked at; distances, rows that were looked at on the way, by their codes ("rows", "8", "4", "pq"); the beam and the parents used."""

    path: str
    threads: int
    queries: int
    rows_scored: int
    rows_rescored: int
    bytes_read: int
    rows_coded: tuple[int, int]
    fallbacks: int
    fallback: str
    hops: int
    distances: int
    beam: int
    parents: int
    codes: str


def stats_from(raw: bytes) -> Stats:
    stats = _lib.SearchStats.from_buffer_copy(raw)
    return Stats(PATHS.get(stats.path, "?"), stats.threads, stats.queries, stats.rows_scored, stats.rows_rescored, stats.bytes_read,
                 (stats.rows_coded[0], stats.rows_coded[1]), stats.fallbacks, FALLBACKS[stats.fallback],
                 stats.hops, stats.distances, stats.beam, stats.parents, CODES.get(stats.codes, "?"))


def numbers_of(array: Any) -> Any:
    """Python numbers of an array of any library, also of one on a GPU."""
    return array.tolist()


class Hits:
    """The answer of a search; unpacks as `ids, scores`.

    ids: int64, shape (nq, k), or (k,) for a single query; best first, -1 in slots beyond the rows there are.
    scores: float32, same shape; -inf (+inf for l2) in such slots. Arrays of NumPy, or of the library whose GPU tensors
    were the queries."""

    __slots__ = ("ids", "scores", "_index", "_stats")

    def __init__(self, ids: Any, scores: Any, index: "Index", stats: Optional[bytes]) -> None:
        self.ids = ids
        self.scores = scores
        self._index = index
        self._stats = stats

    def __iter__(self) -> Iterator[Any]:
        return iter((self.ids, self.scores))

    def __len__(self) -> int:
        """How many queries were answered."""
        return len(self.ids) if self.ids.ndim == 2 else 1

    @property
    def count(self) -> Any:
        """How many hits are real: a number, or one a query."""
        real = (self.ids >= 0).sum(-1)
        return int(real) if self.ids.ndim == 1 else real

    @property
    def stats(self) -> Optional[Stats]:
        """What the search did."""
        return None if self._stats is None else stats_from(self._stats)

    def texts(self) -> Any:
        """The texts of the hits, best first: a list of str, or one list a query; unused slots are left out."""
        text, rows = self._index.text, numbers_of(self.ids)
        if self.ids.ndim == 1:
            return [text(i) for i in rows if i >= 0]
        return [[text(i) for i in row if i >= 0] for row in rows]

    def __repr__(self) -> str:
        if self.ids.ndim == 2:
            return f"<vicinal.Hits of {self.ids.shape[0]} queries, {self.ids.shape[1]} each>"
        best = f", best {int(self.ids[0])} with {float(self.scores[0]):.6g}" if self.count else ""
        return f"<vicinal.Hits: {self.count}{best}>"


class Ranges:
    """Answers of different lengths: `ids, scores = ranges[j]` for query j, best first.

    offsets: int64, nq + 1; query j's are ids[offsets[j]:offsets[j + 1]], scores alike. Iterates over queries."""

    __slots__ = ("offsets", "ids", "scores", "_stats")

    def __init__(self, offsets: Any, ids: Any, scores: Any, stats: Optional[bytes]) -> None:
        self.offsets, self.ids, self.scores, self._stats = offsets, ids, scores, stats

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, query: int) -> tuple[Any, Any]:
        if not -len(self) <= query < len(self):
            raise IndexError(f"expected a query from {-len(self)} to {len(self) - 1}, found {query}")
        first, last = self.offsets[query % len(self)], self.offsets[query % len(self) + 1]
        return self.ids[first:last], self.scores[first:last]

    @property
    def count(self) -> Any:
        """How many answers each query has."""
        return np.diff(self.offsets)

    @property
    def stats(self) -> Optional[Stats]:
        """What the search did."""
        return None if self._stats is None else stats_from(self._stats)

    def __repr__(self) -> str:
        return f"<vicinal.Ranges of {len(self)} queries, {len(self.ids)} answers>"
