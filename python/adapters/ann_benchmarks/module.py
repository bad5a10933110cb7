"""vicinal for ann-benchmarks: put this folder there as ann_benchmarks/algorithms/vicinal/.

Exact, so its recall is 1 and its place in the plot says what approximation has to beat. Queries one by one take the prepared
call of `Index.search`; a batch is one call, which shares the rows among its queries.
"""
import vicinal

from ..base.module import BaseANN

METRICS = {"angular": "cosine", "euclidean": "l2"}


class Vicinal(BaseANN):
    def __init__(self, metric, dtype="f32", planes=None):
        if metric not in METRICS:
            raise NotImplementedError(f"expected metric {' or '.join(METRICS)}, found {metric}")
        self.metric, self.dtype, self.planes = METRICS[metric], dtype, planes
        self.name = f"vicinal({dtype}, planes={planes})"
        self.index = self.hits = None

    def fit(self, X):
        self.index = vicinal.build(X, self.metric, dtype=self.dtype, planes=self.planes)
        self.dim = X.shape[1]

    def query(self, q, n):
        return self.index.search(q, n, convert=True).ids

    def batch_query(self, X, n):
        self.hits = self.index.search(X, n, convert=True)

    def get_batch_results(self):
        return self.hits.ids

    def get_memory_usage(self):
        memory = self.index.memory
        return (memory.host + memory.mapped + memory.device) / 1024

    def get_additional(self):
        return {"planes": len(self.index.planes)}

    def done(self):
        self.index.close()
