# What `cmake --install` puts down, used from outside this tree.
if(PYTHON AND TARGET stepc AND NOT STEPC_SANITIZE)
  add_test(NAME install COMMAND ${PYTHON} ${CMAKE_SOURCE_DIR}/tests/install/install.py $<TARGET_FILE:stepc> ${CMAKE_BINARY_DIR})
  set_tests_properties(install PROPERTIES TIMEOUT 1800)
endif()
