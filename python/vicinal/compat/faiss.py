"""The flat indexes of FAISS by their names: `import vicinal.compat.faiss as faiss`.

As there: arrays are taken to float32, `search` returns (distances, ids), ids count from 0, missing hits have id -1.
Different: equal scores go to the smaller id, scores of missing hits are -inf and +inf, and files are vicinal's own. Rows
that were added are put into an index when it is next asked, since an index itself cannot change: add in blocks.
"""
from __future__ import annotations

import threading
from typing import Any, Optional

import numpy as np

from .. import _build
from .._arrays import FLOAT32, INT64, METRICS, Array, Path, ids_of, parse
from .._errors import DimensionError, IdError
from .._index import Index

METRIC_INNER_PRODUCT, METRIC_L2 = 0, 1
_METRIC_NUMBERS = {"dot": METRIC_INNER_PRODUCT, "l2": METRIC_L2}


class IndexFlat:
    """Rows compared one by one; `IndexFlatIP` and `IndexFlatL2` name the metric.

    >>> index = IndexFlatL2(2)
    >>> index.add(np.array([[0, 0], [3, 4]]))
    >>> distances, ids = index.search(np.array([[3, 3]]), 1)
    >>> distances, ids
    (array([[1.]], dtype=float32), array([[1]]))
    """

    is_trained = True

    def __init__(self, d: int, metric: str = "l2") -> None:
        self.d = d
        self._metric = METRICS[parse("metric", metric)]
        self._lock = threading.Lock()
        self._rows: list[Array] = []
        self._ids: list[Array] = []
        self._next = self._added = 0
        self._index: Optional[Index] = None

    @property
    def metric_type(self) -> int:
        """METRIC_INNER_PRODUCT or METRIC_L2; -1 for cosine, which FAISS does not have."""
        return _METRIC_NUMBERS.get(self._metric, -1)

    @property
    def ntotal(self) -> int:
        """How many rows there are."""
        return self._added

    def train(self, x: Any) -> None:
        """Nothing: flat indexes need no training."""

    def add(self, x: Any) -> None:
        """Appends rows, whose ids go on from the last."""
        rows = self._block(x)
        self._append(rows, np.arange(self._next, self._next + len(rows), dtype=INT64))

    def add_with_ids(self, x: Any, ids: Any) -> None:
        """Appends rows under ids of their own; a negative, repeated or used one is refused and nothing is added."""
        rows, numbers = self._block(x), ids_of(ids).reshape(-1)
        if len(numbers) != len(rows):
            raise DimensionError(f"expected one id a row, {len(rows)}, found {len(numbers)}")
        self._append(rows, numbers)

    def _block(self, x: Any) -> Array:
        rows = np.array(x, FLOAT32, order="C", ndmin=2)
        if rows.ndim != 2 or rows.shape[1] != self.d:
            raise DimensionError(f"expected rows of shape (n, {self.d}), found {np.shape(x)}")
        return rows

    def _append(self, rows: Array, ids: Array) -> None:
        with self._lock:
            used = np.concatenate([*self._ids, *([self._index.ids] if self._index is not None else [])] or [ids[:0]])
            clash = ids[np.isin(ids, used)]
            if len(clash) or len(np.unique(ids)) != len(ids) or (len(ids) and ids.min() < 0):
                raise IdError(f"expected ids that are new, unique and at least 0, found {clash[0] if len(clash) else 'others'}")
            self._rows.append(rows)
            self._ids.append(ids)
            self._added += len(rows)
            self._next = max(self._next, int(ids.max()) + 1) if len(ids) else self._next

    def _built(self) -> Index:
        """The index over all rows that were added."""
        with self._lock:
            if self._index is None or self._rows:
                old = [] if self._index is None else [self._index.vectors().astype(FLOAT32)]
                old_ids = [] if self._index is None else [self._index.ids]
                rows = np.concatenate([*old, *self._rows]) if old or self._rows else np.empty((0, self.d), FLOAT32)
                ids = np.concatenate([*old_ids, *self._ids]) if old or self._rows else np.empty(0, INT64)
                self._index = _build.build(rows, self._metric, ids=ids)
                self._rows, self._ids = [], []
            return self._index

    def search(self, x: Any, k: int) -> tuple[Array, Array]:
        """(distances, ids), both of shape (nq, k), best first."""
        ids, scores = self._built().search(self._block(x), k)
        return scores, ids

    def reconstruct(self, key: int) -> Array:
        """The row of an id."""
        return self._built().vector(key).astype(FLOAT32)

    def reconstruct_n(self, n0: int = 0, ni: int = -1) -> Array:
        """ni rows (-1: all that follow) in the order of their ids, from place n0."""
        index = self._built()
        return index.vectors(index.ids[n0:] if ni < 0 else index.ids[n0:n0 + ni]).astype(FLOAT32)

    def reset(self) -> None:
        """Removes all rows."""
        with self._lock:
            self._rows, self._ids, self._index, self._added, self._next = [], [], None, 0, 0


class IndexFlatIP(IndexFlat):
    """Inner product: larger is better."""

    def __init__(self, d: int) -> None:
        super().__init__(d, "dot")


class IndexFlatL2(IndexFlat):
    """Squared Euclidean distance: smaller is better."""

    def __init__(self, d: int) -> None:
        super().__init__(d, "l2")


def write_index(index: IndexFlat, path: Path) -> None:
    """Saves an index as a file of vicinal."""
    index._built().save(path)


def read_index(path: Path) -> IndexFlat:
    """Opens a file of vicinal; FormatError says what another file looks like."""
    opened = _build.open(path)
    kinds: dict[str, Any] = {"dot": IndexFlatIP, "l2": IndexFlatL2}
    index: IndexFlat = kinds[opened.metric](opened.dim) if opened.metric in kinds else IndexFlat(opened.dim, opened.metric)
    index._index, index._added = opened, len(opened)
    index._next = int(opened.ids[-1]) + 1 if len(opened) else 0
    return index
