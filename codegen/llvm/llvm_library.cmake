# libstepc_llvm.so (llvm_library.cc) is built where a C++ compiler and the archives of LLVM and lld are there and can be linked;
# without it the program opens the system's LLVM and starts a linker. All that it takes is in it: it needs the C library alone.
set(STEPC_OWN_LLVM AUTO CACHE STRING "a library of our own with LLVM and lld: OFF, ON (it has to be), AUTO (where it can be linked)")
set(STEPC_OWN_LIBRARY libstepc_llvm.so)
set(own ${CMAKE_BINARY_DIR}/${STEPC_OWN_LIBRARY})
find_program(STEPC_CXX NAMES c++ g++ clang++)
find_library(STEPC_ZLIB_ARCHIVE NAMES libz.a z)
find_library(STEPC_ZSTD_ARCHIVE NAMES libzstd.a zstd)
execute_process(COMMAND ${LLVM_CONFIG} --libdir OUTPUT_VARIABLE folder OUTPUT_STRIP_TRAILING_WHITESPACE)
execute_process(COMMAND ${LLVM_CONFIG} --link-static --libfiles x86 passes lto option debuginfodwarf OUTPUT_VARIABLE archives
  OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
separate_arguments(archives)
list(FILTER archives EXCLUDE REGEX "Polly") # llvm_library.cc does without
list(PREPEND archives ${folder}/liblldELF.a ${folder}/liblldCommon.a)
foreach(archive ${STEPC_ZLIB_ARCHIVE} ${STEPC_ZSTD_ARCHIVE})
  list(APPEND archives ${archive})
endforeach()
set(command ${STEPC_CXX} -std=c++17 -O2 -fPIC -fno-rtti -fno-exceptions -Wall -Wextra -ffile-prefix-map=${CMAKE_SOURCE_DIR}/=
  -I${CMAKE_SOURCE_DIR} -isystem ${LLVM_INCLUDE} ${CMAKE_SOURCE_DIR}/codegen/llvm/llvm_library.cc ${archives} -lpthread -ldl -lm
  -shared -static-libstdc++ -static-libgcc -s -Wl,--version-script,${CMAKE_SOURCE_DIR}/codegen/llvm/llvm_library.map
  -Wl,--gc-sections -Wl,--as-needed -Wl,-z,defs -Wl,-z,relro -Wl,-z,now -Wl,-z,noexecstack)
set(said STEPC_OWN_LLVM=${STEPC_OWN_LLVM})
if(STEPC_OWN_LLVM AND NOT STEPC_OWN_LLVM_LINKED) # by lld in a fourth of the time, and equal functions once
  foreach(linker "-fuse-ld=lld;-Wl,--icf=all" "-Wl,-O1")
    execute_process(COMMAND ${command} ${linker} -o ${CMAKE_BINARY_DIR}/CMakeFiles/${STEPC_OWN_LIBRARY}
      RESULT_VARIABLE failed OUTPUT_QUIET ERROR_VARIABLE said)
    set(said "${said}${STEPC_CXX}: ${failed}")
    if(NOT failed)
      set(STEPC_OWN_LLVM_LINKED ${linker} CACHE INTERNAL "how")
      break()
    endif()
  endforeach()
  file(REMOVE ${CMAKE_BINARY_DIR}/CMakeFiles/${STEPC_OWN_LIBRARY})
endif()
if(STEPC_OWN_LLVM AND STEPC_OWN_LLVM_LINKED)
  file(GLOB sources CONFIGURE_DEPENDS codegen/llvm/llvm_library.* codegen/llvm/llvm_functions.def)
  add_custom_command(OUTPUT ${own} DEPENDS ${sources} COMMAND ${command} ${STEPC_OWN_LLVM_LINKED} -o ${own})
  add_custom_target(stepc_llvm ALL DEPENDS ${own})
else()
  file(REMOVE ${own}) # one of before would be opened
  string(REGEX MATCH "[^\n]+" said "${said}")
  message(STATUS "no library of our own with LLVM and lld (Debian: liblld-16-dev), so that documents take half as long again to compile: ${said}")
endif()
if(STEPC_OWN_LLVM STREQUAL ON AND NOT TARGET stepc_llvm)
  message(FATAL_ERROR "STEPC_OWN_LLVM=ON")
endif()
