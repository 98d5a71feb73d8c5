//===- Elementwise.cpp - Plain elementwise kernels ---------------------------------------===//
#include "runtime/backends/host/plain/Plain.h"
#include <map>

namespace omnibal::rt::plain {
namespace {

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double normalCdf(double x) { return 0.5 * std::erfc(-x * M_SQRT1_2); }
double geluTanhArgument(double x) { return std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x); }

double gelu(double x) { return x * normalCdf(x); }
double geluTanh(double x) { return 0.5 * x * (1 + std::tanh(geluTanhArgument(x))); }
double geluSlope(double x) {
  return normalCdf(x) + x * std::exp(-0.5 * x * x) / std::sqrt(2 * M_PI);
}
double geluTanhSlope(double x) {
  const double t = std::tanh(geluTanhArgument(x));
  const double inner = std::sqrt(2 / M_PI) * (1 + 3 * 0.044715 * x * x);
  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * inner;
}
double swishSlope(double x, double k) {
  const double s = sigmoid(k * x);
  return s + k * x * s * (1 - s);
}

struct Unary {
  double (*real)(double);
  int64_t (*integer)(int64_t); ///< null: integers are computed as reals
};
const std::map<std::string, Unary> &unaries() {
  static const std::map<std::string, Unary> table = {
      {"neg",
       {[](double x) { return -x; },
        [](int64_t x) { return static_cast<int64_t>(-static_cast<uint64_t>(x)); }}},
      {"exp", {[](double x) { return std::exp(x); }, nullptr}},
      {"log", {[](double x) { return std::log(x); }, nullptr}},
      {"sqrt", {[](double x) { return std::sqrt(x); }, nullptr}},
      {"rsqrt", {[](double x) { return 1 / std::sqrt(x); }, nullptr}},
      {"reciprocal", {[](double x) { return 1 / x; }, nullptr}},
      {"erf", {[](double x) { return std::erf(x); }, nullptr}},
      {"tanh", {[](double x) { return std::tanh(x); }, nullptr}},
      {"sigmoid", {sigmoid, nullptr}},
      {"cos", {[](double x) { return std::cos(x); }, nullptr}},
      {"sin", {[](double x) { return std::sin(x); }, nullptr}},
      {"abs",
       {[](double x) { return std::fabs(x); },
        [](int64_t x) { return x < 0 ? static_cast<int64_t>(-static_cast<uint64_t>(x)) : x; }}},
      {"floor", {[](double x) { return std::floor(x); }, [](int64_t x) { return x; }}},
      {"sign",
       {[](double x) { return x > 0   ? 1.0
                              : x < 0 ? -1.0
                                      : x; },
        [](int64_t x) { return int64_t{x > 0} - int64_t{x < 0}; }}},
      {"not", {[](double x) { return double(x == 0); }, [](int64_t x) { return int64_t{x == 0}; }}},
      {"is_nan", {[](double x) { return double(x != x); }, [](int64_t) { return int64_t{0}; }}},
      {"cast", {[](double x) { return x; }, [](int64_t x) { return x; }}},
      {"relu",
       {[](double x) { return x > 0 || x != x ? x : 0.0; },
        [](int64_t x) { return std::max<int64_t>(x, 0); }}},
      {"silu", {[](double x) { return x * sigmoid(x); }, nullptr}},
      {"quick_gelu", {[](double x) { return x * sigmoid(1.702 * x); }, nullptr}},
      {"gelu", {gelu, nullptr}},
  };
  return table;
}

class UnaryKernel final : public PlainKernel {
public:
  UnaryKernel(SiteReader &site, const KernelSite &description)
      : PlainKernel(description), operand(site.operand("operand")), result(site.operand("result")),
        op(unaries().at(description.kernel)) {
    if (description.kernel == "gelu" && site.flag("tanh", false))
      op.real = geluTanh;
  }

