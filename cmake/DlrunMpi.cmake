# Each MPI that is here gets a module (collectives/mpi): Open MPI through ompi.pc, MPICH through mpich.pc. DLRUN_MPIS lists those found;
# for each DLRUN_MPI_<name>_INCLUDE and DLRUN_MPI_<name>_LIBRARY say what the module is compiled with.
set(DLRUN_MPI_DEFAULT ON)
if(DLRUN_SANITIZE MATCHES "thread")
  # MPIs are not instrumented: TSan would take all that they do for races.
  set(DLRUN_MPI_DEFAULT OFF)
endif()
option(DLRUN_MPI "Build a module for each MPI that is found" ${DLRUN_MPI_DEFAULT})

set(DLRUN_MPIS "")
# Link with the MPI alone, not with what a static one would need.
function(dl_find_mpi name title package)
  if(DLRUN_MPI)
    pkg_check_modules(DLRUN_PC_${name} QUIET ${package})
    if(DLRUN_PC_${name}_FOUND)
      find_library(DLRUN_MPI_${name}_LIBRARY NAMES ${ARGN} HINTS ${DLRUN_PC_${name}_LIBRARY_DIRS} ${DLRUN_PC_${name}_LIBDIR} NO_DEFAULT_PATH)
      mark_as_advanced(DLRUN_MPI_${name}_LIBRARY)
    endif()
  endif()
  if(NOT DLRUN_MPI)
    dl_report("${title}" "off (DLRUN_MPI)")
  elseif(DLRUN_MPI_${name}_LIBRARY)
    set(DLRUN_MPI_${name}_INCLUDE "${DLRUN_PC_${name}_INCLUDE_DIRS}" PARENT_SCOPE)
    set(DLRUN_MPIS "${DLRUN_MPIS};${name}" PARENT_SCOPE)
    dl_report("${title}" "${DLRUN_PC_${name}_VERSION}")
  else()
    dl_report("${title}" "not found (${package}.pc): no module for it")
  endif()
endfunction()

dl_find_mpi(openmpi "Open MPI" ompi mpi)
dl_find_mpi(mpich "MPICH" mpich mpich mpi)
list(REMOVE_ITEM DLRUN_MPIS "")
