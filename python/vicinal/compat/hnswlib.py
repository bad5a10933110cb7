"""hnswlib by its names: `from vicinal.compat import hnswlib`.

As there: arrays are taken to float32; `knn_query` returns (labels, distances), where a distance is the squared one, 1 - dot or
1 - cosine; adding a label again replaces its row. Different: the graph is vicinal's (2 M neighbours a row, built with a beam
of ef_construction, at most 1024), and below 4096 rows there is none and every query is answered exactly. It is built when it is
next asked after rows were added, since an index itself cannot change: add all, then ask. Rows cannot be deleted, files are
vicinal's own, and num_threads is not looked at: one thread a core works.
"""
from __future__ import annotations

from typing import Any, Callable, Optional

import numpy as np

from .. import _build
from .._arrays import FLOAT32, Array, Path
from .._errors import ArgumentError, DimensionError
from ._growing import Growing, distances

_METRICS = {"l2": "l2", "ip": "dot", "cosine": "cosine"}


class Index:
    """
    >>> index = Index(space="l2", dim=2)
    >>> index.init_index(max_elements=10)
    >>> index.add_items([[0, 0], [3, 4]], [7, 8])
    >>> labels, distances = index.knn_query([[3, 3]], k=1)
    >>> labels.tolist(), distances.tolist()
    ([[8]], [[1.0]])
    """

    def __init__(self, space: str, dim: int) -> None:
        if space not in _METRICS:
            raise ArgumentError(f"expected space {', '.join(map(repr, _METRICS))}, found {space!r}")
        self.space, self.dim = space, dim
        self.ef, self.M, self.ef_construction, self.max_elements = 10, 16, 200, 0
        self._rows: Optional[Growing] = None

    def init_index(self, max_elements: int, M: int = 16, ef_construction: int = 200, random_seed: int = 100,
                   allow_replace_deleted: bool = False) -> None:
        """How many rows there may be, and how the graph is built. The same rows give the same graph, whatever the seed."""
        self.M, self.ef_construction, self.max_elements = M, ef_construction, max_elements
        self._rows = Growing(self.dim, _METRICS[self.space], {"degree": 2 * M, "beam": min(ef_construction, 1024)})

    def _ready(self) -> Growing:
        if self._rows is None:
            raise ArgumentError("expected init_index or load_index first, found neither")
        return self._rows

    def add_items(self, data: Any, ids: Any = None, num_threads: int = -1, replace_deleted: bool = False) -> None:
        """Adds rows under ids (None: they go on from the largest); the row of a used id is replaced. DimensionError beyond
        max_elements."""
        self._ready().add(data, ids, replace=True, most=self.max_elements)

    def set_ef(self, ef: int) -> None:
        """How many rows a query keeps in sight."""
        self.ef = ef

    def set_num_threads(self, num_threads: int) -> None:
        """Nothing: one thread a core works."""

    def resize_index(self, new_size: int) -> None:
        """How many rows there may be."""
        self.max_elements = new_size

    def knn_query(self, data: Any, k: int = 1, num_threads: int = -1, filter: Optional[Callable[[int], bool]] = None) -> tuple[Array, Array]:
        """(labels uint64, distances float32) of shape (nq, k), best first. filter: a function of a label; what it lets pass is
        searched exactly. ArgumentError when fewer than k rows can answer."""
        rows = self._ready()
        index = rows.built()
        allowed = None if filter is None else index.filter([label for label in index.ids.tolist() if filter(label)])
        hits = index.search(rows.block(data), k, beam=self.ef, filter=allowed)
        if (hits.ids < 0).any():
            raise ArgumentError(f"expected k of at most {int(hits.count.min())}, the rows that can answer, found {k}")
        return hits.ids.astype(np.uint64), distances(hits.scores, rows.metric)

    def get_items(self, ids: Any = None, return_type: str = "numpy") -> Any:
        """The rows of ids (None: all); return_type "list": as lists."""
        found = self._ready().built().vectors(ids).astype(FLOAT32)
        return found.tolist() if return_type == "list" else found

    def get_ids_list(self) -> list[int]:
        """All labels, ascending."""
        return list(map(int, self._ready().built().ids))

    def get_current_count(self) -> int:
        """How many rows there are."""
        return self._rows.count if self._rows is not None else 0

    def get_max_elements(self) -> int:
        """How many rows there may be."""
        return self.max_elements

    @property
    def element_count(self) -> int:
        """How many rows there are."""
        return self.get_current_count()

    def save_index(self, path_to_index: Path) -> None:
        """Saves the rows and the graph as a file of vicinal."""
        self._ready().built().save(path_to_index)

    def load_index(self, path_to_index: Path, max_elements: int = 0, allow_replace_deleted: bool = False) -> None:
        """Opens a file of vicinal, whose metric and dim must be this index's."""
        opened = _build.open(path_to_index)
        if (opened.dim, opened.metric) != (self.dim, _METRICS[self.space]):
            raise DimensionError(f"expected an index of dim {self.dim} and space {self.space!r}, found {opened.dim} and {opened.metric!r}")
        self.init_index(max(max_elements, len(opened)), opened.graph.degree // 2 if opened.graph else self.M, self.ef_construction)
        self._ready().adopt(opened)
