if(PYTHON AND TARGET stepc)
  add_test(NAME precision.levels COMMAND ${PYTHON} ${CMAKE_SOURCE_DIR}/tests/precision/levels.py $<TARGET_FILE:stepc>)
  set_tests_properties(precision.levels PROPERTIES PROCESSORS 1 TIMEOUT 1800)
endif()
