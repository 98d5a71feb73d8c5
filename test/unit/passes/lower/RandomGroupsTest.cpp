//===- RandomGroupsTest.cpp - Fused groups that nobody wrote, on the host and as GPU kernels ===//
#include "test/unit/passes/lower/LoweredRun.h"
#include <random>

using omnibal::test::LoweredModule;

namespace {

/// A function of random elementwise ops and row reductions over [1, N, C]: operands are one number
/// an element (one of them half of a wider row), a row, a column, or one; results are elements,
/// rows and sums over rows.
class RandomFunction {
public:
  RandomFunction(unsigned seed, int64_t cols) : random(seed), cols(std::to_string(cols)) {}

  std::string text(const std::string &name) {
    const std::string full = rows(cols), row = rows("1"), wide = rows(std::to_string(2 * count()));
    std::string c = "tensor<" + cols + "xf32>", one = "tensor<f32>";
    values = {{"%x", full}, {"%y", full}, {"%r", row}, {"%w", c}, {"%s", one}, {"%half", full}};
    body = "  %half = omnibal.slice %p {begin = array<i64: 0, 0, " + cols +
           ">, step = array<i64: 1, 1, 1>, operandSegmentSizes = array<i32: 1, 0, 0, 0, 0>} : (" +
           wide + ") -> " + full + "\n";
    for (int i = 0, ops = 6 + pick(14); i < ops; ++i)
      addOp(full, row);
    std::string results, types, terminator;
    int outputs = 0, gradients = 0;
    auto yield = [&](const std::string &value, const std::string &type, const std::string &role,
                     int &index) {
      results += (results.empty() ? "" : ", ") + value;
      terminator += (terminator.empty() ? "" : ", ") + type;
      types += (types.empty() ? "" : ", ") + type + " {omnibal.role = \"" + role +
               "\", omnibal.index = " + std::to_string(index++) + " : i64}";
    };
    for (int i = 0; i < 2; ++i) {
      std::string value = ofType(full);
      std::string sum = fresh();
      if (i == 1) {
        body += "  " + sum + " = omnibal.reduce " + value +
                " {kind = 0 : i32, axes = array<i64: 0, 1>} : (" + full + ") -> " + c + "\n";
        yield(sum, c, "parameter_grad", gradients);
      } else {
        yield(value, full, "output", outputs);
      }
    }
    yield(ofType(row), row, "output", outputs);
    auto argument = [](const std::string &value, const std::string &type, int index) {
      return value + ": " + type +
             " {omnibal.role = \"input\", omnibal.index = " + std::to_string(index) + " : i64}";
    };
    return "func.func @" + name + "(" + argument("%x", full, 0) + ", " + argument("%y", full, 1) +
           ", " + argument("%r", row, 2) + ", " + argument("%w", c, 3) + ", " +
           argument("%s", one, 4) + ", " + argument("%p", wide, 5) + ") -> (" + types + ") {\n" +
           body + "  return " + results + " : " + terminator + "\n}\n";
  }

private:
  struct Typed {
    std::string value, type;
  };

  static std::string rows(const std::string &columns) {
    return "tensor<1x?x" + columns + "xf32, affine_map<(d0, d1) -> (1, d1, " + columns + ")>>";
  }
  int64_t count() const { return std::stoll(cols); }
  int pick(size_t choices) { return static_cast<int>(random() % choices); }
  std::string fresh() { return "%v" + std::to_string(next++); }
  /// The newest value of a type, so that all that was made is used by something late.
  std::string ofType(const std::string &type) {
    for (size_t i = values.size(); i-- > 0;)
      if (values[i].type == type && pick(3) > 0)
        return values[i].value;
    for (const Typed &typed : values)
      if (typed.type == type)
        return typed.value;
    return "";
  }

  void addOp(const std::string &full, const std::string &row) {
    const std::string result = fresh();
    Typed a = values[pick(values.size())], b = values[pick(values.size())];
    std::string type = full, line;
    switch (pick(5)) {
    case 0: { // bounded, so that what follows stays so
      static const char *const functions[] = {"tanh", "sigmoid", "gelu", "silu", "neg", "abs"};
      type = a.type;
      line = std::string(functions[pick(std::size(functions))]) + " " + a.value + " : (" + a.type +
             ") -> " + type;
      break;
    }
    case 1: { // of a value of all columns
      const std::string input = ofType(full);
      line = "reduce " + input + " {kind = " + std::to_string(1 + pick(2)) +
             " : i32, axes = array<i64: 2>, keepdims} : (" + full + ") -> " + row;
      type = row;
      break;
    }
    case 2: { // of an operand that both precisions see alike
      const std::string choice = fresh();
      const std::string flags =
          "tensor<1x?x" + cols + "xi1, affine_map<(d0, d1) -> (1, d1, " + cols + ")>>";
      body += "  " + choice + " = omnibal.compare %x, %y {predicate = 2 : i32} : (" + full + ", " +
              full + ") -> " + flags + "\n";
      line = "select " + choice + ", " + ofType(full) + ", " + ofType(full) + " : (" + flags +
             ", " + full + ", " + full + ") -> " + full;
      break;
    }
    default: {
      static const char *const functions[] = {"add", "sub", "mul", "max"};
      if (a.type == b.type || b.type == "tensor<f32>")
        type = a.type;
      else if (a.type == "tensor<f32>")
        type = b.type;
      line = std::string(functions[pick(std::size(functions))]) + " " + a.value + ", " + b.value +
             " : (" + a.type + ", " + b.type + ") -> " + type;
    }
    }
    body += "  " + result + " = omnibal." + line + "\n";
    values.push_back({result, type});
  }

  std::mt19937 random;
  std::string cols, body;
  std::vector<Typed> values;
  int next = 0;
};

class RandomGroups : public testing::TestWithParam<int64_t> {};

TEST_P(RandomGroups, AgreeWithTheInterpreter) {
  std::string text;
  for (unsigned seed = 0; seed < 8; ++seed)
    text += RandomFunction(seed * 1000 + GetParam(), GetParam()).text("f" + std::to_string(seed));
  SCOPED_TRACE(text);
  for (const char *target : {"host", "cuda"}) {
    LoweredModule module(text, 0, 21, target);
    for (const std::string &name : module.functions())
      for (int64_t tokens : {int64_t(0), int64_t(1), int64_t(GetParam() < 2000 ? 21 : 5)})
        module.check(name, 0, tokens, 3e-5);
  }
}
INSTANTIATE_TEST_SUITE_P(Columns, RandomGroups,
                         testing::Values(2, 7, 24, 130, 513, 1032, 5000, 17000));

} // namespace
