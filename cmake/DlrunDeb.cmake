# Debian's packages, by `cpack -G DEB` in the build: dlrun, libdlrun-dev, and dlrun-mpi if an MPI was found. A module for CUDA needs NVIDIA's
# libraries, of which Debian's tools know nothing; it is left to the bundle.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME dlrun)
set(CPACK_PACKAGE_VENDOR "the authors of dlrun")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "launcher and libraries for distributed training")
# The maintainer is the person who builds them, named as for Debian's own tools.
set(CPACK_PACKAGE_CONTACT "dlrun <dlrun@localhost>")
if(DEFINED ENV{DEBEMAIL})
  set(CPACK_PACKAGE_CONTACT "$ENV{DEBFULLNAME} <$ENV{DEBEMAIL}>")
endif()
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_ALL dlrun libdlrun-dev)
if(DLRUN_MPIS OR DLRUN_PMIX)
  list(APPEND CPACK_COMPONENTS_ALL dlrun-mpi)
endif()
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(exact "= ${PROJECT_VERSION}")

# dl_deb(COMPONENT SECTION TEXT)
function(dl_deb component section text)
  string(TOUPPER "${component}" upper)
  set(CPACK_DEBIAN_${upper}_PACKAGE_NAME "${component}" PARENT_SCOPE)
  set(CPACK_DEBIAN_${upper}_PACKAGE_SECTION "${section}" PARENT_SCOPE)
  set(CPACK_COMPONENT_${upper}_DESCRIPTION "${text}" PARENT_SCOPE)
endfunction()

dl_deb(dlrun science "dlrun starts a program as the ranks of one job, on one host or on many, watches over them, and says which one failed, and why. \
With the rendezvous service and dlbench, the benchmark of collectives.")
dl_deb(libdlrun-dev libdevel "Collectives over shared memory and TCP, rendezvous, and a training library with PyTorch's names, as static libraries \
with CMake's package.")
dl_deb(dlrun-mpi science "Modules that dlrun's collectives open under mpirun, and the helper by which dlrun launches programs of Open MPI.")
file(WRITE "${PROJECT_BINARY_DIR}/deb/triggers" "activate-noawait ldconfig\n")
set(CPACK_DEBIAN_DLRUN_PACKAGE_CONTROL_EXTRA "${PROJECT_BINARY_DIR}/deb/triggers")
set(CPACK_DEBIAN_DLRUN_PACKAGE_RECOMMENDS "libhwloc15, openssh-client")
# What CMake's package looks for.
set(needed "dlrun (${exact}), libfmt-dev, libssl-dev, zlib1g-dev, nlohmann-json3-dev, libhwy-dev, pkg-config")
if(DLRUN_TRAINING)
  string(APPEND needed ", libdnnl-dev, libutf8proc-dev")
  if(DLRUN_HAS_PNG)
    string(APPEND needed ", libpng-dev")
  endif()
  if(DLRUN_HAS_JPEG)
    string(APPEND needed ", libjpeg-dev")
  endif()
endif()
set(CPACK_DEBIAN_LIBDLRUN-DEV_PACKAGE_DEPENDS "${needed}")
set(CPACK_DEBIAN_DLRUN-MPI_PACKAGE_DEPENDS "dlrun (${exact})")

# In cpack's folder alone, and not in an installation.
foreach(package IN LISTS CPACK_COMPONENTS_ALL)
  install(CODE "
    if(\"\$ENV{DESTDIR}\" MATCHES \"/_CPack_Packages/\")
      execute_process(COMMAND \"${PROJECT_SOURCE_DIR}/cmake/deb_documents.sh\" ${package} ${PROJECT_VERSION} \"${CPACK_PACKAGE_CONTACT}\" \"\$ENV{DESTDIR}/usr\"
                      COMMAND_ERROR_IS_FATAL ANY)
    endif()" COMPONENT ${package})
endforeach()
include(CPack)
