#!/bin/sh
# The front door's own behaviour: help, wrong words, and how it comes by what is missing, with a package manager that only
# writes down what it was asked. (test/tree/readme.sh shows that nothing is asked when all is there.)
set -eu
cd "$(dirname "$0")/../.."
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir -p "$scratch/a tree/test" "$scratch/bin"
cp dev "$scratch/a tree/"
cp test/run.sh "$scratch/a tree/test/"
dev="$scratch/a tree/dev"

# A machine with a shell and the tools that every Debian has, and no compiler.
for tool in sh env cat cut dirname grep head mkdir paste rm sed sort tail tr; do ln -s "$(command -v $tool)" "$scratch/bin/$tool"; done
stub() { # NAME: a program whose body is on standard input
    { echo '#!/bin/sh' && cat; } >"$scratch/bin/$1"
    chmod +x "$scratch/bin/$1"
}
run() { # ARGUMENT...: output in $scratch/out, exit code in $code
    rm -f "$scratch/asked"
    code=0
    (cd / && ASKED="$scratch/asked" PATH="$scratch/bin" "$dev" "$@") >"$scratch/out" 2>&1 </dev/null || code=$?
}
expect() { # CODE TEXT
    if [ $code != "$1" ] || ! grep -qF -e "$2" "$scratch/out"; then
        echo "expected exit code $1 and '$2', found exit code $code and:" && cat "$scratch/out" && exit 1
    fi
}
asked() { # lines on standard input: what the package manager was asked
    cat >"$scratch/expected"
    touch "$scratch/asked"
    diff "$scratch/expected" "$scratch/asked" || { echo "the package manager was asked something else"; exit 1; }
}
base='cmake gcc libc6-dev libjansson-dev libxxhash-dev ninja-build'

for command in demo test bench lint fuzz gpu install; do
    run $command --help && expect 0 "usage: ./dev $command"
done
run && expect 0 'usage: ./dev COMMAND'
run dmeo && expect 1 "unknown command 'dmeo'"
run demo now && expect 1 "unknown argument 'now'"
run test --fast && expect 1 "unknown argument '--fast'"

echo 'echo 0' | stub id
run demo && expect 1 "there is no apt-get to install them; their Debian names: $base"

# shellcheck disable=SC2016
echo 'echo "$@" >>"$ASKED"' | stub apt-get
run demo && expect 1 "still missing after the installation: $base"
[ "$(head -n 2 "$scratch/out" | tr '\n' '|')" = "missing: $base|installing them with apt-get ...|" ] || { echo "it did not say first what is missing" && cat "$scratch/out" && exit 1; }
asked <<END
update
install -y --no-install-recommends $base
END

echo 'exit 100' | stub apt-get
run demo && expect 1 "apt-get could not install: $base"

# Not root: with sudo, and without.
echo 'echo 1000' | stub id
run demo && expect 1 "Run as root, or install them yourself: apt-get install $base"
# shellcheck disable=SC2016
echo 'echo "$@" >>"$ASKED"' | stub apt-get
# shellcheck disable=SC2016
echo 'echo sudo >>"$ASKED"; exec "$@"' | stub sudo
run demo && expect 1 'installing them with sudo apt-get ...'
asked <<END
sudo
update
sudo
install -y --no-install-recommends $base
END

# The sanitizers' package has the version of the clang that would be installed, once that is known.
run fuzz && expect 1 'libclang-rt-*-dev'
# shellcheck disable=SC2016
printf '%s\n' 'case $1 in depends) echo "  Depends: clang-18" ;; show) [ "$2" = libclang-rt-18-dev ] ;; esac' | stub apt-cache
run fuzz && expect 1 'libclang-rt-18-dev'
grep -q 'install .* libclang-rt-18-dev ' "$scratch/asked" || { echo "apt-get was not asked for libclang-rt-18-dev:" && cat "$scratch/asked" && exit 1; }
echo "the front door says what it does, and does it"
