//===- Isa.h - One source, several instruction sets, chosen at run time ------------------===//
//
// A vector source defines one table of functions named after its theme in the namespace of the
// instruction set for which it is compiled (OMNIBAL_ISA); the chosen table is a function of the
// same name in omnibal::rt. Every table is a plain struct of function pointers.
//
//===-------------------------------------------------------------------------------------------===//
#ifndef RUNTIME_BACKENDS_HOST_VECTOR_ISA_H
#define RUNTIME_BACKENDS_HOST_VECTOR_ISA_H

namespace omnibal::rt {

enum class Isa { Generic, Avx2, Avx512 };
/// Returns the best instruction set that this processor has, or the one of the environment variable
/// OMNIBAL_ISA (generic, avx2) if that is less.
Isa hostIsa();

#if defined(__x86_64__)
#define OMNIBAL_DECLARE_VECTOR_TABLE(Type, name)                                                   \
  namespace generic {                                                                              \
  extern const Type name;                                                                          \
  }                                                                                                \
  namespace avx2 {                                                                                 \
  extern const Type name;                                                                          \
  }                                                                                                \
  namespace avx512 {                                                                               \
  extern const Type name;                                                                          \
  }                                                                                                \
  const Type &name();
#define OMNIBAL_DEFINE_VECTOR_CHOICE(Type, name)                                                   \
  const Type &name() {                                                                             \
    return hostIsa() == Isa::Avx512 ? avx512::name                                                 \
           : hostIsa() == Isa::Avx2 ? avx2::name                                                   \
                                    : generic::name;                                               \
  }
#else
#define OMNIBAL_DECLARE_VECTOR_TABLE(Type, name)                                                   \
  namespace generic {                                                                              \
  extern const Type name;                                                                          \
  }                                                                                                \
  const Type &name();
#define OMNIBAL_DEFINE_VECTOR_CHOICE(Type, name)                                                   \
  const Type &name() { return generic::name; }
#endif

} // namespace omnibal::rt
#endif // RUNTIME_BACKENDS_HOST_VECTOR_ISA_H
