# What `cmake --install` puts where. Components: `compiler` (program, manual pages, completions), `headers` (of hosts, for
# pkg-config and CMake), `mpi` (plug-ins for meshes of processes). Nothing installed holds the prefix, so that the folder may be moved.
include(CMakePackageConfigHelpers)
if(IS_ABSOLUTE "${CMAKE_INSTALL_INCLUDEDIR}" OR IS_ABSOLUTE "${CMAKE_INSTALL_BINDIR}" OR IS_ABSOLUTE "${CMAKE_INSTALL_DATADIR}")
  message(FATAL_ERROR "CMAKE_INSTALL_BINDIR, CMAKE_INSTALL_DATADIR and CMAKE_INSTALL_INCLUDEDIR are taken from the prefix: give relative folders")
endif()
install(DIRECTORY runtime/include/stepc DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT headers)
install(FILES samples/step.hpp DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/stepc COMPONENT headers)
install(FILES README.md CHANGELOG.md SECURITY.md LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT headers)

# From the folder where stepc.pc and stepcConfig.cmake lie to the prefix.
set(stepc_package_folder ${CMAKE_INSTALL_DATADIR}/cmake/stepc)
set(stepc_pkgconfig_folder ${CMAKE_INSTALL_DATADIR}/pkgconfig)
file(RELATIVE_PATH stepc_pc_prefix /p/${stepc_pkgconfig_folder} /p)
string(REGEX REPLACE "/$" "" stepc_pc_prefix ${stepc_pc_prefix})
configure_file(packaging/stepc.pc.in packaging/stepc.pc @ONLY)
configure_package_config_file(packaging/stepcConfig.cmake.in ${CMAKE_BINARY_DIR}/packaging/stepcConfig.cmake
  INSTALL_DESTINATION ${stepc_package_folder} PATH_VARS CMAKE_INSTALL_INCLUDEDIR CMAKE_INSTALL_BINDIR NO_CHECK_REQUIRED_COMPONENTS_MACRO)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/packaging/stepcConfigVersion.cmake VERSION ${PROJECT_VERSION} COMPATIBILITY SameMajorVersion)
install(FILES ${CMAKE_BINARY_DIR}/packaging/stepc.pc DESTINATION ${stepc_pkgconfig_folder} COMPONENT headers)
install(FILES ${CMAKE_BINARY_DIR}/packaging/stepcConfig.cmake ${CMAKE_BINARY_DIR}/packaging/stepcConfigVersion.cmake
  DESTINATION ${stepc_package_folder} COMPONENT headers)
if(NOT TARGET stepc)
  return()
endif()
install(TARGETS stepc RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT compiler)
if(SKBUILD) # a wheel (pyproject.toml): the module, and the program beside it
  install(FILES samples/stepc.py DESTINATION stepc RENAME __init__.py COMPONENT python)
  install(TARGETS stepc RUNTIME DESTINATION stepc/bin COMPONENT python)
  install(DIRECTORY runtime/include/stepc DESTINATION stepc/include COMPONENT python)
endif()

# Manual pages and completions, printed by the program from its table of options, whose commands are read here.
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/frontend/cli/options.def)
file(STRINGS frontend/cli/options.def commands REGEX "^COMMAND\\(")
list(TRANSFORM commands REPLACE "^COMMAND\\(([a-z]+),.*" "\\1")
set(printed)
function(stepc_printed file) # by `stepc ARGUMENTS...`
  add_custom_command(OUTPUT ${file} DEPENDS stepc VERBATIM
    COMMAND ${CMAKE_COMMAND} -E env ASAN_OPTIONS=detect_leaks=0 $<TARGET_FILE:stepc> ${ARGN} > ${file})
  set(printed ${printed} ${file} PARENT_SCOPE)
endfunction()
set(pages ${CMAKE_BINARY_DIR}/packaging/man)
set(completions ${CMAKE_BINARY_DIR}/packaging/completions)
file(MAKE_DIRECTORY ${pages} ${completions})
stepc_printed(${pages}/stepc.1 man)
foreach(command ${commands})
  stepc_printed(${pages}/stepc-${command}.1 man ${command})
endforeach()
install(FILES ${printed} DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT compiler)
stepc_printed(${pages}/stepc-language.5 man language)
install(FILES ${pages}/stepc-language.5 DESTINATION ${CMAKE_INSTALL_MANDIR}/man5 COMPONENT compiler)
stepc_printed(${completions}/stepc completion bash)
stepc_printed(${completions}/_stepc completion zsh)
stepc_printed(${completions}/stepc.fish completion fish)
add_custom_target(stepc_pages ALL DEPENDS ${printed})
install(FILES ${completions}/stepc DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions COMPONENT compiler)
install(FILES ${completions}/_stepc DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions COMPONENT compiler)
install(FILES ${completions}/stepc.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d COMPONENT compiler)
