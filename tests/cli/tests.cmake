if(PYTHON AND TARGET stepc)
  add_test(NAME cli COMMAND ${PYTHON} ${CMAKE_SOURCE_DIR}/tests/cli/cli.py $<TARGET_FILE:stepc>)
  add_test(NAME cli.doc COMMAND ${PYTHON} ${CMAKE_SOURCE_DIR}/tests/cli/doc.py $<TARGET_FILE:stepc>)
  add_test(NAME cli.schema COMMAND ${PYTHON} ${CMAKE_SOURCE_DIR}/tests/cli/schema.py $<TARGET_FILE:stepc>)
  add_test(NAME cli.infer COMMAND ${PYTHON} ${CMAKE_SOURCE_DIR}/tests/cli/infer.py $<TARGET_FILE:stepc>)
  add_test(NAME cli.modes COMMAND ${PYTHON} ${CMAKE_SOURCE_DIR}/tests/cli/modes.py $<TARGET_FILE:stepc>)
  add_test(NAME cli.overwrite COMMAND ${PYTHON} ${CMAKE_SOURCE_DIR}/tests/cli/overwrite.py $<TARGET_FILE:stepc>)
  add_test(NAME cli.memory COMMAND ${PYTHON} ${CMAKE_SOURCE_DIR}/tests/cli/memory.py $<TARGET_FILE:stepc>)
  add_test(NAME cli.indices COMMAND ${PYTHON} ${CMAKE_SOURCE_DIR}/tests/cli/indices.py $<TARGET_FILE:stepc>)
  add_test(NAME cli.names COMMAND ${PYTHON} ${CMAKE_SOURCE_DIR}/tests/cli/names.py $<TARGET_FILE:stepc>)
  add_test(NAME cli.meaning COMMAND ${PYTHON} ${CMAKE_SOURCE_DIR}/tests/cli/meaning.py $<TARGET_FILE:stepc>)
  set_tests_properties(cli cli.meaning cli.names cli.indices cli.doc cli.schema cli.infer cli.modes cli.memory cli.overwrite PROPERTIES TIMEOUT 1800 LABELS sanitize
    ENVIRONMENT "ASAN_OPTIONS=detect_leaks=0") # the program leaves its arenas to the system
endif()
