# Random documents that must agree between the interpreter, optimised and unoptimised objects. The seed is fixed; more are
# tried by hand: tests/fuzz/agree.py --cases 1000 --seed 2.
if(PYTHON AND TARGET stepc)
  add_test(NAME fuzz.agree COMMAND ${PYTHON} ${CMAKE_SOURCE_DIR}/tests/fuzz/agree.py --stepc $<TARGET_FILE:stepc> --cases 60)
  set_tests_properties(fuzz.agree PROPERTIES PROCESSORS 2 TIMEOUT 1800 LABELS sanitize ENVIRONMENT "ASAN_OPTIONS=detect_leaks=0")
  add_test(NAME fuzz.mistakes COMMAND ${PYTHON} ${CMAKE_SOURCE_DIR}/tests/fuzz/mistakes.py --stepc $<TARGET_FILE:stepc> --cases 500)
  set_tests_properties(fuzz.mistakes PROPERTIES TIMEOUT 1800 LABELS sanitize ENVIRONMENT "ASAN_OPTIONS=detect_leaks=0")
endif()
