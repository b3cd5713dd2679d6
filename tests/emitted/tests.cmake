if(PYTHON AND TARGET stepc)
  add_test(NAME emitted COMMAND ${PYTHON} ${CMAKE_SOURCE_DIR}/tests/emitted/emitted.py $<TARGET_FILE:stepc>)
  set_tests_properties(emitted PROPERTIES TIMEOUT 1800 LABELS sanitize ENVIRONMENT "ASAN_OPTIONS=detect_leaks=0") # the program leaves its arenas to the system
endif()
