#include "runtime/backends/host/vector/Isa.h"
#include "runtime/backends/host/vector/Attention.h"
#include "runtime/backends/host/vector/Epilogue.h"
#include "runtime/backends/host/vector/MatrixProduct.h"
#include "runtime/backends/host/vector/Recurrent.h"
#include "runtime/backends/host/vector/Rows.h"
#include "runtime/backends/host/vector/Update.h"
#include <cstdlib>
#include <string_view>

namespace omnibal::rt {

static Isa detectIsa() {
#if defined(__x86_64__)
  // A lower one on request: to test its code on a newer machine, or to compare machines.
  const char *wish = std::getenv("OMNIBAL_ISA");
  const std::string_view limit = wish ? wish : "";
  if (limit == "generic")
    return Isa::Generic;
  if (limit != "avx2" && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512cd"))
    return Isa::Avx512;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
      __builtin_cpu_supports("bmi2"))
    return Isa::Avx2;
#endif
  return Isa::Generic;
}

Isa hostIsa() {
  static const Isa isa = detectIsa();
  return isa;
}

OMNIBAL_DEFINE_VECTOR_CHOICE(AttentionForwardTable, attentionForwardTable)
OMNIBAL_DEFINE_VECTOR_CHOICE(AttentionBackwardTable, attentionBackwardTable)
OMNIBAL_DEFINE_VECTOR_CHOICE(EpilogueTable, epilogueTable)
OMNIBAL_DEFINE_VECTOR_CHOICE(GatedDeltaTable, gatedDeltaTable)
OMNIBAL_DEFINE_VECTOR_CHOICE(ProductTable, productTable)
OMNIBAL_DEFINE_VECTOR_CHOICE(RowTable, rowTable)
OMNIBAL_DEFINE_VECTOR_CHOICE(UpdateTable, updateTable)

} // namespace omnibal::rt
