# The few ways in which a target is made here.

# dl_library(NAME SOURCES... [PUBLIC LIBS...] [PRIVATE LIBS...])
# A static library dlrun_NAME, alias dlrun::NAME, whose headers are included from the project's root.
function(dl_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;PUBLIC;PRIVATE" ${ARGN})
  add_library(dlrun_${name} STATIC ${ARG_SOURCES})
  add_library(dlrun::${name} ALIAS dlrun_${name})
  set_target_properties(dlrun_${name} PROPERTIES EXPORT_NAME ${name})
  target_include_directories(dlrun_${name} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>
                                                  $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/dlrun>)
  target_compile_features(dlrun_${name} PUBLIC cxx_std_20)
  target_link_libraries(dlrun_${name} PUBLIC ${ARG_PUBLIC} PRIVATE ${ARG_PRIVATE} $<BUILD_INTERFACE:dlrun_private_flags>)
  set_property(GLOBAL APPEND PROPERTY DLRUN_LIBRARIES dlrun_${name})
endfunction()

# dl_program(NAME SOURCES... [PRIVATE LIBS...] [INSTALL])
# A program in build/<preset>/bin; with INSTALL it is also installed.
function(dl_program name)
  cmake_parse_arguments(ARG "INSTALL" "" "SOURCES;PRIVATE" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_PRIVATE} dlrun_private_flags)
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR})
  if(ARG_INSTALL)
    set_property(GLOBAL APPEND PROPERTY DLRUN_PROGRAMS ${name})
  endif()
endfunction()

# What the next two functions compile with. With -O1 g++ takes the value of an optional for uninitialised that was checked in another function.
set(little_optimised "$<$<CONFIG:Release>:-O1;$<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-maybe-uninitialized>>")

# dl_read_once(TARGET FILES...): files that run once in a program's life or write text for people, and include much inline code (CLI11,
# spdlog, fmt), which is optimised anew in each of them: half of what they cost to compile, and no run is slower for it.
# A sanitizer's preset optimises little anyway, and has them share a compilation.
function(dl_read_once target)
  if(NOT DLRUN_SANITIZE)
    set_source_files_properties(${ARGN} TARGET_DIRECTORY ${target} PROPERTIES COMPILE_OPTIONS "${little_optimised}")
  endif()
endfunction()

# dl_little_optimised(TARGETS...): what controls a job and computes nothing. Asio, fmt, JSON and Protobuf cost more to optimise than it gains.
function(dl_little_optimised)
  foreach(target IN LISTS ARGN)
    target_compile_options(${target} PRIVATE "${little_optimised}")
  endforeach()
endfunction()

# dl_unoptimised(TARGETS...): programs that tests start, and that compute next to nothing themselves.
function(dl_unoptimised)
  foreach(target IN LISTS ARGN)
    target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O0>)
  endforeach()
endfunction()

# dl_highway_files(TARGET NAME SOURCES... [OPTIONS...]): files that Highway compiles once for each instruction set. Each reads Highway's headers
# for all of them, which is half of its compilation. A unity build compiles these files as one: NAME's, which includes them for each set.
function(dl_highway_files target name)
  cmake_parse_arguments(ARG "" "" "SOURCES;OPTIONS" ${ARGN})
  set(compiled ${ARG_SOURCES})
  if(CMAKE_UNITY_BUILD)
    set(compiled "${CMAKE_CURRENT_BINARY_DIR}/highway_${name}.cc")
    set(text "#define HWY_TARGET_INCLUDE \"${compiled}\"\n#include <hwy/foreach_target.h>\n")
    foreach(source IN LISTS ARG_SOURCES)
      string(APPEND text "#include \"${CMAKE_CURRENT_SOURCE_DIR}/${source}\"\n")
    endforeach()
    file(CONFIGURE OUTPUT "${compiled}" CONTENT "${text}" @ONLY)
  endif()
  target_sources(${target} PRIVATE ${compiled})
  list(TRANSFORM ARG_SOURCES PREPEND "${CMAKE_CURRENT_SOURCE_DIR}/")
  set_property(TARGET ${target} APPEND PROPERTY DLRUN_HIGHWAY_FILES ${ARG_SOURCES})
  set_source_files_properties(${compiled} TARGET_DIRECTORY ${target} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON COMPILE_OPTIONS "${ARG_OPTIONS}")
  if(DLRUN_SANITIZE AND ARG_OPTIONS)
    set_source_files_properties(${compiled} TARGET_DIRECTORY ${target} PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
  endif()
endfunction()

# dl_add_folders(TARGET FOLDERS...): compiles every .cc in these folders and below into TARGET, except those that dl_highway_files() has
# added. A new file needs no line in a list: each build looks for new and removed ones, which takes it a few milliseconds.
function(dl_add_folders target)
  list(TRANSFORM ARGN APPEND "/*.cc" OUTPUT_VARIABLE patterns)
  list(TRANSFORM patterns PREPEND "${CMAKE_CURRENT_SOURCE_DIR}/")
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${patterns})
  get_target_property(others ${target} DLRUN_HIGHWAY_FILES)
  if(others)
    list(REMOVE_ITEM sources ${others})
  endif()
  target_sources(${target} PRIVATE ${sources})
