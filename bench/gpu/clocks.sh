#!/bin/sh
# Locks the GPU's clocks for a measurement, or gives them back: clocks.sh lock [MHZ] | restore
# Needs root and a GPU of your own: other users of the card are slowed down or sped up too. Without MHZ the highest graphics
# clock that the card lists is asked for. Results say whether clocks were locked (docs/benchmarks.md).
set -eu
die() { echo "clocks.sh: $*" >&2; exit 1; }
command -v nvidia-smi >/dev/null || die "nvidia-smi is not here"
[ "$(id -u)" = 0 ] || die "locking clocks needs root"
case ${1-} in
lock)
    mhz=${2-$(nvidia-smi --query-supported-clocks=graphics --format=csv,noheader,nounits | sort -n | tail -n 1)}
    case $mhz in '' | *[!0-9]*) die "expected a clock in MHz, found '$mhz'" ;; esac
    nvidia-smi --persistence-mode=1 >/dev/null
    nvidia-smi --lock-gpu-clocks="$mhz,$mhz"
    ;;
restore)
    nvidia-smi --reset-gpu-clocks
    ;;
*) die "usage: clocks.sh lock [MHZ] | restore" ;;
esac
