#!/bin/sh
# The map and the tree are one: every file of src/ has exactly one place in the table of docs/map.md, every name there has a
# file, every other folder has a row, and every path that a page or a comment names is there, and every command of ./dev and of
# the program. Then the check is checked, on a copy with one fault each.
set -eu
cd "$(dirname "$0")/../.."

check() { # ROOT: a line for every fault; 1 when there is one
    python3 - "$1" <<'END'
import fnmatch, glob, os, re, sys

os.chdir(sys.argv[1])
bad = []
tops = [name for name in sorted(os.listdir(".")) if os.path.isdir(name) and not name.startswith((".", "build"))]
files = [os.path.join(folder, name) for top in tops for folder, _, names in os.walk(top) for name in names
         if "__pycache__" not in folder]
page, dev = open("docs/map.md").read(), open("dev").read() + open("test/run.sh").read()

table = re.findall(r"^\| (src/\S*) \| ([^|]+) \| [^|]+ \|$", page.split("## The files of src/")[1], re.M)
patterns = [(folder, stem.strip()) for folder, stems in table for stem in stems.split(",")]
sources = [path for path in files if path.startswith("src/")]
places = dict.fromkeys(sources, 0)
for folder, stem in patterns:
    found = [path for path in sources if os.path.dirname(path) + "/" == folder and
             fnmatch.fnmatchcase(os.path.basename(path).split(".")[0], stem)]
    for path in found:
        places[path] += 1
    if not found:
        bad.append(f"docs/map.md: no file of {folder} is called {stem}")
bad += [f"{path} has {count} places in docs/map.md, expected 1" for path, count in places.items() if count != 1]

rows = re.findall(r"^\| ([^|]+) \|", page, re.M)
bad += [f"{folder} has no row in docs/map.md" for folder in tops + ["test/" + name for name in os.listdir("test")]
        if os.path.isdir(folder) and not any(folder + "/" in row for row in rows)]

# src/shard: the map says that it is not there yet. Words in capitals stand for any name, and files named planted are a test's.
named = re.compile(r"(?<![\w/.$}\"*-])(?:\./)?((?:" + "|".join(tops) + r")/[\w./*-]+)")
pages = [name for name in os.listdir(".") if name.endswith((".md", ".txt")) or name == "dev"]
for path in pages + [path for path in files if path.endswith((".md", ".c", ".h", ".cu", ".cuh", ".py", ".sh", ".txt", ".cmake"))]:
    text = open(path, encoding="utf-8").read()
    for match in named.finditer(text):
        name = match[1].rstrip(".-").replace("\\", "")
        if re.search(r"[A-Z]{4}|/planted", name.replace("LICENSE", "").replace("README", "")) or name.startswith("src/shard"):
            continue
        if not glob.glob(name + "*"):
            bad.append(f"{path}:{text.count(chr(10), 0, match.start()) + 1}: names {match[1]}, which is not there")
    if path.endswith(".md"):
        for word, command in re.findall(r"(\./dev|`vicinal|^vicinal) ([a-z]+)", text, re.M):
            if not (f"run_{command}()" in dev if word == "./dev" else os.path.exists(f"cli/{command}.c")):
                bad.append(f"{path}: names the command {word.strip('`')} {command}, which is not there")
        for link in re.findall(r"\]\(([^)#:]+)\)", text):
            if not os.path.exists(os.path.join(os.path.dirname(path), link)):
                bad.append(f"{path}: links to {link}, which is not there")

print("\n".join(bad) if bad else f"{len(sources)} files of src/, each with its place on the map")
sys.exit(bool(bad) or not sources)
END
}

check .

copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
fault() { # COMMAND WORDS: run in a fresh copy, the command must make the check say the words
    rm -rf "$copy" && mkdir -p "$copy"
    find . -mindepth 1 -maxdepth 1 ! -name '.*' ! -name 'build*' -exec cp -R {} "$copy/" \;
    (cd "$copy" && eval "$1")
    if found=$(check "$copy") || ! printf '%s\n' "$found" | grep -qF "$2"; then
        echo "after '$1' the check did not say '$2': $found"
        exit 1
    fi
}
fault ': >src/base/planted.c' 'src/base/planted.c has 0 places'
fault ': >src/index/planted_build.c' 'src/index/planted_build.c has 0 places'
fault 'rm src/base/clock.h' 'no file of src/base/ is called clock'
fault 'mkdir server' 'server has no row'
fault 'mkdir test/planted' 'test/planted has no row'
fault 'rm docs/numerics.md' 'names docs/numerics.md, which is not there'
fault 'rm cli/eval.c' 'README.md: names the command vicinal eval, which is not there'
fault 'echo "./dev planted" >>CONTRIBUTING.md' 'CONTRIBUTING.md: names the command ./dev planted'
fault 'rm docs/numerics.md' 'docs/map.md: links to numerics.md'
fault 'sed -i "s|fpenv[.]h|fpEnv.h|" docs/numerics.md' 'base/fpEnv.h, which is not there'
