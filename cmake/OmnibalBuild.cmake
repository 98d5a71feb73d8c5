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
if(OMNIBAL_SANITIZE OR OMNIBAL_FUZZ)
  add_compile_options(-fsanitize=address,undefined -fno-omit-frame-pointer -fno-sanitize-recover=undefined)
  add_link_options(-fsanitize=address,undefined)
endif()
if(OMNIBAL_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()

# What most sources include of the standard library, read once a target. Every source still names what it uses: the test
# runtime-alone builds without precompiled headers.
set(OMNIBAL_STANDARD_HEADERS <algorithm> <cmath> <cstdint> <cstring> <deque> <filesystem> <functional> <map> <memory> <mutex>
  <optional> <set> <span> <string> <string_view> <utility> <vector>)
function(omnibal_precompile_standard)
  foreach(target ${ARGN})
    target_precompile_headers(${target} PRIVATE ${OMNIBAL_STANDARD_HEADERS})
  endforeach()
endfunction()
