# Ranks as threads; as processes where an MPI is installed.
find_package(MPI COMPONENTS C)
set(OMNIBAL_HAVE_MPI ${MPI_C_FOUND} CACHE INTERNAL "Ranks as processes")
add_library(OmnibalHostCommunicators STATIC MpiCommunicator.cpp ThreadCommunicator.cpp)
target_link_libraries(OmnibalHostCommunicators PUBLIC OmnibalRuntimeCore)
if(MPI_C_FOUND)
  # Only the C interface: the retired C++ one would need its own library.
  target_compile_definitions(OmnibalHostCommunicators PRIVATE OMNIBAL_HAVE_MPI OMPI_SKIP_MPICXX=1 MPICH_SKIP_MPICXX=1)
  target_link_libraries(OmnibalHostCommunicators PRIVATE MPI::MPI_C)
else()
  message(STATUS "No MPI found: ranks run as threads only")
endif()
