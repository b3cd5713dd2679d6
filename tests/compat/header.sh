#!/bin/sh
# The headers of hosts compile alone and without a warning in every language that hosts are written in.
# usage: header.sh INCLUDE_DIR [CC [CXX]]
set -eu
include=$1 cc=${2:-cc} cxx=${3:-c++}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cat > "$folder/host.c" << 'END'
#include <stepc/step.h>
#include <stepc/step.h>
int use(step_query_fn *query);
int use(step_query_fn *query)
{
    const struct step_api *s = query(STEP_ABI_MAJOR, STEP_ABI_MINOR);
    struct step_options options;
    struct step_instance *t;
    options.size = sizeof options;
    return s && s->create(&options, &t) == STEP_OK ? (int)STEP_F32 : 0;
}
END
cp "$folder/host.c" "$folder/host.cpp"
for header in "$include"/stepc/step_*.h; do # each alone, and twice
  name=stepc/$(basename "$header")
  printf '#include <%s>\n#include <%s>\n' "$name" "$name" | tee "$folder/$(basename "$name" .h).c" > "$folder/$(basename "$name" .h).cpp"
done
warnings="-pedantic -Werror -Wall -Wextra -Wconversion -Wshadow"
for std in c99 c11 c17; do
  echo "$cc -std=$std"
  for file in "$folder"/*.c; do
    "$cc" -std=$std $warnings -Wstrict-prototypes -I "$include" -c "$file" -o "$folder/host.o"
  done
done
for std in c++11 c++17 c++20; do
  echo "$cxx -std=$std"
  for file in "$folder"/*.cpp; do
    "$cxx" -std=$std $warnings -I "$include" -c "$file" -o "$folder/host.o"
  done
done
