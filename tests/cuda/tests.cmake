# Whole documents become kernels: these tests go the whole way.
foreach(name codegen_test_cuda codegen_test_cuda_optim)
  if(TARGET ${name} AND TARGET passes AND TARGET frontend)
    target_link_libraries(${name} PRIVATE frontend passes runtime)
  endif()
endforeach()

# A stand-in for the driver, so that objects for CUDA run without a GPU (driver/stand_in.h): recorded cases through all of the runtime.
file(GLOB stand_in_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/cuda/driver/*.c)
add_library(stand_in SHARED ${stand_in_sources})
target_compile_definitions(stand_in PRIVATE _GNU_SOURCE STAND_IN_SHIM="${CMAKE_SOURCE_DIR}/tests/cuda")
target_compile_options(stand_in PRIVATE ${stepc_warnings} -Wno-missing-prototypes -fvisibility=hidden)
target_link_libraries(stand_in PRIVATE pthread dl)
set_target_properties(stand_in PROPERTIES OUTPUT_NAME cuda SUFFIX .so.1 LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/cuda)
if(PYTHON AND TARGET stepc)
  add_test(NAME cuda.recorded COMMAND ${PYTHON} ${CMAKE_SOURCE_DIR}/tests/parity/run.py --stepc $<TARGET_FILE:stepc> --every 6 -j 2
    "--compile-args=--target cuda --cuda-arch text")
  file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/cuda/cache)
  set_tests_properties(cuda.recorded PROPERTIES PROCESSORS 2 TIMEOUT 1800
    ENVIRONMENT "STEPC_CUDA_DRIVER=$<TARGET_FILE:stand_in>;STAND_IN_CACHE=${CMAKE_BINARY_DIR}/cuda/cache;STAND_IN_DEVICES=8")
endif()
