if(PYTHON)
  add_test(NAME transaction COMMAND ${PYTHON} ${CMAKE_SOURCE_DIR}/tests/transaction/transaction.py --stepc $<TARGET_FILE:stepc> --every 12)
endif()
