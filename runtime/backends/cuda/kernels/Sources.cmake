# The hand-written CUDA kernels. nvcc compiles them for the plugin, a C++ compiler for the tests.
set(OMNIBAL_CUDA_KERNEL_SOURCES)
foreach(name CodedUpdate ColumnSum Copy CrossEntropy JoinedCrossEntropy Order Preference Recurrent Reduce Rope Rows StepSums Update
  attention/AttentionBackward attention/AttentionForward attention/AttentionMmaBackward attention/AttentionMmaForward attention/Ragged
  matrix/Dequantize matrix/Gemm matrix/GemmRest matrix/Grouped matrix/GroupedMma
  plain/Conv plain/Elementwise plain/Indexing plain/Normalize)
  list(APPEND OMNIBAL_CUDA_KERNEL_SOURCES ${CMAKE_CURRENT_LIST_DIR}/${name}.cu)
endforeach()
