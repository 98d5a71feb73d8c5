//===- BothSides.h - One kernel call on the host and on the device ----------------------------===//
//
// Float operands lie on the host in float32, on the device in float32 or bfloat16, in the same
// places of their memory and with the same values. The device must leave the same bits on every
// run, nothing in the gaps between lines, and the host's numbers up to rounding: that of float32
// arithmetic, whatever the operands lie in, and one unit in the last place where a result is stored
// in bfloat16. Where a kernel rounds to bfloat16 in between, a test says what that may cost each
// element (allow). A number that is none on the host is none on the device.
//
//===-------------------------------------------------------------------------------------------===//
#ifndef TEST_CONFORMANCE_DEVICE_BOTHSIDES_H
#define TEST_CONFORMANCE_DEVICE_BOTHSIDES_H

#include "runtime/backends/host/HostBackend.h"
#include "runtime/support/BFloat16.h"
#include "test/conformance/KernelTest.h"
#include "test/conformance/device/Device.h"
#include <map>

namespace omnibal::rt::test {

/// Bounds of an element's error by arithmetic in float32: `largest` times the tensor's largest
/// value, `own` times its own, and `absolute` where all may cancel.
struct Tolerance {
  double largest = 1e-5, own = 1e-5, absolute = 0;
};
/// Of kernels that only move values, or round each once.
inline constexpr Tolerance exactly = {0, 0, 0};

/// A rounding to float32 and one to bfloat16, relative.
inline constexpr double float32Rounding = 0x1p-24, bfloat16Rounding = 0x1p-8;

/// The distance of neighbors in bfloat16 at `value`.
inline double ulpOfBFloat16(double value) {
  int exponent = -125;
  if (value != 0)
    std::frexp(value, &exponent); // |value| in [2^(exponent - 1), 2^exponent)
  return std::ldexp(1, std::max(exponent, -125) - 8);
}

class BothSides {
public:
  BothSides(std::string kernel, nlohmann::json attributes)
      : kernel(std::move(kernel)), attributes(std::move(attributes)) {}

  /// Values that are read. bf16: they are rounded first, and the device stores them so.
  void in(const std::string &name, const Tensor<float> &values, bool bf16 = false) {
    floats(name, values, bf16, false);
  }
  /// Values that are written (or added to).
  void out(const std::string &name, const Tensor<float> &values, bool bf16 = false) {
    floats(name, values, bf16, true);
  }
  /// Values of any other type that are read, or written and compared exactly.
  template <typename T> void exact(const std::string &name, const Tensor<T> &values) {
    Operand &o = list.emplace_back();
    o.name = name;
    o.view = values.view;
    o.bytes.assign(
        reinterpret_cast<const std::byte *>(values.memory.data()),
        reinterpret_cast<const std::byte *>(values.memory.data() + values.memory.size()));
  }
  /// What only one side has: the host's scratch, the device's workspace.
  void hostOnly(const std::string &name, const Tensor<float> &values) {
    floats(name, values, false, false);
    list.back().device = false;
  }
  void deviceOnly(const std::string &name, const Tensor<float> &values, bool bf16) {
    floats(name, values, bf16, false);
    list.back().host = false;
  }
  /// The last operand is seen through this view of the same memory.
  void through(TensorView view) { list.back().view = view; }

