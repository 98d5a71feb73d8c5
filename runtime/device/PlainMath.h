//===- PlainMath.h - What the plain elementwise kernels compute, on every backend -------------===//
//
// Floating-point numbers of all types as double, the rest as int64. Plain C++17 without a library,
// so that device code compiles it too.
//
//===-------------------------------------------------------------------------------------------===//
#ifndef RUNTIME_DEVICE_PLAINMATH_H
#define RUNTIME_DEVICE_PLAINMATH_H

#include <cmath>
#include <cstdint>

#ifdef __CUDACC__
#define OMNIBAL_EVERYWHERE __host__ __device__
#else
#define OMNIBAL_EVERYWHERE
#endif

namespace omnibal::rt::plain {

enum class Unary {
  Neg,
  Exp,
  Log,
  Sqrt,
  Rsqrt,
  Reciprocal,
  Erf,
  Tanh,
  Sigmoid,
  Cos,
  Sin,
  Abs,
  Floor,
  Sign,
  Not,
  IsNan,
  Cast,
  Relu,
  Silu,
  QuickGelu,
  Gelu,
  GeluTanh
};
enum class Binary {
  Add,
  Sub,
  Mul,
  Div,
  Pow,
  Mod,
  Fmod,
  Max,
  Min,
  And,
  Or,
  Xor,
  Equal,
  Less,
  LessEqual,
  Greater,
  GreaterEqual,
  SiluGrad,
  QuickGeluGrad,
  GeluGrad,
  GeluTanhGrad
};

constexpr struct {
  const char *name;
  Unary op;
} unaryNames[] = {{"neg", Unary::Neg},         {"exp", Unary::Exp},
                  {"log", Unary::Log},         {"sqrt", Unary::Sqrt},
                  {"rsqrt", Unary::Rsqrt},     {"reciprocal", Unary::Reciprocal},
                  {"erf", Unary::Erf},         {"tanh", Unary::Tanh},
                  {"sigmoid", Unary::Sigmoid}, {"cos", Unary::Cos},
                  {"sin", Unary::Sin},         {"abs", Unary::Abs},
                  {"floor", Unary::Floor},     {"sign", Unary::Sign},
                  {"not", Unary::Not},         {"is_nan", Unary::IsNan},
                  {"cast", Unary::Cast},       {"relu", Unary::Relu},
                  {"silu", Unary::Silu},       {"quick_gelu", Unary::QuickGelu},
                  {"gelu", Unary::Gelu}};
constexpr struct {
  const char *name;
  Binary op;
} binaryNames[] = {{"add", Binary::Add},
                   {"sub", Binary::Sub},
                   {"mul", Binary::Mul},
                   {"div", Binary::Div},
                   {"pow", Binary::Pow},
                   {"mod", Binary::Mod},
                   {"max", Binary::Max},
                   {"min", Binary::Min},
                   {"and", Binary::And},
                   {"or", Binary::Or},
                   {"xor", Binary::Xor},
                   {"compare", Binary::Equal},
                   {"silu_grad", Binary::SiluGrad},
                   {"quick_gelu_grad", Binary::QuickGeluGrad},
                   {"gelu_grad", Binary::GeluGrad}};

OMNIBAL_EVERYWHERE inline double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
OMNIBAL_EVERYWHERE inline double normalCdf(double x) { return 0.5 * std::erfc(-x * M_SQRT1_2); }
OMNIBAL_EVERYWHERE inline double geluTanhArgument(double x) {
  return std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x);
}
OMNIBAL_EVERYWHERE inline double geluSlope(double x) {
  return normalCdf(x) + x * std::exp(-0.5 * x * x) / std::sqrt(2 * M_PI);
}
OMNIBAL_EVERYWHERE inline double geluTanhSlope(double x) {
  const double t = std::tanh(geluTanhArgument(x));
  const double inner = std::sqrt(2 / M_PI) * (1 + 3 * 0.044715 * x * x);
  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * inner;
}
OMNIBAL_EVERYWHERE inline double swishSlope(double x, double k) {
  const double s = sigmoid(k * x);
  return s + k * x * s * (1 - s);
}

/// Whether integers stay integers; otherwise they are computed as reals.
OMNIBAL_EVERYWHERE inline bool onIntegers(Unary op) {
  switch (op) {
  case Unary::Neg:
  case Unary::Abs:
  case Unary::Floor:
  case Unary::Sign:
  case Unary::Not:
  case Unary::IsNan:
  case Unary::Cast:
  case Unary::Relu:
    return true;
  default:
    return false;
  }
}
OMNIBAL_EVERYWHERE inline bool onIntegers(Binary op) { return op < Binary::SiluGrad; }

OMNIBAL_EVERYWHERE inline double apply(Unary op, double x) {
  switch (op) {
  case Unary::Neg:
    return -x;
  case Unary::Exp:
    return std::exp(x);
  case Unary::Log:
    return std::log(x);
  case Unary::Sqrt:
    return std::sqrt(x);
  case Unary::Rsqrt:
    return 1 / std::sqrt(x);
  case Unary::Reciprocal:
    return 1 / x;
  case Unary::Erf:
    return std::erf(x);
  case Unary::Tanh:
    return std::tanh(x);
  case Unary::Sigmoid:
    return sigmoid(x);
  case Unary::Cos:
    return std::cos(x);
  case Unary::Sin:
    return std::sin(x);
  case Unary::Abs:
    return std::fabs(x);
  case Unary::Floor:
    return std::floor(x);
  case Unary::Sign:
    return x > 0 ? 1.0 : x < 0 ? -1.0 : x;
  case Unary::Not:
    return x == 0 ? 1.0 : 0.0;
  case Unary::IsNan:
    return x != x ? 1.0 : 0.0;
  case Unary::Cast:
    return x;
  case Unary::Relu:
    return x > 0 || x != x ? x : 0.0;
  case Unary::Silu:
    return x * sigmoid(x);
  case Unary::QuickGelu:
    return x * sigmoid(1.702 * x);
  case Unary::Gelu:
    return x * normalCdf(x);
  case Unary::GeluTanh:
    return 0.5 * x * (1 + std::tanh(geluTanhArgument(x)));
  }
  return x;
}

