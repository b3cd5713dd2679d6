#!/usr/bin/env bash
# What needs a GPU, by one command: times, recorded cases, compute-sanitizer on some of them.
#
#   tests/gpu/run.sh pack [ARCH [SECONDS]]     where the compiler is: objects for that architecture (sm_90), those that stand for the others
#                                              first, into build/gpu, and all of them as one file, build/gpu.tar.xz; with sm_90 some for sm_90a,
#                                              which are played and timed beside them. Code of NVRTC 13 is for drivers from 580 on; STEPC_NVRTC
#                                              names a libnvrtc.so.12 for objects that older ones take, too
#   tests/gpu/run.sh [SECONDS]                 where the GPU is: the driver, Python with NumPy and one of the two are all that is needed;
#                                              without them it builds and packs for the card that it finds. SECONDS: what fits into so many
#
# The most telling comes first, and all is written as it happens into the folder STEPC_GPU_LOG (build/gpu-log): machine.txt, times.txt,
# times.json, arrays.txt, cases.txt, sanitizer.txt, summary.txt with the line that is added to LEDGER.md. Without a GPU it says so and ends with 77.
set -eu
begin=$SECONDS
cd "$(dirname "$0")/../.."
. tests/setup.sh
into=build/gpu
log=${STEPC_GPU_LOG:-build/gpu-log}
prepare() {
    [ -n "${STEPC:-}" ] || stepc_build build release stepc
    rm -rf "$into" "$into.tar.xz"
    "$python" tests/gpu/bench.py pack --stepc "${STEPC:-build/stepc}" --arch "$1" --into "$into"
    "$python" tests/gpu/play.py pack --stepc "${STEPC:-build/stepc}" --arch "$1" --into "$into" --seconds "$2" || echo "== some do not compile"
    [ "$1" != sm_90 ] || STEPC_WARPGROUPS_ALWAYS=1 "$python" tests/gpu/play.py pack --stepc "${STEPC:-build/stepc}" --arch sm_90a --into "$into/sm_90a" \
        --seconds "$2" --only 'mixed_compute_*' --only 'precision_compute_*' || echo "== some do not compile"
    "$python" tests/gpu/play.py archive --into "$into"
    du -h "$into.tar.xz"
    "${STEPC:-build/stepc}" doctor | grep '^NVRTC.*(1[3-9]' | sed 's/$/: for drivers from 580 on/' || true
}
mkdir -p build "$log"
PIP_RETRIES=1 PIP_DEFAULT_TIMEOUT=10 stepc_python build # there may be no network
if [ "${1:-}" = pack ]; then
    prepare "${2:-sm_90}" "${3:-0}"
    exit
fi
seconds=${1:-0}
said=$(mktemp) now=$(mktemp) # not among what is kept
trap 'rm -f "$said" "$now"' EXIT
left() { # PART: seconds until so many percent of all are over, at least 1; 0: as many as it takes
    [ "$seconds" = 0 ] && echo 0 && return
    local n=$((begin + seconds * $1 / 100 - SECONDS))
    echo $((n > 1 ? n : 1))
}
limited() { # PART COMMAND...: not beyond that and what may then be under way
    local n
    n=$(left "$1")
    shift
    timeout -k 5 $((n ? n + 15 : 7200)) "$@"
}
device=$(timeout -k 5 60 "$python" tests/gpu/play.py device) || { echo "skipped: ${device:-the driver gives no answer}"; exit 77; }
echo "== $device"
"$python" tests/gpu/play.py hold & # all that follow are processes of their own
holder=$!
trap 'kill "$holder" 2>/dev/null || true; rm -f "$said" "$now"' EXIT
{ date; uname -a; timeout -k 5 30 nvidia-smi; "$python" -VV; nproc; df -h . /tmp; free -g; } >"$log/machine.txt" 2>&1 || true
grep -i "driver version" "$log/machine.txt" || true
arch=${device##*(}
[ -n "$(ls "$into" 2>/dev/null)" ] || [ ! -e "$into.tar.xz" ] || "$python" tests/gpu/play.py unpack --into "$into"
[ -n "$(ls "$into" 2>/dev/null)" ] || prepare "${arch%)}" 0
groups= # what is said of sm_90a
play() { # PART ARGUMENT...
    local n
    n=$(left "$1")
    limited "$1" "$python" tests/gpu/play.py run --into "$into" -j 8 --seconds "$n" --patience $((n ? 40 : 120)) --log "$log/cases.txt" "${@:2}"
}
rm -f "$log"/*.json "$log/cases.txt" "$log/sanitizer.txt" "$log/times.txt" "$log/arrays.txt" "$log/beside.txt"

echo "== a few cases, times, then all cases"
first=$("$python" tests/gpu/play.py sanitized --into "$into")
play 20 $(printf -- '--only %s ' $first) || true
# cuBLASLt may be where Python keeps it.
[ -n "${STEPC_CUBLASLT:-}" ] || ldconfig -p 2>/dev/null | grep -q 'libcublasLt.so.1[23]' ||
    export STEPC_CUBLASLT="$("$python" -c 'import glob, sys; print(*sorted(f for p in sys.path for f in glob.glob(p + "/nvidia/*/lib/libcublasLt.so.1[23]"))[-1:])')"
wrong= untimed= arrays=
code=0
(set -o pipefail; limited 40 "$python" tests/gpu/bench.py run --into "$into" --json "$log/times.json" 2>&1 | tee "$log/times.txt") || code=$?
case $code in 0) ;; 124 | 137) untimed=" no time for the others;" ;; *) wrong=1 ;; esac
for library in torch cupy jax; do # each in a process of its own, which may end in any way
    code=0
    limited 50 "$python" tests/gpu/bench.py arrays --only "$library" --into "$into" >"$now" 2>&1 || code=$?
    tee -a "$log/arrays.txt" <"$now"
    case $code in
    0) ;;
    124 | 137) arrays="$arrays arrays of $library: no end;" ;;
    *) wrong=1 arrays="$arrays arrays of $library, ended with $code: $(tail -1 "$now" | cut -c1-200);" ;;
    esac
