# MLIR out of tree, linked against the two shared libraries only.
if(NOT MLIR_DIR)
  find_program(LLVM_CONFIG NAMES llvm-config-22)
  if(LLVM_CONFIG)
    execute_process(COMMAND ${LLVM_CONFIG} --prefix OUTPUT_VARIABLE _prefix OUTPUT_STRIP_TRAILING_WHITESPACE)
    set(MLIR_DIR ${_prefix}/lib/cmake/mlir)
  endif()
endif()
find_package(MLIR 22.1 REQUIRED CONFIG)
list(APPEND CMAKE_MODULE_PATH "${MLIR_CMAKE_DIR}" "${LLVM_CMAKE_DIR}")
set(MLIR_BINARY_DIR ${CMAKE_BINARY_DIR})
set(LLVM_RUNTIME_OUTPUT_INTDIR ${CMAKE_BINARY_DIR}/bin)
set(LLVM_LIBRARY_OUTPUT_INTDIR ${CMAKE_BINARY_DIR}/lib)
include(TableGen)
include(AddLLVM)
include(AddMLIR)
include(HandleLLVMOptions)
include_directories(SYSTEM ${LLVM_INCLUDE_DIRS} ${MLIR_INCLUDE_DIRS})
separate_arguments(_defs NATIVE_COMMAND "${LLVM_DEFINITIONS}")
add_definitions(${_defs})

# For all libraries of the compiler: MLIR's core and the dialect's generated classes.
set(OMNIBAL_COMPILER_HEADERS ${OMNIBAL_RUNTIME_HEADERS}
  <mlir/IR/Builders.h> <mlir/IR/BuiltinOps.h> <mlir/IR/BuiltinTypes.h> <mlir/IR/BuiltinAttributes.h> <mlir/IR/IRMapping.h>
  <mlir/IR/Matchers.h> <mlir/IR/PatternMatch.h> <mlir/IR/OpImplementation.h> <mlir/IR/SymbolTable.h> <mlir/Pass/Pass.h>
  <mlir/Dialect/Func/IR/FuncOps.h> <mlir/Interfaces/SideEffectInterfaces.h> <llvm/ADT/SetVector.h> <llvm/ADT/StringSet.h>
  <llvm/ADT/TypeSwitch.h> <llvm/Support/FormatVariadic.h> ${CMAKE_SOURCE_DIR}/dialects/omnibal/ir/OmnibalStageOps.h)
omnibal_add_precompiled_headers(OmnibalCompilerHeaders LIBRARY ${OMNIBAL_COMPILER_HEADERS})
add_dependencies(OmnibalCompilerHeaders OmnibalOpsIncGen)

# With HEADERS GROUP, a group of precompiled headers other than OmnibalCompilerHeaders.
function(omnibal_add_compiler_library name)
  cmake_parse_arguments(ARG "" "HEADERS" "" ${ARGN})
  if(NOT ARG_HEADERS)
    set(ARG_HEADERS OmnibalCompilerHeaders)
  endif()
  add_library(${name} STATIC ${ARG_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PUBLIC MLIR LLVM)
  add_dependencies(${name} OmnibalOpsIncGen)
  omnibal_reuse_headers(${ARG_HEADERS} ${name})
endfunction()
