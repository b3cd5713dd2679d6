if(PYTHON)
  add_test(NAME lint.includes COMMAND ${PYTHON} ${CMAKE_SOURCE_DIR}/tests/lint/includes.py)
  add_test(NAME lint.words COMMAND ${PYTHON} ${CMAKE_SOURCE_DIR}/tests/lint/words.py)
  add_test(NAME lint.names COMMAND ${PYTHON} ${CMAKE_SOURCE_DIR}/tests/lint/names.py)
  add_test(NAME lint.format COMMAND ${PYTHON} ${CMAKE_SOURCE_DIR}/tests/lint/format.py)
  add_test(NAME lint.tools COMMAND ${PYTHON} ${CMAKE_SOURCE_DIR}/tests/lint/tools.py)
  set_tests_properties(lint.tools PROPERTIES SKIP_RETURN_CODE 77)
  add_test(NAME lint.size COMMAND ${PYTHON} ${CMAKE_SOURCE_DIR}/tests/lint/size.py)
  if(TARGET stepc)
    add_test(NAME lint.symbols COMMAND ${PYTHON} ${CMAKE_SOURCE_DIR}/tests/lint/symbols.py $<TARGET_FILE:base>
      $<TARGET_FILE:ir> $<TARGET_FILE:passes> $<TARGET_FILE:codegen> $<TARGET_FILE:frontend> $<TARGET_FILE:runtime>)
  endif()
  if(TARGET stepc AND NOT STEPC_SANITIZE) # sanitizers bring variables of their own
    add_test(NAME lint.globals COMMAND ${PYTHON} ${CMAKE_SOURCE_DIR}/tests/lint/globals.py "$<TARGET_OBJECTS:stepc>"
      $<TARGET_FILE:base> $<TARGET_FILE:ir> $<TARGET_FILE:passes> $<TARGET_FILE:codegen> $<TARGET_FILE:frontend> $<TARGET_FILE:runtime>
      $<TARGET_FILE:step_runtime>
      COMMAND_EXPAND_LISTS)
  endif()
endif()
