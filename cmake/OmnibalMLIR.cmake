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

# One precompiled header of MLIR's core for all compiler libraries.
function(omnibal_add_compiler_library name)
  add_library(${name} STATIC ${ARGN})
  target_link_libraries(${name} PUBLIC MLIR LLVM)
  if(NOT name STREQUAL OmnibalDialect)
    add_dependencies(${name} OmnibalOpsIncGen)
  endif()
  if(TARGET OmnibalMLIRHeaders)
    target_precompile_headers(${name} REUSE_FROM OmnibalMLIRHeaders)
  endif()
endfunction()

file(WRITE ${CMAKE_BINARY_DIR}/cmake/Empty.cpp "")
add_library(OmnibalMLIRHeaders OBJECT ${CMAKE_BINARY_DIR}/cmake/Empty.cpp)
target_precompile_headers(OmnibalMLIRHeaders PRIVATE
  <mlir/IR/Builders.h> <mlir/IR/BuiltinOps.h> <mlir/IR/BuiltinTypes.h> <mlir/IR/BuiltinAttributes.h>
  <mlir/IR/PatternMatch.h> <mlir/IR/OpImplementation.h> <mlir/IR/SymbolTable.h> <mlir/Pass/Pass.h>
  <mlir/Dialect/Func/IR/FuncOps.h> <mlir/Interfaces/SideEffectInterfaces.h>
  <string> <vector> <map>)
