#!/usr/bin/env bash
# All recorded cases, on all their meshes, as objects for CUDA on the stand-in for the driver (driver/stand_in.h); takes minutes. Arguments go to
# tests/parity/run.py: names, -j. With --ptx first: the PTX of kernels beside the stand-in (ptx.py), of its documents and of one recorded case in 20; takes hours.
set -eu
cd "$(dirname "$0")/../.."
. tests/setup.sh
stepc_python build
stepc_build build release stepc stand_in
mkdir -p build/cuda/cache
if [ "${1-}" = --ptx ]; then
    export STEPC_CUDA_DRIVER=$PWD/build/cuda/libcuda.so.1 STAND_IN_CACHE=$PWD/build/cuda/cache STAND_IN_DEVICES=16
    "$python" tests/cuda/ptx.py build/stepc --all
    exec "$python" tests/cuda/ptx.py build/stepc --recorded --every 20
fi
STEPC_CUDA_DRIVER=$PWD/build/cuda/libcuda.so.1 STAND_IN_CACHE=$PWD/build/cuda/cache STAND_IN_DEVICES=16 \
    "$python" tests/parity/run.py --mesh --stepc build/stepc "--compile-args=--target cuda --cuda-arch text" "$@"
