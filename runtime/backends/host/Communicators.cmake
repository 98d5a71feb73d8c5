# Ranks as threads, as processes over TCP; over MPI where one is installed.
find_package(MPI COMPONENTS C)
find_package(Threads REQUIRED)
set(OMNIBAL_HAVE_MPI ${MPI_C_FOUND} CACHE INTERNAL "Ranks as processes of mpirun")
add_library(OmnibalHostCommunicators STATIC
  LaunchPlace.cpp MpiCommunicator.cpp Socket.cpp TcpCommunicator.cpp TcpMesh.cpp TcpPeer.cpp ThreadCommunicator.cpp)
target_link_libraries(OmnibalHostCommunicators PUBLIC OmnibalRuntimeCore Threads::Threads)
if(MPI_C_FOUND)
  # Only the C interface: the retired C++ one would need its own library.
  target_compile_definitions(OmnibalHostCommunicators PRIVATE OMNIBAL_HAVE_MPI OMPI_SKIP_MPICXX=1 MPICH_SKIP_MPICXX=1)
  target_link_libraries(OmnibalHostCommunicators PRIVATE MPI::MPI_C)
else()
  message(STATUS "No MPI found: ranks run as threads, or as processes over TCP")
endif()
