if(PYTHON)
  add_test(NAME training COMMAND ${PYTHON} ${CMAKE_SOURCE_DIR}/tests/training/training.py $<TARGET_FILE:stepc> --quick)
  set_tests_properties(training PROPERTIES PROCESSORS 2)
endif()
