if(PYTHON AND TARGET stepc)
  add_test(NAME products COMMAND ${PYTHON} ${CMAKE_SOURCE_DIR}/tests/products/products.py $<TARGET_FILE:stepc>)
  set_tests_properties(products PROPERTIES TIMEOUT 1800 PROCESSORS 2)
endif()