OMNIBAL_EVERYWHERE inline int64_t wrapping(uint64_t x) { return static_cast<int64_t>(x); }
OMNIBAL_EVERYWHERE inline uint64_t bitsOf(int64_t x) { return static_cast<uint64_t>(x); }

OMNIBAL_EVERYWHERE inline int64_t apply(Unary op, int64_t x) {
  switch (op) {
  case Unary::Neg:
    return wrapping(-bitsOf(x));
  case Unary::Abs:
    return x < 0 ? wrapping(-bitsOf(x)) : x;
  case Unary::Sign:
    return (x > 0 ? 1 : 0) - (x < 0 ? 1 : 0);
  case Unary::Not:
    return x == 0 ? 1 : 0;
  case Unary::IsNan:
    return 0;
  case Unary::Relu:
    return x > 0 ? x : 0;
  default:
    return x;
  }
}

/// Division by zero has no defined result; 0 instead of a trap.
OMNIBAL_EVERYWHERE inline int64_t quotient(int64_t a, int64_t b) {
  return b == 0 ? 0 : b == -1 ? wrapping(-bitsOf(a)) : a / b;
}
OMNIBAL_EVERYWHERE inline int64_t remainderTruncated(int64_t a, int64_t b) {
  return b == 0 || b == -1 ? 0 : a % b;
}
OMNIBAL_EVERYWHERE inline int64_t remainderFloored(int64_t a, int64_t b) {
  const int64_t r = remainderTruncated(a, b);
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
OMNIBAL_EVERYWHERE inline double remainderFloored(double a, double b) {
  const double r = std::fmod(a, b);
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
OMNIBAL_EVERYWHERE inline int64_t power(int64_t base, int64_t exponent) {
  if (exponent < 0)
    return base == 1 ? 1 : base == -1 ? (exponent % 2 ? -1 : 1) : 0;
  uint64_t result = 1, factor = bitsOf(base);
  for (; exponent; exponent >>= 1, factor *= factor)
    if (exponent & 1)
      result *= factor;
  return wrapping(result);
}

OMNIBAL_EVERYWHERE inline double apply(Binary op, double a, double b) {
  switch (op) {
  case Binary::Add:
    return a + b;
  case Binary::Sub:
    return a - b;
  case Binary::Mul:
    return a * b;
  case Binary::Div:
    return a / b;
  case Binary::Pow:
    return std::pow(a, b);
  case Binary::Mod:
    return remainderFloored(a, b);
  case Binary::Fmod:
    return std::fmod(a, b);
  case Binary::Max:
    return a > b || a != a ? a : b;
  case Binary::Min:
    return a < b || a != a ? a : b;
  case Binary::And:
    return a != 0 && b != 0 ? 1.0 : 0.0;
  case Binary::Or:
    return a != 0 || b != 0 ? 1.0 : 0.0;
  case Binary::Xor:
    return (a != 0) != (b != 0) ? 1.0 : 0.0;
  case Binary::Equal:
    return a == b ? 1.0 : 0.0;
  case Binary::Less:
    return a < b ? 1.0 : 0.0;
  case Binary::LessEqual:
    return a <= b ? 1.0 : 0.0;
  case Binary::Greater:
    return a > b ? 1.0 : 0.0;
  case Binary::GreaterEqual:
    return a >= b ? 1.0 : 0.0;
  case Binary::SiluGrad:
    return swishSlope(a, 1) * b;
  case Binary::QuickGeluGrad:
    return swishSlope(a, 1.702) * b;
  case Binary::GeluGrad:
    return geluSlope(a) * b;
  case Binary::GeluTanhGrad:
    return geluTanhSlope(a) * b;
  }
  return a;
}

OMNIBAL_EVERYWHERE inline int64_t apply(Binary op, int64_t a, int64_t b) {
  switch (op) {
  case Binary::Add:
    return wrapping(bitsOf(a) + bitsOf(b));
  case Binary::Sub:
    return wrapping(bitsOf(a) - bitsOf(b));
  case Binary::Mul:
    return wrapping(bitsOf(a) * bitsOf(b));
  case Binary::Div:
    return quotient(a, b);
  case Binary::Pow:
    return power(a, b);
  case Binary::Mod:
    return remainderFloored(a, b);
  case Binary::Fmod:
    return remainderTruncated(a, b);
  case Binary::Max:
    return a > b ? a : b;
  case Binary::Min:
    return a < b ? a : b;
  case Binary::And:
    return a & b;
  case Binary::Or:
    return a | b;
  case Binary::Xor:
    return a ^ b;
  case Binary::Equal:
    return a == b ? 1 : 0;
  case Binary::Less:
    return a < b ? 1 : 0;
  case Binary::LessEqual:
    return a <= b ? 1 : 0;
  case Binary::Greater:
    return a > b ? 1 : 0;
  case Binary::GreaterEqual:
    return a >= b ? 1 : 0;
  default:
    return a;
  }
}

} // namespace omnibal::rt::plain
#endif // RUNTIME_DEVICE_PLAINMATH_H
