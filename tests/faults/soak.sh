#!/usr/bin/env bash
# tests/faults/soak.sh STEPC FOLDER STEPS INSTANCES [RANK_STEPS]: a host that goes on for long on one device, on four and, where there is
# mpirun, on two ranks must not grow; one that leaks 64 bytes per step is the control, which must be noticed.
# A long run: soak.sh build/stepc /tmp/soak 1000000 1000 100000000
set -eu
stepc=$1 out=$2 steps=$3 instances=$4 here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
mkdir -p "$out"
cc -std=c99 -pedantic -D_GNU_SOURCE -O1 -Wall -Wextra -Werror -I"$root/runtime/include" "$here/soak.c" -o "$out/soak" -ldl
"$stepc" compile "$root/samples/cookbook/model.json" -q -o "$out/one.so"
"$stepc" compile "$root/samples/cookbook/model.json" -q --mesh batch=4 -o "$out/four.so"
"$out/soak" "$out/one.so" "$out" "$steps" "$instances"
"$out/soak" "$out/four.so" "$out" $((steps / 10)) $((instances / 10))
if command -v mpirun.openmpi >/dev/null && [ -e "$(dirname "$stepc")/libstepc_mpi.openmpi.so" ]; then
    "$stepc" compile "$root/samples/cookbook/model.json" -q --mesh batch=2 -o "$out/two.so"
    STEPC_PLUGIN_PATH=$(dirname "$stepc") OMPI_MCA_plm=isolated OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_ALLOW_RUN_AS_ROOT=1 \
        OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 mpirun.openmpi -n 2 "$out/soak" "$out/two.so" "$out" "${5:-$((steps / 50))}" 4 mpi
else
    echo "skipped: two ranks (no mpirun)"
fi
if "$out/soak" "$out/one.so" "$out" 50000 10 leak >/dev/null; then
    echo "the control, which leaks, was not noticed" >&2
    exit 1
fi
