# Whole documents become kernels: this test goes the whole way.
if(TARGET codegen_test_cuda AND TARGET passes AND TARGET frontend)
  target_link_libraries(codegen_test_cuda PRIVATE frontend passes runtime)
endif()
