# gRPC and Protobuf, linked statically if that works: a program that links them dynamically spends 7 to 11 ms before main(), a
# static one 1.2 (an empty one 0.7). Debian's static libraries have no CMake targets, hence the list; TLS is not used, so that the
# smaller "unsecure" libraries do. TSan needs the shared ones: only a library's name lets it know what is not instrumented.
set(DLRUN_STATIC_GRPC_DEFAULT ON)
if(DLRUN_SANITIZE MATCHES "thread")
  set(DLRUN_STATIC_GRPC_DEFAULT OFF)
endif()
option(DLRUN_STATIC_GRPC "Link gRPC and Protobuf statically" ${DLRUN_STATIC_GRPC_DEFAULT})

add_library(dlrun_grpc INTERFACE)
add_library(dlrun::grpc ALIAS dlrun_grpc)
set_target_properties(dlrun_grpc PROPERTIES EXPORT_NAME grpc)
if(DLRUN_STATIC_GRPC)
  file(GLOB archives "/usr/lib/${CMAKE_LIBRARY_ARCHITECTURE}/libabsl_*.a")
  set(names -l:libgrpc++_unsecure.a -l:libgrpc_unsecure.a -l:libupb.a -l:libaddress_sorting.a -l:libgpr.a -l:libprotobuf.a -l:libcares.a
            -l:libz.a)
  foreach(archive IN LISTS archives)
    get_filename_component(name "${archive}" NAME)
    if(NOT name MATCHES "absl_(flags|failure|leak|bad_any|periodic|log_internal|random_internal_dist)")
      list(APPEND names "-l:${name}")
    endif()
  endforeach()
  list(JOIN names "," names)
  # One item, so that CMake neither reorders nor removes what stands in the group. The archives are not made for shared libraries: a
  # target that is one sets DLRUN_DYNAMIC_GRPC.
  string(REPLACE "," "$<COMMA>" group "-Wl,--start-group,${names},--end-group")
  target_link_libraries(dlrun_grpc INTERFACE
    "$<IF:$<BOOL:$<TARGET_PROPERTY:DLRUN_DYNAMIC_GRPC>>,grpc++_unsecure;grpc_unsecure;gpr;protobuf;absl_synchronization;absl_base,${group}>"
    Threads::Threads)
  dl_report("gRPC linked" "statically")
else()
  target_link_libraries(dlrun_grpc INTERFACE grpc++_unsecure grpc_unsecure gpr protobuf absl_synchronization absl_base Threads::Threads)
  dl_report("gRPC linked" "dynamically")
endif()
set_property(GLOBAL APPEND PROPERTY DLRUN_LIBRARIES dlrun_grpc)

# dl_proto_library(NAME FILE): messages and gRPC stubs of one .proto file, included as <its folder>/<its name>.pb.h.
function(dl_proto_library name file)
  cmake_path(GET file STEM stem)
  file(RELATIVE_PATH folder "${PROJECT_SOURCE_DIR}" "${CMAKE_CURRENT_SOURCE_DIR}")
  set(generated "${PROJECT_BINARY_DIR}/generated")
  set(base "${generated}/${folder}/${stem}")
  file(MAKE_DIRECTORY "${generated}")
  add_custom_command(
    OUTPUT ${base}.pb.cc ${base}.pb.h ${base}.grpc.pb.cc ${base}.grpc.pb.h
    COMMAND ${Protobuf_PROTOC_EXECUTABLE} "--proto_path=${PROJECT_SOURCE_DIR}" "--cpp_out=${generated}" "--grpc_out=${generated}"
            "--plugin=protoc-gen-grpc=$<TARGET_FILE:gRPC::grpc_cpp_plugin>" "${folder}/${file}"
    WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}"
    DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/${file}"
    VERBATIM)
  add_library(dlrun_${name} STATIC ${base}.pb.cc ${base}.grpc.pb.cc)
  add_library(dlrun::${name} ALIAS dlrun_${name})
  set_target_properties(dlrun_${name} PROPERTIES EXPORT_NAME ${name})
  # Generated headers are not ours to warn about.
  target_include_directories(dlrun_${name} SYSTEM PUBLIC $<BUILD_INTERFACE:${generated}>)
  target_link_libraries(dlrun_${name} PUBLIC dlrun::grpc)
  set_property(GLOBAL APPEND PROPERTY DLRUN_LIBRARIES dlrun_${name})
endfunction()