  /// What roundings to bfloat16 in between may cost each element of a result, in row-major order.
  void allow(const std::string &name, const std::vector<double> &errors) {
    for (Operand &o : list)
      if (o.name == name) {
        o.allowance.assign(o.values.size(), 0);
        const std::vector<int64_t> places = placesOf(o.view);
        ASSERT_EQ(places.size(), errors.size()) << name;
        for (size_t i = 0; i < errors.size(); ++i)
          o.allowance[places[i]] = errors[i];
      }
  }
  /// A library's product may be rounded to bfloat16 before the bias is added, before the
  /// activation, and before the residual is added: what the host computes up to there, by the
  /// largest slope of an activation for the first and once more for the last.
  void allowRoundedProduct(const std::string &name) {
    constexpr double roundings = 1.13 + 1;
    for (bool withBias : {false, true}) {
      BothSides plain(kernel, attributes);
      plain.attributes["activation"] = "none";
      for (const Operand &o : list)
        if (o.name == "a" || o.name == "b" || (withBias && o.name == "bias") || o.name == name)
          plain.list.push_back(o);
      if (Status status = plain.runHost(); !status)
        FAIL() << kernel << " alone on the host: " << status.message();
      const std::vector<float> &product = plain.result(name);
      for (Operand &o : list)
        if (o.name == name) {
          o.allowance.resize(product.size());
          for (size_t i = 0; i < product.size(); ++i)
            o.allowance[i] =
                std::max(o.allowance[i], roundings * bfloat16Rounding * std::abs(product[i]));
        }
    }
  }
  /// Results are sums of at most `terms` products: an element may be off by a rounding of the sum
  /// of their absolute values for each. That is what the host computes of the operands' absolute
  /// values, under these attributes and without the operand `except`.
  void compareSums(int64_t terms, const nlohmann::json &magnitudes,
                   const std::string &except = "") {
    BothSides absolute("", magnitudes);
    absolute.kernel = kernel;
    for (const Operand &o : list) {
      if (o.name == except)
        continue;
      Operand &copy = absolute.list.emplace_back(o);
      for (float &value : copy.values)
        value = std::abs(value);
    }
    if (Status status = absolute.runHost(); !status)
      FAIL() << kernel << " of absolute values on the host: " << status.message();
    for (Operand &o : list)
      if (o.isFloat && o.written) {
        const std::vector<float> &sums = absolute.result(o.name);
        o.allowance.resize(sums.size());
        for (size_t i = 0; i < sums.size(); ++i)
          o.allowance[i] += static_cast<double>(terms) * float32Rounding * sums[i];
      }
    compare(exactly);
  }

  /// Runs both sides and compares. Numbers that were written: result(name).
  void compare(Tolerance tolerance = {}) {
    if (Status status = runHost(); !status)
      FAIL() << kernel << " on the host: " << status.message();
    std::vector<std::vector<std::byte>> first;
    for (uint64_t order : {0, 7}) {
      setDeviceOrder(order);
      std::vector<std::vector<std::byte>> memory = deviceMemory();
      Status status = runDevice(memory);
      setDeviceOrder(0);
      if (!status)
        FAIL() << kernel << " on the device: " << status.message();
      if (order == 0)
        first = std::move(memory);
      else
        ASSERT_EQ(memory, first) << describe() << "another run has other bits";
    }
    for (size_t i = 0, d = 0; i < list.size() && !testing::Test::HasFatalFailure(); ++i)
      if (list[i].device)
        expectEqual(list[i], first[d++], tolerance);
  }

  /// What the host wrote, gaps included.
  const std::vector<float> &result(const std::string &name) const {
    for (const Operand &o : list)
      if (o.name == name)
        return o.after;
    throw std::logic_error(name);
  }

private:
  struct Operand {
    std::string name;
    TensorView view; ///< its `data` is not used
    std::vector<float> values, after;
    std::vector<double> allowance;            ///< by place
    std::vector<std::byte> bytes, bytesAfter; ///< of operands that are no floats
    bool isFloat = false, bf16 = false, written = false, host = true, device = true;
  };

  void floats(const std::string &name, const Tensor<float> &values, bool bf16, bool written) {
    Operand &o = list.emplace_back();
    o.name = name;
    o.view = values.view;
    o.values = values.memory;
    o.isFloat = true;
    o.bf16 = bf16;
    o.written = written;
    if (bf16)
      for (float &x : o.values)
        x = BFloat16::fromFloat(x).toFloat();
  }

  BoundCall call(bool device) const {
    BoundCall s;
    s.kernel = kernel;
    s.attributes = attributes;
    for (const Operand &o : list)
      if (device ? o.device : o.host)
        s.operands.push_back(o.name);
    return s;
  }

  Status runHost() {
    OMNIBAL_ASSIGN_OR_RETURN(auto made, createHostKernel(call(false)));
    std::vector<TensorView> views;
    for (Operand &o : list) {
      if (!o.host)
        continue;
      o.after = o.values;
      o.bytesAfter = o.bytes;
      views.push_back(o.view);
      views.back().data = o.isFloat ? static_cast<void *>(o.after.data()) : o.bytesAfter.data();
    }
    ThreadPool pool(2);
    return made->run(views, SymbolValues(), pool);
  }

