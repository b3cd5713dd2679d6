if(PYTHON AND TARGET stepc)
  add_test(NAME linear COMMAND ${PYTHON} ${CMAKE_SOURCE_DIR}/tests/linear/linear.py $<TARGET_FILE:stepc>)
  set_tests_properties(linear PROPERTIES TIMEOUT 1800)
endif()
