//===- PictureFactsTest.cpp - How a model of dynamic resolution cuts pictures ------------===//
#include "test/unit/importers/onnx/TestModel.h"
#include <gtest/gtest.h>

using namespace omnibal;
using namespace omnibal::test;

namespace {

constexpr int32_t int64Type = 7;

class PictureFacts : public testing::Test {
protected:
  /// Units of one patch of 2 x 2 pixels; a patch is the sum of so many entries of a table.
  Imported importWith(int64_t taps, const std::string &pictures) {
    TestModel model;
    model.input("pixel_values", {-1, 12});
    model.input("image_interp_indices", {-1, taps}, int64Type);
    model.input("image_interp_weights", {-1, taps});
    model.node("Relu", {"image_interp_weights"}, {"y"});
    model.output("y", {-1, taps});
    folder.write("omnibal.json",
                 R"({"pictures": {"patch": 2, "merge": 1, "temporal": 1, )" + pictures + "}}");
    return importing.model(model, folder);
  }
  void expectError(int64_t taps, const std::string &pictures, const std::string &part) {
    Imported imported = importWith(taps, pictures);
    EXPECT_FALSE(imported.module);
    ASSERT_EQ(imported.errors.size(), 1u);
    EXPECT_NE(imported.errors[0].find(part), std::string::npos) << imported.errors[0];
  }
  Importing importing;
  TestFolder folder;
};

TEST_F(PictureFacts, TableOnCornersIsTheDefault) {
  Imported imported = importWith(4, R"("grid_side": 5)");
  ASSERT_TRUE(imported.module) << imported.errors[0];
  EXPECT_NE(imported.text().find("grid_side = 5"), std::string::npos);
  EXPECT_EQ(imported.text().find("interpolation"), std::string::npos);
  EXPECT_EQ(imported.text().find("align_corners"), std::string::npos);
}

TEST_F(PictureFacts, SixteenEntriesAPatch) {
  Imported imported =
      importWith(16, R"("grid_side": 5, "interpolation": "bicubic", "align_corners": false)");
  ASSERT_TRUE(imported.module) << imported.errors[0];
  EXPECT_NE(imported.text().find(R"(interpolation = "bicubic")"), std::string::npos);
  EXPECT_NE(imported.text().find("align_corners = false"), std::string::npos);
}

TEST_F(PictureFacts, EntriesMustBeThoseOfTheInterpolation) {
  expectError(16, R"("grid_side": 5)",
              "'image_interp_indices' has type 'tensor<?x16xi64>', but 4 entries of the table of "
              "positions make a patch by bilinear interpolation; omnibal.json");
  expectError(4, R"("grid_side": 5, "interpolation": "bicubic")", "16 entries of the table");
  expectError(4, R"("grid_side": 5, "interpolation": "nearest")",
              "gives 'nearest' as interpolation of the table of positions; it must be bilinear or");
}

} // namespace
