if(PYTHON AND TARGET stepc)
  if(STEPC_SANITIZE) # 1,500 tensors are for counting kernels
    set(many_sample --without-growth)
  endif()
  add_test(NAME many COMMAND ${PYTHON} ${CMAKE_SOURCE_DIR}/tests/many/many.py $<TARGET_FILE:stepc> ${many_sample})
  set_tests_properties(many PROPERTIES TIMEOUT 1800 LABELS sanitize_sample
    ENVIRONMENT "ASAN_OPTIONS=detect_leaks=0") # the program leaves its arenas to the system
  add_test(NAME many.optimizers COMMAND ${PYTHON} ${CMAKE_SOURCE_DIR}/tests/many/optimizers.py $<TARGET_FILE:stepc>)
  set_tests_properties(many.optimizers PROPERTIES TIMEOUT 1800 PROCESSORS 2)
endif()
