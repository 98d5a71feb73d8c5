# The hand-written CUDA kernels. nvcc compiles them for the plugin, a C++ compiler for the tests.
set(OMNIBAL_CUDA_KERNEL_SOURCES)
foreach(name AttentionBackward AttentionForward AttentionMmaBackward AttentionMmaForward ColumnSum Copy CrossEntropy Gemm GemmRest Grouped GroupedMma Order PlainConv PlainElementwise PlainIndexing PlainRows Ragged Recurrent Reduce Rope Rows StepSums Update)
  list(APPEND OMNIBAL_CUDA_KERNEL_SOURCES ${CMAKE_CURRENT_LIST_DIR}/${name}.cu)
endforeach()
