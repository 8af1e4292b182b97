# cmake -DBUILD=<build tree> -DSOURCE=<this folder> -DVERSION=<version> -P package_test.cmake
# Installs the build into a fresh prefix, builds an outside project against it, and runs that.
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

run(${CMAKE_COMMAND} --install "${BUILD}" --prefix "${work}/prefix")
run(${CMAKE_COMMAND} -G Ninja -S "${SOURCE}" -B "${work}/build" "-DCMAKE_PREFIX_PATH=${work}/prefix" -DCMAKE_BUILD_TYPE=Release)
run(${CMAKE_COMMAND} --build "${work}/build")
run("${work}/build/outside")
if(NOT output STREQUAL "dlrun ${VERSION}\n")
  message(FATAL_ERROR "the outside program printed: ${output}")
endif()
file(REMOVE_RECURSE "${work}")
