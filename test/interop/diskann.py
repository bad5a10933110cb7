"""DiskANN itself as the judge of what we read and write of its files; wants diskannpy 0.7.0 (and with it NumPy below 2).

    diskann.py golden FOLDER              small sets of every kind, as test/data/diskann keeps them
    diskann.py build ROWS.npy FOLDER METRIC    indexes in memory (mem) and on disk (disk; it has none for cosine) of these rows,
                                               for mips of lengths that differ; the rows as rows.npy, and queries.fbin
    diskann.py search FOLDER PREFIX KIND QUERIES.fbin K BEAM OUT.bin
        KIND: memory, disk, or disk-l2 for a set without a description; OUT: ground truth's layout
"""
import os
import sys

import numpy as np

try:
    import diskannpy
except ImportError:
    print("skipped: diskannpy is not here")
    sys.exit(77)

K = 5


def save_bin(path, array, extra=None):
    with open(path, "wb") as file:
        np.array(array.shape, dtype=np.uint32).tofile(file)
        array.tofile(file)
        if extra is not None:
            extra.tofile(file)


def load_bin(path, dtype):
    with open(path, "rb") as file:
        rows, dim = np.fromfile(file, np.uint32, 2)
        return np.fromfile(file, dtype, int(rows) * int(dim)).reshape(int(rows), int(dim))


def build_memory(rows, folder, prefix, degree, metric="l2", beam=64, threads=1):
    diskannpy.build_memory_index(data=rows, distance_metric=metric, index_directory=folder, complexity=beam, graph_degree=degree,
                                 alpha=1.2, num_threads=threads, use_pq_build=False, num_pq_bytes=0, use_opq=False,
                                 index_prefix=prefix)
    os.remove(os.path.join(folder, prefix + "_vectors.bin"))


def build_disk(rows, folder, prefix, degree, metric="l2", beam=64, threads=1, chunks=3, codes=0):
    diskannpy.build_disk_index(data=rows, distance_metric=metric, index_directory=folder, complexity=beam, graph_degree=degree,
                               search_memory_maximum=(chunks + 0.5) * len(rows) / 2**30, build_memory_maximum=4,
                               num_threads=threads, pq_disk_bytes=codes, index_prefix=prefix)
    for left in ("_vectors.bin", "_mem.index.data", "_sample_data.bin", "_sample_ids.bin"):
        if os.path.exists(os.path.join(folder, prefix + left)):
            os.remove(os.path.join(folder, prefix + left))


def search(folder, prefix, kind, queries, k, beam):
    if kind == "memory":
        index = diskannpy.StaticMemoryIndex(index_directory=folder, num_threads=1, initial_search_complexity=beam,
                                            index_prefix=prefix)
        found = index.batch_search(queries, k_neighbors=k, complexity=beam, num_threads=1)
    else:
        described = {} if kind == "disk" else dict(distance_metric="l2", vector_dtype=queries.dtype.type, dimensions=queries.shape[1])
        # with one thread it waits for itself for ever
        index = diskannpy.StaticDiskIndex(index_directory=folder, num_threads=2, num_nodes_to_cache=0, index_prefix=prefix, **described)
        found = index.batch_search(queries, k_neighbors=k, complexity=beam, beam_width=2, num_threads=2)
    return found.identifiers.astype(np.uint32), found.distances.astype(np.float32)


def golden(folder):
    random = np.random.default_rng(5)
    floats = random.standard_normal((300, 12)).astype(np.float32)
    bytes_ = random.integers(0, 256, (300, 16)).astype(np.uint8)
    scales = np.exp(random.standard_normal((300, 1))).astype(np.float32)
    for prefix, rows, metric in (("f", floats, "l2"), ("u", bytes_, "l2"), ("ip", floats * scales, "mips")):
        build_memory(rows, folder, prefix, 8, metric, 32)
        build_disk(rows, folder, prefix, 8, metric, 32)
        ids, distances = search(folder, prefix, "memory", rows[:20], K, 64)
        save_bin(os.path.join(folder, prefix + "_answers.bin"), ids, distances)
    build_disk(floats, folder, "coded", 8, "l2", 32, codes=6)
    dynamic = diskannpy.DynamicMemoryIndex(distance_metric="l2", vector_dtype=np.float32, dimensions=12, max_vectors=300,
                                           complexity=32, graph_degree=8, num_threads=1)
    dynamic.batch_insert(floats, np.arange(1, 301, dtype=np.uint32))
    dynamic.save(folder, "dyn")


def build(path, folder, metric):
    rows = np.ascontiguousarray(np.load(path), dtype=np.float32)
    random = np.random.default_rng(7)
    if metric == "mips":
        rows *= np.exp(0.3 * random.standard_normal((len(rows), 1))).astype(np.float32)
    np.save(os.path.join(folder, "rows.npy"), rows)
    pairs = random.integers(0, len(rows), (2, 1000)) # questions between two rows: neither near nor far
    save_bin(os.path.join(folder, "queries.fbin"), ((rows[pairs[0]] + rows[pairs[1]]) / 2).astype(np.float32))
    threads = os.cpu_count()
    build_memory(rows, folder, "mem", 32, metric, beam=64, threads=threads)
    if metric != "cosine":
        build_disk(rows, folder, "disk", 32, metric, beam=64, threads=threads, chunks=min(96, rows.shape[1]))


if __name__ == "__main__":
    if sys.argv[1] == "golden":
        golden(sys.argv[2])
    elif sys.argv[1] == "build":
        build(*sys.argv[2:5])
    elif sys.argv[1] == "search":
        folder, prefix, kind, queries, k, beam, out = sys.argv[2:9]
        dtype = {".fbin": np.float32, ".u8bin": np.uint8, ".i8bin": np.int8}[os.path.splitext(queries)[1]]
        ids, distances = search(folder, prefix, kind, load_bin(queries, dtype), int(k), int(beam))
        save_bin(out, ids, distances)
    else:
        sys.exit(__doc__)
