#!/bin/sh
# The README, typed as it stands: in a fresh copy of the tree, in a folder with a space in its name, every block fenced as
# `sh` runs from top to bottom in one shell, after every `c` block has become example.c. A block fenced as `output` is
# exactly what the commands before it print. Whoever follows the page sees what it says.
set -eu
cd "$(dirname "$0")/../.."
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
copy="$scratch/fresh copy"
mkdir "$copy" "$scratch/home" "$scratch/bin"
# All is there, so nothing may be installed.
printf '#!/bin/sh\necho "readme.sh: apt-get was called: $*" >&2\nexit 1\n' >"$scratch/bin/apt-get"
chmod +x "$scratch/bin/apt-get"
find . -mindepth 1 -maxdepth 1 ! -name .git ! -name 'build*' -exec cp -R {} "$copy/" \;

# One shell script of all sh blocks; the output blocks become comparisons with what came since the block before.
EXAMPLE=$copy/example.c awk '
    /^```c$/ { kind = "c"; next }
    /^```sh$/ { kind = "sh"; print "{ :"; next }
    /^```output$/ { kind = "output"; expected = ""; next }
    /^```/ && kind == "sh" { print "} >\"$HOME/printed\"; cat \"$HOME/printed\""; commands++ }
    /^```/ && kind == "output" { print "compare <<\"END\"\n" expected "END"; outputs++ }
    /^```/ { kind = kind == "" ? "other" : ""; next }
    kind == "c" { print > ENVIRON["EXAMPLE"] }
    kind == "sh" { print }
    kind == "output" { expected = expected $0 "\n" }
    END { if (!commands || !outputs) { print "exit 9 # no blocks found" } }
' README.md >"$scratch/script"
[ -s "$copy/example.c" ] || { echo "README.md has no C example"; exit 1; }

cd "$copy"
cat >"$scratch/run" <<'END'
set -eu
compare() {
    cat >"$HOME/expected"
    diff "$HOME/expected" "$HOME/printed" || { echo "README.md: that is not what the commands print"; exit 1; }
}
END
cat "$scratch/script" >>"$scratch/run"
# The CUDA object would take minutes for all generations of GPUs.
CMAKE_ARGS=-DVICINAL_CUDA=OFF HOME="$scratch/home" PATH="$scratch/bin:$copy/build/release:$PATH" sh "$scratch/run"

# Commands in the running text must exist.
grep -oE '\./dev [a-z]+' README.md | sort -u | while read -r _ command; do
    ./dev --help | grep -qE "^  $command " || { echo "README.md names ./dev $command, which is not there"; exit 1; }
done
