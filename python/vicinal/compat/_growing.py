"""Rows that are added in blocks, behind the names of other libraries. An index cannot change, so that blocks wait, and are put
into a new one together with the rows of the old when it is next asked."""
from __future__ import annotations

import threading
from typing import Any, Mapping, Optional

import numpy as np

from .. import _build
from .._arrays import FLOAT32, INT64, Array, ids_of
from .._errors import DimensionError, IdError
from .._index import Index


class Growing:
    """metric, graph, dtype: as `vicinal.build` takes them. `next` is the id after the largest."""

    def __init__(self, dim: int, metric: str, graph: Optional[Mapping[str, Any]] = None, dtype: Any = None) -> None:
        self.dim, self.metric, self.graph, self.dtype = dim, metric, graph, dtype
        self._lock = threading.Lock()
        self.clear()

    def clear(self) -> None:
        """Removes all rows."""
        with self._lock:
            self._rows: list[Array] = []
            self._ids: list[Array] = []
            self._index: Optional[Index] = None
            self.count = self.next = 0

    def adopt(self, index: Index) -> None:
        """Starts from the rows of an index."""
        self.clear()
        self._index, self.count = index, len(index)
        self.next = int(index.ids[-1]) + 1 if len(index) else 0

    def block(self, x: Any) -> Array:
        """Rows or queries as float32, (n, dim): a copy, since the caller may go on to change them."""
        rows = np.array(x, FLOAT32, order="C", ndmin=2)
        if rows.ndim != 2 or rows.shape[1] != self.dim:
            raise DimensionError(f"expected rows of shape (n, {self.dim}), found {np.shape(x)}")
        return rows

    def _used(self) -> Array:
        parts = [*self._ids, *([self._index.ids] if self._index is not None else [])]
        return np.concatenate(parts) if parts else np.empty(0, INT64)

    def add(self, x: Any, ids: Any = None, replace: bool = False, most: Optional[int] = None) -> Array:
        """Appends rows and returns their ids; None: they go on from the largest. A used id is refused, or with replace=True its
        row gives way; so are rows beyond `most`. All or nothing."""
        rows = self.block(x)
        with self._lock:
            numbers = np.arange(self.next, self.next + len(rows), dtype=INT64) if ids is None else ids_of(ids).reshape(-1)
            if len(numbers) != len(rows):
                raise DimensionError(f"expected one id a row, {len(rows)}, found {len(numbers)}")
            used = np.isin(numbers, self._used())
            single = len(np.unique(numbers)) == len(numbers)
            if (not replace and used.any()) or not single or (len(numbers) and numbers.min() < 0):
                raise IdError(f"expected ids that are new, unique and at least 0, found {numbers[used][0] if used.any() else 'others'}")
            count = self.count + len(rows) - int(used.sum())
            if most is not None and count > most:
                raise DimensionError(f"expected at most {most} rows, found {count}")
            self._rows.append(rows)
            self._ids.append(numbers)
            self.count = count
            self.next = max(self.next, int(numbers.max()) + 1) if len(numbers) else self.next
        return numbers

    def built(self) -> Index:
        """The index over all rows that were added."""
        with self._lock:
            if self._index is None or self._rows:
                old = [] if self._index is None else [self._index.vectors().astype(FLOAT32)]
                rows = np.concatenate([np.empty((0, self.dim), FLOAT32), *old, *self._rows])
                ids = np.concatenate([np.empty(0, INT64), *([] if self._index is None else [self._index.ids]), *self._ids])
                last = len(ids) - 1 - np.unique(ids[::-1], return_index=True)[1]  # of a row that was replaced, the newest
                if len(last) != len(ids):
                    rows, ids = rows[last], ids[last]
                self._index = _build.build(rows, self.metric, ids=ids, graph=self.graph, dtype=self.dtype)
                self._rows, self._ids = [], []
            return self._index


def distances(scores: Array, metric: str) -> Array:
    """Scores as the distances of hnswlib and usearch: smaller is better for every metric."""
    return scores if metric == "l2" else FLOAT32.type(1) - scores
