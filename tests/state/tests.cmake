if(PYTHON AND TARGET stepc)
  if(STEPC_SANITIZE) # a sample: every process starts slowly there
    set(state_sample --every 6)
  endif()
  add_test(NAME state COMMAND ${PYTHON} ${CMAKE_SOURCE_DIR}/tests/state/state.py $<TARGET_FILE:stepc> ${state_sample})
  set_tests_properties(state PROPERTIES TIMEOUT 1800 LABELS sanitize_sample
    ENVIRONMENT "ASAN_OPTIONS=detect_leaks=0") # the program leaves its arenas to the system
endif()
