//===- BadInputTest.cpp - Damaged and unsupported models give one clear error ------------===//
#include "test/unit/importers/onnx/TestModel.h"
#include <fstream>
#include <gtest/gtest.h>
#include <limits>
#include <sstream>

using namespace omnibal;
using namespace omnibal::test;

namespace {

class BadInput : public testing::Test {
protected:
  /// The import fails with exactly one error, which holds every one of `parts`.
  void expectError(const Imported &imported, const std::vector<std::string> &parts) {
    EXPECT_FALSE(imported.module);
    ASSERT_EQ(imported.errors.size(), 1u) << (imported.errors.empty() ? "" : imported.errors[1]);
    for (const std::string &part : parts)
      EXPECT_NE(imported.errors[0].find(part), std::string::npos)
          << "'" << part << "' is not in: " << imported.errors[0];
  }
  /// x -> Relu -> y, the base of most cases.
  TestModel relu() {
    TestModel model;
    model.input("x", {-1, 4});
    model.node("Relu", {"x"}, {"y"});
    model.output("y", {-1, 4});
    return model;
  }
  Imported import(const TestModel &model, const ImportOptions &options = {}) {
    return importing.model(model, folder, options);
  }
  Importing importing;
  TestFolder folder;
};

TEST_F(BadInput, SoundModelImports) {
  Imported imported = import(relu());
  EXPECT_TRUE(imported.module);
  EXPECT_TRUE(imported.errors.empty());
}

TEST_F(BadInput, TruncatedFile) {
  std::ifstream file(std::string(OMNIBAL_TEST_DATA) + "/tiny-internvl/model.onnx",
                     std::ios::binary);
  std::stringstream bytes;
  bytes << file.rdbuf();
  ASSERT_GT(bytes.str().size(), 100000u);
  for (size_t size :
       {size_t(0), size_t(1), size_t(100), bytes.str().size() / 2, bytes.str().size() - 1}) {
    folder.write("cut.onnx", bytes.str().substr(0, size));
    Imported imported = importing.file(folder / "cut.onnx");
    EXPECT_FALSE(imported.module) << size;
    EXPECT_EQ(imported.errors.size(), 1u) << size;
  }
  folder.write("cut.onnx", bytes.str().substr(0, bytes.str().size() / 2));
  expectError(importing.file(folder / "cut.onnx"), {"invalid model", "cut.onnx", "truncated"});
}

TEST_F(BadInput, NoSuchFile) {
  expectError(importing.file(folder / "absent.onnx"), {"cannot read", "absent.onnx"});
}

TEST_F(BadInput, NotAModel) {
  folder.write("text.onnx", "this is no model, it is a text of some length\n");
  expectError(importing.file(folder / "text.onnx"), {"invalid model", "text.onnx"});
}

TEST_F(BadInput, DeeplyNested) {
  // A graph in an attribute of a node in a graph ..., deeper than any model.
  onnx::GraphProto graph;
  for (int i = 0; i < 200; ++i) {
    onnx::GraphProto outer;
    *outer.add_node()->add_attribute()->mutable_g() = graph;
    graph = outer;
  }
  TestModel model = relu();
  *model.graph().add_node()->add_attribute()->mutable_g() = graph;
  expectError(import(model), {"invalid model"});
}

TEST_F(BadInput, ShapesThatDoNotFitTogether) {
  TestModel model(23);
  model.input("q", {1, 2, 4, 8});
  model.input("k", {1, 2, 6, 8});
  model.input("v", {1, 2, 3, 8}); // one for each key is needed
  model.node("Attention", {"q", "k", "v"}, {"y"});
  model.output("y", {1, 2, 4, 8});
  ImportOptions options;
  options.anyGraph = true;
  expectError(import(model, options), {"invalid model", "do not fit together"});
}

TEST_F(BadInput, AttentionMaskOfNoDimension) {
  TestModel model(23);
  for (const char *name : {"q", "k", "v"})
    model.input(name, {1, 2, 4, 8});
  model.input("mask", {});
  model.node("Attention", {"q", "k", "v", "mask"}, {"y"});
  model.output("y", {1, 2, 4, 8});
  ImportOptions options;
  options.anyGraph = true;
  expectError(import(model, options), {"invalid model", "attn_mask must have dimensions"});
}

TEST_F(BadInput, WhatIsWrongTwiceInANodeIsOneError) {
  TestModel model(23);
  model.input("x", {1, 2, 3, 8});
  for (const char *cache : {"cos", "sin"})
    model.input(cache, {1, 3, 5}); // of half a head, 4
  model.node("RotaryEmbedding", {"x", "cos", "sin"}, {"y"});
  model.output("y", {1, 2, 3, 8});
  ImportOptions options;
  options.anyGraph = true;
  expectError(import(model, options), {"invalid model", "do not broadcast: size 8 against 10"});
}

TEST_F(BadInput, WrongInitializerSize) {
  TestModel model = relu();
  model.initializer("w", {4}, {1, 2, 3});
  model.graph().mutable_node(0)->set_op_type("Add");
  model.graph().mutable_node(0)->add_input("w");
  expectError(import(model), {"invalid model", "'w'", "16 bytes", "has 12"});
}

TEST_F(BadInput, WrongTypedDataSize) {
  TestModel model = relu();
  model.ints("i", {3}, {1, 2});
  model.node("Gather", {"y", "i"}, {"z"});
  model.output("z", {3, 4});
  expectError(import(model), {"invalid model", "'i'", "3 elements", "has 2"});
}

TEST_F(BadInput, NegativeAndHugeDimensions) {
  TestModel model = relu();
  model.node("Add", {"y", "w"}, {"z"});
  model.graph().mutable_output(0)->set_name("z");
  TestModel huge = model;
  model.initializer("w", {-4}, {1});
  expectError(import(model), {"invalid model", "'w'", "-4"});
  huge.initializer("w", {1LL << 40, 1LL << 40}, {1});
  expectError(import(huge), {"invalid model", "'w'", "2^63"});
}

TEST_F(BadInput, UnknownElementType) {
  TestModel model = relu();
  model.node("Add", {"y", "w"}, {"z"});
  model.graph().mutable_output(0)->set_name("z");
  model.initializer("w", {4}, {1, 2, 3, 4}).set_data_type(99);
  expectError(import(model), {"invalid model", "'w'", "type 99"});
}

TEST_F(BadInput, StringsAreNotSupported) {
  TestModel model = relu();
  model.input("s", {1}, 8);
  expectError(import(model), {"not supported", "'s'", "string"});
}

TEST_F(BadInput, Cycle) {
  TestModel model = relu();
  model.node("Add", {"x", "b"}, {"a"});
  model.node("Relu", {"a"}, {"b"});
  expectError(import(model), {"invalid model", "cycle", "'node_a'", "'node_b'"});
}

TEST_F(BadInput, SelfCycle) {
  TestModel model = relu();
  model.node("Add", {"x", "a"}, {"a"});
  expectError(import(model), {"invalid model", "cycle", "'node_a'"});
}

TEST_F(BadInput, UnorderedNodesAreSorted) {
  TestModel model;
  model.input("x", {4});
  model.node("Neg", {"a"}, {"y"});
  model.node("Exp", {"x"}, {"a"});
  model.output("y", {4});
  Imported imported = import(model);
  ASSERT_TRUE(imported.module);
  std::string text = imported.text();
  EXPECT_LT(text.find("omnibal.exp"), text.find("omnibal.neg"));
}

TEST_F(BadInput, UnknownOperator) {
  TestModel model = relu();
  model.graph().mutable_node(0)->set_op_type("Frobnicate");
  expectError(import(model), {"not supported", "Frobnicate", "opset 18", "'node_y'"});
}

TEST_F(BadInput, OperatorOfAnotherOpset) {
  TestModel model = relu();
  model.graph().mutable_node(0)->set_op_type("Gelu"); // since opset 20
  expectError(import(model), {"not supported", "Gelu", "opset 18", "'node_y'"});
}

TEST_F(BadInput, OperatorOfAnotherDomain) {
  TestModel model = relu();
  model.graph().mutable_node(0)->set_domain("com.example");
  expectError(import(model), {"not supported", "com.example", "'node_y'"});
}

TEST_F(BadInput, LinearAttentionOfOtherForms) {
  auto build = [](int64_t keyHeads, const char *rule, bool readsState) {
    TestModel model;
    model.proto.add_opset_import()->set_domain("com.microsoft");
    model.input("x", {1, -1, 8});
    model.input("g", {1, -1, 2});
    onnx::NodeProto &node =
        model.node("LinearAttention", {"x", "x", "x", "", "g", "g"}, {"y", "s"});
    node.set_domain("com.microsoft");
    setInt(node, "q_num_heads", 2);
    setInt(node, "kv_num_heads", keyHeads);
    onnx::AttributeProto &attribute = *node.add_attribute();
    attribute.set_name("update_rule");
    attribute.set_type(onnx::AttributeProto::STRING);
    attribute.set_s(rule);
    model.node("Neg", {readsState ? "s" : "y"}, {"z"});
    model.output("z", {1, -1, 8});
    return model;
  };
  EXPECT_TRUE(import(build(2, "gated_delta", false)).module);
  expectError(import(build(2, "gated", false)), {"not supported", "'gated'", "'node_y'"});
  expectError(import(build(1, "gated_delta", false)), {"not supported", "query heads"});
  expectError(import(build(2, "gated_delta", true)),
              {"not supported", "'s'", "'node_z'", "'node_y'"});
}

TEST_F(BadInput, ChoiceAmongTokens) { // as sparse attention chooses keys
  TestModel model;
  model.input("x", {1, -1, -1});
  model.input("k", {1}, 7);
  model.node("TopK", {"x", "k"}, {"values", "places"});
  model.output("places", {}, 7);
  expectError(import(model), {"not supported", "'node_values'", "would reach other samples"});
}

TEST_F(BadInput, WrongOpset) {
  for (int64_t opset : {1, 12, 24}) {
    TestModel model = relu();
    model.proto.mutable_opset_import(0)->set_version(opset);
    expectError(import(model), {"not supported", "opset " + std::to_string(opset), "13 to 23"});
  }
  TestModel model = relu();
  model.proto.clear_opset_import();
  expectError(import(model), {"invalid model", "opset"});
}

TEST_F(BadInput, WrongIrVersion) {
  TestModel model = relu();
  model.proto.set_ir_version(1000);
  expectError(import(model), {"not supported", "IR version 1000"});
}

TEST_F(BadInput, DuplicateNames) {
  TestModel value = relu();
  value.node("Neg", {"x"}, {"y"});
  expectError(import(value), {"invalid model", "'y'", "twice"});
  TestModel inputs = relu();
  inputs.input("x", {4});
  expectError(import(inputs), {"invalid model", "'x'"});
  TestModel initializers = relu();
  initializers.initializer("w", {1}, {1});
  initializers.initializer("w", {1}, {1});
  expectError(import(initializers), {"invalid model", "'w'"});
}

TEST_F(BadInput, DanglingInput) {
  TestModel model = relu();
  model.node("Neg", {"ghost"}, {"z"}); // nobody needs z: it is an error all the same
  expectError(import(model), {"invalid model", "'ghost'", "'node_z'"});
}

TEST_F(BadInput, DanglingOutput) {
  TestModel model = relu();
  model.output("ghost", {4});
  expectError(import(model), {"invalid model", "'ghost'"});
}

TEST_F(BadInput, ShapesThatDoNotFit) {
  TestModel broadcast = relu();
  broadcast.initializer("w", {3}, {1, 2, 3});
  broadcast.graph().mutable_node(0)->set_op_type("Add");
  broadcast.graph().mutable_node(0)->add_input("w");
  expectError(import(broadcast), {"invalid model", "'node_y'", "broadcast"});
  TestModel reshape = relu();
  reshape.graph()
      .mutable_input(0)
      ->mutable_type()
      ->mutable_tensor_type()
      ->mutable_shape()
      ->mutable_dim(0)
      ->set_dim_value(2);
  reshape.ints("s", {2}, {3, 5});
  reshape.node("Reshape", {"y", "s"}, {"z"});
  reshape.graph().mutable_output(0)->set_name("z");
  expectError(import(reshape), {"invalid model", "'node_z'", "8 elements"});
}

TEST_F(BadInput, MixedElementTypes) {
  TestModel model = relu();
  model.ints("i", {4}, {1, 2, 3, 4});
  model.graph().mutable_node(0)->set_op_type("Mul");
  model.graph().mutable_node(0)->add_input("i");
  expectError(import(model), {"invalid model", "'node_y'", "element types"});
}

TEST_F(BadInput, WrongNumberOfInputs) {
  TestModel model = relu();
  model.graph().mutable_node(0)->set_op_type("MatMul");
  expectError(import(model), {"invalid model", "'node_y'", "1 inputs"});
}

TEST_F(BadInput, OutputDeclaredOtherwise) {
  TestModel model = relu();
  model.graph().clear_output();
  model.output("y", {7, 5});
  expectError(import(model), {"invalid model", "'y'", "declared"});
}

TEST_F(BadInput, CacheInputs) {
  TestModel model = relu();
  model.input("past_key_values.0.key", {1, 2, -1, 4});
  expectError(import(model), {"not supported", "past_key_values.0.key", "use_cache=False"});
}

TEST_F(BadInput, DropoutThatIsNotKnown) {
  const auto dropped = [this](float ratio) {
    TestModel model = relu();
    setConstant(model.node("Constant", {}, {"ratio"}), ratio);
    onnx::TensorProto &mode = model.initializer("mode", {}, {});
    mode.set_data_type(9);
    mode.set_raw_data(std::string(1, '\1'));
    model.node("Dropout", {"y", "ratio", "mode"}, {"z", "mask"});
    model.graph().mutable_output(0)->set_name("z");
    return model;
  };
  EXPECT_TRUE(import(dropped(0.5f)).module);
  for (const float ratio : {1.0f, -0.5f, std::numeric_limits<float>::quiet_NaN()})
    expectError(import(dropped(ratio)), {"invalid model", "'node_z'", "a ratio of", "below 1"});
  TestModel given = dropped(0.5f);
  given.graph().mutable_node(2)->set_input(1, "x");
  expectError(import(given),
              {"not supported", "'node_z'", "a ratio that is not a constant number"});
  given = dropped(0.5f);
  given.graph().mutable_node(2)->set_input(2, "x");
  expectError(import(given), {"not supported", "'node_z'", "training_mode that is not constant"});
  // The mask is drawn in training.
  given = dropped(0.5f);
  given.node("Not", {"mask"}, {"w"});
  given.graph().mutable_output(0)->set_name("w");
  expectError(import(given), {"not supported", "'node_z'", "'mask'"});
}

TEST_F(BadInput, SizesThatNoMemoryHolds) {
  const auto conv = [](const char *attribute, const std::vector<int64_t> &values) {
    TestModel model;
    model.input("x", {1, 1, 5, 5});
    model.input("w", {2, 1, 3, 3});
    onnx::AttributeProto &given = *model.node("Conv", {"x", "w"}, {"y"}).add_attribute();
    given.set_name(attribute);
    for (int64_t value : values)
      given.add_ints(value);
    model.output("y", {-1, -1, -1, -1});
    return model;
  };
  EXPECT_TRUE(import(conv("pads", {1, 1, 1, 1})).module);
  expectError(import(conv("pads", {1, 1, INT64_MAX, 1})), {"Conv", "pads", "2^31 - 1"});
  expectError(import(conv("dilations", {INT64_MAX, 1})), {"Conv", "dilations", "2^31 - 1"});
  TestModel wide;
  wide.input("x", {int64_t{1} << 31, 1});
  wide.node("Relu", {"x"}, {"y"});
  wide.output("y", {-1, -1});
  expectError(import(wide), {"'x' has the dimension 2147483648", "2^31 - 1"});
  TestModel many;
  many.input("x", {1 << 30, 1 << 30, 8});
  many.node("Relu", {"x"}, {"y"});
  many.output("y", {-1, -1, -1});
  expectError(import(many), {"'x' has more than 2^62 elements"});
  TestModel result;
  result.input("x", {1 << 30});
  setInt(result.node("Concat", {"x", "x", "x"}, {"y"}), "axis", 0);
  result.output("y", {-1});
  expectError(import(result), {"Concat", "a result has the dimension 3221225472"});
}

TEST_F(BadInput, EndlessFunctions) {
  TestModel model = relu();
  model.proto.add_opset_import()->set_domain("local");
  model.graph().mutable_node(0)->set_domain("local");
  model.graph().mutable_node(0)->set_op_type("Again");
  onnx::FunctionProto &function = *model.proto.add_functions();
  function.set_domain("local");
  function.set_name("Again");
  function.add_input("a");
  function.add_output("b");
  onnx::NodeProto &node = *function.add_node();
  node.set_domain("local");
  node.set_op_type("Again");
  node.add_input("a");
  node.add_output("b");
  expectError(import(model), {"invalid model", "without end"});
}

TEST_F(BadInput, ConditionOfTheRun) {
  TestModel model = relu();
  model.input("c", {}, 9);
  onnx::NodeProto &node = model.node("If", {"c"}, {"z"});
  for (const char *name : {"then_branch", "else_branch"}) {
    onnx::AttributeProto &branch = *node.add_attribute();
    branch.set_name(name);
    branch.mutable_g()->add_output()->set_name("y");
  }
  model.graph().mutable_output(0)->set_name("z");
  expectError(import(model), {"not supported", "'node_z'", "condition"});
}

} // namespace
