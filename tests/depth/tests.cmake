if(PYTHON AND TARGET stepc)
  add_test(NAME depth COMMAND ${PYTHON} ${CMAKE_SOURCE_DIR}/tests/depth/depth.py $<TARGET_FILE:stepc>)
  set_tests_properties(depth PROPERTIES TIMEOUT 1800)
endif()
