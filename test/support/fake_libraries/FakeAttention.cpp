#include "test/support/fake_libraries/FakeAttention.h"
#include "runtime/backends/cuda/libraries/AttentionInterface.h"
#include "runtime/backends/cuda/libraries/AttentionLibrary.h"
#include "test/support/fake_cuda/FakeCuda.h"
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <mutex>

using namespace omnibal::rt;
using namespace omnibal::rt::cuda;

namespace {

omnibal::fake::Attention state;
std::mutex mutex;

void mistake(const std::string &text) {
  std::lock_guard<std::mutex> lock(mutex);
  state.mistakes.push_back(text);
  if (std::getenv("OMNIBAL_FAKE_ATTENTION_LOUD")) // a test of whole programs sees only this
    std::abort();
}

float load(const uint16_t *from) {
  const uint32_t bits = uint32_t(*from) << 16;
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

uint16_t round(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  const uint32_t rest = bits & 0xffff;
  bits = (bits >> 16) + (rest > 0x8000 || (rest == 0x8000 && (bits >> 16 & 1)));
  return std::isnan(value) ? 0x7fc0 : static_cast<uint16_t>(bits);
}

/// A sample of a call.
class Sample {
public:
  Sample(const AttentionForm &form, const AttentionCall &call, int64_t sample)
      : form(form), call(call), sample(sample), rows(call.lengths[sample]) {}

  void forward() {
    for (int64_t h = 0; h < form.heads; ++h)
      for (int64_t i = 0; i < rows; ++i) {
        std::vector<float> p = scores(h, i);
        float top = -INFINITY, sum = 0;
        for (int64_t j = 0; j < seen(i); ++j)
          top = std::max(top, p[j]);
        for (int64_t j = 0; j < seen(i); ++j)
          sum += p[j] = std::exp(p[j] - top);
        lse(i, h) = top + std::log(sum);
        for (int64_t f = 0; f < form.valueSize; ++f) {
          float value = 0;
          for (int64_t j = 0; j < seen(i); ++j)
            value += p[j] * at(TensorV, j, keyHead(h), f);
          *place(TensorOut, i, h, f) = round(value / sum);
        }
      }
  }

  void backward() {
    std::vector<float> dk(rows * form.size), dv(rows * form.valueSize), dq(form.size);
    const int64_t group = form.heads / form.keyHeads;
    for (int64_t g = 0; g < form.keyHeads; ++g) {
      std::fill(dk.begin(), dk.end(), 0.f);
      std::fill(dv.begin(), dv.end(), 0.f);
      for (int64_t h = g * group; h < (g + 1) * group; ++h)
        for (int64_t i = 0; i < rows; ++i)
          backwardRow(h, i, dq, dk, dv);
      for (int64_t j = 0; j < rows; ++j) {
        for (int64_t f = 0; f < form.size; ++f)
          *place(TensorDk, j, g, f) = round(dk[j * form.size + f]);
        for (int64_t f = 0; f < form.valueSize; ++f)
          *place(TensorDv, j, g, f) = round(dv[j * form.valueSize + f]);
      }
    }
  }

private:
  int64_t keyHead(int64_t head) const { return head / (form.heads / form.keyHeads); }
  int64_t seen(int64_t row) const { return form.causal ? row + 1 : rows; }
  int64_t index(AttentionTensor t, int64_t row, int64_t head, int64_t feature) const {
    return call.offsets[t][sample] + row * form.strides[t].token + head * form.strides[t].head +
           feature;
  }
  uint16_t *place(AttentionTensor t, int64_t row, int64_t head, int64_t feature) const {
    return static_cast<uint16_t *>(call.data[t]) + index(t, row, head, feature);
  }
  float at(AttentionTensor t, int64_t row, int64_t head, int64_t feature) const {
    return load(place(t, row, head, feature));
  }
  float &lse(int64_t row, int64_t head) const {
    return static_cast<float *>(call.data[TensorLse])[index(TensorLse, row, head, 0)];
  }

  std::vector<float> scores(int64_t head, int64_t row) const {
    std::vector<float> p(seen(row));
    for (int64_t j = 0; j < seen(row); ++j) {
      float dot = 0;
      for (int64_t f = 0; f < form.size; ++f)
        dot += at(TensorQ, row, head, f) * at(TensorK, j, keyHead(head), f);
      p[j] = dot * form.scale;
    }
    return p;
  }

  void backwardRow(int64_t h, int64_t i, std::vector<float> &dq, std::vector<float> &dk,
                   std::vector<float> &dv) const {
    const std::vector<float> p = scores(h, i);
    float delta = 0;
    for (int64_t f = 0; f < form.valueSize; ++f)
      delta += at(TensorOut, i, h, f) * at(TensorDout, i, h, f);
    std::fill(dq.begin(), dq.end(), 0.f);
    for (int64_t j = 0; j < seen(i); ++j) {
      const float weight = std::exp(p[j] - lse(i, h));
      float dp = 0;
      for (int64_t f = 0; f < form.valueSize; ++f) {
        dp += at(TensorDout, i, h, f) * at(TensorV, j, keyHead(h), f);
        dv[j * form.valueSize + f] += weight * at(TensorDout, i, h, f);
      }
      const float ds = weight * (dp - delta) * form.scale;
      for (int64_t f = 0; f < form.size; ++f) {
        dq[f] += ds * at(TensorK, j, keyHead(h), f);
        dk[j * form.size + f] += ds * at(TensorQ, i, h, f);
      }
    }
    for (int64_t f = 0; f < form.size; ++f)
      *place(TensorDq, i, h, f) = round(dq[f]);
  }

  const AttentionForm &form;
  const AttentionCall &call;
  int64_t sample, rows;
};

class Plan final : public AttentionPlan {
public:
  Plan(const AttentionForm &form, cudaStream_t stream)
      : form(form), stream(stream), bytes(state.workspace) {}

  int64_t workspaceBytes() const override { return bytes; }

  Status run(const AttentionCall &call) override {
    {
      std::lock_guard<std::mutex> lock(mutex);
      ++(form.backward ? state.backwardRuns : state.runs);
    }
    auto &base = *reinterpret_cast<omnibal::fake::StreamBase *>(stream);
    base.interface->enqueue(stream, "attention", [] { return true; }, [this, call] { work(call); });
    return Status::ok();
  }

private:
  void work(const AttentionCall &call) const {
    const float nan = std::numeric_limits<float>::quiet_NaN();
    for (int64_t i = 0; i < bytes / 4; ++i)
      static_cast<float *>(call.workspace)[i] = nan;
    if (!addressed(call))
      return;
    for (int64_t s = 0; s < form.samples; ++s) {
      if (call.lengths[s] < 0 || call.lengths[s] > form.longest)
        return mistake("sample " + std::to_string(s) + " has " + std::to_string(call.lengths[s]) +
                       " rows; " + std::to_string(form.longest) + " were promised at most");
      Sample sample(form, call, s);
      form.backward ? sample.backward() : sample.forward();
    }
  }

  bool addressed(const AttentionCall &call) const {
    auto odd = [](const void *p) { return !p || reinterpret_cast<uintptr_t>(p) % 16 != 0; };
    bool fine = !odd(call.lengths) && (bytes == 0 || !odd(call.workspace));
    for (int t = 0; t < form.tensors(); ++t)
      fine = fine && !odd(call.data[t]) && !odd(call.offsets[t]);
    if (!fine)
      mistake("an address is missing or not aligned to 16 bytes");
    return fine;
  }

  AttentionForm form;
  cudaStream_t stream;
  int64_t bytes;
};

class Library final : public AttentionLibrary {
public:
  explicit Library(cudaStream_t stream) : stream(stream) {}
  std::string description() const override { return "a fake of cuDNN"; }

  Result<std::unique_ptr<AttentionPlan>> plan(const AttentionForm &form) override {
    std::lock_guard<std::mutex> lock(mutex);
    state.plans.push_back(form);
    if (state.refuses)
      return Status(Code::NotFound, "a fake of cuDNN refuses");
    return std::unique_ptr<AttentionPlan>(std::make_unique<Plan>(form, stream));
  }

private:
  cudaStream_t stream;
};

AttentionLibrary *open(const AttentionDevice &device, Status &error) {
  if (!state.refusesToOpen)
    return new Library(device.stream);
  error = {Code::Unavailable, "the device is too old for a fake of cuDNN"};
  return nullptr;
}

} // namespace

extern "C" __attribute__((visibility("default"))) omnibal::fake::Attention *fakeAttention() {
  return &state;
}

extern "C" __attribute__((visibility("default")))
const AttentionPlugin omnibalAttentionPlugin{attentionInterface, open};
