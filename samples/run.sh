#!/usr/bin/env bash
# bash samples/run.sh [digits|shakespeare|cookbook|mpi] [OPTION...]: installs what is needed, builds stepc, compiles the
# sample's model.json to a step.so, with these options of `stepc compile` (--target cuda: for a GPU, where there is one),
# and trains it from a host program. STEPS=N changes the number of steps.
set -eu
cd "$(dirname "$0")/.."
. tests/setup.sh
sample=${1:-digits}
[ $# = 0 ] || shift
case $sample in
digits | shakespeare | cookbook | mpi) ;;
*) echo "samples/run.sh: no sample \"$sample\"; there are digits, shakespeare, cookbook and mpi" >&2; exit 2 ;;
esac
stepc_setup
[ "$sample" != mpi ] || stepc_mpi
[ "$sample" = mpi ] && stepc_build build release stepc stepc_mpi || stepc_build build release stepc
out=build/samples/$sample
mkdir -p "$out"
case " $* " in *" --target cuda "* | *" --target=cuda "*)
    devices=$(build/stepc doctor | sed -n 's/^CUDA devices //p')
    case $devices in *"(sm_"*) ;; *)
        echo "samples/run.sh: --target cuda trains on a GPU of NVIDIA, and there is none here (CUDA devices: $devices)." >&2
        echo "  It needs a card with a driver for CUDA 12.0 or later, and to compile NVRTC (stepc doctor says what is there)." >&2
        echo "  --target cpu,cuda makes an object that trains here and, where there is one, on a GPU." >&2
        exit 3 ;;
    esac
    arch=${devices#*(}
    case " $*" in *" --cuda-arch"*) ;; *) set -- "$@" "--cuda-arch=${arch%%,*}" ;; esac ;;
esac
echo "== build/stepc compile samples/$sample/model.json -o $out/step.so" "$@"
build/stepc compile "samples/$sample/model.json" -o "$out/step.so" "$@"
ls -l "$out/step.so" | awk '{printf "   one file of %.0f KB holds the whole training step\n", $5 / 1024}'
echo "== training from a host program: samples/$sample/train.*"
case $sample in
digits)
    gzip -dc samples/digits/digits.csv.gz >"$out/digits.csv"
    gcc -O2 -std=c11 -D_GNU_SOURCE -Iruntime/include samples/digits/train.c -o "$out/train" -ldl
    "$out/train" "$out/step.so" "$out/digits.csv" ${STEPS:-}
    ;;
shakespeare)
    g++ -O2 -std=c++17 -Isamples -Iruntime/include samples/shakespeare/train.cpp -o "$out/train" -ldl
    echo "   Ctrl-C stops it; the same command continues it (from $out/run)"
    "$out/train" "$out/step.so" samples/shakespeare/tinyshakespeare.txt "${STEPS:-2000}" "$out/run"
    ;;
mpi) # the host of samples/digits as it is: a variable says where the devices of the mesh are
    gzip -dc samples/digits/digits.csv.gz >"$out/digits.csv"
    gcc -O2 -std=c11 -D_GNU_SOURCE -Iruntime/include samples/digits/train.c -o "$out/train" -ldl
    build/stepc compile samples/mpi/model.json --mesh data=1 -o "$out/one.so" "$@"
    export STEPC_THREADS=1 STEPC_PLUGIN_PATH=build
    numbers() { sed -n '/accuracy/p; s/^\(step *[0-9]*00\/[0-9]* *loss [^ ]*\).*/\1/p' "$1"; } # no times
    [ "$(id -u)" != 0 ] || export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none OMPI_MCA_plm_rsh_agent="ssh : rsh : false"
    echo "== one process with one device"
    "$out/train" "$out/one.so" "$out/digits.csv" ${STEPS:-} >"$out/one.txt"
    tail -n 1 "$out/one.txt"
    echo "== one process with four devices (data 2 x model 2)"
    "$out/train" "$out/step.so" "$out/digits.csv" ${STEPS:-} >"$out/threads.txt"
    tail -n 1 "$out/threads.txt"
    echo "== mpirun -n 4: four processes with a device each"
    mpirun -n 4 sh -c '[ "${OMPI_COMM_WORLD_RANK:-$PMI_RANK}" = 0 ] || exec >/dev/null; STEPC_TRANSPORT=mpi exec "$@"' sh \
        "$out/train" "$out/step.so" "$out/digits.csv" ${STEPS:-} >"$out/ranks.txt"
    tail -n 1 "$out/ranks.txt"
    numbers "$out/threads.txt" >"$out/threads.numbers"
    numbers "$out/ranks.txt" | diff "$out/threads.numbers" - || { echo "ranks and threads do not agree" >&2; exit 1; }
    echo "== every number that the four processes printed is that of the four threads"
    ;;
cookbook)
    stepc_python build
    "$python" samples/cookbook/train.py "$out/step.so" ${STEPS:-}
    ;;
esac
