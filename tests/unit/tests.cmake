# Lowering is tested on groups, and fusion makes groups.
if(TARGET codegen_test_lower AND TARGET passes)
  target_link_libraries(codegen_test_lower PRIVATE passes)
endif()