  std::vector<std::vector<std::byte>> deviceMemory() {
    std::vector<std::vector<std::byte>> memory;
    for (const Operand &o : list) {
      if (!o.device)
        continue;
      std::vector<std::byte> &bytes = memory.emplace_back(o.bytes);
      if (!o.isFloat)
        continue;
      bytes.resize(o.values.size() * (o.bf16 ? 2 : 4));
      for (size_t i = 0; i < o.values.size(); ++i) {
        const BFloat16 narrow = BFloat16::fromFloat(o.values[i]);
        if (o.bf16)
          std::memcpy(bytes.data() + 2 * i, &narrow, 2);
        else
          std::memcpy(bytes.data() + 4 * i, &o.values[i], 4);
      }
    }
    return memory;
  }

  Status runDevice(std::vector<std::vector<std::byte>> &memory) {
    OMNIBAL_ASSIGN_OR_RETURN(auto made, deviceBackend().createKernel(call(true)));
    std::vector<TensorView> views;
    for (const Operand &o : list) {
      if (!o.device)
        continue;
      TensorView &view = views.emplace_back(o.view);
      view.data = memory[views.size() - 1].data();
      if (o.bf16)
        view.dtype = DType::BF16;
    }
    return runOnDevice(*made, views, 0, 0);
  }

  /// Where the elements of a view lie, in row-major order. What a dimension of stride 0 has in
  /// common counts once, also where its size is 0: a reduction over nothing writes.
  static std::vector<int64_t> placesOf(const TensorView &view) {
    std::vector<int64_t> places = {0};
    for (int d = 0; d < view.rank; ++d) {
      std::vector<int64_t> outer = std::move(places);
      places.clear();
      for (int64_t place : outer)
        for (int64_t i = 0; i < (view.strides[d] == 0 ? 1 : view.shape[d]); ++i)
          places.push_back(place + i * view.strides[d]);
    }
    return places;
  }

  void expectEqual(const Operand &o, const std::vector<std::byte> &got, Tolerance t) const {
    if (!o.host)
      return;
    if (!o.isFloat) {
      ASSERT_EQ(got, o.bytesAfter) << describe() << o.name;
      return;
    }
    double largest = 0;
    for (float x : o.after)
      largest = std::isfinite(x) ? std::max<double>(largest, std::abs(x)) : largest;
    std::vector<bool> belongs(o.after.size()); // else a gap, or an operand that is only read
    if (o.written)
      for (int64_t place : placesOf(o.view))
        belongs[place] = true;
    for (size_t i = 0; i < o.after.size(); ++i) {
      const float want = o.after[i], x = valueOf(got, i, o.bf16);
      if (!belongs[i]) {
        ASSERT_TRUE(same(x, o.values[i]))
            << describe() << o.name << ": place " << i << " was overwritten with " << x;
        continue;
      }
      if (same(x, want) || (o.bf16 && same(x, BFloat16::fromFloat(want).toFloat())))
        continue;
      double bound = t.largest * largest + t.own * std::abs(want) + t.absolute +
                     (o.allowance.empty() ? 0 : o.allowance[i]);
      if (o.bf16 && bound > 0)
        bound += ulpOfBFloat16(want);
      ASSERT_TRUE(std::isfinite(want) && std::abs(double(x) - want) <= bound)
          << describe() << o.name << ": place " << i << " is " << x << ", the host has " << want
          << ", allowed is " << bound;
    }
  }

  static bool same(float a, float b) { return a == b || (std::isnan(a) && std::isnan(b)); }

  static float valueOf(const std::vector<std::byte> &bytes, size_t i, bool bf16) {
    float value;
    BFloat16 stored;
    if (!bf16) {
      std::memcpy(&value, bytes.data() + 4 * i, 4);
      return value;
    }
    std::memcpy(&stored, bytes.data() + 2 * i, 2);
    return stored.toFloat();
  }

  std::string describe() const {
    std::string text = kernel + " " + attributes.dump();
    for (const Operand &o : list) {
      text += " " + o.name + (o.bf16 ? ":bf16[" : "[");
      for (int d = 0; d < o.view.rank; ++d)
        text += (d ? "," : "") + std::to_string(o.view.shape[d]) + ":" +
                std::to_string(o.view.strides[d]);
      text += "]";
    }
    return text + "\n";
  }

  std::string kernel;
  nlohmann::json attributes;
  std::vector<Operand> list;
};

} // namespace omnibal::rt::test
#endif // TEST_CONFORMANCE_DEVICE_BOTHSIDES_H
