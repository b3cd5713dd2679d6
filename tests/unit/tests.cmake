# Lowering is tested on groups, and fusion makes groups.
foreach(test lower late)
  if(TARGET codegen_test_${test} AND TARGET passes)
    target_link_libraries(codegen_test_${test} PRIVATE passes)
  endif()
endforeach()
# What these do not do where sanitizers look at it: large products, and what NVRTC compiles.
foreach(test lower cuda)
  if(TARGET codegen_test_${test})
    set_tests_properties(unit.codegen_test_${test} PROPERTIES LABELS sanitize_sample)
  endif()
endforeach()
# Gradients of functions of expressions are made by a pass.
if(TARGET frontend_test_functions AND TARGET passes)
  target_link_libraries(frontend_test_functions PRIVATE passes)
endif()
# The runtime's tests again on devices whose memory the host cannot read (tests/unit/runtime/rows.h).
foreach(test abi collectives directories lifecycle safetensors)
  if(TARGET runtime_test_${test})
    add_test(NAME unit.runtime_far_${test} COMMAND runtime_test_${test} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
    set_tests_properties(unit.runtime_far_${test} PROPERTIES LABELS "sanitize;threads" TIMEOUT 1800
      ENVIRONMENT "${patience};TOY_FAR=1")
  endif()
endforeach()
