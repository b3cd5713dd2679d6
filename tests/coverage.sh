#!/usr/bin/env bash
# tests/coverage.sh: which lines and branches of the program the tests reach, by folder, in build-coverage/report. Takes an hour of a
# core. Needs gcovr (Debian: gcovr). The runtime runs inside objects for the most part, where nothing is counted: its numbers are too low.
set -eu
cd "$(dirname "$0")/.."
command -v gcovr >/dev/null || { echo "needs gcovr" >&2; exit 3; }
. tests/setup.sh
stepc_setup
stepc_build build-coverage coverage
find build-coverage -name '*.gcda' -delete
# Sizes, times and what is in the binaries are those of another build.
ctest --test-dir build-coverage -j"$(nproc)" -E 'lint|emitted|compat|times|growth|unfolding' || echo "some tests fail in this build"
mkdir -p build-coverage/report
gcovr -r . --object-directory build-coverage --filter '(frontend|ir|passes|codegen|runtime)/' --gcov-ignore-parse-errors \
    --print-summary --html-details build-coverage/report/index.html
