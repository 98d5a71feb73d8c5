//===- GraphTest.cpp - Form I: inputs, outputs, locations, functions, branches -----------===//
#include "dialects/omnibal/ir/OmnibalOps.h"
#include "test/unit/importers/onnx/TestModel.h"
#include <gtest/gtest.h>

using namespace omnibal;
using namespace omnibal::test;

namespace {

class Graph : public testing::Test {
protected:
  std::string import(const TestModel &model, const ImportOptions &options = {}) {
    Imported imported = importing.model(model, folder, options);
    EXPECT_TRUE(imported.module) << (imported.errors.empty() ? "" : imported.errors[0]);
    return imported.module ? imported.text() : "";
  }
  static void expect(const std::string &text, const std::string &part) {
    EXPECT_NE(text.find(part), std::string::npos) << "'" << part << "' is not in\n" << text;
  }
  static void expectNot(const std::string &text, const std::string &part) {
    EXPECT_EQ(text.find(part), std::string::npos) << "'" << part << "' is in\n" << text;
  }
  Importing importing;
  TestFolder folder;
};

TEST_F(Graph, InputsAndOutputs) {
  TestModel model;
  model.proto.set_producer_name("maker");
  model.proto.set_producer_version("7");
  model.input("pixels", {-1, 3, 28, 28});
  model.node("Relu", {"pixels"}, {"y"});
  model.output("y", {-1, 3, 28, 28});
  std::string text = import(model);
  expect(text, "omnibal.opset = 18 : i64");
  expect(text, "omnibal.producer = \"maker 7\"");
  expect(text, "omnibal.dims = [\"s1\", \"3\", \"28\", \"28\"], omnibal.input = \"pixels\"");
  expect(text, "omnibal.output = \"y\"");
}

TEST_F(Graph, LogitsAlone) {
  TestModel model;
  model.input("x", {4});
  model.node("Neg", {"x"}, {"logits"});
  model.node("Exp", {"x"}, {"present.0.key"});
  model.node("Frobnicate", {"x"}, {"hidden"}); // not needed for logits: no error
  model.output("present.0.key", {4});
  model.output("hidden", {4});
  model.output("logits", {4});
  std::string text = import(model);
  expect(text, "omnibal.output = \"logits\"");
  expectNot(text, "omnibal.exp");
}

TEST_F(Graph, LocationsNameNodeAndModule) {
  TestModel model;
  model.input("x", {4});
  onnx::NodeProto &node = model.node("Neg", {"x"}, {"y"});
  onnx::StringStringEntryProto &scopes = *node.add_metadata_props();
  scopes.set_key("pkg.torch.onnx.name_scopes");
  scopes.set_value("['', 'model', 'model.layers.3', 'neg_1']");
  model.node("Exp", {"y"}, {"z"}).set_name("/model/layers.4/mlp/Exp");
  model.output("z", {4});
  std::string text = import(model);
  expect(text, "loc(\"model.layers.3\")");
  expect(text, "loc(\"node_y\"(#");
  expect(text, "loc(\"model.layers.4.mlp\")");
}

TEST_F(Graph, RowsOfPaddingAreNamedByMetadata) {
  for (const char *row : {"3", "-1", "three"}) {
    TestModel model;
    model.input("table", {5, 4});
    model.input("ids", {2}, 7);
    onnx::StringStringEntryProto &padding =
        *model.node("Gather", {"table", "ids"}, {"rows"}).add_metadata_props();
    padding.set_key("omnibal.padding_idx");
    padding.set_value(row);
    model.output("rows", {2, 4});
    Imported imported = importing.model(model, folder);
    EXPECT_EQ(bool(imported.module), row[0] == '3') << row;
    if (imported.module)
      expect(imported.text(), "padding = 3 : i64");
    else
      expect(imported.errors.at(0), "omnibal.padding_idx is no row of a table");
  }
}

TEST_F(Graph, DropoutOfTrainingMode) {
  const auto dropped = [&](const std::vector<std::string> &inputs, bool inTraining) {
    TestModel model;
    model.input("x", {4});
    setConstant(model.node("Constant", {}, {"ratio"}), 0.25f);
    setConstant(model.node("Constant", {}, {"nothing"}), 0);
    onnx::TensorProto &mode = model.initializer("mode", {}, {});
    mode.set_data_type(9);
    mode.set_raw_data(std::string(1, inTraining ? '\1' : '\0'));
    model.node("Dropout", inputs, {"y"});
    model.node("Neg", {"y"}, {"z"});
    model.output("z", {4});
    return import(model);
  };
  const std::string op = "omnibal.dropout";
  expect(dropped({"x", "ratio", "mode"}, true), op + " %arg0 {ratio = 2.500000e-01 : f64}");
  expect(dropped({"x", "", "mode"}, true), op + " %arg0 {ratio = 5.000000e-01 : f64}");
  expectNot(dropped({"x", "ratio", "mode"}, false), op);
  expectNot(dropped({"x", "nothing", "mode"}, true), op);
  expectNot(dropped({"x", "ratio"}, true), op);
}

TEST_F(Graph, FunctionsAreInlined) {
  // Outer(a; beta) = Inner(a, beta) + a; Inner(a; alpha) = LeakyRelu(a, alpha).
  TestModel model;
  model.proto.add_opset_import()->set_domain("local");
  auto function = [&](const char *name) -> onnx::FunctionProto & {
    onnx::FunctionProto &made = *model.proto.add_functions();
    made.set_domain("local");
    made.set_name(name);
    made.add_input("a");
    made.add_output("r");
    made.add_opset_import()->set_version(18);
    return made;
  };
  auto refer = [](onnx::NodeProto &node, const char *name, const char *from) {
    onnx::AttributeProto &attribute = *node.add_attribute();
    attribute.set_name(name);
    attribute.set_ref_attr_name(from);
    attribute.set_type(onnx::AttributeProto::FLOAT);
  };
  onnx::FunctionProto &inner = function("Inner");
  onnx::NodeProto &relu = *inner.add_node();
  relu.set_op_type("LeakyRelu");
  relu.set_name("relu");
  relu.add_input("a");
  relu.add_output("r");
  refer(relu, "alpha", "alpha");
  onnx::FunctionProto &outer = function("Outer");
  onnx::NodeProto &call = *outer.add_node();
  call.set_domain("local");
  call.set_op_type("Inner");
  call.set_name("call");
  call.add_input("a");
  call.add_output("i");
  refer(call, "alpha", "beta");
  onnx::NodeProto &sum = *outer.add_node();
  sum.set_op_type("Add");
  sum.set_name("sum");
  sum.add_input("i");
  sum.add_input("a");
  sum.add_output("r");

  model.input("x", {4});
  onnx::NodeProto &top = model.node("Outer", {"x"}, {"y"});
  top.set_domain("local");
  onnx::AttributeProto &beta = *top.add_attribute();
  beta.set_name("beta");
  beta.set_type(onnx::AttributeProto::FLOAT);
  beta.set_f(0.25f);
  model.output("y", {4});
  std::string text = import(model);
  expect(text, "dense<2.500000e-01> : tensor<f32>");
  expect(text, "omnibal.select");
  expect(text, "\"node_y/sum\"");
  expect(text, "\"node_y/call/relu\"");
}

TEST_F(Graph, ConstantBranch) {
  TestModel model;
  model.input("x", {4});
  onnx::TensorProto &condition = model.initializer("c", {}, {});
  condition.set_data_type(9);
  condition.set_raw_data(std::string(1, '\0'));
  onnx::NodeProto &node = model.node("If", {"c"}, {"y"});
  auto branch = [&](const char *name, const char *op) {
    onnx::AttributeProto &attribute = *node.add_attribute();
    attribute.set_name(name);
    onnx::NodeProto &inner = *attribute.mutable_g()->add_node();
    inner.set_op_type(op);
    inner.add_input("x"); // of the outer graph
    inner.add_output(std::string(name) + "_r");
    attribute.mutable_g()->add_output()->set_name(std::string(name) + "_r");
  };
  branch("then_branch", "Exp");
  branch("else_branch", "Neg");
  model.output("y", {4});
  std::string text = import(model);
  expect(text, "omnibal.neg");
  expectNot(text, "omnibal.exp");
}

TEST_F(Graph, SequencesAreResolved) {
  TestModel model;
  model.input("x", {-1, 6});
  model.ints("sizes", {3}, {1, 2, 3});
  model.ints("at", {}, {-1});
  model.graph().mutable_initializer(1)->clear_dims();
  setInt(model.node("SplitToSequence", {"x", "sizes"}, {"parts"}), "axis", 1);
  model.node("SequenceAt", {"parts", "at"}, {"y"});
  model.output("y", {-1, 3});
  expect(import(model), "tensor<?x3xf32>");
}

/// Features of all pictures, split into those of each row of a batch of one.
TEST_F(Graph, OnePartOfRunTimeLengthIsTheWhole) {
  TestModel model;
  model.input("x", {-1, 3});
  model.input("length", {1}, 7);
  model.ints("at", {}, {0});
  model.graph().mutable_initializer(0)->clear_dims();
  model.node("SplitToSequence", {"x", "length"}, {"parts"});
  model.node("SequenceAt", {"parts", "at"}, {"part"});
  model.node("Neg", {"part"}, {"y"});
  model.output("y", {-1, 3});
  std::string text = import(model);
  expect(text, "omnibal.neg %arg0");
  expectNot(text, "omnibal.slice");
}

TEST_F(Graph, BoundInputsAreConstants) {
  TestModel model;
  model.input("x", {4});
  model.input("shape", {2}, 7);
  model.node("Reshape", {"x", "shape"}, {"y"});
  model.output("y", {2, 2});
  ImportOptions options;
  options.boundInputs["shape"] = mlir::DenseElementsAttr::get(
      mlir::RankedTensorType::get({2}, mlir::IntegerType::get(&importing.context, 64)),
      llvm::ArrayRef<int64_t>{2, 2});
  std::string text = import(model, options);
  expectNot(text, "omnibal.input = \"shape\"");
  expect(text, "dense<2> : tensor<2xi64>");
}

TEST_F(Graph, ShapeArithmeticGivesStaticDimensions) {
  // Reshape to [dim 0, -1] computed by Shape, Gather, Unsqueeze, Concat, as exporters write it.
  TestModel model;
  model.input("x", {-1, 3, 8});
  model.ints("zero", {1}, {0});
  model.ints("rest", {1}, {24});
  model.node("Shape", {"x"}, {"s"});
  model.node("Gather", {"s", "zero"}, {"n"});
  setInt(model.node("Concat", {"n", "rest"}, {"target"}), "axis", 0);
  model.node("Reshape", {"x", "target"}, {"y"});
  model.output("y", {-1, 24});
  expect(import(model), "tensor<?x24xf32>");
}

TEST_F(Graph, AxesByVersion) {
  for (int64_t opset : {13, 18}) {
    TestModel model(opset);
    model.input("x", {-1, 3, 8});
    if (opset == 13) {
      onnx::NodeProto &node = model.node("ReduceMean", {"x"}, {"y"});
      onnx::AttributeProto &axes = *node.add_attribute();
      axes.set_name("axes");
      axes.set_type(onnx::AttributeProto::INTS);
      axes.add_ints(-1);
    } else {
      model.ints("axes", {1}, {-1});
      model.node("ReduceMean", {"x", "axes"}, {"y"});
    }
    model.output("y", {-1, 3, 1});
    expect(import(model), "axes = array<i64: 2>");
  }
}

} // namespace
