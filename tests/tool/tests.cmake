if(PYTHON AND TARGET stepc)
  add_test(NAME tool COMMAND ${PYTHON} ${CMAKE_SOURCE_DIR}/tests/tool/check.py $<TARGET_FILE:stepc>)
endif()
