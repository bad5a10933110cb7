"""vicinal on data sets in the files of the big-ann competitions, as a program and as a class in their shape.

    python3 big_ann.py BASE.fbin QUERIES.fbin --truth GT.bin -k 10 [--metric euclidean|ip|angular] [--index x.vic] [-o hits.bin]
                       [--degree 64 --beam 50 --beam 100 ...]

BASE may be .fbin, .u8bin or .i8bin and larger than memory: it is read in blocks, straight into an index file, which is kept
under --index and opened the next time. With --degree a graph is built, whose rows must fit in memory, and searched at each
beam. Prints a JSON line for each: rows, dim, seconds to build, queries a second, recall.
"""
import argparse
import json
import os
import tempfile
import time

import vicinal

METRICS = {"euclidean": "l2", "ip": "dot", "angular": "cosine"}


class VicinalExact:
    """fit, load_index, query, range_query and get_results as the competition calls them. `dataset` gives get_dataset_fn(),
    distance() and d, and is asked for nothing else."""

    def __init__(self, metric, index_params=None):
        self.metric, self.params = METRICS[metric], dict(index_params or {})
        self.index = self.hits = self.ranges = None
        self.asked, self.options = {}, {"planes": self.params.get("planes")}

    def __str__(self):
        return f"vicinal({self.metric})"

    def track(self):
        return "exact"

    def _path(self, dataset):
        return self.params.get("index_path") or os.path.splitext(dataset.get_dataset_fn())[0] + f".{self.metric}.vic"

    def fit(self, dataset):
        self.index = vicinal.build(dataset.get_dataset_fn(), METRICS[dataset.distance()], path=self._path(dataset), **self.options)

    def load_index(self, dataset):
        """Whether there was an index to open."""
        if not os.path.exists(self._path(dataset)):
            return False
        self.index = vicinal.open(self._path(dataset))
        return True

    def set_query_arguments(self, query_args):
        """What of beam, parents and codes is set; exact search has none."""
        self.asked = dict(query_args)

    def query(self, X, k):
        self.hits = self.index.search(X, k, **self.asked)

    def range_query(self, X, radius):
        self.ranges = self.index.within(X, radius)

    def get_results(self):
        return self.hits.ids

    def get_range_results(self):
        return self.ranges.offsets, self.ranges.ids, self.ranges.scores

    def done(self):
        self.index.close()


class VicinalGraph(VicinalExact):
    """The same by a graph; index_params: degree and build_beam as well."""

    def __init__(self, metric, index_params=None):
        super().__init__(metric, index_params)
        self.options["graph"] = {"degree": self.params.get("degree"), "beam": self.params.get("build_beam")}

    def __str__(self):
        return f"vicinal-graph({self.metric}, degree={self.params.get('degree', 64)}, {self.asked})"

    def track(self):
        return "graph"


class Files:
    """A data set that is a file."""

    def __init__(self, path, metric):
        self.path, self.metric, self.d = path, metric, vicinal.info(path).dim

    def get_dataset_fn(self):
        return self.path

    def distance(self):
        return self.metric


def run(base, queries, truth=None, k=10, metric="euclidean", index=None, output=None, degree=None, beam=None):
    """The facts that are printed, for one search after another; what was found last goes into `output`."""
    with tempfile.TemporaryDirectory() as folder:
        params = {"index_path": index or os.path.join(folder, "index.vic"), "degree": degree}
        algorithm = VicinalExact(metric, params) if degree is None else VicinalGraph(metric, params)
        dataset, start = Files(base, metric), time.perf_counter()
        if not algorithm.load_index(dataset):
            algorithm.fit(dataset)
        built, asked = time.perf_counter(), vicinal.read(queries)
        for width in beam or [None]:
            algorithm.set_query_arguments({} if width is None else {"beam": width})
            ready = time.perf_counter()
            algorithm.query(asked, k)
            searched = time.perf_counter()
            facts = {"algorithm": str(algorithm), "rows": len(algorithm.index), "dim": algorithm.index.dim, "queries": len(asked), "k": k,
                     "build_s": round(built - start, 3), "qps": round(len(asked) / (searched - ready), 1)}
            if degree is not None:
                facts.update(beam=algorithm.hits.stats.beam, distances=algorithm.hits.stats.distances)
            if truth is not None:
                facts["recall"] = vicinal.recall(algorithm.hits, truth, k)
            yield facts
        if output is not None:
            vicinal.write_truth(output, algorithm.hits)
        algorithm.done()


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("base")
    parser.add_argument("queries")
    parser.add_argument("--truth")
    parser.add_argument("-k", type=int, default=10)
    parser.add_argument("--metric", choices=METRICS, default="euclidean")
    parser.add_argument("--index")
    parser.add_argument("--degree", type=int)
    parser.add_argument("--beam", type=int, action="append")
    parser.add_argument("-o", "--output")
    for facts in run(**vars(parser.parse_args(arguments))):
        print(json.dumps(facts))


if __name__ == "__main__":
    main()
