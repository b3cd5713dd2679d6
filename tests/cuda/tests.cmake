# Whole documents become kernels: these tests go the whole way.
foreach(name codegen_test_cuda codegen_test_cuda_optim)
  if(TARGET ${name} AND TARGET passes AND TARGET frontend)
    target_link_libraries(${name} PRIVATE frontend passes runtime)
  endif()
endforeach()
