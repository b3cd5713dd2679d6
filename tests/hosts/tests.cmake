# Hosts in C, C++ and Python on a freshly compiled step.
add_test(NAME hosts COMMAND ${CMAKE_SOURCE_DIR}/tests/hosts/run.sh $<TARGET_FILE:stepc> ${CMAKE_BINARY_DIR}/hosts)
set_tests_properties(hosts PROPERTIES TIMEOUT 1800)
