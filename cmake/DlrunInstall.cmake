# What `cmake --install` puts where, and the package that find_package(dlrun) reads.
get_property(libraries GLOBAL PROPERTY DLRUN_LIBRARIES)
get_property(programs GLOBAL PROPERTY DLRUN_PROGRAMS)
set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/dlrun")

install(TARGETS ${libraries} EXPORT dlrunTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(programs)
  install(TARGETS ${programs} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
foreach(room core nn rendezvous collectives)
  if(IS_DIRECTORY "${PROJECT_SOURCE_DIR}/${room}")
    install(DIRECTORY ${room} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/dlrun FILES_MATCHING PATTERN "*.h" PATTERN "*.def")
  endif()
endforeach()
install(EXPORT dlrunTargets NAMESPACE dlrun:: DESTINATION ${package_dir})

configure_package_config_file(cmake/dlrunConfig.cmake.in "${PROJECT_BINARY_DIR}/dlrunConfig.cmake" INSTALL_DESTINATION ${package_dir}
                              PATH_VARS CMAKE_INSTALL_LIBDIR)
write_basic_package_version_file("${PROJECT_BINARY_DIR}/dlrunConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/dlrunConfig.cmake" "${PROJECT_BINARY_DIR}/dlrunConfigVersion.cmake" cmake/FindOneDNN.cmake
        DESTINATION ${package_dir})
