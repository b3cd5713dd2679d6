#!/usr/bin/env bash
# bash tests/run.sh: installs what is needed, builds everything and runs every test through CTest. With sanitizers:
# SANITIZE=1 first runs the unit, parity and command-line tests under ASan and UBSan, those of threads under TSan; what ran
# there as a whole (label sanitize; of sanitize_sample a part) is then not run again.
set -eu
cd "$(dirname "$0")/.."
. tests/setup.sh
stepc_setup
stepc_python build
stepc_mpi || true # tests that need it say that they are skipped
jobs=$(nproc) again=()
if [ "${SANITIZE:-0}" = 1 ]; then
    stepc_build build-asan asan
    echo "== tests under ASan and UBSan"
    ctest --test-dir build-asan --output-on-failure -j "$jobs" -L sanitize
    stepc_build build-tsan tsan thread_tests
    echo "== tests of threads under TSan"
    ctest --test-dir build-tsan --output-on-failure -j "$jobs" -L threads
    again=(-LE '^sanitize$')
fi
stepc_build build dev
echo "== tests"
ctest --test-dir build --output-on-failure -j "$jobs" "${again[@]}"
