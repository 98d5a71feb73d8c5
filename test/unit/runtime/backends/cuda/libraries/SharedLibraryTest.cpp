#include "runtime/backends/cuda/driver/SharedLibrary.h"
#include "test/unit/runtime/backends/cuda/libraries/FakeFolder.h"
#include <algorithm>

using namespace omnibal::rt;
using namespace omnibal::rt::test;
using cuda::SharedLibrary;

TEST(SharedLibrary, InTheWheelsOfThePythonOnPath) {
  TemporaryFolder folder;
  std::filesystem::create_directories(folder / "env/bin");
  std::filesystem::create_directories(folder / "env/lib/python3.12/site-packages");
  writeFile(folder / "env/bin/python3", "");
  Setting path("PATH", (folder / "nothing") + ":" + (folder / "env/bin"));
  const auto folders = cuda::libraryFolders("cu13");
  EXPECT_EQ(std::count(folders.begin(), folders.end(),
                       folder / "env/lib/python3.12/site-packages/nvidia/cu13/lib"),
            1);
}

TEST(SharedLibrary, OpenedFromThere) {
  TemporaryFolder folder;
  const std::string lib = folder / "env/lib/python3.12/site-packages/nvidia/cu13/lib";
  std::filesystem::create_directories(folder / "env/bin");
  std::filesystem::create_directories(lib);
  writeFile(folder / "env/bin/python3", "");
  std::filesystem::copy_file(OMNIBAL_FAKE_LIBRARIES "/libcublasLt.so.13", lib + "/libthere.so.1");
  Setting path("PATH", folder / "env/bin");
  Setting wish("OMNIBAL_CUDA_LIBRARIES", "");
  auto opened = SharedLibrary::open("libthere.so.1", "cu13");
  ASSERT_TRUE(opened) << opened.status().message();
  EXPECT_EQ((*opened)->path(), lib + "/libthere.so.1");
  size_t (*version)() = nullptr;
  EXPECT_TRUE((*opened)->find("cublasLtGetVersion", version));
  EXPECT_EQ(version(), 130100u);
  EXPECT_NE((*opened)->find("nothing", version).message().find("has no nothing"),
            std::string::npos);
}

TEST(SharedLibrary, SaysWhereItLookedAndWhatIsBroken) {
  TemporaryFolder folder;
  Setting wish("OMNIBAL_CUDA_LIBRARIES", folder / "");
  EXPECT_EQ(SharedLibrary::open("libabsent.so.1", "cu13").status().message(),
            "libabsent.so.1 was not found by the loader, under CUDA_HOME or among the packages of "
            "python3; OMNIBAL_CUDA_LIBRARIES may name its folder");
  writeFile(folder / "libbroken.so.1", "text");
  const std::string broken = SharedLibrary::open("libbroken.so.1", "cu13").status().message();
  EXPECT_NE(broken.find("libbroken.so.1 cannot be opened: "), std::string::npos) << broken;
}
