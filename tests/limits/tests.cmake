if(PYTHON AND TARGET stepc)
  add_test(NAME limits COMMAND ${PYTHON} ${CMAKE_SOURCE_DIR}/tests/limits/limits.py $<TARGET_FILE:stepc>)
  set_tests_properties(limits PROPERTIES TIMEOUT 1800)
endif()
