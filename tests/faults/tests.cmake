# Files, processes and allocations that come to harm. What runs here takes seconds; FLIPS=N, KILLS=N and SEED=N in the environment
# make it long, as --long does for allocations.py.
if(PYTHON AND TARGET stepc AND NOT STEPC_SANITIZE) # sanitizers have a malloc of their own
  add_library(allocations MODULE ${CMAKE_SOURCE_DIR}/tests/faults/allocations.c)
  target_link_libraries(allocations PRIVATE dl)
  add_library(calls MODULE ${CMAKE_SOURCE_DIR}/tests/faults/calls.c)
  target_link_libraries(calls PRIVATE dl)
  add_executable(saves ${CMAKE_SOURCE_DIR}/tests/faults/saves.c ${CMAKE_SOURCE_DIR}/tests/faults/calls.c)
  target_include_directories(saves PRIVATE ${CMAKE_SOURCE_DIR}/runtime/include)
  target_compile_definitions(saves PRIVATE _GNU_SOURCE)
  target_link_libraries(saves PRIVATE dl)
  set_target_properties(saves PROPERTIES ENABLE_EXPORTS ON) # the object calls the functions of calls.c
  add_test(NAME faults.saves COMMAND ${PYTHON} ${CMAKE_SOURCE_DIR}/tests/faults/saves.py --stepc $<TARGET_FILE:stepc> --saves $<TARGET_FILE:saves>)
  add_test(NAME faults.checkpoints COMMAND ${PYTHON} ${CMAKE_SOURCE_DIR}/tests/faults/checkpoints.py --stepc $<TARGET_FILE:stepc> --shim $<TARGET_FILE:calls>)
  add_library(clock MODULE ${CMAKE_SOURCE_DIR}/tests/faults/clock.c)
  target_link_libraries(clock PRIVATE dl)
  add_test(NAME faults.repeats COMMAND ${PYTHON} ${CMAKE_SOURCE_DIR}/tests/faults/repeats.py $<TARGET_FILE:stepc> $<TARGET_FILE:clock>)
  foreach(name flips kills)
    add_test(NAME faults.${name} COMMAND ${PYTHON} ${CMAKE_SOURCE_DIR}/tests/faults/${name}.py $<TARGET_FILE:stepc>)
  endforeach()
  add_test(NAME faults.allocations COMMAND ${PYTHON} ${CMAKE_SOURCE_DIR}/tests/faults/allocations.py --stepc $<TARGET_FILE:stepc> --shim $<TARGET_FILE:allocations>)
  add_test(NAME faults.soak COMMAND bash ${CMAKE_SOURCE_DIR}/tests/faults/soak.sh $<TARGET_FILE:stepc> ${CMAKE_BINARY_DIR}/soak 100000 200)
  set_tests_properties(faults.saves faults.checkpoints faults.repeats faults.flips faults.kills faults.allocations faults.soak PROPERTIES TIMEOUT 1800)
endif()
