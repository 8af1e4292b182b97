# Options, language level, warnings and sanitizers of every target in the project.
option(DLRUN_TRAINING "Build tensors, the training library and the examples; off: launcher, rendezvous and collectives alone" ON)
set(DLRUN_BUILD_TESTS_DEFAULT ${PROJECT_IS_TOP_LEVEL})
if(NOT DLRUN_TRAINING)
  set(DLRUN_BUILD_TESTS_DEFAULT OFF)
endif()
option(DLRUN_BUILD_TESTS "Build the tests" ${DLRUN_BUILD_TESTS_DEFAULT})
if(DLRUN_BUILD_TESTS AND NOT DLRUN_TRAINING)
  message(FATAL_ERROR "DLRUN_BUILD_TESTS=ON needs DLRUN_TRAINING=ON: the tests compare with tensors")
endif()
if(NOT DLRUN_TRAINING)
  # It is built once and not developed in: several files a compilation take a third of the time.
  set(CMAKE_UNITY_BUILD ON CACHE BOOL "Compile several files at once")
  set(CMAKE_UNITY_BUILD_BATCH_SIZE 16 CACHE STRING "Files of a compilation")
endif()
option(DLRUN_BUILD_FUZZERS "Build the libFuzzer targets (needs clang and DLRUN_SANITIZE)" OFF)
option(DLRUN_WERROR "Treat warnings as errors" OFF)
option(DLRUN_CCACHE "Compile through ccache where it is installed" ON)
set(DLRUN_SANITIZE "" CACHE STRING "Value of -fsanitize=, e.g. address,undefined or thread")

# dl_auto_option(NAME TEXT): an option for a library that may be missing. NAME_WANTED is false if it is off.
macro(dl_auto_option name text)
  set(${name} "auto" CACHE STRING "${text}: auto (if it is found), on or off")
  set_property(CACHE ${name} PROPERTY STRINGS auto on off)
  string(TOLOWER "${${name}}" ${name}_WANTED)
endmacro()

# dl_refuse_auto_option(NAME TITLE REASON): what NAME asks for is missing, which is an error unless it is auto or off.
function(dl_refuse_auto_option name title reason)
  if(${name}_WANTED AND NOT ${name}_WANTED STREQUAL "auto")
    message(FATAL_ERROR "${name}=${${name}}, but ${title} is ${reason}")
  endif()
endfunction()

add_link_options(-Wl,--as-needed)

# A program and its libraries may be moved together: build tree, installation and bundle are bin/, tests/ and lib/ side by side. The old
# kind of tag also counts for what those libraries need in turn, which no build has prepared that.
add_link_options(-Wl,--disable-new-dtags)
set(CMAKE_BUILD_RPATH_USE_ORIGIN ON)
set(CMAKE_INSTALL_RPATH "\$ORIGIN/../${CMAKE_INSTALL_LIBDIR}" "\$ORIGIN")
# As long as the installed one: CMake fills up a shorter one with colons, and the loader takes an empty path for the current folder.
set(CMAKE_BUILD_RPATH "\$ORIGIN/../lib" "\$ORIGIN")

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Release, Debug, RelWithDebInfo or MinSizeRel" FORCE)
endif()

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bin")

if(DLRUN_CCACHE AND NOT DEFINED ENV{CCACHE_DISABLE})
  find_program(DLRUN_CCACHE_PROGRAM ccache)
  if(DLRUN_CCACHE_PROGRAM)
    set(CMAKE_CXX_COMPILER_LAUNCHER "${DLRUN_CCACHE_PROGRAM}")
    set(CMAKE_C_COMPILER_LAUNCHER "${DLRUN_CCACHE_PROGRAM}")
  endif()
else()
  set(DLRUN_CCACHE_PROGRAM "")  # an earlier configuration may have found one
endif()

# A precompiled header saves a third of a test's or a core/ file's compilation, but ccache cannot see through one unless it is told to be careless
# (`sloppiness = pch_defines,time_macros`). Builds through ccache do without, and so find an #include that a file forgot.
set(DLRUN_PRECOMPILE_DEFAULT ON)
if(DLRUN_CCACHE_PROGRAM)
  set(DLRUN_PRECOMPILE_DEFAULT OFF)
endif()
option(DLRUN_PRECOMPILE "Compile tests and libraries with precompiled headers" ${DLRUN_PRECOMPILE_DEFAULT})

# What every target of the project is compiled with; never exported to a user of the package.
add_library(dlrun_private_flags INTERFACE)
target_compile_options(dlrun_private_flags INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor)
# What core/base/mutex.h annotates: the sanitizers' builds are clang's.
target_compile_options(dlrun_private_flags INTERFACE $<$<COMPILE_LANG_AND_ID:CXX,Clang>:-Wthread-safety>)
# libstdc++ 12's stable_sort() calls std::get_temporary_buffer(), which C++17 deprecates; clang reports that also from a system header.
target_compile_options(dlrun_private_flags INTERFACE $<$<COMPILE_LANG_AND_ID:CXX,Clang>:-Wno-deprecated-declarations>)
# GCC 12 takes an inlined `std::string + "x"` or `vector::push_back` for an overrun (GCC bugs 105329, 105651), and which ones changes with the
# lines around them.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  target_compile_options(dlrun_private_flags INTERFACE
    "$<$<COMPILE_LANGUAGE:C,CXX>:-Wno-array-bounds;-Wno-restrict;-Wno-stringop-overflow;-Wno-stringop-overread>")
endif()
if(DLRUN_WERROR)
  target_compile_options(dlrun_private_flags INTERFACE -Werror)
endif()
if(CMAKE_UNITY_BUILD)
  # Several files a compilation: a type of a file's own namespace seems to stand in a header, and a local name hides another file's.
  target_compile_options(dlrun_private_flags INTERFACE $<IF:$<CXX_COMPILER_ID:GNU>,-Wno-subobject-linkage,-Wno-shadow>)
endif()
if(CMAKE_BUILD_TYPE STREQUAL "Debug")
  target_compile_definitions(dlrun_private_flags INTERFACE _GLIBCXX_ASSERTIONS)
endif()

if(DLRUN_SANITIZE)
  add_compile_options(-fsanitize=${DLRUN_SANITIZE} -fno-omit-frame-pointer -g1)
  add_link_options(-fsanitize=${DLRUN_SANITIZE})
  if(DLRUN_SANITIZE MATCHES "address")
    # As GCC names it; clang 19 has no name of its own for it.
    add_compile_definitions($<$<CXX_COMPILER_ID:Clang>:__SANITIZE_ADDRESS__>)
  endif()
  if(DLRUN_SANITIZE MATCHES "undefined")
    add_compile_options(-fno-sanitize-recover=undefined)
    # A fifth of the compile time, for what AddressSanitizer reports at the access itself. What fuzzers link keeps them: dl_fuzzed().
    add_compile_options(-fno-sanitize=null,object-size,pointer-overflow)
  endif()
  if(DLRUN_SANITIZE MATCHES "thread")
    # GCC warns that TSan does not model atomic_thread_fence; the comment at each fence says how TSan is told.
    # In instrumented code GCC reports initialised members as uninitialised (initializer lists of a variant).
    add_compile_options($<$<CXX_COMPILER_ID:GNU>:-Wno-tsan> $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
  endif()
endif()
