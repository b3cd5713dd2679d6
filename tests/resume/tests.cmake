if(PYTHON AND TARGET stepc)
  if(STEPC_SANITIZE) # a sample: each text becomes an object
    set(resume_sample 8)
  endif()
  add_test(NAME resume COMMAND ${PYTHON} ${CMAKE_SOURCE_DIR}/tests/resume/resume.py $<TARGET_FILE:stepc> ${resume_sample})
  set_tests_properties(resume PROPERTIES PROCESSORS 2 TIMEOUT 1800 LABELS sanitize_sample ENVIRONMENT "ASAN_OPTIONS=detect_leaks=0")
endif()
