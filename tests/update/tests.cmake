if(PYTHON AND TARGET stepc)
  add_test(NAME update COMMAND ${PYTHON} ${CMAKE_SOURCE_DIR}/tests/update/update.py $<TARGET_FILE:stepc>)
  set_tests_properties(update PROPERTIES TIMEOUT 1800)
endif()
