# gRPC and Protobuf, linked statically if that works: a program that links them dynamically spends 7 to 11 ms before main(), a
# static one 1.2 (an empty one 0.7). Debian's static libraries have no CMake targets, hence the list; TLS is not used, so that the
# smaller "unsecure" libraries do. TSan needs the shared ones: only a library's name lets it know what is not instrumented.
set(DLRUN_STATIC_GRPC_DEFAULT ON)
if(DLRUN_SANITIZE MATCHES "thread")
  set(DLRUN_STATIC_GRPC_DEFAULT OFF)
endif()
option(DLRUN_STATIC_GRPC "Link gRPC and Protobuf statically" ${DLRUN_STATIC_GRPC_DEFAULT})

add_library(dlrun_grpc INTERFACE)
if(DLRUN_STATIC_GRPC)
  set(grpc -l:libgrpc++_unsecure.a -l:libgrpc_unsecure.a -l:libupb.a -l:libaddress_sorting.a -l:libgpr.a -l:libcares.a)
  set(others -l:libprotobuf.a -l:libz.a)
  set(shared_others protobuf ZLIB::ZLIB)
  file(GLOB archives "/usr/lib/${CMAKE_LIBRARY_ARCHITECTURE}/libabsl_*.a")
  foreach(archive IN LISTS archives)
    cmake_path(GET archive STEM name)
    if(NOT name MATCHES "absl_(flags|failure|leak|bad_any|periodic|log_internal|random_internal_dist)")
      list(APPEND others "-l:${name}.a")
      string(REGEX REPLACE "^lib" "" name "${name}")
      list(APPEND shared_others "${name}")
    endif()
  endforeach()
  # One item, so that CMake neither reorders nor removes what stands in the group.
  foreach(kind grpc others)
    list(JOIN ${kind} "$<COMMA>" ${kind})
  endforeach()
  # gRPC's archives may be a part of a shared library, Protobuf's and Abseil's may not: a target that is one sets DLRUN_SHARED.
  target_link_libraries(dlrun_grpc INTERFACE
    "$<IF:$<BOOL:$<TARGET_PROPERTY:DLRUN_SHARED>>,-Wl$<COMMA>--start-group$<COMMA>${grpc}$<COMMA>--end-group;${shared_others},-Wl$<COMMA>--start-group$<COMMA>${grpc}$<COMMA>${others}$<COMMA>--end-group>"
    Threads::Threads)
  dl_report("gRPC linked" "statically")
else()
  # gRPC's own targets: they know which parts of Abseil their version needs.
  target_link_libraries(dlrun_grpc INTERFACE gRPC::grpc++_unsecure protobuf::libprotobuf absl::synchronization absl::base Threads::Threads)
  dl_report("gRPC linked" "dynamically")
endif()

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
  # Generated headers are not ours to warn about.
  target_include_directories(dlrun_${name} SYSTEM PUBLIC ${generated})
  target_link_libraries(dlrun_${name} PUBLIC dlrun_grpc)
endfunction()
