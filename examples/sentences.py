"""From sentences to an index that gives sentences back.

    python3 examples/sentences.py [LINES.txt]

With the package sentence_transformers installed and its model on this machine, the lines of your file are embedded, indexed
with their texts, saved, and asked what you type. Without, the 10,000 dictionary entries of examples/senses and their shipped
embeddings are used, and the 60 shipped questions are asked. Either way the index is one file, texts inside.
"""
import pathlib
import sys
import tempfile

import numpy as np

import vicinal

SENSES = pathlib.Path(__file__).resolve().parent / "senses"
MODEL = "all-MiniLM-L6-v2"


def encoder():
    """A function from sentences to vectors, or None where no encoder is installed or its model is not here."""
    try:
        from sentence_transformers import SentenceTransformer
        model = SentenceTransformer(MODEL, local_files_only=True)
    except (ImportError, OSError, ValueError):
        return None
    return lambda sentences: np.asarray(model.encode(sentences), np.float32)


def show(index, question, query, k=3):
    print(f"\n{question}")
    hits = index.search(query, k)
    for score, text in zip(hits.scores, hits.texts()):
        print(f"  {score:.3f}  {text}")


def main(path=None):
    encode = encoder()
    folder = tempfile.TemporaryDirectory()
    saved = pathlib.Path(folder.name) / "sentences.vic"
    if path is not None and encode is None:
        sys.exit(f"expected sentence_transformers and its model {MODEL} for a file of your own, found none; without a file, shipped vectors serve")
    if path is not None:
        lines = pathlib.Path(path).read_text(encoding="utf-8").splitlines()
        vicinal.build(encode(lines), texts=lines).save(saved)
    else:
        vicinal.build(SENSES / "senses_f16.npy", texts=SENSES / "senses.txt").save(saved)
    with vicinal.open(saved) as index, folder:
        print(f"{index}\n{saved.stat().st_size / 1e6:.1f} MB on disk, texts inside")
        if path is not None:
            for question in sys.stdin:
                show(index, question.strip(), encode([question])[0])
            return
        questions = (SENSES / "questions.txt").read_text(encoding="utf-8").splitlines()
        vectors = encode(questions) if encode else np.load(SENSES / "questions_f32.npy")
        for question, vector in list(zip(questions, vectors))[:5]:
            show(index, question, vector)


if __name__ == "__main__":
    main(*sys.argv[1:2])
