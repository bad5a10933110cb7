#!/usr/bin/env python3
"""Tables from what benchmarks wrote, so that no figure is ever typed.

    python3 bench/report.py [FILE.jsonl ...]     Markdown tables of the files, by default of all in bench/results/
    python3 bench/report.py --write              puts the comparisons into README.md, between its report marks
    python3 bench/report.py --check              fails when README.md holds other figures than the results

A file is one run: an environment record, then one record a measurement (fields: docs/benchmarks.md). A ratio is only made
between systems of one file, that is of one run on one machine. Standard library only.
"""
import argparse
import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
BEGIN, END = "<!-- report:begin -->", "<!-- report:end -->"
ELEMENT_BYTES = {"f32": 4, "f16": 2, "bf16": 2, "i8": 1, "u8": 1}
QUESTION = ("data", "rows", "dim", "dtype", "metric", "device", "threads", "place", "timed", "batch", "k")  # what makes two measurements comparable


def read_run(path):
    """The environment and the other records; a broken line names its place."""
    environment, records = {}, []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except ValueError as error:
            sys.exit(f"{path}:{number}: expected a JSON object, found {line[:40]!r} ({error})")
        if record.get("record") == "environment":
            environment = record
        else:
            records.append(record)
    return environment, records


def table(header, rows):
    if not rows:
        return []
    lines = ["| " + " | ".join(header) + " |", "|" + "|".join(["---"] + ["---:"] * (len(header) - 1)) + "|"]
    return lines + ["| " + " | ".join(row) + " |" for row in rows] + [""]


def time_text(us):
    return f"{us:,.0f} µs" if us < 10000 else f"{us / 1000:,.1f} ms"


def number_text(value):
    if isinstance(value, float):
        return f"{value:,.3g}" if abs(value) < 100 else f"{value:,.0f}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def environment_text(path, environment):
    parts = [environment.get(field) for field in ("date", "cpu", "gpu")]
    if environment.get("cores"):
        parts.insert(2, f"{environment['cores']} cores")
    if environment.get("source"):
        parts.append(f"source {environment['source'][:12]}")
    return f"**{path.stem}** · " + " · ".join(str(part) for part in parts if part)


def plain_read(records):
    """GB/s of a plain read measured in this run, or None."""
    for record in records:
        if record.get("record") == "limit" and "read" in record.get("what", ""):
            return record.get("gbps") or record.get("value")
    return next((record["plain_read_gbps"] for record in records if record.get("plain_read_gbps")), None)


def share_text(record, roof):
    """Share of the plain read that one query's pass over all rows, or over their codes, reached; other searches are not bound
    by it."""
    share = record.get("share_of_plain_read")
    if share is None and record.get("read_us"):
        share = record["read_us"] / record["p50_us"]
    if share is None and roof and record.get("path", "scan") == "scan" and not record.get("timed"):
        row_bytes = record["rows"] * record["dim"] * ELEMENT_BYTES.get(record.get("dtype"), 4)
        share = row_bytes / record["p50_us"] / 1e3 / roof
    return f"{share:.0%}" if share and record.get("batch", 1) == 1 else ""


def system_name(record):
    planes = record.get("planes")
    return record["system"] + (f", {planes}-bit plane" if planes not in (None, "none") else "")


def question_text(record, usual_device):
    """What was searched; said with it: other data than the file's first, only enqueued, another device than most."""
    notes = [record.get("data"), "only enqueued" if record.get("timed") == "enqueue" else None,
             f"on the {record['device'].upper()}" if record.get("device", usual_device) != usual_device else None]
    shape = f"{record['rows']:,} × {record['dim']} {record.get('dtype', '')}".strip()
    return ", ".join([shape] + [note for note in notes if note])


def questions_of(records):
    """The exact searches by question: a dictionary of systems each."""
    questions = {}
    for record in records:
        if record.get("record") in ("exact", "certified") and record.get("p50_us"):
            questions.setdefault(tuple(record.get(field) for field in QUESTION), {})[system_name(record)] = record
    return [answers for answers in questions.values() if any(name.startswith("vicinal") for name in answers)]


def comparison(records, brief=False):
    """Exact search: a line a question, a column a system, how many times faster than the best peer, share of the roof.
    brief: of a long campaign only the questions that stand for the others."""
    questions = questions_of(records)
    devices = [record.get("device") for answers in questions for record in answers.values()]
    usual_device = max(set(devices), key=devices.count) if devices else None
    if brief and len(questions) > 20:
        first = [next(iter(answers.values())) for answers in questions]
        questions = [answers for answers, record in zip(questions, first)
                     if (record["k"] >= 100 or record.get("batch", 1) > 1) and not record.get("timed") and record.get("device") == usual_device]
    systems = list(dict.fromkeys(name for answers in questions for name in answers))
    ours, peers = [name for name in systems if name.startswith("vicinal")], sorted(name for name in systems if not name.startswith("vicinal"))
    roof, rows = plain_read(records), []
    for answers in questions:
        some = next(iter(answers.values()))
        mine = min((answers[name] for name in ours if name in answers), key=lambda record: record["p50_us"])
        best = min((answers[peer]["p50_us"] for peer in peers if peer in answers), default=None)
        row = [question_text(some, usual_device), number_text(some.get("batch", 1)), number_text(some["k"])]
        for name in ours + peers:
            doubt = name in ours and name in answers and not answers[name].get("verified", answers[name]["record"] == "certified")
            row.append(time_text(answers[name]["p50_us"]) + (" (not verified)" if doubt else "") if name in answers else "")
        scan = answers.get("vicinal")
        row += [f"{best / mine['p50_us']:.1f}×" if best else "", share_text(mine if mine.get("read_us") else scan, roof) if scan else ""]
        rows.append(row)
    return table(["rows", "queries", "k"] + ours + peers + ["against the best peer", "share of a plain read"], rows)


