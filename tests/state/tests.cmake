if(PYTHON AND TARGET stepc)
  add_test(NAME state COMMAND ${PYTHON} ${CMAKE_SOURCE_DIR}/tests/state/state.py $<TARGET_FILE:stepc>)
  set_tests_properties(state PROPERTIES TIMEOUT 1800)
endif()
