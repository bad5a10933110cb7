"""usearch by its names: `from vicinal.compat.usearch import Index`.

As there: keys and rows go in by `add`; `search` gives `.keys` and `.distances`, for one vector as `Matches`, for several as
`BatchMatches`; a distance is 1 - cosine ("cos"), 1 - dot ("ip") or the squared one ("l2sq"). Different: rows are kept as float32
unless dtype says otherwise; the graph is vicinal's (2 x connectivity neighbours a row, built with a beam of expansion_add, at
most 1024), and below 4096 rows there is none and every search is exact. It is built when it is next asked after rows were
added, since an index itself cannot change: add all, then ask. Rows cannot be removed, keys are below 2^63, files are
vicinal's own, and threads= is not looked at: one thread a core works.
"""
from __future__ import annotations

from typing import Any, Iterator, NamedTuple, Optional

import numpy as np

from .. import _build
from .._arrays import FLOAT32, INT64, Array, Path, ids_of
from .._errors import ArgumentError, NotFoundError, UnsupportedError
from ._growing import Growing, distances

_METRICS = {"cos": "cosine", "ip": "dot", "l2sq": "l2"}
_NAMES = {ours: theirs for theirs, ours in _METRICS.items()}


class Match(NamedTuple):
    """One hit."""

    key: int
    distance: float


class Matches:
    """The hits of one vector, best first: keys uint64 and distances float32."""

    def __init__(self, keys: Array, distances: Array) -> None:
        self.keys, self.distances = keys, distances

    def __len__(self) -> int:
        return len(self.keys)

    def __getitem__(self, place: int) -> Match:
        return Match(int(self.keys[place]), float(self.distances[place]))

    def __iter__(self) -> Iterator[Match]:
        return (self[place] for place in range(len(self)))

    def to_list(self) -> list[tuple[int, float]]:
        """(key, distance) of each hit."""
        return [(match.key, match.distance) for match in self]


class BatchMatches:
    """The hits of several vectors: keys and distances of shape (nq, count), of which the first counts[j] are real; as a
    sequence, the `Matches` of each."""

    def __init__(self, keys: Array, distances: Array, counts: Array) -> None:
        self.keys, self.distances, self.counts = keys, distances, counts

    def __len__(self) -> int:
        return len(self.counts)

    def __getitem__(self, query: int) -> Matches:
        return Matches(self.keys[query, :self.counts[query]], self.distances[query, :self.counts[query]])

    def __iter__(self) -> Iterator[Matches]:
        return (self[query] for query in range(len(self)))

    def to_list(self) -> list[tuple[int, float]]:
        """(key, distance) of every hit of every vector, one after another."""
        return [match for matches in self for match in matches.to_list()]


class Index:
    """
    >>> index = Index(ndim=2, metric="l2sq")
    >>> index.add([7, 8], [[0, 0], [3, 4]]).tolist()
    [7, 8]
    >>> matches = index.search([3, 3], 1)
    >>> matches.keys.tolist(), matches[0].distance
    ([8], 1.0)
    """

    def __init__(self, *, ndim: int = 0, metric: str = "cos", dtype: Any = None, connectivity: Optional[int] = None,
                 expansion_add: Optional[int] = None, expansion_search: Optional[int] = None, multi: bool = False,
                 path: Optional[Path] = None, view: bool = False) -> None:
        if metric not in _METRICS:
            raise ArgumentError(f"expected metric {', '.join(map(repr, _METRICS))}, found {metric!r}")
        if multi:
            raise UnsupportedError("expected multi=False, found multi=True: a key has one row")
        self.expansion_search, self.expansion_add = expansion_search or 64, expansion_add or 128
        self.connectivity = connectivity or 16
        graph = {"degree": 2 * self.connectivity, "beam": min(self.expansion_add, 1024)}
        self._rows = Growing(ndim, _METRICS[metric], graph, dtype)
        if path is not None:
            self.load(path)

    @property
    def ndim(self) -> int:
        """Numbers in a row."""
        return self._rows.dim

    @property
    def metric(self) -> str:
        """"cos", "ip" or "l2sq"."""
        return _NAMES[self._rows.metric]

    @property
    def size(self) -> int:
        """How many rows there are."""
        return self._rows.count

    def __len__(self) -> int:
        return self._rows.count

    @property
    def keys(self) -> Array:
        """All keys, ascending: uint64."""
        return self._rows.built().ids.astype(np.uint64)

    def add(self, keys: Any, vectors: Any, *, copy: bool = True, threads: int = 0) -> Any:
        """Adds rows and returns their keys. keys: one a row; None: they go on from the largest. IdError for a used one."""
        single = np.ndim(vectors) == 1
        if keys is not None and np.ndim(keys) == 0:
            keys = [keys]
        added = self._rows.add(vectors, keys).astype(np.uint64)
        return int(added[0]) if single else added

    def search(self, vectors: Any, count: int = 10, radius: float = float("inf"), *, threads: int = 0, exact: bool = False) -> Any:
        """`Matches` of one vector, `BatchMatches` of several. radius: hits with a distance up to it. exact: without the graph."""
        hits = self._rows.built().search(self._rows.block(vectors), count, beam=self.expansion_search, path="scan" if exact else None)
        far = distances(hits.scores, self._rows.metric)
        counts = ((hits.ids >= 0) & (far <= radius)).sum(1)
        found = BatchMatches(hits.ids.astype(np.uint64), far, counts)
        return found[0] if np.ndim(vectors) == 1 else found

    def get(self, keys: Any) -> Any:
        """The row of a key, None when there is none; of several keys a list of these."""
        if np.ndim(keys) == 0:
            try:
                return self._rows.built().vector(int(keys)).astype(FLOAT32)
            except NotFoundError:
                return None
        return [self.get(key) for key in ids_of(keys)]

    def contains(self, keys: Any) -> Any:
        """Whether there is a row of a key; of several keys an array."""
        found = np.isin(np.asarray(keys, INT64), self._rows.built().ids)
        return bool(found) if found.ndim == 0 else found

    def __contains__(self, key: int) -> bool:
        return bool(self.contains(key))

    def remove(self, keys: Any, **options: Any) -> None:
        """Raises UnsupportedError."""
        raise UnsupportedError("expected rows to stay, found remove: an index of vicinal cannot change; build one of the others")

    def clear(self) -> None:
        """Removes all rows."""
        self._rows.clear()

    reset = clear

    def save(self, path: Path) -> None:
        """Saves the rows and the graph as a file of vicinal."""
        self._rows.built().save(path)

    def load(self, path: Path) -> None:
        """Opens a file of vicinal, whose dim and metric become this index's."""
        opened = _build.open(path)
        self._rows = Growing(opened.dim, opened.metric, self._rows.graph, opened.dtype)
        self._rows.adopt(opened)

    view = load

    @staticmethod
    def restore(path: Path, view: bool = False) -> "Index":
        """An index of a file."""
        return Index(path=path)
