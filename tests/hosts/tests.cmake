# Hosts in C, C++ and Python on a freshly compiled step.
if(PYTHON AND TARGET stepc)
  add_test(NAME hosts COMMAND bash ${CMAKE_SOURCE_DIR}/tests/hosts/run.sh $<TARGET_FILE:stepc> ${CMAKE_BINARY_DIR}/hosts ${PYTHON})
  set_tests_properties(hosts PROPERTIES TIMEOUT 1800)
endif()