def beside_graph(records):
    """Exact answers beside those of a graph, where a run has both."""
    rows = [[system_name(record), f"{record['recall']:.4f}", time_text(record["one_p50_us"]), number_text(record["one_qps"]), number_text(record["qps"])]
            for record in records if record.get("record") == "exact_and_graph"]
    return table(["", "recall@10", "one query", "queries a second, one by one", "all in one call"], rows)


RECALLS = {"graph at a recall": "queries a second", "graph, one query, one thread at a recall": "one query, one thread, a second",
           "graph, far queries at a recall": "far queries, a second"}


def graphs(records):
    """Approximate answers: a line a data set, k and recall, a column a system, the rates at which it gets there."""
    lines = []
    for kind, title in RECALLS.items():
        points = {}
        for record in records:
            if record.get("record") == kind:
                what = f"{record['rows']:,} × {record['dim']} {record['dtype']}" + (f", {record['data']}" if record["data"] != "rows" else "")
                points.setdefault((what, record["k"], record["recall"]), {})[record["system"]] = record["qps"]
        systems = list(dict.fromkeys(system for rates in points.values() for system in rates))
        rows = []
        for (what, k, recall), rates in points.items():
            ours, peers = [[rate for system, rate in rates.items() if system.startswith("vicinal") == mine] for mine in (True, False)]
            rows.append([what, f"{recall}", number_text(k)] + [f"{rates[system]:,.0f}" if system in rates else "" for system in systems] +
                        [f"{max(ours) / max(peers):.1f}×" if ours and peers else ""])
        lines += table([title, "recall", "k"] + systems + ["against the best peer"], rows)
    return lines


def other_tables(records):
    """Every other kind of record as it stands, a column a field that any of them has."""
    lines = []
    kinds = dict.fromkeys(record.get("record", "?") for record in records)
    for kind in kinds:
        if kind in ("exact", "certified", "exact_and_graph") or kind in RECALLS:
            continue
        chosen = [record for record in records if record.get("record", "?") == kind]
        fields = [field for field in dict.fromkeys(field for record in chosen for field in record) if field != "record"]
        rows = [[number_text(record.get(field, "")) for field in fields] for record in chosen]
        lines += [f"{kind}", ""] + table(fields, rows)
    return lines


README_FIRST = ("certified", "graph", "exact")  # what the name of a file begins with


def kind_of(path):
    return path.stem.partition("-")[0]


def readme_region(paths):
    lines = []
    for path in sorted(paths, key=lambda path: (README_FIRST.index(kind_of(path)) if kind_of(path) in README_FIRST else len(README_FIRST))):
        environment, records = read_run(path)
        lines_here = comparison(records, brief=True) + beside_graph(records) + graphs(records)
        if lines_here:
            lines += [environment_text(path, environment), ""] + lines_here
    if lines:
        lines = ["Times are medians of one call, all its queries together, every system in the same run; `bench/report.py` made the tables.", ""] + lines
    return "\n".join([BEGIN] + lines + [END])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=pathlib.Path)
    parser.add_argument("--write", action="store_true", help="put the comparisons into README.md")
    parser.add_argument("--check", action="store_true", help="fail when README.md holds others")
    arguments = parser.parse_args()
    paths = arguments.files or sorted((ROOT / "bench" / "results").glob("*.jsonl"))
    if not arguments.write and not arguments.check:
        for path in paths:
            environment, records = read_run(path)
            print("\n".join([environment_text(path, environment), ""] + comparison(records) + beside_graph(records) + graphs(records) + other_tables(records)))
        return
    readme = ROOT / "README.md"
    text = readme.read_text(encoding="utf-8")
    if text.count(BEGIN) != 1 or text.count(END) != 1:
        sys.exit(f"README.md: expected one {BEGIN} and one {END}")
    new = text[:text.index(BEGIN)] + readme_region(paths) + text[text.index(END) + len(END):]
    if arguments.write:
        readme.write_text(new, encoding="utf-8")
    elif new != text:
        sys.exit("README.md holds other figures than bench/results: run python3 bench/report.py --write")


if __name__ == "__main__":
    main()
