# The recorded cases: compiled on every mesh they list, interpreted, and the documents that must be refused.
if(PYTHON AND TARGET stepc)
  set(parity ${PYTHON} ${CMAKE_SOURCE_DIR}/tests/parity/run.py --stepc $<TARGET_FILE:stepc>)
  # Under sanitizers, where each takes eight times as long, one of sixteen.
  if(STEPC_SANITIZE)
    set(some --every 16)
  endif()
  add_test(NAME parity.compiled COMMAND ${parity} --mesh ${some})
  add_test(NAME parity.interpreted COMMAND ${parity} --interpret --supported)
  # Sharded = unsharded, but where a float16 sum overflows or not by the order of its terms. What a mesh adds is not LLVM's,
  # and numbers are the same at every -O.
  add_test(NAME parity.spread COMMAND ${parity} --supported --compile-args=-O0 --spread 2 --without precision_dynamic_loss_scale --without mixed_dynamic_*)
  # The same where extents do not divide: padded parts, which no sum, product, maximum or index may see.
  add_test(NAME parity.uneven COMMAND ${parity} --supported --compile-args=-O0 --spread 3 --every 4 --without precision_dynamic_loss_scale --without mixed_dynamic_*)
  add_test(NAME parity.errors COMMAND ${parity} --errors)
  add_test(NAME parity.coverage COMMAND ${PYTHON} ${CMAKE_SOURCE_DIR}/tests/parity/coverage.py --stepc $<TARGET_FILE:stepc>)
  set_tests_properties(parity.compiled parity.interpreted parity.spread parity.uneven parity.errors PROPERTIES PROCESSORS 2 TIMEOUT 1800
    ENVIRONMENT "ASAN_OPTIONS=detect_leaks=0") # the compiler leaves its arenas to the system
  set_tests_properties(parity.interpreted parity.errors PROPERTIES LABELS sanitize)
  set_tests_properties(parity.compiled PROPERTIES LABELS sanitize_sample)
endif()
