#!/usr/bin/env bash
# tests/hosts/run.sh STEPC FOLDER PYTHON: builds the hosts against the header alone and runs them on a freshly compiled step.
set -eu
stepc=$1 out=$2 python=$3 here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
mkdir -p "$out"
export STEPC_VERIFY_EACH=1
"$stepc" compile "$root/samples/cookbook/model.json" -o "$out/step.so"
gcc -std=c99 -pedantic -Wall -Wextra -Werror -I"$root/runtime/include" "$here/host.c" -o "$out/host_c" -ldl -lm
"$out/host_c" "$out/step.so" "$out/state.safetensors"
"$stepc" compile "$here/outputs.json" -o "$out/outputs.so"
gcc -std=c99 -pedantic -Wall -Wextra -Werror -I"$root/runtime/include" "$here/outputs.c" -o "$out/outputs_c" -ldl -lm
"$out/outputs_c" "$out/outputs.so" "$out/outputs.safetensors"
"$python" "$here/dtypes.py" "$stepc" "$out"
mkdir -p "$out/locales"
localedef -c -i "$here/comma.locale" "$out/locales/comma" 2>/dev/null || true # it warns of what is not defined
gcc -std=c11 -pedantic -D_GNU_SOURCE -Wall -Wextra -Werror -I"$root/runtime/include" "$here/arrays.c" -o "$out/arrays_c" -ldl
for object in one mesh; do LOCPATH=$out/locales "$out/arrays_c" "$out/dtypes_$object.so"; done
gcc -std=c99 -pedantic -D_GNU_SOURCE -Wall -Wextra -Werror -I"$root/runtime/include" "$here/listing.c" -o "$out/listing_c"
LOCPATH=$out/locales "$python" "$here/listing.py" "$stepc" "$out/step.so" "$out/listing_c" "$out"
g++ -std=c++17 -pedantic -Wall -Wextra -Werror -I"$root/runtime/include" -I"$root/samples" "$here/host.cpp" -o "$out/host_cpp" -ldl
rm -rf "$out/cpp.safetensors.runs"
"$out/host_cpp" "$out/step.so" "$out/outputs.so" "$out/cpp.safetensors" "$out/dtypes_mesh.so"
g++ -O2 -std=c++17 -pedantic -Wall -Wextra -Werror -I"$root/runtime/include" -I"$root/samples" "$root/samples/shakespeare/train.cpp" -o "$out/shakespeare" -ldl
for width in 16 32; do
    "$stepc" compile "$root/samples/shakespeare/model.json" -D width=$width -D layers=1 -o "$out/shakespeare_$width.so"
done
"$python" "$here/stopped.py" "$out/shakespeare" "$out/shakespeare_16.so" "$out/shakespeare_32.so" "$out"
"$python" "$root/tests/tool/recorded.py" cookbook_ema --into "$out"
"$stepc" compile "$out/cookbook_ema/model.json" -o "$out/cookbook_ema.so"
"$stepc" compile "$here/two_rates.json" -o "$out/two_rates.so"
"$python" "$here/host.py" "$out/cookbook_ema.so" cookbook_ema "$out/two_rates.so" "$out/outputs.so"
"$python" "$here/threads.py" "$stepc" "$root/samples/digits/model.json"
"$python" "$here/reused.py" "$stepc" "$root/samples/digits/model.json"
"$python" "$here/views.py" "$stepc" "$root/samples/cookbook/model.json" "$out"
# The table as functions: in every C and C++ with every entry, as symbols of a library, and from Go; Rust calls the table itself.
for as in "gcc -std=c99 -x c" "gcc -std=c17 -x c" "g++ -std=c++11 -x c++" "g++ -std=c++20 -x c++"; do
    echo '#include <stepc/step_calls.h>' | $as -pedantic -D_GNU_SOURCE -Wall -Wextra -Werror -I"$root/runtime/include" -c - -o "$out/calls.o"
done
echo '#include <stepc/step_calls.h>' | gcc -x c -shared -fPIC -DSTEP_CALLS_SYMBOLS -D_GNU_SOURCE -I"$root/runtime/include" - -o "$out/libstep_calls.so" -ldl
"$python" "$here/calls.py" "$root/runtime/include/stepc/step.h" "$out/libstep_calls.so" "$out/step.so"
gzip -dc "$root/samples/digits/digits.csv.gz" >"$out/digits.csv"
"$stepc" compile "$root/samples/digits/model.json" -o "$out/digits.so"
{ head -c 20000 "$out/digits.so"; printf '\377\376\375\374'; tail -c +20005 "$out/digits.so"; } >"$out/damaged.so"
falls() { # the last loss is below a quarter of the first one; what is damaged is not loaded
    "$@" "$out/digits.so" "$out/digits.csv" 300 | awk '{ last = $NF; if (NR == 1) first = last } END { exit !(NR == 11 && last < first / 4) }'
    if "$@" "$out/damaged.so" "$out/digits.csv" 1 >"$out/refused" 2>&1; then return 1; fi
    grep -q checksum "$out/refused"
}
if command -v go >/dev/null; then
    GO111MODULE=off GOCACHE=$out/go-cache CGO_CFLAGS="-I$root/runtime/include" go build -o "$out/train_go" "$root/samples/digits/train.go"
    falls "$out/train_go"
else
    echo "skipped: go is not installed: samples/digits/train.go"
fi
if command -v rustc >/dev/null; then
    rustc -O -D warnings "$root/samples/digits/train.rs" -o "$out/train_rs"
    falls "$out/train_rs"
else
    echo "skipped: rustc is not installed: samples/digits/train.rs"
fi
if command -v mcs >/dev/null && command -v mono >/dev/null; then
    mcs -warnaserror -out:"$out/train_cs.exe" "$root/samples/digits/train.cs"
    falls env LD_LIBRARY_PATH="$out" mono "$out/train_cs.exe"
else
    echo "skipped: Mono is not installed: samples/digits/train.cs"
fi
"$python" "$here/wheel.py" "$out/wheel" "$root"
