if(PYTHON)
  add_test(NAME finite COMMAND ${PYTHON} ${CMAKE_SOURCE_DIR}/tests/finite/finite.py --stepc $<TARGET_FILE:stepc> --every 40)
endif()
