"""The flat indexes of FAISS by their names: `import vicinal.compat.faiss as faiss`.

As there: arrays are taken to float32, `search` returns (distances, ids), ids count from 0, missing hits have id -1.
Different: equal scores go to the smaller id, scores of missing hits are -inf and +inf, and files are vicinal's own. Rows
that were added are put into an index when it is next asked, since an index itself cannot change: add in blocks.
"""
from __future__ import annotations

from typing import Any

from .. import _build
from .._arrays import FLOAT32, METRICS, Array, Path, parse
from ._growing import Growing

METRIC_INNER_PRODUCT, METRIC_L2 = 0, 1
_METRIC_NUMBERS = {"dot": METRIC_INNER_PRODUCT, "l2": METRIC_L2}


class IndexFlat:
    """Rows compared one by one; `IndexFlatIP` and `IndexFlatL2` name the metric.

    >>> import numpy as np
    >>> index = IndexFlatL2(2)
    >>> index.add(np.array([[0, 0], [3, 4]]))
    >>> distances, ids = index.search(np.array([[3, 3]]), 1)
    >>> distances, ids
    (array([[1.]], dtype=float32), array([[1]]))
    """

    is_trained = True

    def __init__(self, d: int, metric: str = "l2") -> None:
        self.d = d
        self._growing = Growing(d, METRICS[parse("metric", metric)])

    @property
    def metric_type(self) -> int:
        """METRIC_INNER_PRODUCT or METRIC_L2; -1 for cosine, which FAISS does not have."""
        return _METRIC_NUMBERS.get(self._growing.metric, -1)

    @property
    def ntotal(self) -> int:
        """How many rows there are."""
        return self._growing.count

    def train(self, x: Any) -> None:
        """Nothing: flat indexes need no training."""

    def add(self, x: Any) -> None:
        """Appends rows, whose ids go on from the last."""
        self._growing.add(x)

    def add_with_ids(self, x: Any, ids: Any) -> None:
        """Appends rows under ids of their own; a negative, repeated or used one is refused and nothing is added."""
        self._growing.add(x, ids)

    def search(self, x: Any, k: int) -> tuple[Array, Array]:
        """(distances, ids), both of shape (nq, k), best first."""
        ids, scores = self._growing.built().search(self._growing.block(x), k)
        return scores, ids

    def reconstruct(self, key: int) -> Array:
        """The row of an id."""
        return self._growing.built().vector(key).astype(FLOAT32)

    def reconstruct_n(self, n0: int = 0, ni: int = -1) -> Array:
        """ni rows (-1: all that follow) in the order of their ids, from place n0."""
        index = self._growing.built()
        return index.vectors(index.ids[n0:] if ni < 0 else index.ids[n0:n0 + ni]).astype(FLOAT32)

    def reset(self) -> None:
        """Removes all rows."""
        self._growing.clear()


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
    index._growing.built().save(path)


def read_index(path: Path) -> IndexFlat:
    """Opens a file of vicinal; FormatError says what another file looks like."""
    opened = _build.open(path)
    kinds: dict[str, Any] = {"dot": IndexFlatIP, "l2": IndexFlatL2}
    index: IndexFlat = kinds[opened.metric](opened.dim) if opened.metric in kinds else IndexFlat(opened.dim, opened.metric)
    index._growing.adopt(opened)
    return index
