# The recorded cases: compiled on every mesh they list, interpreted, and the documents that must be refused.
set(parity ${PYTHON} ${CMAKE_SOURCE_DIR}/tests/parity/run.py --stepc $<TARGET_FILE:stepc>)
add_test(NAME parity.compiled COMMAND ${parity} --mesh)
add_test(NAME parity.interpreted COMMAND ${parity} --interpret --supported)
add_test(NAME parity.spread COMMAND ${parity} --supported --spread 2) # sharded = unsharded
add_test(NAME parity.errors COMMAND ${parity} --errors)
set_tests_properties(parity.compiled parity.interpreted parity.spread parity.errors PROPERTIES PROCESSORS 2 TIMEOUT 1800
  ENVIRONMENT "ASAN_OPTIONS=detect_leaks=0") # the compiler leaves its arenas to the system
set_tests_properties(parity.compiled parity.interpreted parity.errors PROPERTIES LABELS sanitize)
