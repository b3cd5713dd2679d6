# Recorded cases over several ranks and on devices whose memory the host cannot read. The runtime is the one of objects, without
# sanitizers; tests/unit/runtime has these seams with them.
if(PYTHON AND TARGET stepc AND TARGET step_runtime)
  add_test(NAME mesh.ranks COMMAND ${PYTHON} ${CMAKE_SOURCE_DIR}/tests/mesh/ranks.py --stepc $<TARGET_FILE:stepc> --runtime $<TARGET_FILE:step_runtime>)
  set_tests_properties(mesh.ranks PROPERTIES PROCESSORS 2 TIMEOUT 1800 ENVIRONMENT "ASAN_OPTIONS=detect_leaks=0")
endif()
