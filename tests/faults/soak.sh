#!/usr/bin/env bash
# tests/faults/soak.sh STEPC FOLDER STEPS INSTANCES: a host that goes on for long on one device and on four must not grow; one that
# leaks 64 bytes per step is the control, which must be noticed. A long run: soak.sh build/stepc /tmp/soak 1000000 1000
set -eu
stepc=$1 out=$2 steps=$3 instances=$4 here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
mkdir -p "$out"
cc -std=c99 -pedantic -D_GNU_SOURCE -O1 -Wall -Wextra -Werror -I"$root/runtime/include" "$here/soak.c" -o "$out/soak" -ldl
"$stepc" compile "$root/samples/cookbook/model.json" -q -o "$out/one.so"
"$stepc" compile "$root/samples/cookbook/model.json" -q --mesh batch=4 -o "$out/four.so"
"$out/soak" "$out/one.so" "$out" "$steps" "$instances"
"$out/soak" "$out/four.so" "$out" $((steps / 10)) $((instances / 10))
if "$out/soak" "$out/one.so" "$out" 50000 10 leak >/dev/null; then
    echo "the control, which leaks, was not noticed" >&2
    exit 1
fi
