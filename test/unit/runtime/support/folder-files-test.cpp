// What a model's folder may hold: the Hugging Face cache's links, and no way out of it.
#include "runtime/support/FolderFiles.h"
#include "runtime/support/Safetensors.h"
#include "test/support/TemporaryFolder.h"
#include <filesystem>
#include <gtest/gtest.h>
#include <sys/stat.h>

using namespace omnibal::rt;
using namespace omnibal::test;
namespace fs = std::filesystem;

namespace {

/// A safetensors file with one BF16 tensor of one element.
std::string oneTensor(const std::string &name, const std::string &bytes) {
  std::string header = "{\"" + name + R"(":{"dtype":"BF16","shape":[1],"data_offsets":[0,2]}})";
  std::string file(8, '\0');
  file[0] = static_cast<char>(header.size());
  return file + header + bytes;
}
const std::string one("\x80\x3f", 2), two("\0\x40", 2);

/// models--org--name with a snapshot of two shards, as the Hugging Face libraries lay it out.
class Cache : public testing::Test {
protected:
  void SetUp() override {
    fs::create_directories(snapshot);
    fs::create_directories(root / "blobs");
    fs::create_directories(root / "refs");
    writeFile(root / "refs/main", "0123abcd");
    blob("h1", oneTensor("a", one));
    blob("h2", oneTensor("b", two));
    blob("h3", R"({"weight_map":{"a":"model-1.safetensors","b":"model-2.safetensors"}})");
    link("../../blobs/h1", "model-1.safetensors");
    link("../../blobs/h2", "model-2.safetensors");
    link("../../blobs/h3", "model.safetensors.index.json");
    writeFile(folder / "outside.safetensors", oneTensor("a", one));
  }
  void blob(const std::string &name, const std::string &bytes) {
    writeFile(root / "blobs" / name, bytes);
  }
  void link(const fs::path &to, const std::string &name) {
    fs::remove(snapshot / name);
    fs::create_symlink(to, snapshot / name);
  }
  static float valueOf(const TensorFiles &files, const char *name) {
    float value = 0;
    EXPECT_TRUE(convertTensor(*files.find(name), DType::F32, &value));
    return value;
  }
  void expectError(const std::string &path, const std::string &part,
                   const std::vector<std::string> &linkFolders = {}) {
    auto files = TensorFiles::open(path, linkFolders);
    ASSERT_FALSE(files);
    EXPECT_NE(files.status().message().find(part), std::string::npos) << files.status().message();
    EXPECT_NE(files.status().message().find(".safetensors"), std::string::npos)
        << files.status().message();
  }

  TemporaryFolder folder;
  const fs::path root = folder / "hub/models--org--name";
  const fs::path snapshot = root / "snapshots/0123abcd";
};

TEST_F(Cache, LinksIntoItsBlobsAreFollowed) {
  auto files = TensorFiles::open(snapshot);
  ASSERT_TRUE(files) << files.status().message();
  EXPECT_EQ(files->names(), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(valueOf(*files, "a"), 1);
  EXPECT_EQ(valueOf(*files, "b"), 2);
  EXPECT_EQ(files->beside().cache(), fs::canonical(root));
  EXPECT_EQ(files->folder(), snapshot.string());
  // The same through its index, a file of it, a link to the snapshot, and an absolute link.
  EXPECT_TRUE(TensorFiles::open(snapshot / "model.safetensors.index.json"));
  EXPECT_TRUE(TensorFiles::open(snapshot / "model-1.safetensors"));
  fs::create_directory_symlink(snapshot, folder / "mine");
  EXPECT_TRUE(TensorFiles::open(folder / "mine"));
  link(root / "blobs/h1", "model-1.safetensors");
  EXPECT_TRUE(TensorFiles::open(snapshot));
  fs::create_symlink("h1", root / "blobs/again");
  link("../../blobs/again", "model-1.safetensors");
  EXPECT_TRUE(TensorFiles::open(snapshot));
}

TEST_F(Cache, LinksOutOfItAreRefused) {
  const fs::path outside = folder / "outside.safetensors";
  for (const fs::path &to : {fs::path("../../../../outside.safetensors"), outside}) {
    link(to, "model-1.safetensors");
    expectError(snapshot, "outside the model's cache");
    expectError(snapshot / "model-1.safetensors", "outside the model's cache");
  }
  EXPECT_TRUE(TensorFiles::open(snapshot, {folder.path})); // as the user says
  // Another model's blobs are not this one's.
  fs::create_directories(folder / "hub/models--org--name-2/blobs");
  writeFile(folder / "hub/models--org--name-2/blobs/h1", oneTensor("a", one));
  link("../../../models--org--name-2/blobs/h1", "model-1.safetensors");
  expectError(snapshot, "outside the model's cache");
  link("../../blobs/h1", "model-1.safetensors");
  ASSERT_TRUE(TensorFiles::open(snapshot));
  // The blob itself is a link out.
  fs::remove(root / "blobs/h1");
  fs::create_symlink(outside, root / "blobs/h1");
  expectError(snapshot, "outside the model's cache");
}

TEST_F(Cache, BlobsThatLieElsewhereAreRefused) {
  fs::rename(root / "blobs", folder / "blobs");
  fs::create_directory_symlink(folder / "blobs", root / "blobs");
  auto files = TensorFiles::open(snapshot);
  ASSERT_FALSE(files);
  EXPECT_NE(files.status().message().find("outside the model's cache"), std::string::npos);
  EXPECT_TRUE(TensorFiles::open(snapshot, {folder / "blobs"}));
}

TEST_F(Cache, AMissingBlobIsAnInterruptedDownload) {
  fs::remove(root / "blobs/h2");
  expectError(snapshot, "leads to no file");
  fs::remove(snapshot / "model.safetensors.index.json");
  link("../../blobs/none", "model.safetensors");
  expectError(snapshot, "leads to no file");
}

TEST_F(Cache, OnlyRegularFiles) {
  fs::remove(root / "blobs/h1");
  ASSERT_EQ(mkfifo((root / "blobs/h1").c_str(), 0600), 0);
  expectError(snapshot, "not a regular file");
  link("../../blobs", "model-1.safetensors");
  expectError(snapshot, "not a regular file");
}

TEST_F(Cache, OtherFoldersAdmitNoLinks) {
  // Without the cache's names a folder is a plain one.
  for (const char *name : {"hub/plain/snapshots/0123abcd", "hub/models--plain/0123abcd"}) {
    fs::create_directories(folder / name);
    fs::copy_file(root / "blobs/h1", fs::path(folder / name) / "own.bin");
    fs::create_symlink("own.bin", fs::path(folder / name) / "model.safetensors");
    expectError(folder / name, "--allow-links-within");
    EXPECT_TRUE(TensorFiles::open(folder / name, {folder / name}));
    // A file that the user names is the user's word.
    EXPECT_TRUE(TensorFiles::open(fs::path(folder / name) / "model.safetensors"));
  }
}

TEST_F(Cache, NamesStayInTheFolder) {
  FolderFiles files(snapshot);
  EXPECT_TRUE(files.open("model-1.safetensors"));
  EXPECT_EQ(files.open("nothing").status().code(), Code::NotFound);
  for (const char *name : {"../0123abcd/model-1.safetensors", "/etc/passwd", ""})
    EXPECT_EQ(files.open(name).status().code(), Code::InvalidArgument) << name;
  EXPECT_EQ(*files.read("model-1.safetensors"), oneTensor("a", one));
}

} // namespace
