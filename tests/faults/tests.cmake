# Files and processes that come to harm. What runs here takes seconds; FLIPS=N, KILLS=N and SEED=N in the environment make it long.
if(PYTHON AND TARGET stepc AND NOT STEPC_SANITIZE)
  foreach(name flips kills)
    add_test(NAME faults.${name} COMMAND ${PYTHON} ${CMAKE_SOURCE_DIR}/tests/faults/${name}.py $<TARGET_FILE:stepc>)
    set_tests_properties(faults.${name} PROPERTIES TIMEOUT 1800)
  endforeach()
endif()
