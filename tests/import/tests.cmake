if(PYTHON AND TARGET stepc)
  add_test(NAME import COMMAND ${PYTHON} ${CMAKE_SOURCE_DIR}/tests/import/hugging_face.py $<TARGET_FILE:stepc>)
  set_tests_properties(import PROPERTIES TIMEOUT 600)
endif()
