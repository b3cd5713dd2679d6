if(PYTHON)
  add_test(NAME mutants COMMAND ${PYTHON} ${CMAKE_SOURCE_DIR}/tests/mutants/mutants.py --check)
endif()
