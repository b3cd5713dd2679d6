if(PYTHON AND TARGET stepc)
  foreach(name checkpoint maps compression)
    set(test checkpoint)
    if(NOT name STREQUAL checkpoint)
      set(test checkpoint.${name})
    endif()
    add_test(NAME ${test} COMMAND ${PYTHON} ${CMAKE_SOURCE_DIR}/tests/checkpoint/${name}.py $<TARGET_FILE:stepc>)
    set_tests_properties(${test} PROPERTIES TIMEOUT 1800 LABELS sanitize
      ENVIRONMENT "ASAN_OPTIONS=detect_leaks=0") # the program leaves its arenas to the system
  endforeach()
  add_test(NAME checkpoint.lent COMMAND ${PYTHON} ${CMAKE_SOURCE_DIR}/tests/checkpoint/lent.py --stepc $<TARGET_FILE:stepc>)
  set_tests_properties(checkpoint.lent PROPERTIES TIMEOUT 600)
  # Threads and, where an MPI is installed, ranks.
  add_test(NAME checkpoint.meshes COMMAND ${PYTHON} ${CMAKE_SOURCE_DIR}/tests/checkpoint/meshes.py $<TARGET_FILE:stepc>)
  set_tests_properties(checkpoint.meshes PROPERTIES PROCESSORS 2 TIMEOUT 600 ENVIRONMENT "ASAN_OPTIONS=detect_leaks=0")
  if(stepc_plugins)
    add_dependencies(stepc stepc_mpi)
  endif()
endif()
