# Which files `cmake --install` installs in which folder, and the package that find_package(dlrun) reads.
get_property(libraries GLOBAL PROPERTY DLRUN_LIBRARIES)
get_property(programs GLOBAL PROPERTY DLRUN_PROGRAMS)
set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/dlrun")

install(TARGETS ${libraries} EXPORT dlrunTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(programs)
  install(TARGETS ${programs} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
file(STRINGS "${PROJECT_SOURCE_DIR}/cmake/public_headers.txt" headers REGEX "^[^#]")
foreach(header IN LISTS headers)
  cmake_path(GET header PARENT_PATH folder)
  if(header STREQUAL dlrun.h)
    set(header nn/include/dlrun.h)
  endif()
  install(FILES ${header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/dlrun/${folder})
endforeach()
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/cmake/public_headers.txt")
install(EXPORT dlrunTargets NAMESPACE dlrun:: DESTINATION ${package_dir})

configure_package_config_file(cmake/dlrunConfig.cmake.in "${PROJECT_BINARY_DIR}/dlrunConfig.cmake" INSTALL_DESTINATION ${package_dir}
                              PATH_VARS CMAKE_INSTALL_LIBDIR)
write_basic_package_version_file("${PROJECT_BINARY_DIR}/dlrunConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/dlrunConfig.cmake" "${PROJECT_BINARY_DIR}/dlrunConfigVersion.cmake" cmake/FindOneDNN.cmake
        DESTINATION ${package_dir})
