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
QUESTION = ("rows", "dim", "dtype", "metric", "device", "threads", "batch", "k")  # what makes two measurements comparable


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
    """Share of the plain read that one query's pass over the rows reached; a batch is not bound by it."""
    share = record.get("share_of_plain_read")
    if share is None and roof:
        row_bytes = record["rows"] * record["dim"] * ELEMENT_BYTES.get(record.get("dtype"), 4)
        share = row_bytes / record["p50_us"] / 1e3 / roof
    return f"{share:.0%}" if share and record.get("batch", 1) == 1 else ""


def comparison(records):
    """Exact search: a line a question, a column a system, how many times faster than the best peer, share of the roof."""
    exact = [record for record in records if record.get("record") == "exact" and record.get("p50_us")]
    peers = sorted({record["system"] for record in exact} - {"vicinal"})
    roof = plain_read(records)
    questions = {}
    for record in exact:
        questions.setdefault(tuple(record.get(field) for field in QUESTION), {})[record["system"]] = record
    rows = []
    for answers in questions.values():
        ours = answers.get("vicinal")
        if not ours:
            continue
        best = min((answers[peer]["p50_us"] for peer in peers if peer in answers), default=None)
        row = [f"{ours['rows']:,} × {ours['dim']} {ours.get('dtype', '')}".strip(), number_text(ours.get("batch", 1)), number_text(ours["k"]),
               time_text(ours["p50_us"]) + ("" if ours.get("verified") else " (not verified)")]
        row += [time_text(answers[peer]["p50_us"]) if peer in answers else "" for peer in peers]
        row += [f"{best / ours['p50_us']:.1f}×" if best else "", share_text(ours, roof)]
        rows.append(row)
    return table(["rows", "queries", "k", "vicinal"] + peers + ["against the best peer", "share of a plain read"], rows)


def other_tables(records):
    """Every other kind of record as it stands, a column a field that any of them has."""
    lines = []
    kinds = dict.fromkeys(record.get("record", "?") for record in records)
    for kind in kinds:
        if kind == "exact":
            continue
        chosen = [record for record in records if record.get("record", "?") == kind]
        fields = [field for field in dict.fromkeys(field for record in chosen for field in record) if field != "record"]
        rows = [[number_text(record.get(field, "")) for field in fields] for record in chosen]
        lines += [f"{kind}", ""] + table(fields, rows)
    return lines


def readme_region(paths):
    lines = []
    for path in paths:
        environment, records = read_run(path)
        lines_here = comparison(records)
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
            print("\n".join([environment_text(path, environment), ""] + comparison(records) + other_tables(records)))
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