done
if [ -e "$into/sm_90a" ]; then
    play 54 --into "$into/sm_90a" | tee "$said" || true
    groups=$(tail -1 "$said")
    code=0
    limited 58 "$python" tests/gpu/bench.py beside --into "$into" >"$log/beside.txt" 2>&1 || code=$?
    cat "$log/beside.txt"
    case $code in 0) ;; 124 | 137) groups="$groups; not compared with sm_90" ;; *) groups="$groups; other numbers than sm_90" ;; esac
fi
times=$(tr -s ' ' <"$log/times.txt" | tr '\n' ';')$untimed$arrays
play 70 | tee "$said" || true # not /dev/stderr: where that is a file, it would begin anew
cases=$(tail -1 "$said")

sanitizer=$(command -v compute-sanitizer || echo /usr/local/cuda/bin/compute-sanitizer)
clean=0 dirty=0 ended=0 refused=
if [ -x "$sanitizer" ]; then
    names=($first)
    for name in "${names[@]:0:2}" ${groups:+sm_90a/precision_compute_bfloat16_transformer} "${names[@]:2}"; do # by all tools: the last may find no time
        for tool in memcheck racecheck synccheck; do
            [ -z "$refused" ] && [ "$(left 90)" != 1 ] || continue
            code=0
            limited 90 "$sanitizer" --tool "$tool" --error-exitcode 9 "$python" tests/gpu/play.py one "${name##*/}" --into "$into/$(dirname "$name")" --looser 1000 --times 1 >"$now" 2>&1 || code=$?
            { echo "== $tool, $name: ended with $code"; [ $code = 0 ] || tail -40 "$now"; } | tee -a "$log/sanitizer.txt"
            if grep -q "Device not supported" "$now"; then refused="compute-sanitizer does not take this device"; continue; fi
            case $code in 0) clean=$((clean + 1)) ;; 9) dirty=$((dirty + 1)) ;; 124 | 137) ;; *) ended=$((ended + 1)) ;; esac # 9: it found something
        done
    done
    checked=${refused:-"compute-sanitizer: $clean runs clean, $dirty not, $ended ended otherwise"}
else
    checked="no compute-sanitizer"
fi
echo "== $checked"
commit=$(git rev-parse --short HEAD 2>/dev/null || echo "-")
echo "| $(date +%F) | $commit | $device | $cases${groups:+; sm_90a: $groups} | $checked | $times |" | tee "$log/summary.txt" >>tests/gpu/LEDGER.md
cat "$log/summary.txt"
all_pass() {
    case $1 in "0 of"* | *"other numbers"*) false ;; *" pass"*) [ "${1%% of*}" = "$(echo "$1" | sed 's/.* of \([0-9]*\) .*/\1/')" ] ;; *) false ;; esac
}
all_pass "$cases" && all_pass "${groups:-1 of 1 passes}" && [ "$dirty$ended$wrong" = 00 ]
