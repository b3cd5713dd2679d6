if(PYTHON AND TARGET stepc)
  add_test(NAME times COMMAND ${PYTHON} ${CMAKE_SOURCE_DIR}/tests/times/times.py $<TARGET_FILE:stepc>)
  set_tests_properties(times PROPERTIES TIMEOUT 1800)
endif()
