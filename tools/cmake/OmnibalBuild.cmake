# Compiler launcher, linker and warnings for everything.
find_program(OMNIBAL_CCACHE ccache)
if(OMNIBAL_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_C_COMPILER_LAUNCHER ${OMNIBAL_CCACHE})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${OMNIBAL_CCACHE})
endif()
find_program(OMNIBAL_MOLD mold)
if(OMNIBAL_MOLD)
  add_link_options(-fuse-ld=mold)
endif()
add_compile_options(-Wall -Wextra -Wno-unused-parameter -fno-math-errno)
if(OMNIBAL_SANITIZE STREQUAL "thread")
  add_compile_options(-fsanitize=thread -fno-omit-frame-pointer)
  add_link_options(-fsanitize=thread)
elseif(OMNIBAL_SANITIZE OR OMNIBAL_FUZZ)
  # Handles of libraries that are opened at run time are declared under names of our own, so the
  # types of their functions have other names than the libraries' have.
  add_compile_options(-fsanitize=address,undefined -fno-sanitize=function -fno-omit-frame-pointer
    -fno-sanitize-recover=undefined)
  add_link_options(-fsanitize=address,undefined)
endif()
if(OMNIBAL_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()
if(OMNIBAL_SANITIZE OR OMNIBAL_FUZZ)
  # A sanitizer's functions are in the program that opens a library.
  add_link_options($<$<STREQUAL:$<TARGET_PROPERTY:TYPE>,SHARED_LIBRARY>:-Wl,-z,undefs>)
endif()

# A plugin shows nothing but its interface. What it takes from elsewhere is linked to it, except a sanitizer's functions,
# which are in the program that opens it.
function(omnibal_link_as_plugin target)
  target_link_options(${target} PRIVATE -Wl,--exclude-libs,ALL)
  if(NOT OMNIBAL_SANITIZE)
    target_link_options(${target} PRIVATE -Wl,--no-undefined)
  endif()
endfunction()

# Sets the variable to a digest of the files: programs and plugins that were built with the same headers have the same.
function(omnibal_digest_of variable)
  set(digests "")
  foreach(file ${ARGN})
    get_filename_component(file ${file} ABSOLUTE) # one name for each
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
    file(SHA256 ${file} digest)
    string(APPEND digests ${digest})
  endforeach()
  string(SHA256 digest "${digests}")
  string(SUBSTRING ${digest} 0 12 digest)
  set(${variable} ${digest} PARENT_SCOPE)
endfunction()

# Precompiled headers: reading headers is most of the compilers' work here. A group is compiled once, as the code of those
# that reuse it is: an object library for code of libraries, a program for that of programs. Every source still names what
# it uses: the test runtime-alone-each reads the runtime without them.
set(OMNIBAL_STANDARD_HEADERS <algorithm> <array> <atomic> <chrono> <cmath> <condition_variable> <cstdint> <cstring> <deque>
  <filesystem> <fstream> <functional> <map> <memory> <mutex> <numeric> <optional> <set> <span> <sstream> <string>
  <string_view> <thread> <unordered_map> <utility> <variant> <vector>)
set(OMNIBAL_RUNTIME_HEADERS ${OMNIBAL_STANDARD_HEADERS} <nlohmann/json.hpp>)
file(WRITE ${CMAKE_BINARY_DIR}/tools/cmake/Empty.cpp "")
file(WRITE ${CMAKE_BINARY_DIR}/tools/cmake/EmptyProgram.cpp "int main() {}\n")
if(CMAKE_CXX_COMPILER_ID MATCHES Clang)
  # Equal headers give an equal file, whenever a build generated them: ccache looks at it.
  set(CMAKE_CXX_COMPILE_OPTIONS_CREATE_PCH ${CMAKE_CXX_COMPILE_OPTIONS_CREATE_PCH} -Xclang -fno-pch-timestamp)
endif()
function(omnibal_add_precompiled_headers name kind)
  if(kind STREQUAL PROGRAM)
    add_executable(${name} EXCLUDE_FROM_ALL ${CMAKE_BINARY_DIR}/tools/cmake/EmptyProgram.cpp)
    set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/cmake)
  else()
    add_library(${name} OBJECT EXCLUDE_FROM_ALL ${CMAKE_BINARY_DIR}/tools/cmake/Empty.cpp)
  endif()
  target_precompile_headers(${name} PRIVATE ${ARGN})
  target_link_libraries(${name} PRIVATE nlohmann_json::nlohmann_json)
endfunction()
function(omnibal_reuse_headers group)
  foreach(target ${ARGN})
    target_precompile_headers(${target} REUSE_FROM ${group})
  endforeach()
endfunction()
