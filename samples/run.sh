#!/usr/bin/env bash
# bash samples/run.sh [digits|shakespeare|cookbook]: installs what is needed, builds stepc, compiles the sample's
# model.json to a step.so and trains it from a host program. STEPS=N changes the number of steps.
set -eu
cd "$(dirname "$0")/.."
. tests/setup.sh
sample=${1:-digits}
case $sample in
digits | shakespeare | cookbook) ;;
*) echo "samples/run.sh: no sample \"$sample\"; there are digits, shakespeare and cookbook" >&2; exit 2 ;;
esac
stepc_setup
stepc_build build release stepc
out=build/samples/$sample
mkdir -p "$out"
echo "== build/stepc compile samples/$sample/model.json -o $out/step.so"
build/stepc compile "samples/$sample/model.json" -o "$out/step.so"
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
    "$out/train" "$out/step.so" samples/shakespeare/tinyshakespeare.txt ${STEPS:-}
    ;;
cookbook)
    stepc_python build
    "$python" samples/cookbook/train.py "$out/step.so" ${STEPS:-}
    ;;
esac
