if(PYTHON AND TARGET stepc)
  add_test(NAME attention COMMAND ${PYTHON} ${CMAKE_SOURCE_DIR}/tests/attention/attention.py $<TARGET_FILE:stepc>)
  set_tests_properties(attention PROPERTIES TIMEOUT 1800)
endif()
