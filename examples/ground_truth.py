"""Exact ground truth for a study of approximate indexes, and its plot of recall over queries a second.

    python3 examples/ground_truth.py [-o plot.png] [--rows 20000]

Two are studied: vicinal's own graph at rising beams, and the simplest one there is, in NumPy, where rows are put into cells
around centres and a query looks into the nearest `probes` of them. vicinal says what they should have found: `truth` once,
`recall` for each setting, with ties counted right. The same two lines judge any other index. Draws with matplotlib where it is
installed, else with characters.
"""
import argparse
import time

import numpy as np

import vicinal


class Cells:
    """Rows in cells around centres, which are rows themselves, moved to the middle of their cells a few times."""

    def __init__(self, rows, cells=128, rounds=4, seed=1):
        self.rows, self.centres = rows, rows[np.random.default_rng(seed).choice(len(rows), cells, replace=False)].copy()
        for _ in range(rounds):
            nearest = vicinal.build(self.centres, "l2").search(rows, 1).ids[:, 0]
            for cell in range(cells):
                if (nearest == cell).any():
                    self.centres[cell] = rows[nearest == cell].mean(0)
        self.index = vicinal.build(self.centres, "l2")
        nearest = self.index.search(rows, 1).ids[:, 0]
        self.members = [np.flatnonzero(nearest == cell) for cell in range(cells)]

    def search(self, queries, k, probes):
        found = np.full((len(queries), k), -1)
        for j, cells in enumerate(self.index.search(queries, probes).ids):
            members = np.concatenate([self.members[cell] for cell in cells])
            distances = ((self.rows[members] - queries[j]) ** 2).sum(1)
            best = members[np.argsort(distances, kind="stable")[:k]]
            found[j, :len(best)] = best
        return found


def timed(search, queries):
    """What a search found, and queries a second."""
    start = time.perf_counter()
    found = search(queries)
    return found, len(queries) / (time.perf_counter() - start)


def study(rows, queries, k=10, probes=(1, 2, 4, 8, 16, 32, 64), beams=(10, 15, 20, 30, 50, 80, 120)):
    """System -> (setting, queries a second, recall) of each setting."""
    flat, graph, cells = vicinal.build(rows, "l2"), vicinal.build(rows, "l2", graph=True), Cells(rows)
    truth, exact_qps = timed(lambda asked: flat.search(asked, k), queries)
    points = {"exact": [("scan", exact_qps, 1.0)], "graph": [], "cells": []}
    for beam in beams:
        found, qps = timed(lambda asked: graph.search(asked, k, beam), queries)
        points["graph"].append((f"beam {beam}", qps, vicinal.recall(found, truth)))
    for count in probes:
        found, qps = timed(lambda asked: cells.search(asked, k, count), queries)
        points["cells"].append((f"{count} probes", qps, vicinal.recall(found, truth, k)))
    return points


def draw(points, path=None):
    try:
        import matplotlib
        matplotlib.use("Agg")
        import matplotlib.pyplot as plt
    except ImportError:
        path = None
    for system, settings in points.items():
        for name, qps, recall in settings:
            print(f"{system:>6} {name:>10}  recall {recall:.3f} {'#' * round(40 * recall):<40} {qps:>10,.0f} queries/s")
        if path is not None:
            plt.semilogy([recall for _, _, recall in settings], [qps for _, qps, _ in settings], "o-", label=system)
    if path is not None:
        plt.xlabel("recall at 10")
        plt.ylabel("queries a second")
        plt.legend()
        plt.savefig(path)
        print(path)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", help="a picture, where matplotlib is installed")
    parser.add_argument("--rows", type=int, default=20000)
    arguments = parser.parse_args()
    shape = {"seed": 1, "clusters": 500, "spread": 2.0, "latent_dim": 24}
    rows = vicinal.generate("manifold", arguments.rows, 64, **shape)
    queries = vicinal.generate("manifold", 200, 64, first=arguments.rows, **shape)
    draw(study(rows, queries), arguments.output)


if __name__ == "__main__":
    main()
