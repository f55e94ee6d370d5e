# cmake --install gives headers, liblathe.a, the modules, the programs lathe, lathe-worker and lathe-scenario and a package for find_package(lathe).
include(CMakePackageConfigHelpers)

# A program of one's own, linked from wherever, finds lathe-worker where it was installed.
set_property(SOURCE src/search/workers.cpp src/investigate/worker.cpp APPEND PROPERTY COMPILE_DEFINITIONS
  LATHE_INSTALLED_PROGRAMS="${CMAKE_INSTALL_FULL_BINDIR}")

if(TARGET lathe)
  install(TARGETS lathe EXPORT latheTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(DIRECTORY include/lathe DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h" PATTERN "*.def")
  get_property(modules GLOBAL PROPERTY LATHE_MODULES)
  if(modules)
    install(TARGETS ${modules} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/lathe)
  endif()
  if(TARGET tool_lathe)
    install(TARGETS tool_lathe tool_lathe-worker tool_lathe-scenario RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  endif()
  set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/lathe)
  install(EXPORT latheTargets NAMESPACE lathe:: DESTINATION ${package_dir})
  configure_package_config_file(cmake/latheConfig.cmake.in ${PROJECT_BINARY_DIR}/latheConfig.cmake
    INSTALL_DESTINATION ${package_dir})
  write_basic_package_version_file(${PROJECT_BINARY_DIR}/latheConfigVersion.cmake COMPATIBILITY SameMinorVersion)
  install(FILES ${PROJECT_BINARY_DIR}/latheConfig.cmake ${PROJECT_BINARY_DIR}/latheConfigVersion.cmake
    DESTINATION ${package_dir})
endif()
