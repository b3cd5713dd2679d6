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