endfunction()

# dl_precompile(TARGETS...): libraries of tensors, which share one precompiled header if DLRUN_PRECOMPILE says so.
function(dl_precompile)
  if(DLRUN_PRECOMPILE)
    foreach(target IN LISTS ARGN)
      target_precompile_headers(${target} REUSE_FROM dlrun_precompiled)
    endforeach()
  endif()
endfunction()

# What test programs are compiled with: dlrun_test_flags does not optimise, as their compilation is half of `./dev test` and their own code is not
# timed; dlrun_test_optimised is for programs whose own loops take seconds otherwise. One precompiled header serves all programs with the same
# flags, if DLRUN_PRECOMPILE says so.
function(dl_test_base)
  foreach(kind flags optimised)
    set(flags dlrun_test_${kind})
    add_library(${flags} INTERFACE)
    target_link_libraries(${flags} INTERFACE GTest::gmock fmt::fmt OpenMP::OpenMP_CXX dlrun_private_flags)
    set(level 0)
    if(kind STREQUAL "optimised")
      set(level 1)
    endif()
    target_compile_options(${flags} INTERFACE $<$<CONFIG:Release>:-O${level}>)
    # Behaviour that is undefined in a test's own lines is not what is looked for, and checking them takes half of their compilation.
    if(DLRUN_SANITIZE MATCHES "undefined")
      target_compile_options(${flags} INTERFACE -O0 -fno-sanitize=undefined)
    endif()
    # A report names the test by its function; its lines are a fifth of the compilation.
    if(DLRUN_SANITIZE MATCHES "address")
      target_compile_options(${flags} INTERFACE -g0)
    endif()
    if(DLRUN_PRECOMPILE)
      add_executable(${flags}_base EXCLUDE_FROM_ALL support/precompiled.cc)
      set_target_properties(${flags}_base PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests")
      target_link_libraries(${flags}_base PRIVATE ${flags})
      # clang reads only the parts of a precompiled header that it needs, so tensors in it cost the other tests nothing; g++ gains nothing by it.
      target_precompile_headers(${flags}_base PRIVATE <gmock/gmock.h> <gtest/gtest.h>
        "$<$<CXX_COMPILER_ID:Clang>:${PROJECT_SOURCE_DIR}/core/autograd/graph/node.h>")
      target_include_directories(${flags}_base PRIVATE ${PROJECT_SOURCE_DIR})
    endif()
  endforeach()
endfunction()

# dl_test(NAME SOURCES... [PRIVATE LIBS...] [LABELS unit|dist|chaos|parity...] [ENVIRONMENT VAR=VALUE...] [SHARDS N] [OPTIMISED])
# One GoogleTest program and one ctest entry. The default label is `unit`. The timeout is for what hangs: a loaded
# machine takes many times as long. SHARDS: so many processes at once share the tests, for a program that mostly waits. OPTIMISED: its
# own loops are long.
function(dl_test name)
  cmake_parse_arguments(ARG "OPTIMISED" "SHARDS" "SOURCES;PRIVATE;LABELS;ENVIRONMENT" ${ARGN})
  if(NOT ARG_LABELS)
    set(ARG_LABELS unit)
  endif()
  set(timeout 600)
  set(flags dlrun_test_flags)
  # A sanitizer's preset compiles all tests alike.
  if(ARG_OPTIMISED AND NOT DLRUN_SANITIZE)
    set(flags dlrun_test_optimised)
  endif()
  add_executable(${name} ${ARG_SOURCES})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests")
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE ${ARG_PRIVATE} GTest::gtest_main ${flags})
  if(DLRUN_PRECOMPILE)
    target_precompile_headers(${name} REUSE_FROM ${flags}_base)
  endif()
  if(ARG_SHARDS)
    add_test(NAME ${name} COMMAND "${PROJECT_SOURCE_DIR}/tests/support/shards.sh" ${ARG_SHARDS} $<TARGET_FILE:${name}>)
  else()
    add_test(NAME ${name} COMMAND ${name})
  endif()
  if(DLRUN_SANITIZE MATCHES "thread")
    # Our loops run on std::thread under TSan (core/device/parallel.cc); oneDNN's run on libgomp, whose barriers TSan does not see.
    # Suppressions need both stacks: a long history.
    list(APPEND ARG_ENVIRONMENT "OMP_NUM_THREADS=1"
         "TSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/tests/support/tsan_suppressions.txt:history_size=7")
  endif()
  if(DLRUN_SANITIZE)
    math(EXPR timeout "${timeout} * 5")
  endif()
  set_tests_properties(${name} PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT ${timeout}
                       ENVIRONMENT "DLRUN_TEST_BIN=${PROJECT_BINARY_DIR}/bin;DLRUN_TEST_SOURCE=${PROJECT_SOURCE_DIR};${ARG_ENVIRONMENT}")
