#!/bin/sh
# What a shared object with the runtime linked in shows to the world: one exported symbol, no libraries beyond libc, libm,
# libpthread and libdl, no constructors, none of the functions that an object must not call, nothing written anywhere but
# through write(2).
# usage: object.sh RUNTIME_ARCHIVE SOURCE_DIR [CC]
set -eu
archive=$1 source=$2 cc=${3:-cc}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
fail() { echo "object.sh: $*" >&2; exit 1; }
cat > "$folder/tables.c" << 'END'
#include <stepc/step_abi.h>
const struct stepc_program stepc_program = {.version = STEPC_TABLES, .name = "empty", .manifest = "{}", .features = ""};
END
"$cc" -std=c11 -O2 -fPIC -fvisibility=hidden -I "$source/runtime/include" -c "$folder/tables.c" -o "$folder/tables.o"
"$cc" -shared -nostartfiles -s -Wl,-z,defs -Wl,--gc-sections -Wl,-u,step_query -o "$folder/step.so" "$folder/tables.o" "$archive" -lm -lpthread -ldl
exported=$(nm -D --defined-only "$folder/step.so" | awk '{print $NF}')
[ "$exported" = step_query ] || fail "exports: $exported"
for library in $(readelf -d "$folder/step.so" | sed -n 's/.*NEEDED.*\[\(.*\)\]/\1/p'); do
  case $library in libc.so.* | libm.so.* | libpthread.so.* | libdl.so.*) ;; *) fail "needs $library" ;; esac
done
if readelf -SW "$folder/step.so" | grep -qE '\.(init_array|ctors|preinit_array|tdata|tbss)'; then fail "has constructors or thread-local data"; fi
for symbol in $(nm -D --undefined-only "$folder/step.so" | awk '{print $NF}' | sed 's/@.*//'); do
  case $symbol in
  exit | _exit | abort | quick_exit | __assert_fail | signal | sigaction | setlocale | fork | vfork | system | printf | puts | putchar | fprintf | \
  __stack_chk_fail | __*_chk | vprintf | vfprintf | fwrite | stdout | stderr | setenv | putenv | __tls_get_addr) fail "calls or uses $symbol" ;;
  esac
done
# A real number in a text would have the decimal separator of the host's locale; %.0f has none, and growing_text.c replaces it.
real='%[-+ #0-9.*]*[aefgAEFG]'
if strings "$folder/step.so" | sed 's/%\.0f//g' | grep -E "$real"; then fail "prints real numbers, in the host's locale"; fi
for file in "$source"/runtime/*.c; do
  case $file in */growing_text.c) continue ;; esac
  if sed 's/%\.0f//g' "$file" | grep -E "\"[^\"]*$real"; then fail "$file prints real numbers, in the host's locale"; fi
done
echo "one symbol, $(nm -D --undefined-only "$folder/step.so" | wc -l) imports, $(stat -c %s "$folder/step.so") bytes"
