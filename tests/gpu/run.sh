#!/usr/bin/env bash
# Everything that needs a GPU, by one command: recorded cases, compute-sanitizer on ten of them, times. Builds and compiles first, unless
# build/gpu holds packed objects, made where the compiler is for the architecture of the card (tests/gpu/run.sh pack sm_90); then Python
# with NumPy and the driver are all that is needed. Adds a line to LEDGER.md. Without a GPU it says so and ends with 77.
set -eu
cd "$(dirname "$0")/../.."
. tests/setup.sh
into=build/gpu
prepare() {
    stepc_build build release stepc
    rm -rf "$into"
    "$python" tests/gpu/play.py pack --arch "$1" --into "$into"
    "$python" tests/gpu/bench.py pack --arch "$1" --into "$into"
}
mkdir -p build
stepc_python build
if [ "${1:-}" = pack ]; then
    prepare "${2:-sm_90}"
    exit
fi
device=$("$python" tests/gpu/play.py device) || { echo "skipped: $device"; exit 77; }
echo "== $device"
arch=${device##*(}
[ -n "$(ls "$into" 2>/dev/null)" ] || prepare "${arch%)}"
cases=$("$python" tests/gpu/play.py run --into "$into" -j 8 | tee /dev/stderr | tail -1) || true
sanitizer=$(command -v compute-sanitizer || echo /usr/local/cuda/bin/compute-sanitizer)
clean=0 dirty=0
if [ -x "$sanitizer" ]; then
    for name in $("$python" tests/gpu/play.py sanitized --into "$into"); do
        for tool in memcheck racecheck synccheck; do
            if "$sanitizer" --tool "$tool" --error-exitcode 9 "$python" tests/gpu/play.py one "$name" --into "$into" >build/gpu.log 2>&1; then
                clean=$((clean + 1))
            else
                dirty=$((dirty + 1))
                echo "== $tool, $name"
                tail -20 build/gpu.log
            fi
        done
    done
    checked="compute-sanitizer: $clean runs clean, $dirty not"
else
    checked="no compute-sanitizer"
fi
echo "== $checked"
times=$("$python" tests/gpu/bench.py run --into "$into" | tee /dev/stderr | tr -s ' ' | tr '\n' ';') || times=failed
commit=$(git rev-parse --short HEAD 2>/dev/null || echo "-")
echo "| $(date +%F) | $commit | $device | $cases | $checked | $times |" >>tests/gpu/LEDGER.md
case $cases in *" pass") [ "${cases%% of*}" = "$(echo "$cases" | sed 's/.* of \([0-9]*\) .*/\1/')" ] && [ "$dirty" = 0 ] ;; *) exit 1 ;; esac
