# pcm::pcm, found from the place of this file. libpcm comes before MPI: link with this target, which brings MPI.
cmake_minimum_required(VERSION 3.16)
include(CMakeFindDependencyMacro)
find_dependency(MPI COMPONENTS C)

if(NOT TARGET pcm::pcm)
    get_filename_component(_pcm_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
    add_library(pcm::pcm SHARED IMPORTED)
    set_target_properties(pcm::pcm PROPERTIES
        IMPORTED_LOCATION "${_pcm_prefix}/lib/libpcm.so.0"
        IMPORTED_SONAME libpcm.so.0
        INTERFACE_INCLUDE_DIRECTORIES "${_pcm_prefix}/include"
        INTERFACE_LINK_OPTIONS "LINKER:--no-as-needed"
        INTERFACE_LINK_LIBRARIES MPI::MPI_C)
    unset(_pcm_prefix)
endif()
