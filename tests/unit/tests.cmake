# Lowering is tested on groups, and fusion makes groups.
if(TARGET codegen_test_lower AND TARGET passes)
  target_link_libraries(codegen_test_lower PRIVATE passes)
endif()
# Gradients of functions of expressions are made by a pass.
if(TARGET frontend_test_functions AND TARGET passes)
  target_link_libraries(frontend_test_functions PRIVATE passes)
endif()
