#include "runtime/backends/host/vector/Isa.h"
#include "runtime/backends/host/vector/Epilogue.h"

namespace omnibal::rt {

Isa hostIsa() {
#if defined(__x86_64__)
  static const Isa isa = [] {
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512cd"))
      return Isa::Avx512;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
        __builtin_cpu_supports("bmi2"))
      return Isa::Avx2;
    return Isa::Generic;
  }();
  return isa;
#else
  return Isa::Generic;
#endif
}

OMNIBAL_DEFINE_VECTOR_CHOICE(EpilogueTable, epilogueTable)

} // namespace omnibal::rt
