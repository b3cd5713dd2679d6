# Recorded cases over several ranks and on devices whose memory the host cannot read. The runtime is the one of objects, without
# sanitizers; tests/unit/runtime has these seams with them.
if(PYTHON AND TARGET stepc AND TARGET step_runtime)
  add_test(NAME mesh.ranks COMMAND ${PYTHON} ${CMAKE_SOURCE_DIR}/tests/mesh/ranks.py --stepc $<TARGET_FILE:stepc> --runtime $<TARGET_FILE:step_runtime>)
  set_tests_properties(mesh.ranks PROPERTIES PROCESSORS 2 TIMEOUT 1800 ENVIRONMENT "ASAN_OPTIONS=detect_leaks=0")
endif()
# The same as processes that mpirun starts, where an MPI is installed.
if(PYTHON AND TARGET stepc AND stepc_plugins)
  add_test(NAME mesh.mpi COMMAND ${PYTHON} ${CMAKE_SOURCE_DIR}/tests/mesh/mpi.py --stepc $<TARGET_FILE:stepc>)
  set_tests_properties(mesh.mpi PROPERTIES PROCESSORS 2 TIMEOUT 600 SKIP_RETURN_CODE 77)
  add_dependencies(stepc stepc_mpi)
  add_test(NAME mesh.faults COMMAND ${PYTHON} ${CMAKE_SOURCE_DIR}/tests/mesh/faults.py --stepc $<TARGET_FILE:stepc>)
  set_tests_properties(mesh.faults PROPERTIES TIMEOUT 900 SKIP_RETURN_CODE 77)
endif()

# What slides over a dimension that is split, on meshes against one device.
if(PYTHON AND TARGET stepc)
  add_test(NAME mesh.windows COMMAND ${PYTHON} ${CMAKE_SOURCE_DIR}/tests/mesh/windows.py --stepc $<TARGET_FILE:stepc>)
  set_tests_properties(mesh.windows PROPERTIES TIMEOUT 600 ENVIRONMENT "ASAN_OPTIONS=detect_leaks=0")
endif()

# The same bits on every mesh, for any number of threads and microbatches, on every instruction set.
if(PYTHON AND TARGET stepc)
  add_test(NAME mesh.invariant COMMAND ${PYTHON} ${CMAKE_SOURCE_DIR}/tests/mesh/invariant.py $<TARGET_FILE:stepc>)
  set_tests_properties(mesh.invariant PROPERTIES TIMEOUT 900 ENVIRONMENT "ASAN_OPTIONS=detect_leaks=0")
endif()

# Layouts that are forced, and those that are not.
if(PYTHON AND TARGET stepc)
  add_test(NAME mesh.explicit COMMAND ${PYTHON} ${CMAKE_SOURCE_DIR}/tests/mesh/explicit.py --stepc $<TARGET_FILE:stepc>)
  set_tests_properties(mesh.explicit PROPERTIES TIMEOUT 600 ENVIRONMENT "ASAN_OPTIONS=detect_leaks=0")
endif()

# What devices send in a step, against what was recorded of XLA's partitioner.
if(PYTHON AND TARGET stepc)
  add_test(NAME mesh.traffic COMMAND ${PYTHON} ${CMAKE_SOURCE_DIR}/tests/mesh/traffic.py --stepc $<TARGET_FILE:stepc>)
  set_tests_properties(mesh.traffic PROPERTIES PROCESSORS 2 TIMEOUT 600 ENVIRONMENT "ASAN_OPTIONS=detect_leaks=0")
endif()
