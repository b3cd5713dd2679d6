if(PYTHON AND TARGET stepc)
  add_test(NAME adapters COMMAND ${PYTHON} ${CMAKE_SOURCE_DIR}/tests/adapters/adapters.py $<TARGET_FILE:stepc>)
  set_tests_properties(adapters PROPERTIES TIMEOUT 1800)
endif()