endfunction()

# dl_fuzzed(TARGETS...): what parses, compiled for fuzzing once for the fuzzers and the tests: with coverage, without which a fuzzer only
# guesses, with every check, and fast enough for many inputs a second. It takes clang three times as long, so no other library is.
function(dl_fuzzed)
  foreach(target IN LISTS ARGN)
    get_target_property(alias ${target} ALIASED_TARGET)
    if(alias)
      set(target ${alias})
    endif()
    get_target_property(done ${target} DLRUN_FUZZED)
    if(NOT done)
      set_target_properties(${target} PROPERTIES DLRUN_FUZZED ON)
      target_compile_options(${target} PRIVATE -O1 -fsanitize=fuzzer-no-link,${DLRUN_SANITIZE})
    endif()
  endforeach()
endfunction()

# dl_fuzzer(NAME SOURCES... PRIVATE LIBS... [PARSERS TARGETS...])
# A libFuzzer program in build/<preset>/fuzz, with its seeds in tests/fuzz/corpus/NAME. PARSERS: what it tests, if that is not LIBS.
function(dl_fuzzer name)
  cmake_parse_arguments(ARG "" "" "SOURCES;PRIVATE;PARSERS" ${ARGN})
  if(NOT ARG_PARSERS)
    set(ARG_PARSERS ${ARG_PRIVATE})
  endif()
  add_executable(${name} ${ARG_SOURCES})
  dl_fuzzed(${name} dlrun::base ${ARG_PARSERS})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/fuzz")
  target_link_options(${name} PRIVATE -fsanitize=fuzzer)
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE ${ARG_PRIVATE} dlrun_private_flags)
  add_dependencies(fuzzers ${name})
endfunction()

# dl_report(WHAT VALUE): one row of the table printed at the end of the configuration.
function(dl_report what value)
  set_property(GLOBAL APPEND PROPERTY DLRUN_REPORT "${what}|${value}")
endfunction()

# dl_report_optional(WHAT CONDITION VALUE OTHERWISE): VALUE if the variable CONDITION is true.
function(dl_report_optional what condition value otherwise)
  if(${condition})
    dl_report("${what}" "${value}")
  else()
    dl_report("${what}" "${otherwise}")
  endif()
endfunction()

function(dl_print_summary)
  get_property(rows GLOBAL PROPERTY DLRUN_REPORT)
  message(STATUS "")
  message(STATUS "dlrun ${PROJECT_VERSION}")
  foreach(row IN LISTS rows)
    string(REPLACE "|" ";" cells "${row}")
    list(GET cells 0 what)
    list(GET cells 1 value)
    string(LENGTH "${what}" length)
    math(EXPR pad "22 - ${length}")
    string(REPEAT " " ${pad} spaces)
    message(STATUS "  ${what}${spaces}${value}")
  endforeach()
  message(STATUS "")
endfunction()
