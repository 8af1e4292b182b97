# CUDA, found or left out: sets DLRUN_HAS_CUDA. What uses CUDA is a module that programs open on use (core/kernels/cuda), so that nothing
# else in the project sees a CUDA header or library.
dl_auto_option(DLRUN_CUDA "Build for NVIDIA GPUs, with nvcc")
# Machine code for each generation, and PTX of the newest, which the driver compiles for GPUs that come later.
set(DLRUN_CUDA_ARCHITECTURES "75-real;80-real;86-real;89-real;90-real;100-real;120" CACHE STRING
    "Architectures that CUDA code is compiled for, as CMake writes them")

set(DLRUN_HAS_CUDA FALSE)
set(DLRUN_CUDA_MISSING "")
if(NOT DLRUN_CUDA_WANTED)
  set(DLRUN_CUDA_MISSING "off (DLRUN_CUDA)")
elseif(NOT DLRUN_TRAINING)
  set(DLRUN_CUDA_MISSING "left out, as the training library is")
elseif(DLRUN_SANITIZE)
  # Nothing would be found: device code is not instrumented, and no sanitizer run has a GPU.
  set(DLRUN_CUDA_MISSING "off (sanitizer build)")
else()
  find_program(DLRUN_NVCC nvcc HINTS ENV CUDACXX ENV CUDA_HOME ENV CUDA_PATH PATHS /usr/local/cuda PATH_SUFFIXES bin)
  mark_as_advanced(DLRUN_NVCC)
  if(NOT DLRUN_NVCC)
    set(DLRUN_CUDA_MISSING "not found (no nvcc in PATH, CUDA_HOME or /usr/local/cuda)")
  else()
    set(CMAKE_CUDA_COMPILER "${DLRUN_NVCC}")
    set(CMAKE_CUDA_ARCHITECTURES "${DLRUN_CUDA_ARCHITECTURES}")
    set(CMAKE_CUDA_RUNTIME_LIBRARY Static)
    if(DLRUN_CCACHE_PROGRAM)
      set(CMAKE_CUDA_COMPILER_LAUNCHER "${DLRUN_CCACHE_PROGRAM}")
    endif()
    enable_language(CUDA)
    # CMake 3.25 does not know that nvcc 13 has C++20.
    if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
      set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
      set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
    endif()
    cmake_path(GET DLRUN_NVCC PARENT_PATH folder)
    cmake_path(GET folder PARENT_PATH DLRUN_CUDA_ROOT)
    find_library(DLRUN_CUBLASLT_LIBRARY cublasLt HINTS "${DLRUN_CUDA_ROOT}/lib64" "${DLRUN_CUDA_ROOT}/targets/x86_64-linux/lib")
    find_library(DLRUN_CUDNN_LIBRARY NAMES cudnn libcudnn.so.9 HINTS "${DLRUN_CUDA_ROOT}/lib64" "${DLRUN_CUDA_ROOT}/lib")
    find_path(DLRUN_CUDNN_INCLUDE_DIR cudnn.h HINTS "${DLRUN_CUDA_ROOT}/include")
    mark_as_advanced(DLRUN_CUBLASLT_LIBRARY DLRUN_CUDNN_LIBRARY DLRUN_CUDNN_INCLUDE_DIR)
    if(NOT DLRUN_CUBLASLT_LIBRARY)
      set(DLRUN_CUDA_MISSING "${CMAKE_CUDA_COMPILER_VERSION} left out: no cuBLASLt beside it")
    elseif(NOT DLRUN_CUDNN_LIBRARY OR NOT DLRUN_CUDNN_INCLUDE_DIR)
      set(DLRUN_CUDA_MISSING "${CMAKE_CUDA_COMPILER_VERSION} left out: no cuDNN 9 beside it")
    else()
      set(DLRUN_HAS_CUDA TRUE)
    endif()
  endif()
endif()

if(DLRUN_HAS_CUDA)
  file(STRINGS "${DLRUN_CUDNN_INCLUDE_DIR}/cudnn_version.h" lines REGEX "^#define CUDNN_(MAJOR|MINOR|PATCHLEVEL) ")
  string(REGEX REPLACE ".*MAJOR ([0-9]+).*MINOR ([0-9]+).*PATCHLEVEL ([0-9]+).*" "\\1.\\2.\\3" cudnn_version "${lines}")
  string(REGEX REPLACE "-real" "" architectures "${DLRUN_CUDA_ARCHITECTURES}")
  string(REPLACE ";" " " architectures "${architectures}")
  dl_report("CUDA" "${CMAKE_CUDA_COMPILER_VERSION}, sm_ ${architectures}")
  dl_report("cuDNN" "${cudnn_version}")
else()
  dl_refuse_auto_option(DLRUN_CUDA "CUDA" "${DLRUN_CUDA_MISSING}")
  dl_report("CUDA" "${DLRUN_CUDA_MISSING}")
endif()

# dl_cuda_module(NAME SOURCES... [PRIVATE LIBS...]): lib/libNAME.so, opened on use. Of dlrun it holds only what is linked into it here,
# with no symbol visible but its entry point, and nothing undefined.
function(dl_cuda_module name)
  cmake_parse_arguments(ARG "" "" "SOURCES;PRIVATE" ${ARGN})
  add_library(${name} MODULE ${ARG_SOURCES})
  set_target_properties(${name} PROPERTIES
    LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/lib" CXX_VISIBILITY_PRESET hidden CUDA_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON
    CUDA_STANDARD 20)
  # Two files of a module that have names in common are more than 8 apart.
  set_target_properties(${name} PROPERTIES UNITY_BUILD_BATCH_SIZE 8)
  target_compile_options(${name} PRIVATE
    "$<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr;-extended-lambda;-Xfatbin=-compress-all;-Xcompiler=-Wall,-Wextra>"
    "$<$<COMPILE_LANGUAGE:CXX>:$<TARGET_PROPERTY:dlrun_private_flags,INTERFACE_COMPILE_OPTIONS>>")
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR})
  target_include_directories(${name} SYSTEM PRIVATE ${CMAKE_CUDA_TOOLKIT_INCLUDE_DIRECTORIES} ${DLRUN_CUDNN_INCLUDE_DIR})
  target_link_options(${name} PRIVATE -Wl,-z,defs -Wl,--exclude-libs,ALL)
  target_link_libraries(${name} PRIVATE ${ARG_PRIVATE})
  install(TARGETS ${name} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT dlrun-cuda)
endfunction()

# dl_cuda_kernels(MODULE NAME SOURCES...): .cu files of a module. Half of a small file's compilation is CUDA's headers, so a unity build
# compiles these files as one, NAME.cu; CMake 3.31 is the first to do that by itself. The module's property DLRUN_KERNELS_<NAME> lists them.
function(dl_cuda_kernels module name)
  list(TRANSFORM ARGN PREPEND "${CMAKE_CURRENT_SOURCE_DIR}/" OUTPUT_VARIABLE compiled)
  if(CMAKE_UNITY_BUILD)
    list(TRANSFORM compiled REPLACE "(.+)" "#include \"\\1\"\n" OUTPUT_VARIABLE text)
    string(JOIN "" text ${text})
    set(file "${CMAKE_CURRENT_BINARY_DIR}/${name}.cu")
    file(CONFIGURE OUTPUT "${file}" CONTENT "${text}" @ONLY)
    set_property(TARGET ${module} PROPERTY "DLRUN_KERNELS_${name}" ${compiled})
    set(compiled "${file}")
  endif()
  target_sources(${module} PRIVATE ${compiled})
endfunction()