  Status run(std::span<const TensorView> views, int64_t, int64_t, ThreadPool &pool) override {
    const TensorView &to = views[result];
    OMNIBAL_ASSIGN_OR_RETURN(const TensorView from, broadcast(views[operand], to));
    const bool integers = op.integer && !isFloat(from.dtype);
    forPositions(to, pool, [&](const Counter &at) {
      if (integers)
        storeInteger(to, at.offset(to), op.integer(loadInteger(from, at.offset(from))));
      else
        storeReal(to, at.offset(to), op.real(loadReal(from, at.offset(from))));
    });
    return Status::ok();
  }

private:
  int operand, result;
  Unary op;
};

int64_t wrapping(uint64_t x) { return static_cast<int64_t>(x); }
uint64_t bitsOf(int64_t x) { return static_cast<uint64_t>(x); }

/// Division by zero has no defined result; 0 instead of a trap.
int64_t quotient(int64_t a, int64_t b) {
  return b == 0 ? 0 : b == -1 ? wrapping(-bitsOf(a)) : a / b;
}
int64_t remainderTruncated(int64_t a, int64_t b) { return b == 0 || b == -1 ? 0 : a % b; }
int64_t remainderFloored(int64_t a, int64_t b) {
  const int64_t r = remainderTruncated(a, b);
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
double realRemainderFloored(double a, double b) {
  const double r = std::fmod(a, b);
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
int64_t power(int64_t base, int64_t exponent) {
  if (exponent < 0)
    return base == 1 ? 1 : base == -1 ? (exponent % 2 ? -1 : 1) : 0;
  uint64_t result = 1, factor = bitsOf(base);
  for (; exponent; exponent >>= 1, factor *= factor)
    if (exponent & 1)
      result *= factor;
  return wrapping(result);
}

struct Binary {
  double (*real)(double, double);
  int64_t (*integer)(int64_t, int64_t);
};
const std::map<std::string, Binary> &binaries() {
  static const std::map<std::string, Binary> table = {
      {"add",
       {[](double a, double b) { return a + b; },
        [](int64_t a, int64_t b) { return wrapping(bitsOf(a) + bitsOf(b)); }}},
      {"sub",
       {[](double a, double b) { return a - b; },
        [](int64_t a, int64_t b) { return wrapping(bitsOf(a) - bitsOf(b)); }}},
      {"mul",
       {[](double a, double b) { return a * b; },
        [](int64_t a, int64_t b) { return wrapping(bitsOf(a) * bitsOf(b)); }}},
      {"div", {[](double a, double b) { return a / b; }, quotient}},
      {"pow", {[](double a, double b) { return std::pow(a, b); }, power}},
      {"mod", {realRemainderFloored, remainderFloored}},
      {"max",
       {[](double a, double b) { return a > b || a != a ? a : b; },
        [](int64_t a, int64_t b) { return std::max(a, b); }}},
      {"min",
       {[](double a, double b) { return a < b || a != a ? a : b; },
        [](int64_t a, int64_t b) { return std::min(a, b); }}},
      {"and",
       {[](double a, double b) { return double(a != 0 && b != 0); },
        [](int64_t a, int64_t b) { return a & b; }}},
      {"or",
       {[](double a, double b) { return double(a != 0 || b != 0); },
        [](int64_t a, int64_t b) { return a | b; }}},
      {"xor",
       {[](double a, double b) { return double((a != 0) != (b != 0)); },
        [](int64_t a, int64_t b) { return a ^ b; }}},
  };
  return table;
}

Binary comparison(int predicate) {
  switch (predicate) {
  case 0:
    return {[](double a, double b) { return double(a == b); },
            [](int64_t a, int64_t b) { return int64_t{a == b}; }};
  case 1:
    return {[](double a, double b) { return double(a < b); },
            [](int64_t a, int64_t b) { return int64_t{a < b}; }};
  case 2:
    return {[](double a, double b) { return double(a <= b); },
            [](int64_t a, int64_t b) { return int64_t{a <= b}; }};
  case 3:
    return {[](double a, double b) { return double(a > b); },
            [](int64_t a, int64_t b) { return int64_t{a > b}; }};
  default:
    return {[](double a, double b) { return double(a >= b); },
            [](int64_t a, int64_t b) { return int64_t{a >= b}; }};
  }
}

/// lhs and rhs; for the derivatives of activations: operand and grad.
class BinaryKernel final : public PlainKernel {
public:
  BinaryKernel(SiteReader &site, const KernelSite &description) : PlainKernel(description) {
    const std::string &name = description.kernel;
    const bool slope = name.ends_with("_grad");
    lhs = site.operand(slope ? "operand" : "lhs");
    rhs = site.operand(slope ? "grad" : "rhs");
    result = site.operand("result");
    if (name == "compare") {
      op = comparison(site.choice("predicate", {"eq", "lt", "le", "gt", "ge"}));
    } else if (name == "silu_grad") {
      op = {[](double x, double dy) { return swishSlope(x, 1) * dy; }, nullptr};
    } else if (name == "quick_gelu_grad") {
      op = {[](double x, double dy) { return swishSlope(x, 1.702) * dy; }, nullptr};
    } else if (name == "gelu_grad") {
      op = {[](double x, double dy) { return geluSlope(x) * dy; }, nullptr};
      if (site.flag("tanh", false))
        op.real = [](double x, double dy) { return geluTanhSlope(x) * dy; };
    } else {
      op = binaries().at(name);
    }
    if (name == "mod" && site.flag("fmod", false))
      op = {[](double a, double b) { return std::fmod(a, b); }, remainderTruncated};
  }

  Status run(std::span<const TensorView> views, int64_t, int64_t, ThreadPool &pool) override {
    const TensorView &to = views[result];
    OMNIBAL_ASSIGN_OR_RETURN(const TensorView a, broadcast(views[lhs], to));
    OMNIBAL_ASSIGN_OR_RETURN(const TensorView b, broadcast(views[rhs], to));
    const bool integers = op.integer && !isFloat(a.dtype) && !isFloat(b.dtype);
    forPositions(to, pool, [&](const Counter &at) {
      if (integers)
        storeInteger(to, at.offset(to),
                     op.integer(loadInteger(a, at.offset(a)), loadInteger(b, at.offset(b))));
      else
        storeReal(to, at.offset(to), op.real(loadReal(a, at.offset(a)), loadReal(b, at.offset(b))));
    });
    return Status::ok();
  }

private:
  int lhs, rhs, result;
  Binary op;
};

class SelectKernel final : public PlainKernel {
public:
  SelectKernel(SiteReader &site, const KernelSite &description)
      : PlainKernel(description), condition(site.operand("condition")),
        onTrue(site.operand("onTrue")), onFalse(site.operand("onFalse")),
        result(site.operand("result")) {}

  Status run(std::span<const TensorView> views, int64_t, int64_t, ThreadPool &pool) override {
    const TensorView &to = views[result];
    OMNIBAL_ASSIGN_OR_RETURN(const TensorView c, broadcast(views[condition], to));
    OMNIBAL_ASSIGN_OR_RETURN(const TensorView yes, broadcast(views[onTrue], to));
    OMNIBAL_ASSIGN_OR_RETURN(const TensorView no, broadcast(views[onFalse], to));
    forPositions(to, pool, [&](const Counter &at) {
      const TensorView &from = loadInteger(c, at.offset(c)) ? yes : no;
      copyElement(from, at.offset(from), to, at.offset(to));
    });
    return Status::ok();
  }

private:
  int condition, onTrue, onFalse, result;
};

} // namespace
} // namespace omnibal::rt::plain

void omnibal::rt::addElementwiseKernels(KernelTable &table) {
  for (const auto &[name, op] : plain::unaries())
    table[name] = createKernel<plain::UnaryKernel>;
  for (const auto &[name, op] : plain::binaries())
    table[name] = createKernel<plain::BinaryKernel>;
  for (const char *name : {"compare", "silu_grad", "quick_gelu_grad", "gelu_grad"})
    table[name] = createKernel<plain::BinaryKernel>;
  table["select"] = createKernel<plain::SelectKernel>;
}
