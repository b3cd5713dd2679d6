if(PYTHON AND TARGET stepc)
  add_test(NAME products COMMAND ${PYTHON} ${CMAKE_SOURCE_DIR}/tests/products/products.py $<TARGET_FILE:stepc>)
  add_test(NAME products.recurrent COMMAND ${PYTHON} ${CMAKE_SOURCE_DIR}/tests/products/recurrent.py $<TARGET_FILE:stepc>)
  add_test(NAME products.filtered COMMAND ${PYTHON} ${CMAKE_SOURCE_DIR}/tests/products/filtered.py $<TARGET_FILE:stepc>)
  add_test(NAME products.grouped COMMAND ${PYTHON} ${CMAKE_SOURCE_DIR}/tests/products/grouped.py $<TARGET_FILE:stepc>)
  set_tests_properties(products products.recurrent products.filtered products.grouped PROPERTIES TIMEOUT 1800
    ENVIRONMENT "ASAN_OPTIONS=detect_leaks=0") # the program leaves its arenas to the system
endif()
