"""An agent's loop over a resident corpus: several hops, each next query made from what the last one found.

    python3 examples/agent_loop.py ["number of a question, 0 to 59"]

The corpus is 10,000 dictionary entries with their embeddings (examples/senses). Here no language model decides what to look
up next; its part is played by arithmetic: the next query leans from the question towards the mean of what was just read, and
what was read is not shown again. Every hop costs one exact search, so that what the loop reads depends on nothing but its
question: run it twice, on any machine, and it reads the same entries in the same order.
"""
import pathlib
import sys
import time

import numpy as np

import vicinal

SENSES = pathlib.Path(__file__).resolve().parent / "senses"


def hops(index, question, count=4, each=3, lean=0.5):
    """For each hop (ids, scores, microseconds); `lean` is the share of what was read in the next query."""
    query, read = question, []
    for _ in range(count):
        start = time.perf_counter()
        hits = index.search(query, each, filter=index.filter(read, exclude=True))
        took = (time.perf_counter() - start) * 1e6
        read += hits.ids.tolist()
        yield hits, took
        found = index.vectors(hits.ids).astype(np.float32).mean(0)
        query = (1 - lean) * question + lean * found


def main(number=0):
    index = vicinal.build(SENSES / "senses_f16.npy", texts=SENSES / "senses.txt", metric="cosine")
    questions = (SENSES / "questions.txt").read_text(encoding="utf-8").splitlines()
    print(f"{index}\n\nquestion: {questions[number]}")
    for hop, (hits, took) in enumerate(hops(index, np.load(SENSES / "questions_f32.npy")[number]), 1):
        print(f"\nhop {hop}, {took:.0f} us")
        for score, text in zip(hits.scores, hits.texts()):
            print(f"  {score:.3f}  {text}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
