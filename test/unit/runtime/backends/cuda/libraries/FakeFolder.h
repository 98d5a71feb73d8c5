//===- FakeFolder.h - A test's libraries, environment and files -------------------------------===//
#ifndef TEST_UNIT_RUNTIME_BACKENDS_CUDA_LIBRARIES_FAKEFOLDER_H
#define TEST_UNIT_RUNTIME_BACKENDS_CUDA_LIBRARIES_FAKEFOLDER_H

#include "test/support/TemporaryFolder.h"
#include "test/support/fake_cuda/FakeCuda.h"
#include "test/support/fake_libraries/FakeCublasLt.h"
#include <cstdlib>
#include <dlfcn.h>
#include <gtest/gtest.h>

namespace omnibal::rt::test {

/// Sets a variable for the time of a test.
class Setting {
public:
  Setting(const char *name, const std::string &value) : name(name) {
    if (const char *old = std::getenv(name)) {
      before = old;
      wasSet = true;
    }
    setenv(name, value.c_str(), 1);
  }
  ~Setting() { wasSet ? setenv(name, before.c_str(), 1) : unsetenv(name); }
  Setting(const Setting &) = delete;

private:
  const char *name;
  std::string before;
  bool wasSet = false;
};

/// The fake of cuBLASLt as it is when opened, and the folder that has it.
inline fake::CublasLt &freshCublasLt() {
  static void *library = dlopen(OMNIBAL_FAKE_LIBRARIES "/libcublasLt.so.13", RTLD_NOW);
  EXPECT_NE(library, nullptr) << dlerror();
  auto state = reinterpret_cast<fake::CublasLt *(*)()>(dlsym(library, "fakeCublasLt"))();
  *state = {};
  return *state;
}

/// Of the emulated device, which performs its work at once.
inline cudaStream_t directStream() {
  static cudaStream_t stream = [] {
    cudaStream_t made = nullptr;
    EXPECT_EQ(cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking), cudaSuccess);
    return made;
  }();
  return stream;
}

using omnibal::test::readFile, omnibal::test::TemporaryFolder, omnibal::test::writeFile;

} // namespace omnibal::rt::test
#endif // TEST_UNIT_RUNTIME_BACKENDS_CUDA_LIBRARIES_FAKEFOLDER_H
