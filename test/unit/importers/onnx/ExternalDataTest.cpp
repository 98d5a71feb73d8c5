//===- ExternalDataTest.cpp - External data stays in the model's folder ------------------===//
#include "test/unit/importers/onnx/TestModel.h"
#include <gtest/gtest.h>

using namespace omnibal;
using namespace omnibal::test;
namespace fs = std::filesystem;

namespace {

class ExternalData : public testing::Test {
protected:
  void SetUp() override {
    fs::create_directory(folder.path / "model");
    folder.write("model/inside.bin", std::string(64, '\0'));
    folder.write("outside.bin", std::string(64, '\0'));
  }
  /// y = x + w with w at `location`.
  Imported import(const std::string &location, int64_t offset = 0, int64_t length = 16,
                  const ImportOptions &options = {}) {
    TestModel model;
    model.input("x", {4});
    model.external("w", {4}, location, offset, length);
    model.node("Add", {"x", "w"}, {"y"});
    model.output("y", {4});
    folder.write("model/model.onnx", model.proto.SerializeAsString());
    return importing.file(folder / "model/model.onnx", options);
  }
  void expectError(const Imported &imported, const std::string &part) {
    EXPECT_FALSE(imported.module);
    ASSERT_EQ(imported.errors.size(), 1u);
    EXPECT_NE(imported.errors[0].find(part), std::string::npos) << imported.errors[0];
  }
  Importing importing;
  TestFolder folder;
};

TEST_F(ExternalData, InsideIsAParameter) {
  Imported imported = import("inside.bin", 32);
  ASSERT_TRUE(imported.module);
  EXPECT_TRUE(imported.warnings.empty());
  EXPECT_NE(imported.text().find(
                "omnibal.parameter @w : tensor<4xf32> {file = \"inside.bin\", length = 16 : i64, "
                "offset = 32 : i64}"),
            std::string::npos)
      << imported.text();
}

TEST_F(ExternalData, SubfolderIsInside) {
  fs::create_directory(folder.path / "model/data");
  folder.write("model/data/w.bin", std::string(16, '\0'));
  EXPECT_TRUE(import("data/w.bin").module);
}

TEST_F(ExternalData, EscapesAreErrors) {
  expectError(import("../outside.bin"), "'..'");
  expectError(import("data/../../outside.bin"), "'..'");
  expectError(import(folder / "outside.bin"), "absolute");
  expectError(import(""), "empty");
  expectError(import(std::string("inside.bin\0x", 12)), "zero byte");
}

TEST_F(ExternalData, LinksAreErrors) {
  fs::create_symlink("../outside.bin", folder.path / "model/link.bin");
  expectError(import("link.bin"), "symbolic link");
  fs::create_symlink("inside.bin", folder.path / "model/own.bin");
  expectError(import("own.bin"), "symbolic link");
  fs::create_directory_symlink("..", folder.path / "model/up");
  expectError(import("up/outside.bin"), "symbolic link");
  fs::create_hard_link(folder.path / "outside.bin", folder.path / "model/hard.bin");
  expectError(import("hard.bin"), "hard link");
}

TEST_F(ExternalData, LinksIntoAnAdmittedFolder) {
  fs::create_directory(folder.path / "cache");
  folder.write("cache/blob", std::string(16, '\0'));
  fs::create_symlink("../cache/blob", folder.path / "model/w.bin");
  fs::create_symlink("../outside.bin", folder.path / "model/out.bin");
  ImportOptions options;
  options.linkFolders = {folder / "cache"};
  EXPECT_TRUE(import("w.bin", 0, 16, options).module);
  expectError(import("out.bin", 0, 16, options), "outside");
  expectError(import("w.bin"), "symbolic link");
}

TEST_F(ExternalData, OnlyRegularFiles) {
  fs::create_directory(folder.path / "model/folder");
  expectError(import("folder"), "not a regular file");
}

TEST_F(ExternalData, RangesOutsideTheFile) {
  expectError(import("inside.bin", 52), "64 bytes");
  expectError(import("inside.bin", 64), "64 bytes");
  expectError(import("inside.bin", 0x7fffffffffffffff), "64 bytes");
  expectError(import("inside.bin", -1), "'-1'");
  expectError(import("inside.bin", 0, 12), "needs 16 bytes");
}

TEST_F(ExternalData, AbsentFileIsANotice) {
  Imported imported = import("absent.bin", 1LL << 40);
  ASSERT_TRUE(imported.module);
  ASSERT_EQ(imported.warnings.size(), 1u);
  EXPECT_NE(imported.warnings[0].find("absent.bin"), std::string::npos);
}

TEST_F(ExternalData, AbsentValueThatIsNeeded) {
  TestModel model;
  model.input("x", {4});
  onnx::TensorProto &axes = model.external("axes", {1}, "absent.bin", 0, 8);
  axes.set_data_type(7);
  model.node("Unsqueeze", {"x", "axes"}, {"y"});
  model.output("y", {1, 4});
  Imported imported = importing.model(model, folder);
  expectError(imported, "value of 'axes' is needed");
}

} // namespace
