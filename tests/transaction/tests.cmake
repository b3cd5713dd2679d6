if(PYTHON)
  # What a step that does not count must leave alone is decided before LLVM, and numbers are the same at every -O.
  add_test(NAME transaction COMMAND ${PYTHON} ${CMAKE_SOURCE_DIR}/tests/transaction/transaction.py --stepc $<TARGET_FILE:stepc> --every 12 --compile-args=-O0)
  add_test(NAME transaction.waiting COMMAND ${PYTHON} ${CMAKE_SOURCE_DIR}/tests/transaction/transaction.py --stepc $<TARGET_FILE:stepc> --late --every 16 --compile-args=-O0)
  add_test(NAME transaction.late COMMAND ${PYTHON} ${CMAKE_SOURCE_DIR}/tests/transaction/late.py --stepc $<TARGET_FILE:stepc> --quick)
  add_test(NAME transaction.late_mesh COMMAND ${PYTHON} ${CMAKE_SOURCE_DIR}/tests/transaction/late.py --stepc $<TARGET_FILE:stepc> --mesh data=2 --threads 2
                                              "clip, adamw with a mask" lion "finite only, clip" lookahead)
endif()
