if(PYTHON)
  add_test(NAME lint.includes COMMAND ${PYTHON} ${CMAKE_SOURCE_DIR}/tests/lint/includes.py)
  add_test(NAME lint.words COMMAND ${PYTHON} ${CMAKE_SOURCE_DIR}/tests/lint/words.py)
endif()
