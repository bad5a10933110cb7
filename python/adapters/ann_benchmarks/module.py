"""vicinal for ann-benchmarks: put this folder there as ann_benchmarks/algorithms/vicinal/.

`Vicinal` is exact, so its recall is 1 and its place in the plot says what approximation has to beat. `VicinalGraph` walks a graph,
with one point of its curve for each beam. Queries one by one take the prepared call of `Index.search`; a batch is one call,
which shares the rows among its queries.
"""
import numpy as np
import vicinal

from ..base.module import BaseANN

METRICS = {"angular": "cosine", "euclidean": "l2"}


class Vicinal(BaseANN):
    def __init__(self, metric, dtype="f32", planes=None):
        if metric not in METRICS:
            raise NotImplementedError(f"expected metric {' or '.join(METRICS)}, found {metric}")
        self.metric, self.dtype, self.options = METRICS[metric], dtype, {"planes": planes}
        self.name = f"vicinal({dtype}, planes={planes})"
        self.beam = self.codes = self.index = self.hits = None
        self.distances = 0

    def fit(self, X):
        self.index = vicinal.build(X, self.metric, dtype=self.dtype, **self.options)

    def query(self, q, n):
        hits = self.index.search(np.asarray(q, np.float32), n, self.beam, codes=self.codes)
        self.distances += hits.stats.distances or hits.stats.rows_scored
        return hits.ids

    def batch_query(self, X, n):
        self.hits = self.index.search(np.asarray(X, np.float32), n, self.beam, codes=self.codes)
        self.distances += self.hits.stats.distances or self.hits.stats.rows_scored

    def get_batch_results(self):
        return self.hits.ids

    def get_memory_usage(self):
        memory = self.index.memory
        return (memory.host + memory.mapped + memory.device) / 1024

    def get_additional(self):
        return {"planes": len(self.index.planes), "dist_comps": self.distances}

    def done(self):
        self.index.close()


class VicinalGraph(Vicinal):
    """One graph for each degree, searched at each beam."""

    def __init__(self, metric, degree, dtype="f32", codes=None):
        super().__init__(metric, dtype)
        self.options = {"graph": {"degree": degree, "beam": max(100, 2 * degree)}, "planes": {4: (8, 4)}.get(codes)}
        self.codes, self.label = codes, f"vicinal-graph({dtype}, degree={degree}, codes={codes}"
        self.name = self.label + ")"

    def set_query_arguments(self, beam):
        self.beam, self.distances = beam, 0
        self.name = f"{self.label}, beam={beam})"
