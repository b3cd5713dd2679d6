# The program as a server of its commands (server.c): tests start it thousands of times.
if(TARGET stepc)
  add_executable(stepc_server ${CMAKE_SOURCE_DIR}/tests/tool/server.c ${CMAKE_SOURCE_DIR}/frontend/way.c)
  target_link_libraries(stepc_server PRIVATE frontend passes codegen runtime)
endif()
if(PYTHON AND TARGET stepc)
  add_test(NAME tool COMMAND ${PYTHON} ${CMAKE_SOURCE_DIR}/tests/tool/check.py $<TARGET_FILE:stepc>)
endif()
