# cmake -DBUILD=<build tree> -DSOURCE=<this folder> -DVERSION=<version> -P package_test.cmake
# Installs the build into a staging folder (DESTDIR), moves the prefix elsewhere, builds an outside project against it, and runs that.
set(work "${BUILD}/package_test")
file(REMOVE_RECURSE "${work}")

function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT status EQUAL 0)
    string(REPLACE ";" " " command "${ARGN}")
    message(FATAL_ERROR "${command}\n${output}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

run(${CMAKE_COMMAND} -E env "DESTDIR=${work}/stage" ${CMAKE_COMMAND} --install "${BUILD}" --prefix /opt/staged)
file(GLOB_RECURSE staged LIST_DIRECTORIES true RELATIVE "${work}/stage" "${work}/stage/*")
list(FILTER staged EXCLUDE REGEX "^opt($|/staged)")
if(staged)
  message(FATAL_ERROR "installed outside of the prefix: ${staged}")
endif()
file(RENAME "${work}/stage/opt/staged" "${work}/prefix")
# A prefix that moves has neither the old one nor the build in a text or in a program's run path.
execute_process(COMMAND grep -rlIF -e /opt/staged -e "${BUILD}" "${work}/prefix" OUTPUT_VARIABLE fixed RESULT_VARIABLE status)
if(NOT status EQUAL 1)
  message(FATAL_ERROR "these name the staging prefix or the build: ${fixed}")
endif()
find_program(readelf readelf REQUIRED)
file(GLOB programs "${work}/prefix/bin/*" "${work}/prefix/lib/*.so")
run("${readelf}" -d ${programs})
string(REGEX MATCHALL "path: \\[[^\n]*" paths "${output}")
list(LENGTH paths count)
list(FILTER paths EXCLUDE REGEX "path: \\[\\$ORIGIN/\\.\\./lib:\\$ORIGIN\\]")
if(paths OR count EQUAL 0)
  message(FATAL_ERROR "run paths of ${count}: ${paths}")
endif()
run("${work}/prefix/bin/train_cnn" --epochs 0)
run("${work}/prefix/bin/dlrun-rendezvous" --version)
# The headers of the list, and no others.
file(STRINGS "${SOURCE}/../../cmake/public_headers.txt" wanted REGEX "^[^#]")
file(GLOB_RECURSE installed RELATIVE "${work}/prefix/include/dlrun" "${work}/prefix/include/*")
list(SORT wanted)
list(SORT installed)
if(NOT installed STREQUAL wanted)
  message(FATAL_ERROR "installed headers: ${installed}\nwanted: ${wanted}")
endif()
run(${CMAKE_COMMAND} -G Ninja -S "${SOURCE}" -B "${work}/build" "-DCMAKE_PREFIX_PATH=${work}/prefix" -DCMAKE_BUILD_TYPE=Release)
run(${CMAKE_COMMAND} --build "${work}/build")
run("${work}/build/outside")
if(NOT output STREQUAL "dlrun ${VERSION}\n")
  message(FATAL_ERROR "the outside program printed: ${output}")
endif()
# A C program finds the C interface by pkg-config.
find_program(pkg_config pkg-config REQUIRED)
find_program(cc cc REQUIRED)
execute_process(COMMAND ${CMAKE_COMMAND} -E env "PKG_CONFIG_PATH=${work}/prefix/lib/pkgconfig" "${pkg_config}" --cflags --libs dl_comm
                OUTPUT_VARIABLE flags OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
separate_arguments(flags)
file(WRITE "${work}/alone.c" "#include <dl_comm.h>
#include <stdio.h>
int main(void) {
  dl_comm* world;
  if (dl_comm_init(NULL, -1, -1, 0, &world) != DL_OK) return puts(dl_last_error()), 1;
  printf(\"%s\", dl_comm_backend(world));
  dl_comm_destroy(world);
}
")
run("${cc}" "${work}/alone.c" ${flags} -o "${work}/alone")
run(${CMAKE_COMMAND} -E env "LD_LIBRARY_PATH=${work}/prefix/lib" "${work}/alone")
if(NOT output STREQUAL "solo")
  message(FATAL_ERROR "the C program printed: ${output}")
endif()
# Ranks open the store's module: along their run path, and, if they are elsewhere, beside dlrun.
run("${work}/prefix/bin/dlrun" -n 2 "${work}/build/outside")
file(COPY "${work}/prefix/bin/dlbench" DESTINATION "${work}/elsewhere")
run("${work}/prefix/bin/dlrun" -n 2 "${work}/elsewhere/dlbench" all_reduce -b 8 -e 8 -n 1)
execute_process(COMMAND ${CMAKE_COMMAND} -E env RANK=0 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=1 "${work}/elsewhere/dlbench" all_reduce
                ERROR_VARIABLE error RESULT_VARIABLE status)
if(status EQUAL 0 OR NOT error MATCHES "^error: store: there is no libdlrun_rendezvous.so in ${work}/elsewhere, .*; name its folder in DLRUN_MODULE_DIR")
  message(FATAL_ERROR "without the module dlbench said: ${error}")
endif()
# The module for MPI is in the prefix, and the program is not.
find_program(mpirun mpirun.mpich)
if(mpirun AND EXISTS "${work}/prefix/lib/libdlrun_mpi_mpich.so")
  run("${mpirun}" -n 2 ${CMAKE_COMMAND} -E env DLRUN_BACKEND=mpi "${work}/build/outside")
  if(NOT output STREQUAL "dlrun ${VERSION}\ndlrun ${VERSION}\n")
    message(FATAL_ERROR "the outside program under mpirun printed: ${output}")
  endif()
endif()
file(REMOVE_RECURSE "${work}")
